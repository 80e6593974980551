"""The `why` section of a config: how much is tried to find out why a launch stops scaling."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainValidator

from scaling_study.common.problems import found, nearest_word, read_distinct, wrong
from scaling_study.config.config_schema import Allowed, Section

EFFORTS = {
    "quick": "one start, short windows, what can matter here: 1 to 3 minutes on two CPUs",
    "full": "three starts, longer windows, every change and every kernel",
    "off": "no experiments",
}
EFFORT = ", ".join(EFFORTS)
TARGETS = "a list of baseline, default, today, recommended, or labels of launches; [] for none"


def _read_effort(value: object) -> str:
    if value is False:  # YAML 1.1 reads off as false
        return "off"
    if isinstance(value, str) and value in EFFORTS:
        return value
    what = "is not a known word" if isinstance(value, str) else found(value)
    raise wrong(value, what, EFFORT, nearest_word(value, EFFORTS))


def read_why(value: object) -> object:
    """Read `why: quick` as the section with that effort."""
    if isinstance(value, Mapping | Why):
        return value
    return {"effort": _read_effort(value)}


def read_targets(value: object) -> tuple[str, ...]:
    """Read names of launches; whether they exist is known when the plan is made."""

    def read(item: object) -> str:
        if not isinstance(item, str):
            raise wrong(item, found(item), "a name or a launch's label")
        return item

    return read_distinct(value, read, TARGETS)


class Why(Section):
    """Why it does not scale further: experiments on single launches."""

    effort: Annotated[
        Literal["quick", "full", "off"], BeforeValidator(_read_effort), Allowed(EFFORT)
    ] = "quick"
    """How much is tried; `why: quick`, `why: full` and `why: off` say it without a section."""

    launches: Annotated[Sequence[str], PlainValidator(read_targets), Allowed(TARGETS)] = (
        "today",
        "recommended",
    )
    """Which launches are explained; a label is the plan's name of one, such as `intra_op 1`."""
