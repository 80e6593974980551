"""The `search` section of a config: everything is measured, or what may be best within a time."""

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictFloat, StrictInt

from scaling_study.common.problems import found, nearest_word, wrong
from scaling_study.config.config_schema import Allowed, Section, Unit

FEWEST_MINUTES, MOST_MINUTES = 3, 10_080  # less is over before anything is known; a week is a slip
NUMBER = f"a number from {FEWEST_MINUTES} to {MOST_MINUTES}"
MINUTES = f"{NUMBER}, or null"
SEARCH = f"grid, or {{budget_minutes: {NUMBER}}}"


def _read_minutes(value: object) -> object:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(value, found(value), MINUTES)
    if not FEWEST_MINUTES <= value <= MOST_MINUTES:
        nearest = None if math.isnan(value) else str(min(max(value, FEWEST_MINUTES), MOST_MINUTES))
        raise wrong(value, "is not allowed", MINUTES, nearest)
    return float(value)


def read_search(value: object) -> object:
    """Read `search: grid` as the section that says so."""
    if isinstance(value, Mapping | Search):
        return value
    if value == "grid":
        return {"budget_minutes": None}
    if isinstance(value, str):
        raise wrong(value, "is not a known word", SEARCH, nearest_word(value, ["grid"]))
    nearest = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        fits = FEWEST_MINUTES <= value <= MOST_MINUTES
        nearest = f"{{budget_minutes: {value}}}" if fits else None
    raise wrong(value, found(value), SEARCH, nearest)


class Search(Section):
    """Whether all launches are measured at all counts, or those that may be best within a time."""

    budget_minutes: Annotated[
        StrictFloat | None, BeforeValidator(_read_minutes), Allowed(MINUTES), Unit("minutes")
    ] = None
    """What the race between the launches and the confirmation take together; `search: grid` (or
    null) measures every launch at every count."""

    tolerance: Annotated[StrictFloat, Field(gt=0, le=0.2, allow_inf_nan=False)] = 0.02
    """A smaller difference in throughput is none: the race does not go on for it."""

    confidence: Annotated[StrictFloat, Field(ge=0.5, lt=1, allow_inf_nan=False)] = 0.9
    """The race ends before its time where the choice is this surely within the tolerance."""

    nodes: Annotated[StrictInt, Field(ge=1, le=64)] = 1
    """Nodes of a cluster, of one kind, that measure launches side by side in each round."""
