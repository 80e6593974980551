"""The `confirm` section of a config: how long the recommended launch runs as a user runs it."""

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictFloat

from scaling_study.common.problems import found, nearest_word, wrong
from scaling_study.config.config_schema import Allowed, Section, Unit

FEWEST_S, MOST_S = 10, 86_400  # less shows no process's start; a day is a slip of the keyboard
LEAST_RACE_S = 60  # of a budget, beside its confirmation
CONFIRMED_SHARE = 1 / 3  # of a budget, unless `confirm` says another time
NUMBER = f"a number from {FEWEST_S} to {MOST_S}"
SECONDS = f"{NUMBER}, or off"
CONFIRM = f"off, or {{seconds: {NUMBER}}}"


def _read_seconds(value: object) -> object:
    if value is None or value is False or value == "off":  # YAML 1.1 reads off as false
        return None
    if isinstance(value, str):
        raise wrong(value, "is not a known word", SECONDS, nearest_word(value, ["off"]))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(value, found(value), SECONDS)
    if not FEWEST_S <= value <= MOST_S:
        nearest = None if math.isnan(value) else str(min(max(value, FEWEST_S), MOST_S))
        raise wrong(value, "is not allowed", SECONDS, nearest)
    return float(value)


def read_confirm(value: object) -> object:
    """Read `confirm: off` as the section that says so."""
    if isinstance(value, Mapping | Confirm):
        return value
    if value is False or value == "off":
        return {"seconds": None}
    if isinstance(value, str):
        raise wrong(value, "is not a known word", CONFIRM, nearest_word(value, ["off"]))
    nearest = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        nearest = f"{{seconds: {value}}}" if FEWEST_S <= value <= MOST_S else None
    raise wrong(value, found(value), CONFIRM, nearest)


class Confirm(Section):
    """The recommended launch and the default one, run as a user would run them."""

    seconds: Annotated[
        StrictFloat | None, BeforeValidator(_read_seconds), Allowed(SECONDS), Unit("s")
    ] = Field(default=300.0)
    """How long all rounds take together, by default at most a third of a race's budget;
    `confirm: off` runs none, and the report only predicts."""
