"""What rules are asked, and what they answer.

A *measure* gives the share of a cause: from what the kernel counts, from what comes back when
something is taken away, or from what gets worse when something is added. A *test* looks at
something else and agrees, disagrees or does not know. Rules know nothing of single causes; `causes`
puts them together.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal, Protocol

from scaling_study.common.quantities import format_percent
from scaling_study.diagnosis.case import REFERENCE, Case, Scope
from scaling_study.stats.intervals import Floats, Interval

MOST = 0.5
"""What comes back is a cause's own where this part of it is counted as that cause's at least."""
Kind = Literal["account", "relief", "aggravation", "fact", "samples", "fingerprint"]


@dataclasses.dataclass(frozen=True, slots=True)
class Weight:
    """What one piece of evidence says: it agrees, it disagrees, or (None) it cannot tell."""

    agrees: bool | None
    kind: Kind
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A share of a cause.

    Attributes:
        estimate: With its interval.
        over: Its numerators, by block.
        weight: The same as evidence.
        also: Further evidence that it rests on.
        relief: The relief that it comes from, if it does.
        exact: Whether it is a count of the kernel rather than a comparison.
        uncounted: What the cause may cost besides, if anything: no small share rules it out then.
        unknown: What would have to be known before a small share could rule the cause out, if
            anything: it counts as not tested then.
    """

    estimate: Interval
    over: Floats
    weight: Weight
    also: tuple[Weight, ...] = ()
    relief: str | None = None
    exact: bool = False
    uncounted: str | None = None
    unknown: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Untested:
    """Why there is no share."""

    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What a rule is asked about.

    Attributes:
        case: All that was measured.
        scope: Growth, or the level of one process.
        named: By cause, what was measured of those that are named already in this scope.
        relief: For a test: the relief that the share comes from; the reference where none.
        share: For a test: the share.
    """

    case: Case
    scope: Scope
    named: Mapping[str, Measured]
    relief: str = REFERENCE
    share: float = 0.0

    @property
    def n(self) -> int:
        """The process count at which counts are looked at."""
        return self.case.n if self.scope == "growth" else 1


class Measure(Protocol):
    """Gives the share of a cause."""

    def measure(self, asked: Asked) -> Measured | Untested:
        """The share in a scope, given what is named already."""
        ...


class Test(Protocol):
    """Agrees or disagrees with a share."""

    def weigh(self, asked: Asked) -> Weight:
        """What it says."""
        ...


def percent(estimate: Interval) -> str:
    """A share with its interval: ``94% (89% to 99%)``."""
    ends = (estimate.value, estimate.low, estimate.high)
    value, low, high = (
        None if end is None else format_percent(round(end, 2) + 0.0) for end in ends
    )
    return f"{value}" if low is None or high is None else f"{value} ({low} to {high})"


def whole(scope: Scope) -> str:
    """What a share is of, in words."""
    return "the added time" if scope == "growth" else "the step of one process"
