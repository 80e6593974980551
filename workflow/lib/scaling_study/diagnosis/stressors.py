"""Sensitivity of a training member to stressors, and of each part of a machine to n processes.

Both are compared with a control, a loop in registers. Like any stressor it takes a CPU, but no
other part of the machine, so the effect of a kernel beyond it is due to the part that bounds the
kernel.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from scaling_study.common.quantities import format_percent, format_ratio
from scaling_study.diagnosis.case import DERIVED, Case, or_none
from scaling_study.diagnosis.evidence import Evidence, Measured, Query, Untested, rule
from scaling_study.diagnosis.shares import quieter_cohort, share_of, unexplained
from scaling_study.experiments.kernel_cohort import NONE
from scaling_study.experiments.kernels import KERNELS
from scaling_study.records.verdict import Dose, Sensitivity
from scaling_study.stats.interval import Floats, Interval
from scaling_study.stats.ratios import Pairs, fit_prior, mean, ratio_of_means

CONTROL = "register"
TOOK_ENOUGH = 0.5
"""Stressors that achieved less than this part of their rate alone did not load their part of the
machine. The limit is low because a stream, too, slows down beside a member that uses bandwidth."""
NO_CLOCK = "this machine shows neither the members' cycles nor the clock of the CPUs they ran on"
CLOCKS = ("clock_mhz", "frequency_mhz")
"""Columns of the clock; the one that is counted over the whole window comes first."""
USER = ("frequency", "smt", "last_level_cache", "memory_bandwidth")
"""Causes that share the added user time. Others may take some of it too: a process that returns to
a CPU finds its caches cold."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reaction:
    """The reaction of a training member to stressors of one kind.

    Attributes:
        shown: Its steps at every dose, as the report shows them.
        effect: Added time at the highest dose, beyond that of the control, as part of the step
            without stressors; for the control itself, all its added time.
    """

    shown: Sensitivity
    effect: Interval | None


@functools.lru_cache(DERIVED)
def reactions(case: Case) -> dict[str, Reaction]:
    """Return the reaction of the training member to each kernel that ran beside it."""
    windows = case.stressed

    def step_s(name: str, dose: float) -> Floats:
        return windows.column("step_s", name, dose)

    zero = step_s(NONE, 0.0)
    pairs = {key: windows.pair(step_s(*key), zero) for key in windows.columns if key[0] != NONE}
    prior = fit_prior([*pairs.values()])
    by_kernel = {}
    for name in dict.fromkeys(name for name, _ in pairs):
        doses = sorted(dose for kernel, dose in pairs if kernel == name)
        ratios = {dose: ratio_of_means(pairs[name, dose], prior=prior) for dose in doses}
        achieved = {dose: mean(windows.column("rate_share", name, dose)) for dose in doses}
        most = ratios[doses[-1]]
        added = effect = None if most is None else most.plus(-1.0)
        if name != CONTROL:
            more = step_s(name, doses[-1]) - step_s(CONTROL, doses[-1])
            # A direct difference: the two ratios share the window without stressors.
            effect = ratio_of_means(windows.pair(more, zero), prior=prior)
        shown = Sensitivity(
            kernel=name,
            title=KERNELS[name].title,
            verified=bool(np.nanmin([*achieved.values(), np.inf]) >= TOOK_ENOUGH),
            doses=(
                Dose(dose=0.0, ratio=Interval(1.0, 1.0, 1.0)),
                *(
                    Dose(dose=dose, ratio=ratio, rate_share=or_none(achieved[dose]))
                    for dose, ratio in ratios.items()
                    if ratio is not None
                ),
            ),
            effect=added,
        )
        by_kernel[name] = Reaction(shown, effect)
    return by_kernel


@dataclasses.dataclass(frozen=True, slots=True)
class KernelInflation:
    """The slowdown of a kernel's member with n of them.

    Attributes:
        n: Number of members that ran.
        inflation: Rate alone over rate of a member among n.
        effect: The inflation less the control's; for the control itself, less 1.
    """

    n: int
    inflation: Interval
    effect: Interval | None


