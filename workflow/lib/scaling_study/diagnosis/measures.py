"""Shares that are counted or derived: accounts, capacity, the clock, shared hardware."""

import dataclasses
from collections.abc import Callable

import numpy as np

from scaling_study.common.quantities import (
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.diagnosis.aggravation import sensitivities
from scaling_study.diagnosis.case import REFERENCE, Case
from scaling_study.diagnosis.query import (
    Asked,
    Measure,
    Measured,
    Untested,
    Weight,
    percent,
    whole,
)
from scaling_study.stats.intervals import Floats, Interval
from scaling_study.stats.ratios import mean


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """A share that the kernel counts: parts of the training thread's time.

    Attributes:
        columns: Times per step that are added up.
        text: What the time is, after "… of the added time".
        relieved: Whether it is taken from the cohort with the named relief of threads, where there
            is one: what members do to each other is less when their threads do less.
        cohort: From which cohort it is taken, where that was measured; else from the reference.
        missing: Why there is no such time, where it was not counted.
        less: Times per step that belong to a more special cause, where they were counted.
    """

    columns: tuple[str, ...]
    text: str
    relieved: bool = False
    cohort: str = REFERENCE
    missing: str = "the kernel of this machine does not count it"
    less: tuple[str, ...] = ()

    def measure(self, asked: Asked) -> Measured | Untested:
        """The part of the time in these accounts."""
        case, scope = asked.case, asked.scope
        name = relieved_cohort(asked) if self.relieved else REFERENCE
        if name == REFERENCE and case.measured(self.cohort, scope):
            name = self.cohort
        counts = (1, case.n) if scope == "growth" else (1,)
        if any(np.isnan(case.column(one, n, name)).all() for one in self.columns for n in counts):
            return Untested(self.missing)
        over = np.sum([case.account(one, scope, name) for one in self.columns], axis=0)
        for one in self.less:
            over = over - np.nan_to_num(case.account(one, scope, name))
        if name == self.cohort:  # of the reference's T(1), wherever the time is counted
            over = over * case.step(1, name) / case.step(1)
        estimate = case.estimate(over, case.under(scope))
        if estimate is None:
            return Untested("no block has all that is compared")
        times = [
            format_seconds(sum(mean(case.time(one, n, name)) for one in self.columns))
            for n in counts
        ]
        where = "" if name == REFERENCE else f" (with the relief {name})"
        text = f"{percent(estimate)} of {whole(scope)} is {self.text}{where}: {' and '.join(times)}"
        text += f" a step with 1 and {case.n} processes." if scope == "growth" else " a step."
        return Measured(estimate, over, Weight(True, "account", text), exact=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Partly:
    """A count of one part of what a cause costs: it can show the cause, and not rule it out.

    Attributes:
        counted: That part.
        uncounted: Says what the cause may cost besides; None where there is nothing of it.
    """

    counted: Measure
    uncounted: Callable[[Asked], str | None]

    def measure(self, asked: Asked) -> Measured | Untested:
        """The part that is counted."""
        measured = self.counted.measure(asked)
        if isinstance(measured, Untested):
            return measured
        return dataclasses.replace(measured, uncounted=self.uncounted(asked))


def relieved_cohort(asked: Asked) -> str:
    """The cohort in which nothing is left of the named causes that threads make."""
    case, scope = asked.case, asked.scope
    shares = {
        measured.relief: asked.share
        for cause in ("too_many_threads", "spinning")
        if (measured := asked.named.get(cause)) and measured.relief
    }
    names = [name for name in shares if name and case.measured(name, scope)]
    return names[0] if names else REFERENCE


@dataclasses.dataclass(frozen=True, slots=True)
class Instead:
    """A share that stands alone only where the reliefs that would test it have no result."""

    first: Measure
    reliefs: tuple[str, ...]

    def measure(self, asked: Asked) -> Measured | Untested:
        """What the measure says, if no relief says more."""
        case, scope = asked.case, asked.scope
        if any(case.measured(name, scope) for name in self.reliefs):
            return Untested("a relief tests it")
        return self.first.measure(asked)


@dataclasses.dataclass(frozen=True, slots=True)
class Beyond:
    """What a share has beyond those of more special causes, where they are named.

    Attributes:
        of: The share.
        causes: Those that it holds, too.
    """

    of: Measure
    causes: tuple[str, ...]

    def measure(self, asked: Asked) -> Measured | Untested:
        """The share, less theirs."""
        measured = self.of.measure(asked)
        named = [asked.named[one] for one in self.causes if one in asked.named]
        if isinstance(measured, Untested) or not named:
            return measured
        theirs = sum(one.estimate.value for one in named)
        estimate = measured.estimate.plus(-theirs)
        text = (
            f"{measured.weight.text} {format_percent(round(theirs, 2))} of it has a more special"
            f" cause, which leaves {percent(estimate)}."
        )
        over = measured.over - np.sum([one.over for one in named], axis=0)
        weight = dataclasses.replace(measured.weight, text=text)
        return dataclasses.replace(measured, estimate=estimate, over=over, weight=weight)


THREAD_RELIEFS = ("one_thread", "passive")
PROCESSES = Account(
    ("wait_processes_s_per_step",), "waiting for a CPU that another member had", relieved=True
)


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """More work than CPUs: what even a perfect scheduler could not avoid.

    Members of one thread each wait in the run queue for one another, and that is counted. Where one
    member alone keeps several CPUs busy, n of them get less each, which shows as waiting for helper
    threads in whatever way these wait. Then the bound of a work-conserving scheduler is taken:
    n times the CPU time of a step, over the CPUs. The CPU time is that of the cohort that needs
    least (one thread, or threads that sleep while they wait), so that spinning is not work.
    """

    def measure(self, asked: Asked) -> Measured | Untested:
        """The part of the added time that the work itself needs."""
        case, scope = asked.case, asked.scope
        if scope == "level" or case.threads == 1:
            return PROCESSES.measure(asked)
        known = [name for name in THREAD_RELIEFS if case.measured(name, "level")]
        if not known:
            return Untested("how much CPU time a step needs without waiting threads is not known")
        work = min((_cpu_s(case, name) for name in (REFERENCE, *known)), key=mean)
        foreign = np.nan_to_num(case.column("foreign_cpus", case.n))
        cpus = np.maximum(1.0, case.machine.allowed_cpus - foreign)
        one = case.step(1)
        over = case.n * work / cpus / one - 1
        under = case.under(scope)
        bound = mean(over)
        left = _unexplained(asked)
        over = over * (max(0.0, min(bound, left)) / bound) if bound > 0 else over * 0.0
        estimate = case.estimate(over, under)
        if estimate is None:
            return Untested("no block has all that is compared")
        alone = case.mean("cpu_use", 1)
        text = (
            f"One member alone keeps {format_number(alone)} CPUs busy; {case.n} of them would need "
            f"{format_number(case.n * mean(work / one))} of "
            f"{case.machine.allowed_cpus} for the work: {percent(estimate)} of the added time."
        )
        return Measured(estimate, over, Weight(True, "account", text), exact=True)


def _unexplained(asked: Asked) -> float:
    """What the causes that are named already leave of the time, as part of T(1)."""
    used = sum(mean(each.over) for each in asked.named.values())
    return max(0.0, mean(asked.case.under(asked.scope)) - used)


def _cpu_s(case: Case, name: str) -> Floats:
    return case.column("user_s_per_step", 1, name) + case.column("system_s_per_step", 1, name)


@dataclasses.dataclass(frozen=True, slots=True)
class Fewer:
    """What comes back with no more members than there are CPUs for their threads.

    Taking turns costs more than the waiting that is counted: who comes back to a CPU finds its
    caches filled by others. That is user time, and shows in this comparison only.
    """

    def measure(self, asked: Asked) -> Measured | Untested:
        """The part of the added time that windows with fewer members do not have."""
        case = asked.case
        fit = case.machine.allowed_cpus // max(1, case.demand)
        if asked.scope == "level" or (REFERENCE, fit) not in case.cells or fit in {1, case.n}:
            return Untested("no windows with as many members as CPUs, between one and all")
        if asked.named:
            return Untested("other causes have a part in what fewer members bring back")
        over = (case.step(case.n) - case.step(fit)) / case.step(1)
        estimate = case.estimate(over, case.under("growth"))
        if estimate is None:
            return Untested("no block has all that is compared")
        text = (
            f"With {fit} processes in place of {case.n}, {percent(estimate)} of "
            f"{whole('growth')} comes back."
        )
        return Measured(estimate, over, Weight(True, "relief", text))


NO_CLOCK = "this machine shows neither the members' cycles nor the clock of the CPUs they ran on"
CLOCKS = ("clock_mhz", "frequency_mhz")
"""Columns that hold the clock, the one that is counted over the whole window first."""


def clock_column(case: Case) -> str | None:
    """The column that holds the clock of the members' CPUs with one process and with n."""
    counts = (1, case.n)
    for column in CLOCKS:
        if not any(np.isnan(case.column(column, n)).all() for n in counts):
            return column
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Clock:
    """Time that user code takes longer because the clock is slower, from the clock itself."""

    def measure(self, asked: Asked) -> Measured | Untested:
        """The user time of one process, times what the clock lost."""
        case, scope = asked.case, asked.scope
        column = clock_column(case)
        if column is None:
            return Untested(NO_CLOCK)
        if scope == "level":
            return Untested("a clock can only be compared between process counts")
        low, high = case.column(column, 1), case.column(column, case.n)
        user = case.column("trainer_user_s_per_step", 1) / case.step(1)
        over = user * (low / high - 1)
        estimate = case.estimate(over, case.under(scope))
        if estimate is None:
            return Untested("no block has all that is compared")
        text = (
            f"The clock is {format_number(mean(low))} MHz with 1 process and "
            f"{format_number(mean(high))} MHz with {case.n}: {percent(estimate)} of the "
            "added time."
        )
        return Measured(estimate, over, Weight(True, "account", text), exact=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """Added user time, as far as the training member reacts to a load on one part of the machine.

    User time has no account of its parts without hardware counters. What is known: how much of it
    was added, and how much a load on this part alone adds. The smaller one is the share. A clock
    that rises or falls with n hides a part of both, so that without it a small share proves
    nothing.

    Attributes:
        kernel: The load.
        minus: Loads whose effect beyond the control is a part of this one's: a stream through
            memory also empties the last-level cache.
    """

    kernel: str
    minus: tuple[str, ...] = ()

    def measure(self, asked: Asked) -> Measured | Untested:
        """The smaller one of added user time and reaction."""
        case, scope = asked.case, asked.scope
        if scope == "level":
            return Untested("a load can only be added to one process")
        sensitivity = sensitivities(asked.case).get(self.kernel)
        if sensitivity is None:
            return Untested("no bystander of this kind was tried")
        effect = sensitivity.beyond or sensitivity.effect
        if effect is None:
            return Untested("no block has all that is compared")
        other = [sensitivities(asked.case).get(name) for name in self.minus]
        explained = [one.beyond.value for one in other if one is not None and one.beyond]
        effect = effect.plus(-max([0.0, *explained]))
        over = case.account("trainer_user_s_per_step", scope, relieved_cohort(asked))
        under = case.under(scope)
        used = sum(mean(asked.named[one].over) for one in USER if one in asked.named)
        added = mean(over)
        left = max(0.0, min(added - used, _unexplained(asked)))
        over = over * (left / added) if added > 0 else over * 0.0
        estimate = case.estimate(over, under)
        if estimate is None:
            return Untested("no block has all that is compared")
        share = effect.times(1 / mean(under))
        limited = share.value < estimate.value
        if limited and left > 0:
            over = over * (max(0.0, share.value) / estimate.value)
        estimate = _at_least_zero(share) if limited else estimate
        text = (
            f"{format_percent(left / mean(under))} of the added time is user time that "
            f"nothing else explains; {case.titles.get(self.kernel, self.kernel)} beside one member "
            f"makes its step {format_ratio(1 + effect.value)} as long beyond the control."
        )
        weight = Weight(effect.value > 0, "aggravation", text)
        unknown = None if clock_column(case) else NO_CLOCK
        return Measured(estimate, over, weight, unknown=unknown)


USER = ("frequency", "smt", "last_level_cache", "memory_bandwidth")
"""Causes that share what was added of user time. Others may take some of it too: one who comes back
to a CPU finds its caches cold."""


def _at_least_zero(share: Interval) -> Interval:
    return Interval(max(0.0, share.value), share.low, share.high, share.low)
