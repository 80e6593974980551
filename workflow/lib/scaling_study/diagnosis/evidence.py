"""Questions about a case, and their answers: the share of a cause, and the evidence for it.

A *share* function says how much of the time a cause takes: from what the kernel counts, from the
time that an intervention recovers, or from what a stressor adds. A *check* looks at something else
and agrees, disagrees or cannot tell. Neither knows single causes; `cause` puts them together.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from scaling_study.common.quantities import format_percent
from scaling_study.diagnosis.case import REFERENCE, Case, Scope
from scaling_study.stats.interval import Interval
from scaling_study.stats.intervals import Floats

MOST = 0.5
"""A cause is credited with recovered time only if at least this part of it is counted."""
Kind = Literal["account", "intervention", "aggravation", "fact", "samples", "microbenchmarks"]


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence: it agrees, it disagrees, or (None) it cannot tell."""

    agrees: bool | None
    kind: Kind
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A share of a cause.

    Attributes:
        estimate: With its interval.
        over: Its numerators, by block.
        evidence: The same as evidence.
        also: Further evidence that it rests on.
        intervention: The intervention that it comes from, if any.
        exact: Whether it is a count of the kernel rather than a comparison.
        uncounted: What the cause may cost besides, if anything: a small share does not rule it out.
        unknown: What would have to be known before a small share could rule the cause out, if
            anything: the cause then counts as not tested.
    """

    estimate: Interval
    over: Floats
    evidence: Evidence
    also: tuple[Evidence, ...] = ()
    intervention: str | None = None
    exact: bool = False
    uncounted: str | None = None
    unknown: str | None = None

    def of(self, estimate: Interval, over: Floats, text: str) -> "Measured":
        """Return a part of it: with another estimate, other numerators, and a text on them."""
        evidence = dataclasses.replace(self.evidence, text=text)
        return dataclasses.replace(self, estimate=estimate, over=over, evidence=evidence)


@dataclasses.dataclass(frozen=True, slots=True)
class Untested:
    """Why there is no share."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """The question that shares and checks answer.

    Attributes:
        case: All that was measured.
        scope: Scaling loss (`scaling_loss`), or single-process loss (`single_process_loss`).
        named: By cause, the shares of those that are named already in this scope.
        intervention: For a check: where the share comes from; the reference if from a count.
        share: For a check: the share.
    """

    case: Case
    scope: Scope
    named: Mapping[str, Measured]
    intervention: str = REFERENCE
    share: float = 0.0

    @property
    def n(self) -> int:
        """The process count whose counts matter."""
        return self.case.n if self.scope == "scaling_loss" else 1


Share: TypeAlias = Callable[[Query], Measured | Untested]
Check: TypeAlias = Callable[[Query], Evidence]


def percent(estimate: Interval) -> str:
    """Write a share with its interval: ``94% (89% to 99%)``."""
    value, low, high = (
        None if end is None else format_percent(round(end, 2) + 0.0)
        for end in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}" if low is None or high is None else f"{value} ({low} to {high})"


def whole(scope: Scope) -> str:
    """Say what a share is of."""
    return "the added time" if scope == "scaling_loss" else "the step of one process"