@functools.lru_cache(DERIVED)
def inflations(case: Case) -> dict[str, KernelInflation]:
    """Return the slowdown of each kernel at the case's process count, or the next one below.

    The placement is the launch's if it was measured, otherwise `cores`.
    """
    known = case.microbenchmarks.rows if case.microbenchmarks else []
    rows = [row for row in known if row.valid and row.rates]
    placement = case.head.axes.get("placement")
    wanted = placement if any(row.placement == placement for row in rows) else "cores"
    rates = {
        (row.n, row.block, row.kernel): sum(row.rates) / len(row.rates)
        for row in rows
        if row.placement == wanted and row.n <= case.n
    }
    counts = {n for n, _, _ in rates}
    if len(counts) < 2 or 1 not in counts:  # noqa: PLR2004 (one process, and several)
        return {}
    by_n = pd.Series(rates).sort_index()
    slower = (by_n.xs(1) / by_n.xs(max(counts))).unstack()  # noqa: PD010 (no values to aggregate)
    means, beyond = _means(slower), {}
    if CONTROL in means:
        beyond = _means(slower.drop(columns=CONTROL).sub(slower[CONTROL], axis="index"))
        beyond[CONTROL] = means[CONTROL].plus(-1.0)
    return {
        kernel: KernelInflation(max(counts), inflation, beyond.get(kernel))
        for kernel, inflation in means.items()
    }


def _means(values: pd.DataFrame) -> dict[str, Interval]:
    """Return means over blocks, by kernel. Each has few blocks, so their variances are pooled."""
    known = {str(kernel): np.asarray(column.dropna()) for kernel, column in values.items()}
    pairs = {kernel: Pairs(column, np.ones_like(column)) for kernel, column in known.items()}
    prior = fit_prior([*pairs.values()])
    means = {kernel: ratio_of_means(pair, prior=prior) for kernel, pair in pairs.items()}
    return {kernel: interval for kernel, interval in means.items() if interval is not None}


def clock_column(case: Case) -> str | None:
    """Return the column that holds the members' clock with one process and with n."""
    for column in CLOCKS:
        if not any(np.isnan(case.column(column, n)).all() for n in (1, case.n)):
            return column
    return None


@rule
def stressor_share(query: Query, kernel: str, minus: Sequence[str] = ()) -> Measured | Untested:
    """Return the added user time, as far as the member reacts to a load on one part of the machine.

    Without hardware counters, user time cannot be divided into parts. Two numbers are known: how
    much user time was added, and how much a load on this part alone adds. The smaller one is the
    share. A clock that changes with n hides a part of both, so a small share proves nothing if the
    clock is unknown.

    Args:
        query: The question.
        kernel: The load.
        minus: Loads whose effect beyond the control is a part of this one's: a stream through
            memory also empties the last-level cache.
    """
    case = query.case
    by_kernel = reactions(case)
    if kernel not in by_kernel:
        return Untested("no load of this kind was tried")
    effect = by_kernel[kernel].effect
    if effect is None:
        return Untested("no block has all that is compared")
    others = [by_kernel[name].effect for name in minus if name in by_kernel]
    effect = effect.plus(-max([0.0, *(other.value for other in others if other)]))
    over = case.account("trainer_user_s_per_step", "scaling_loss", quieter_cohort(query))
    added, under = mean(over), mean(case.under("scaling_loss"))
    used = sum(mean(query.named[cause].over) for cause in USER if cause in query.named)
    left = max(0.0, min(added - used, unexplained(query)))
    over = over * (left / added) if added > 0 else over * 0.0
    text = (
        f"{format_percent(left / under)} of the added time is user time that "
        f"nothing else explains; {by_kernel[kernel].shown.title} beside one member "
        f"makes its step {format_ratio(1 + effect.value)} as long beyond the control."
    )
    counted = share_of(query, over, text, "aggravation")
    if isinstance(counted, Untested):
        return counted
    share, estimate = effect.times(1 / under), counted.estimate
    if share.value < estimate.value:
        if left > 0:
            over = over * (max(0.0, share.value) / estimate.value)
        estimate = Interval(max(0.0, share.value), share.low, share.high, share.low)
    evidence = Evidence(effect.value > 0, "aggravation", text)
    unknown = None if clock_column(case) else NO_CLOCK
    return Measured(estimate, over, evidence, unknown=unknown)
