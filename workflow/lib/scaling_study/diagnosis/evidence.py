"""Questions about a case, and their answers: the share of a cause, and the evidence for it.

A *share* function returns how much of the time a cause takes: from the kernel's counts, from the
time that an intervention recovers, or from the time that a stressor adds. A *check* looks at
something else and agrees, disagrees or cannot tell. Neither kind knows single causes; `cause`
combines them.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from scaling_study.common.quantities import format_percent
from scaling_study.diagnosis.case import REFERENCE, Case, Scope
from scaling_study.stats.interval import Floats, Interval

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
        estimate: The share, with its interval.
        over: The numerators of the share, by block, as parts of T(1).
        evidence: The share as a piece of evidence.
        also: Further evidence that the share rests on.
        intervention: The intervention that it comes from, if any.
        uncounted: A further cost that is not counted, if any: a small share then does not rule the
            cause out.
        unknown: Why a small share proves nothing, if so: the cause then counts as not tested.
    """

    estimate: Interval
    over: Floats
    evidence: Evidence
    also: tuple[Evidence, ...] = ()
    intervention: str | None = None
    uncounted: str | None = None
    unknown: str | None = None

    @property
    def exact(self) -> bool:
        """Whether it is a count of the kernel rather than a comparison."""
        return self.evidence.kind == "account"

    def of(self, estimate: Interval, over: Floats, text: str) -> "Measured":
        """Return a part of this share, with an estimate, numerators and a text of its own."""
        evidence = dataclasses.replace(self.evidence, text=text)
        return dataclasses.replace(self, estimate=estimate, over=over, evidence=evidence)


@dataclasses.dataclass(frozen=True, slots=True)
class Untested:
    """The reason why there is no share."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """The question that shares and checks answer.

    Attributes:
        case: All measurements of a target.
        scope: Scaling loss (`scaling_loss`), or single-process loss (`single_process_loss`).
        named: Shares of the causes that are already named in this scope, by cause.
        intervention: For a check: the intervention that the share comes from; the reference for a
            count.
        share: For a check: the share.
    """

    case: Case
    scope: Scope
    named: Mapping[str, Measured]
    intervention: str = REFERENCE
    share: float = 0.0

    @property
    def n(self) -> int:
        """The process count at which checks look up counts."""
        return self.case.counts(self.scope)[-1]

    def mean(self, column: str, cohort: str = REFERENCE) -> float:
        """Return the mean of a column over blocks at this count; NaN where it was not counted."""
        return self.case.mean(column, self.n, cohort)


Share: TypeAlias = Callable[[Query], Measured | Untested]
Check: TypeAlias = Callable[[Query], Evidence]
P = ParamSpec("P")
Answer = TypeVar("Answer", Measured | Untested, Evidence)


def rule(answer: Callable[Concatenate[Query, P], Answer]) -> Callable[P, Callable[[Query], Answer]]:
    """Turn a function of a query and parameters into one of the parameters alone.

    That one returns a share or a check: what the function answers to a query with these parameters.
    """

    @functools.wraps(answer)
    def with_parameters(*args: P.args, **options: P.kwargs) -> Callable[[Query], Answer]:
        return lambda query: answer(query, *args, **options)

    return with_parameters


def percent(estimate: Interval) -> str:
    """Write a share with its interval: ``94% (89% to 99%)``."""
    value, low, high = (
        None if end is None else format_percent(round(end, 2) + 0.0)
        for end in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}" if low is None or high is None else f"{value} ({low} to {high})"


def whole(scope: Scope) -> str:
    """Return the name of the time that a share is a part of."""
    return "the added time" if scope == "scaling_loss" else "the step of one process"
