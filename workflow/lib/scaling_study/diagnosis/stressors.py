"""How much a stressor slows a training member down, and what each part of a machine loses with n.

Both are compared with a control, a loop in registers. Like any stressor it takes a CPU, but no
other part of the machine, so what a kernel does beyond it is due to the part that bounds the
kernel.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from scaling_study.common.quantities import format_percent, format_ratio
from scaling_study.diagnosis.case import DERIVED, Case
from scaling_study.diagnosis.evidence import Evidence, Measured, Query, Share, Untested
from scaling_study.diagnosis.shares import quieter_cohort, share_of, unexplained
from scaling_study.experiments.kernel_cohort import NONE
from scaling_study.records.experiment import KernelRates
from scaling_study.records.verdict import Dose
from scaling_study.stats.interval import Interval
from scaling_study.stats.intervals import Floats
from scaling_study.stats.ratios import Pairs, fit_prior, mean, pair, ratio_of_means
from scaling_study.stats.variances import Prior

CONTROL = "register"
TOOK_ENOUGH = 0.5
"""Stressors that achieved less than this part of their rate alone did not load what they should.
A stream beside a training member that uses the same bandwidth is slower too, hence not all."""
NO_CLOCK = "this machine shows neither the members' cycles nor the clock of the CPUs they ran on"
CLOCKS = ("clock_mhz", "frequency_mhz")
"""Columns that hold the clock, the one that is counted over the whole window first."""
USER = ("frequency", "smt", "last_level_cache", "memory_bandwidth")
"""Causes that share the added user time. Others may take some of it too: a process that returns to
a CPU finds its caches cold."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sensitivity:
    """How a training member reacts to stressors of one kind.

    Attributes:
        verified: Whether they loaded what they should at every dose.
        doses: Step over step at dose 0, by dose, with what they achieved.
        effect: Added time at the highest dose, as part of the step at dose 0.
        beyond: Of that, what the control at the same dose does not explain; None for the control.
    """

    verified: bool
    doses: tuple[Dose, ...]
    effect: Interval | None
    beyond: Interval | None


@functools.lru_cache(DERIVED)
def sensitivities(case: Case) -> dict[str, Sensitivity]:
    """Return the reaction of the training member to each kernel that ran beside it."""
    zero = _at(case, NONE, 0.0)
    ratios = {
        (name, dose): pair(_at(case, name, dose), zero, case.replicates, "blocks")
        for name, dose in case.stressor_windows
        if name != NONE
    }
    prior = fit_prior([*ratios.values()])
    names = dict.fromkeys(name for name, _ in ratios)
    return {name: _sensitivity(case, name, ratios, zero, prior) for name in names}


def _at(case: Case, name: str, dose: float, column: str = "step_s") -> Floats:
    found = case.stressor_windows.get((name, dose))
    return np.full(len(case.replicates), np.nan) if found is None else found[column]


