"""Shares of causes: time that the kernel counts, and time that an intervention recovers.

recovered share
    What an intervention removes of a loss, external times included, as the report lists it.
saved share
    What it saves of T(n) - T(1), likewise.
credited time
    What it recovers without the external times, by block, as part of T(1).
recovered
    The share of a cause (`Recovered`): the credited time of its best intervention beyond more
    specific ones.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence

import numpy as np

from scaling_study.common.quantities import format_percent, format_seconds
from scaling_study.diagnosis.case import DERIVED, REFERENCE, Case, Scope
from scaling_study.diagnosis.evidence import (
    MOST,
    Evidence,
    Kind,
    Measured,
    Query,
    Share,
    Untested,
    percent,
    rule,
    whole,
)
from scaling_study.diagnosis.waits import UNSEEN
from scaling_study.experiments.interventions import QUOTA_BURSTS
from scaling_study.stats.interval import Floats, Interval
from scaling_study.stats.ratios import NO_PRIOR, START_SD, Prior, fit_prior, mean, ratio_of_means

EXTERNAL = (
    *("trainer_throttled_s_per_step", "wait_pileup_s_per_step", "wait_foreign_s_per_step"),
    *("stolen_s_per_step", "blocked_stopped_s_per_step"),
    *("blocked_lock_s_per_step", "blocked_device_s_per_step"),
)
"""Times in which something outside a member held it up. Each has a cause of its own, so
an intervention is credited only with the time that it recovers besides them."""
LEAST_EXTERNAL = 0.03
"""External times below this part of the time to explain are not subtracted: it only adds noise."""
SAMPLED = ("blocked_", "idle_")
"""How columns begin whose times are divided by what threads were found waiting for."""
UNCOUNTED = "the kernel of this machine does not count it"
BROADER = {"passive": "one_thread"}
"""Interventions that cost time themselves (sleeping threads must be woken), each with one that
removes the same thing, and more, without that cost."""


def share_of(
    query: Query, over: Floats, text: str, kind: Kind = "account", uncounted: str | None = None
) -> Measured | Untested:
    """Return the share with these numerators (parts of T(1), by block), and fill in ``{share}``."""
    estimate = ratio_of_means(query.case.shares(over, query.scope))
    if estimate is None:
        return Untested("no block has all that is compared")
    evidence = Evidence(True, kind, text.replace("{share}", percent(estimate)))
    return Measured(estimate, over, evidence, uncounted=uncounted)


@dataclasses.dataclass(frozen=True, slots=True)
class Counted:
    """A share that the kernel or a hook counts: parts of the training thread's time.

    Attributes:
        columns: Times per step that are added up.
        text: The time in words, after "… of the added time is".
        less: Times per step that are subtracted, where they were counted: other causes have them.
        relieved: Whether scaling loss is taken from `quieter_cohort`: members hold each other up
            less when their threads do less.
        cohort: The cohort that the time is taken from, if measured; otherwise the reference.
        untested: Interventions on the same cause: the time is used only if none has a result.
        missing: The reason to report if the time was not counted; empty for the usual one.
        uncounted: Returns a further cost that is not counted, in words; None if there is none. With
            one, the count can show the cause, but not rule it out.
    """

    columns: tuple[str, ...]
    text: str
    less: tuple[str, ...] = ()
    relieved: bool = False
    cohort: str = REFERENCE
    untested: tuple[str, ...] = ()
    missing: str = ""
    uncounted: Callable[[Query], str | None] = lambda _: None

    def __call__(self, query: Query) -> Measured | Untested:
        """Return the share of the time in these columns."""
        case, scope = query.case, query.scope
        if any(case.measured(name, scope) for name in self.untested):
            return Untested("an experiment tests it")
        name = quieter_cohort(query) if self.relieved and scope == "scaling_loss" else REFERENCE
        if name == REFERENCE and case.measured(self.cohort, scope):
            name = self.cohort
        counts = case.counts(scope)
        if any(
            np.isnan(case.column(column, n, name)).all() for column in self.columns for n in counts
        ):
            unseen = UNSEEN if self.columns[0].startswith(SAMPLED) else UNCOUNTED
            return Untested(self.missing or unseen)
        over = np.sum([case.account(column, scope, name) for column in self.columns], axis=0)
        for column in self.less:
            over = over - np.nan_to_num(case.account(column, scope, name))
        if name == self.cohort:  # as part of the reference's T(1), not this cohort's
            over = over * case.step(1, name) / case.step(1)
        times = " and ".join(
            format_seconds(sum(mean(case.time(column, n, name)) for column in self.columns))
            for n in counts
        )
        where = "" if name == REFERENCE else f" (with this change: {case.titles.get(name, name)})"
        processes = f" with 1 and {case.n} processes" if scope == "scaling_loss" else ""
        text = f"{{share}} of {whole(scope)} is {self.text}{where}: {times} a step{processes}."
        return share_of(query, over, text, uncounted=self.uncounted(query))


def quieter_cohort(query: Query) -> str:
    """Return the cohort that removes a named cause due to threads, or else the reference."""
    for cause in ("too_many_threads", "spinning"):
        share = query.named.get(cause)
        if share and share.intervention and query.case.measured(share.intervention, query.scope):
            return share.intervention
    return REFERENCE


def unexplained(query: Query) -> float:
    """Return the time that the named causes leave unexplained, as part of T(1)."""
    used = sum(mean(each.over) for each in query.named.values())
    return max(0.0, mean(query.case.under(query.scope)) - used)


@rule
def residual(query: Query, share: Share, special: str) -> Measured | Untested:
    """Return a share less that of a more specific cause, if that cause is named."""
    measured, named = share(query), query.named.get(special)
    if isinstance(measured, Untested) or named is None:
        return measured
    theirs = named.estimate.value
    estimate = measured.estimate.plus(-theirs)
    text = (
        f"{measured.evidence.text} {format_percent(round(theirs, 2))} of it has a more specific"
        f" cause, which leaves {percent(estimate)}."
    )
    return measured.of(estimate, measured.over - named.over, text)


def _floored(count: Measured | Untested, share: Measured | Untested) -> Measured | Untested:
    """Return the share that an intervention recovers, and no less than the counted share.

    If less than `MOST` of the recovered time is counted, the intervention removes something else
    too, and the counted share is used alone.
    """
    if isinstance(count, Untested):
        return count if isinstance(share, Untested) else share
    if isinstance(share, Untested):
        return count
    floor, back = count.estimate, share.estimate
    if back.low is None or floor.low is None or not MOST * back.value <= floor.value < back.value:
        return count
    low, sure = max(floor.low, back.low), max(floor.low, back.corrected_low or floor.low)
    estimate = Interval(back.value, low, back.high, sure)
    return dataclasses.replace(share, estimate=estimate, also=(count.evidence,))


@dataclasses.dataclass(frozen=True, slots=True)
class Recovered:
    """A share of the time that is recovered when one thing is removed.

    For scaling loss it is the smaller of two numbers: the decrease of T(n) / T(1), and the time
    saved at n. An intervention that only slows one process down decreases the ratio and helps
    nobody; one that speeds up 1 and n processes alike concerns the single-process loss. The cost of
    the intervention itself to one process counts as recovered only as far as a broader intervention
    saves it.

    Attributes:
        interventions: Interventions that remove this cause; the one with the highest lower bound
            counts.
        minus: Interventions on more specific causes; only time recovered beyond theirs counts.
        own_column: The external time that is this cause itself, and is not subtracted.
        counted: The time that is counted as this cause's, and is the least that is recovered.
    """

    interventions: Sequence[str]
    minus: Sequence[str] = ()
    own_column: str = ""
    counted: Counted | None = None

    def __call__(self, query: Query) -> Measured | Untested:
        """Return the share that the best intervention recovers."""
        case = query.case
        tried = (name for name in self.interventions if case.measured(name, query.scope))
        shares = [share for name in tried if (share := self._by(query, name))]
        best = max(shares, key=_surest) if shares else Untested(_why_not(case, self.interventions))
        return _floored(self.counted(query), best) if self.counted else best

    def _by(self, query: Query, name: str) -> Measured | None:
        """Return the share that an intervention recovers; None if no block has both."""
        case, scope = query.case, query.scope
        more = {}
        for other in (REFERENCE, *self.minus):
            if case.measured(other, scope):
                column = self.own_column if other in case.shares_members_with else ""
                more[other] = credited(case, scope, other, column)
        special = max(more, key=lambda other: mean(more[other]))
        over = credited(case, scope, name, self.own_column) - more[special]
        estimate = _compared(case, scope, name, over, special)
        if estimate is None:
            return None
        beyond = "" if special == REFERENCE else " beyond what more specific changes recover"
        text = (
            f"With one change ({case.titles.get(name, name)}) {percent(estimate)} of "
            f"{whole(scope)} is recovered{beyond}, over {np.count_nonzero(~np.isnan(over))} pairs "
            f"of windows.{_with_broader(case, scope, name, self.own_column)}"
        )
        evidence = Evidence(estimate.value > 0, "intervention", text)
        return Measured(estimate, over, evidence, intervention=name)


def _with_broader(case: Case, scope: Scope, name: str, own_column: str) -> str:
    """Say it where a figure includes what a broader change saves beyond the change itself."""
    broader = BROADER.get(name, "")
    if scope != "scaling_loss" or not case.measured(broader, scope):
        return ""
    if not mean(credited(case, scope, name, own_column)) > mean(_back(case, name, own_column)):
        return ""
    title = case.titles.get(broader, broader)
    return f" This leaves out what the change itself costs, as {title} shows it."


def _compared(
    case: Case, scope: Scope, name: str, over: Floats, other: str = REFERENCE
) -> Interval | None:
    """Return the share, with its interval, from a comparison with an intervention."""
    prior, tests = _prior(case, scope), len(case.tried(scope))
    allowance = _allowance(case, scope, name, other)
    return ratio_of_means(case.shares(over, scope), prior=prior, allowance=allowance, tests=tests)


def explained(case: Case, scope: Scope, named: Collection[Measured]) -> Interval | None:
    """Return the share that causes explain together; None without any.

    Their times are added block by block: all of them compare with the same windows.
    """
    if not named:
        return None
    over = np.sum([cause.over for cause in named], axis=0)
    changes = [cause.intervention for cause in named if cause.intervention]
    allowance = float(np.hypot.reduce([_allowance(case, scope, name) for name in changes] or [0.0]))
    prior = _prior(case, scope, len(changes)) if changes else NO_PRIOR
    return ratio_of_means(case.shares(over, scope), prior=prior, allowance=allowance)


def _allowance(case: Case, scope: Scope, name: str, other: str = REFERENCE) -> float:
    """Return by how much another start would differ, which the blocks of one start cannot show."""
    count = case.counts(scope)[-1]
    start = max(
        START_SD * mean(case.step(count, name) / case.step(1)),
        case.start_sd * mean(case.step(count) / case.step(1)),
    )
    members, others = (case.shares_members_with.get(cohort, cohort) for cohort in (name, other))
    if members == others or case.measurements.units == "replicates":
        start = 0.0  # there is one start of both, or the spread of the replicates' starts shows it
    # Variance as a multiple of one start's; members that took turns as one process average it.
    starts = (
        2.0 if scope == "scaling_loss" else sum(1 / case.alone.get(x, 1) for x in (REFERENCE, name))
    )
    return float(np.sqrt(starts)) * start / (1 + max(0.0, mean(case.under(scope))))


def _surest(measured: Measured) -> tuple[float, float]:
    estimate = measured.estimate
    return (-np.inf if estimate.corrected_low is None else estimate.corrected_low, estimate.value)


def _why_not(case: Case, interventions: Sequence[str]) -> str:
    """Return why no intervention has a result."""
    reasons = [case.failed.get(name) or case.left_out.get(name) for name in interventions]
    return "; ".join(dict.fromkeys(filter(None, reasons))) or "no experiment of this kind was made"


def recovered_share(case: Case, scope: Scope, name: str) -> Interval | None:
    """Return the share of a loss that an intervention removes, external times included."""
    return _compared(case, scope, name, _removed(case, scope, name))


def _removed(case: Case, scope: Scope, name: str) -> Floats:
    """Return what an intervention removes of a loss, external times included, as part of T(1)."""
    alone = case.step(1)
    if scope == "single_process_loss":
        return 1 - case.step(1, name) / alone
    return case.step(case.n) / alone - case.step(case.n, name) / case.step(1, name)


def saved_share(case: Case, name: str) -> Interval | None:
    """Return the part of T(n) - T(1) that an intervention saves."""
    over = (case.step(case.n) - case.step(case.n, name)) / case.step(1)
    return _compared(case, "scaling_loss", name, over)


@functools.lru_cache(DERIVED)
def credited(case: Case, scope: Scope, name: str, own_column: str = "") -> Floats:
    """Return the time that an intervention recovers, as part of T(1), by block.

    Changes of external times except `own_column` are subtracted.
    """
    removed = _removed(case, scope, name)
    if name == QUOTA_BURSTS:  # bursts cost extra time at both counts: only the ratio compares
        return removed
    credit = removed - _external(case, scope, name, own_column)
    if scope == "single_process_loss":
        return credit
    return min(credit, _saved_at_n(case, name, own_column), key=mean)


def _saved_at_n(case: Case, name: str, own_column: str) -> Floats:
    """Return the time that an intervention saves at n, as part of T(1), without its own cost."""
    broader, saved = BROADER.get(name), _back(case, name, own_column)
    cost = case.step(1, name) / case.step(1) - 1
    if broader is None or not case.measured(broader, "scaling_loss") or not mean(cost) > 0:
        return saved
    return max(saved, min(saved + cost, _back(case, broader, own_column), key=mean), key=mean)


def _back(case: Case, name: str, own_column: str) -> Floats:
    """Return the time that an intervention saves at n, with its own cost, as part of T(1)."""
    saved_s = case.step(case.n) - case.step(case.n, name)
    return saved_s / case.step(1) - _external(case, "scaling_loss", name, own_column)


def _external(case: Case, scope: Scope, name: str, own_column: str) -> Floats | float:
    """Return how much external times but `own_column` drop from the reference, as part of T(1)."""
    n = case.counts(scope)[-1]
    total: Floats | float = 0.0
    # If the wait for the loader is not part of a step, neither are external times during it.
    kept = case.step(n, name) / case.column("step_s", n, name)
    size = abs(mean(case.under(scope)))
    for column in EXTERNAL:
        if column != own_column and abs(mean(case.account(column, scope))) > LEAST_EXTERNAL * size:
            change = case.time(column, n) - kept * case.time(column, n, name)
            total = total + change / case.step(1)
    return total


@functools.lru_cache(DERIVED)
def _prior(case: Case, scope: Scope, together: int = 1) -> Prior:
    """Return the prior of a comparison's variance, from the comparisons of all interventions.

    With several interventions together, it is that of their sum, whose parts share a reference.
    """
    names = case.tried(scope)
    sums = (
        np.sum([credited(case, scope, name) for name in names[at : at + together]], axis=0)
        for at in range(len(names) - together + 1)
    )
    return fit_prior([case.shares(over, scope) for over in sums])
