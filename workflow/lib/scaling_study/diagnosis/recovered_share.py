"""Shares that come back when one thing is taken away."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from scaling_study.diagnosis.case import REFERENCE, UNTHROTTLED, Case, Scope
from scaling_study.diagnosis.query import (
    MOST,
    Asked,
    Measure,
    Measured,
    Untested,
    Weight,
    percent,
    whole,
)
from scaling_study.stats.intervals import Floats, Interval
from scaling_study.stats.ratios import fit_prior, mean
from scaling_study.stats.variances import START_SD, Prior

EXTERNAL = (
    *("trainer_throttled_s_per_step", "wait_pileup_s_per_step", "wait_foreign_s_per_step"),
    *("stolen_s_per_step", "blocked_stopped_s_per_step"),
    *("blocked_lock_s_per_step", "blocked_device_s_per_step"),
)
"""Times in which a member could not go on for a reason outside of it. They are counted exactly, so
a relief gets credit only for what it brings back besides them."""
NOTICEABLE = 0.03
"""An external time below this part of what is explained is not set off: it would add noise only."""
BROADER = {"passive": "one_thread"}
"""Reliefs that may cost time of themselves (threads that sleep must be woken), each with one that
takes the same thing away, and more, without that cost."""


@dataclasses.dataclass(frozen=True, slots=True)
class ByRelief:
    """A share that comes back when one thing is taken away.

    In growth it is the smaller one of two: of the time that n processes need more than one, as a
    ratio, and of the time that really comes back at n. A relief that only makes one process slower
    removes growth and helps nobody; one that makes all of them faster alike is a matter of level.
    What the relief itself costs one process counts as coming back only so far as a broader relief
    really brings it back.

    Attributes:
        reliefs: Those that take this cause away; the one that surely brings back most counts.
        beyond: Reliefs of more special causes: only what comes back beyond them counts.
        own: An external time that is this cause itself, so that it is not set off.
    """

    reliefs: tuple[str, ...]
    beyond: tuple[str, ...] = ()
    own: str = ""

    def measure(self, asked: Asked) -> Measured | Untested:
        """The part of the time that the best of the reliefs brings back."""
        case, scope = asked.case, asked.scope
        names = [name for name in self.reliefs if case.measured(name, scope)]
        shares = [one for name in names if (one := self._share(case, scope, name)) is not None]
        if not shares:
            return Untested(_why_not(case, self.reliefs))
        return max(shares, key=_surest)

    def _share(self, case: Case, scope: Scope, name: str) -> Measured | None:
        more = {
            one: saved(case, scope, one, self.own if one in case.whose else "")
            for one in self.beyond
            if case.measured(one, scope)
        }
        special = max(more, key=lambda one: mean(more[one]), default=REFERENCE)
        if special != REFERENCE and not mean(more[special]) > 0:
            special = REFERENCE
        over = saved(case, scope, name, self.own) - more.get(special, 0.0)
        estimate = _compared(case, scope, name, over, special)
        if estimate is None:
            return None
        beyond = "" if special == REFERENCE else " beyond what more special changes bring back"
        text = (
            f"With one change ({case.titles.get(name, name)}) {percent(estimate)} of "
            f"{whole(scope)} comes back{beyond}, over {np.count_nonzero(~np.isnan(over))} pairs "
            "of windows."
        )
        return Measured(estimate, over, Weight(estimate.value > 0, "relief", text), relief=name)


@dataclasses.dataclass(frozen=True, slots=True)
class AtLeast:
    """What a relief brings back, of which most is counted: it is no less than that.

    Where less of it is counted, the relief takes something else away too, and the count stands.

    Attributes:
        counted: That part.
        told: What the relief brings back.
    """

    counted: Measure
    told: Measure

    def measure(self, asked: Asked) -> Measured | Untested:
        """What the relief tells; what is counted is its lower end at least."""
        counted, told = self.counted.measure(asked), self.told.measure(asked)
        if isinstance(counted, Untested) or isinstance(told, Untested):
            return told if isinstance(counted, Untested) else counted
        floor, share = counted.estimate, told.estimate
        if share.low is None or floor.low is None:
            return counted
        if not MOST * share.value <= floor.value < share.value:
            return counted
        low, sure = max(floor.low, share.low), max(floor.low, share.sure or floor.low)
        estimate = Interval(share.value, low, share.high, sure)
        return dataclasses.replace(told, estimate=estimate, also=(counted.weight,))


def _compared(
    case: Case, scope: Scope, name: str, over: Floats, other: str = REFERENCE
) -> Interval | None:
    """A share that a comparison with a relief gives, with its interval."""
    tests = [one for one in case.names if one != REFERENCE and case.measured(one, scope)]
    count = case.n if scope == "growth" else 1
    # By how much another start of either would differ; that has no sign of its own.
    start = max(
        START_SD * mean(case.step(count, name) / case.step(1)),
        case.start_sd * mean(case.step(count) / case.step(1)),
    )
    if case.whose.get(name, name) == case.whose.get(other, other):  # one start of both
        start = 0.0
    return case.estimate(
        over,
        case.under(scope),
        allowance=float(np.sqrt(2 if scope == "growth" else _starts(case, name))) * start,
        prior=_prior(case, scope),
        tests=len(tests),
    )


def _starts(case: Case, name: str) -> float:
    """Variance of a comparison of single processes, by that of a start: members took turns."""
    return 1 / case.alone.get(REFERENCE, 1) + 1 / case.alone.get(name, 1)


def relief_share(case: Case, scope: Scope, name: str) -> Interval | None:
    """What a relief removes of the growth, or of the level; external times included."""
    one = case.step(1)
    if scope == "level":
        return _compared(case, scope, name, 1 - case.step(1, name) / one)
    over = case.step(case.n) / one - case.step(case.n, name) / case.step(1, name)
    return _compared(case, scope, name, over)


def brings_back(case: Case, name: str) -> Interval | None:
    """The part of T(n) - T(1) that comes back with a relief."""
    over = (case.step(case.n) - case.step(case.n, name)) / case.step(1)
    return _compared(case, "growth", name, over)


def _surest(measured: Measured) -> tuple[float, float]:
    estimate = measured.estimate
    return (-np.inf if estimate.sure is None else estimate.sure, estimate.value)


def _why_not(case: Case, reliefs: Sequence[str]) -> str:
    """Why none of some reliefs has a result."""
    reasons = dict.fromkeys(
        reason
        for name in reliefs
        if (reason := case.failed.get(name) or case.left_out.get(name)) is not None
    )
    return "; ".join(reasons) or "no experiment of this kind was made"


def saved(case: Case, scope: Scope, name: str, own: str = "") -> Floats:
    """What a relief brings back, as part of T(1), by block; external times but `own` set off."""
    key = ("saved", scope, name, own)
    if key not in case.known:
        case.known[key] = _saved(case, scope, name, own)
    found: Floats = case.known[key]
    return found


def _saved(case: Case, scope: Scope, name: str, own: str) -> Floats:
    one = case.step(1)
    if scope == "level":
        return 1 - case.step(1, name) / one - _external(case, scope, name, own)
    growth = case.step(case.n) / one - case.step(case.n, name) / case.step(1, name)
    if name == UNTHROTTLED:  # bursts are slow for a reason of their own, and alike at both counts
        return growth
    outside = _external(case, scope, name, own)
    return min(growth - outside, _really_back(case, name, own), key=mean)


def _really_back(case: Case, name: str, own: str) -> Floats:
    """What a relief brings back of T(n), as part of T(1), without what the relief itself costs."""
    one = case.step(1)

    def back(name: str) -> Floats:
        saved_s = case.step(case.n) - case.step(case.n, name)
        return saved_s / one - _external(case, "growth", name, own)

    broader = BROADER.get(name)
    cost = case.step(1, name) / one - 1
    if broader is None or not case.measured(broader, "growth") or not mean(cost) > 0:
        return back(name)
    return max(back(name), min(back(name) + cost, back(broader), key=mean), key=mean)


def _external(case: Case, scope: Scope, name: str, own: str) -> Floats | float:
    """Change of external times but `own` from the reference to a relief, as part of T(1)."""
    n = case.n if scope == "growth" else 1
    total: Floats | float = 0.0
    # Where waiting for the loader is no part of a step, what happens meanwhile is none either.
    kept = case.step(n, name) / case.column("step_s", n, name)
    for column in _external_accounts(case, scope):
        if column != own:
            change = case.time(column, n) - kept * case.time(column, n, name)
            total = total + change / case.step(1)
    return total


def _external_accounts(case: Case, scope: Scope) -> list[str]:
    """External times that are worth setting off."""
    key = ("external", scope)
    if key not in case.known:
        size = abs(mean(case.under(scope)))
        case.known[key] = [
            column
            for column in EXTERNAL
            if abs(mean(case.account(column, scope))) > NOTICEABLE * size
        ]
    found: list[str] = case.known[key]
    return found


def _prior(case: Case, scope: Scope) -> Prior:
    """What the comparisons of all reliefs say about the variance of one."""
    if ("prior", scope) not in case.known:
        case.known["prior", scope] = fit_prior(
            [
                case.shares(saved(case, scope, name), case.under(scope))
                for name in case.names
                if name != REFERENCE and case.measured(name, scope)
            ]
        )
    prior: Prior = case.known["prior", scope]
    return prior