def _sensitivity(
    case: Case,
    name: str,
    ratios: Mapping[tuple[str, float], Pairs],
    zero: Floats,
    prior: Prior,
) -> Sensitivity:
    doses = sorted(dose for kernel, dose in ratios if kernel == name)
    found, achieved = [], []
    for dose in doses:
        ratio = ratio_of_means(ratios[name, dose], prior=prior)
        share = mean(_at(case, name, dose, "rate_share"))
        achieved.append(share)
        if ratio is not None:
            known = None if np.isnan(share) else share
            found.append(Dose(dose=dose, ratio=ratio, rate_share=known))
    effect = ratio_of_means(ratios[name, doses[-1]], prior=prior)
    beyond = None
    if name != CONTROL:
        more = _at(case, name, doses[-1]) - _at(case, CONTROL, doses[-1])
        # Two windows stand against each other, where the others' pairs share one.
        pairs = pair(more, zero, case.replicates, "blocks")
        beyond = ratio_of_means(pairs, prior=prior)
    return Sensitivity(
        verified=bool(np.nanmin([*achieved, np.inf]) >= TOOK_ENOUGH),
        doses=(Dose(dose=0.0, ratio=Interval(1.0, 1.0, 1.0)), *found),
        effect=None if effect is None else effect.plus(-1.0),
        beyond=beyond,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Inflation:
    """How much slower a kernel's member gets with n of them.

    Attributes:
        n: How many ran.
        inflation: Rate alone over rate of a member among n.
        beyond: How much more than the control's; None for the control.
    """

    n: int
    inflation: Interval
    beyond: Interval | None


@functools.lru_cache(DERIVED)
def inflations(case: Case) -> dict[str, Inflation]:
    """Return the microbenchmarks at the process count that is explained, or the next below."""
    listed = case.microbenchmarks.rows if case.microbenchmarks else []
    rows = [row for row in listed if row.valid]
    if not any(row.n == 1 for row in rows):
        return {}
    table = _slowdowns(rows, str(case.head.axes.get("placement")))
    counts = [n for n in table.index.get_level_values("n").unique() if 1 < n <= case.n]
    if not counts:
        return {}
    slow = table.xs(max(counts), level="n")
    kernels = list(dict.fromkeys(slow.index.get_level_values("kernel")))
    own = {kernel: slow.xs(kernel, level="kernel") for kernel in kernels}
    control = own.get(CONTROL)
    beyond = _means(
        {
            kernel: values - control
            for kernel, values in own.items()
            if control is not None and kernel != CONTROL
        }
    )
    return {
        kernel: Inflation(int(max(counts)), value, beyond.get(kernel))
        for kernel, value in _means(own).items()
    }


def _slowdowns(rows: Sequence[KernelRates], placement: str) -> "pd.Series[float]":
    """Return the inflation by kernel, n and block, of the placement nearest to the launch's."""
    table = pd.DataFrame(
        {
            "kernel": row.kernel,
            "placement": row.placement,
            "n": row.n,
            "block": row.block,
            "rate": sum(row.rates) / len(row.rates) if row.rates else np.nan,
        }
        for row in rows
    )
    wanted = placement if placement in set(table["placement"]) else "cores"
    table = table[table["placement"] == wanted]
    rates = table.groupby(["kernel", "block", "n"])["rate"].mean()
    alone = rates.xs(1, level="n")
    keys = pd.MultiIndex.from_tuples([(kernel, block) for kernel, block, _ in rates.index])
    alone = alone.reindex(keys).set_axis(rates.index)
    return (alone / rates).dropna()


def _means(values: Mapping[str, "pd.Series[float]"]) -> dict[str, Interval]:
    """Return means by kernel over blocks; few blocks each, so their variance is pooled."""
    known = {kernel: np.asarray(one.dropna(), dtype=np.float64) for kernel, one in values.items()}
    pairs = {kernel: Pairs(one, np.ones_like(one)) for kernel, one in known.items()}
    prior = fit_prior([*pairs.values()])
    found = {kernel: ratio_of_means(one, prior=prior) for kernel, one in pairs.items()}
    return {kernel: one for kernel, one in found.items() if one is not None}


def clock_column(case: Case) -> str | None:
    """Return the column that holds the members' clock with one process and with n."""
    for column in CLOCKS:
        if not any(np.isnan(case.column(column, n)).all() for n in (1, case.n)):
            return column
    return None


def stressor_share(kernel: str, minus: Sequence[str] = ()) -> Share:
    """Return the added user time, as far as the member reacts to a load on one part of the machine.

    Without hardware counters user time has no account of its parts. Known are how much of it was
    added, and how much a load on this part alone adds. The smaller one is the share. A clock that
    moves with n hides a part of both, so without the clock a small share proves nothing.

    Args:
        kernel: The load.
        minus: Loads whose effect beyond the control is a part of this one's: a stream through
            memory also empties the last-level cache.
    """

    def measure(query: Query) -> Measured | Untested:
        case = query.case
        if query.scope == "single_process_loss":
            return Untested("a load can only be added to one process")
        found = sensitivities(case)
        sensitivity = found.get(kernel)
        if sensitivity is None:
            return Untested("no load of this kind was tried")
        effect = sensitivity.beyond or sensitivity.effect
        if effect is None:
            return Untested("no block has all that is compared")
        others = [found[name].beyond for name in minus if name in found]
        effect = effect.plus(-max([0.0, *(one.value for one in others if one)]))
        over = case.account("trainer_user_s_per_step", "scaling_loss", quieter_cohort(query))
        added, under = mean(over), mean(case.under("scaling_loss"))
        used = sum(mean(query.named[one].over) for one in USER if one in query.named)
        left = max(0.0, min(added - used, unexplained(query)))
        over = over * (left / added) if added > 0 else over * 0.0
        text = (
            f"{format_percent(left / under)} of the added time is user time that "
            f"nothing else explains; {case.titles.get(kernel, kernel)} beside one member "
            f"makes its step {format_ratio(1 + effect.value)} as long beyond the control."
        )
        counted = share_of(query, over, text, exact=False)
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

    return measure
