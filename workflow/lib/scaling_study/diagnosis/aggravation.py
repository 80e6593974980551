"""What one more load does to a training member, and what each part of the machine gives up with n.

Both are compared with a control, a loop in registers: it takes a CPU as any bystander does, and no
other part of the machine, so only what a kernel does beyond it is due to the part that bounds it.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from scaling_study.diagnosis.case import Case
from scaling_study.stats.intervals import Floats, Interval
from scaling_study.stats.ratios import Pairs, fit_prior, mean, pair, ratio_of_means
from scaling_study.stats.variances import Prior

CONTROL = "register"
NONE = "none"
TOOK_ENOUGH = 0.5
"""Bystanders that achieved less than this of what they should did not load what they were to.
A stream beside a training member that uses the same bandwidth is slower too: not all is asked."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sensitivity:
    """How a training member reacts to bystanders of one kind.

    Attributes:
        kernel: What they ran.
        verified: Whether they took what they should at every dose.
        doses: Step over step at dose 0, by dose, with what they achieved.
        effect: Added time at the highest dose, as part of the step at dose 0.
        beyond: Of that, what the control at the same dose does not explain; None for the control.
    """

    kernel: str
    verified: bool
    doses: tuple[tuple[float, Interval, float | None], ...]
    effect: Interval | None
    beyond: Interval | None


def sensitivities(case: Case) -> dict[str, Sensitivity]:
    """Reaction of the training member to each kernel that stood beside it."""
    if "sensitivities" not in case.known:
        case.known["sensitivities"] = dict(_sensitivities(case))
    found: dict[str, Sensitivity] = case.known["sensitivities"]
    return found


def _sensitivities(case: Case) -> Iterator[tuple[str, Sensitivity]]:
    names = dict.fromkeys(name for name, _ in case.beside if name != NONE)
    zero = _at(case, NONE, 0.0)
    ratios = {
        (name, dose): pair(_at(case, name, dose), zero, case.replicates, "blocks")
        for name, dose in case.beside
        if name != NONE
    }
    prior = fit_prior([*ratios.values()])
    for name in names:
        yield name, _sensitivity(case, name, ratios, zero, prior)


def _at(case: Case, name: str, dose: float, column: str = "step_s") -> Floats:
    cell = case.beside.get((name, dose))
    return np.full(len(case.replicates), np.nan) if cell is None else cell[column]


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
            found.append((dose, ratio, None if np.isnan(share) else share))
    highest = max(doses)
    effect = ratio_of_means(ratios[name, highest], prior=prior)
    beyond = None
    if name != CONTROL:
        more = _at(case, name, highest) - _at(case, CONTROL, highest)
        # Two windows stand against each other, where the others' pairs share one.
        pairs = pair(more, zero, case.replicates, "blocks")
        beyond = ratio_of_means(pairs, prior=prior)
    return Sensitivity(
        kernel=name,
        verified=bool(np.nanmin([*achieved, np.inf]) >= TOOK_ENOUGH),
        doses=((0.0, Interval(1.0, 1.0, 1.0), None), *found),
        effect=None if effect is None else effect.plus(-1.0),
        beyond=beyond,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Inflation:
    """How much slower a kernel's member gets with n of them.

    Attributes:
        kernel: Which.
        n: How many ran.
        inflation: Rate alone over rate of a member among n.
        beyond: How much more than the control's; None for the control.
    """

    kernel: str
    n: int
    inflation: Interval
    beyond: Interval | None


def inflations(case: Case) -> dict[str, Inflation]:
    """Fingerprint of the machine at the process count that is explained, or the next below."""
    if "inflations" not in case.known:
        case.known["inflations"] = _inflations(case)
    found: dict[str, Inflation] = case.known["inflations"]
    return found


def _inflations(case: Case) -> dict[str, Inflation]:
    listed = case.fingerprint["rows"] if case.fingerprint else []
    rows = [row for row in listed if row["valid"]]
    if not any(row["n"] == 1 for row in rows):
        return {}
    table = _slowdowns(rows, str(case.head["axes"].get("placement")))
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
        kernel: Inflation(kernel, int(max(counts)), value, beyond.get(kernel))
        for kernel, value in _means(own).items()
    }


def _slowdowns(rows: Sequence[dict[str, Any]], placement: str) -> pd.Series:
    """Inflation by kernel, n and block, of the placement nearest to the launch's."""
    table = pd.DataFrame(
        {key: row[key] for key in ("kernel", "placement", "n", "block")}
        | {"rate": sum(row["rates"]) / len(row["rates"]) if row["rates"] else np.nan}
        for row in rows
    )
    wanted = placement if placement in set(table["placement"]) else "cores"
    table = table[table["placement"] == wanted]
    rates = table.groupby(["kernel", "block", "n"])["rate"].mean()
    alone = rates.xs(1, level="n")
    keys = pd.MultiIndex.from_tuples([(kernel, block) for kernel, block, _ in rates.index])
    alone = alone.reindex(keys).set_axis(rates.index)
    return (alone / rates).dropna()


def _means(values: Mapping[str, pd.Series]) -> dict[str, Interval]:
    """Mean by kernel over blocks; each has a few only, so all tell how windows scatter."""
    known = {kernel: one.dropna().to_numpy(dtype=np.float64) for kernel, one in values.items()}
    pairs = {kernel: Pairs(one, np.ones_like(one)) for kernel, one in known.items()}
    prior = fit_prior([*pairs.values()])
    found = {kernel: ratio_of_means(one, prior=prior) for kernel, one in pairs.items()}
    return {kernel: one for kernel, one in found.items() if one is not None}
