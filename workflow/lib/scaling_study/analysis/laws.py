"""The scaling law of a launch: chosen from candidates by AICc, with its knee.

Every candidate is fitted to the logarithm of throughput (a percentage is the same error at every n)
by bounded least squares, and judged by Akaike's information criterion with the small-sample
correction (Burnham and Anderson, Model Selection and Multimodel Inference, 2002, ch. 2.4), which
counts the error's variance as a parameter. A law whose correction is not defined is not fitted, and
no law is chosen if fewer than two can be fitted. A fitted law says nothing outside the process
counts that were measured: its curve ends there.

Dependence
    All counts of a launch come from the same cohorts, so they share the cohorts' level. Every law
    has a free level, which absorbs the shared one, so the least squares are those of generalised
    least squares. K counts are then K - 1 independent contrasts, which depend on p - 1 of a law's p
    parameters. The criterion uses these two numbers, which makes it one of the restricted
    likelihood (Mueller, Scealy and Welsh, Statistical Science 28(2), 2013, ch. 3). The restriction
    is the same for all laws, so they can be compared.

Knee
    Errors of throughput are drawn with the scatter of replicates or the law's misfit, whichever is
    larger. The fit's linearisation turns them into errors of the parameters (Bates and Watts,
    Nonlinear Regression Analysis, 1988, ch. 2), and these into errors of the knee. The interval
    assumes that the law is the right one. A knee without an interval, or whose interval extends
    beyond the measured counts, is not reported.

Boundary
    A knee coincides with a boundary of the machine if its interval contains that boundary and no
    other, and lies close around it. A knee with a wide interval, or of a law without a sharp bend,
    coincides with none.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from scaling_study.config.process_counts import boundaries
from scaling_study.records.analysis import ChosenLaw, FittedLaw, Machines, Scaling
from scaling_study.records.codec import read_file
from scaling_study.records.machine import Machine
from scaling_study.records.verdict import Boundary
from scaling_study.stats.interval import Floats, Integers, Interval
from scaling_study.stats.thresholds import CONFIDENCE

SHARPEST_BEND = 50.0  # at its knee the smoothed law is then within 1.4% of the hard one
RESOLUTION = 1e-4  # relative: step times are not read and averaged more precisely
INDISTINGUISHABLE = 2.0  # AICc difference below which a law has support like the best's (ib. 2.6)
REDRAWN = 1000  # draws of a knee: the ends of its interval are then known to a twentieth of it
REFINED_STARTS = 2  # the best start, and one more in case it leads to a local optimum
NEAR_NOTHING = 1e-3  # part of a parameter that every draw keeps: no rate becomes zero
CLOSE = 1.15
"""A knee's interval must lie within this factor of the boundary that it coincides with."""
ONE_CPU = 1.25
"""A member that keeps no more CPUs busy than this needs one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Law:
    """One candidate.

    Attributes:
        name: As in scaling.json.
        formula: As in the report; throughput in steps/s.
        parameters: Name of each, with its lower and upper bound.
        throughput: Steps/s at some process counts, given parameters.
        starts: Parameters to start fitting from, given counts and throughputs.
        knee: Process count at which the law bends, given parameters; None if it does not.
        domain: The part of the machine that saturates, if it is one.
    """

    name: str
    formula: str
    parameters: tuple[tuple[str, float, float], ...]
    throughput: Callable[[Integers, Floats], Floats]
    starts: Callable[[Integers, Floats], Sequence[Sequence[float]]]
    knee: Callable[[Floats], float | None]
    domain: str | None = None


def _split_starts(n: Integers, x: Floats) -> list[tuple[float, float]]:
    """Return rate and ceiling for every split of the counts into a rising and a flat part.

    A fit of min(g n, C) may have a local optimum in each split; these are the optima.
    """
    rates, levels = np.log(x / n), np.log(x)
    return [
        (float(np.exp(rates[:split].mean())), float(np.exp(levels[split:].mean())))
        for split in range(1, len(n))
    ]


def _usl_peak(parameters: Floats) -> float | None:
    _, contention, coherence = parameters
    if coherence <= 0 or contention >= 1:
        return None
    return float(np.sqrt((1 - contention) / coherence))


HARD_SATURATION, DOMAIN_SATURATION = "hard_saturation", "domain_saturation"
SHARP = (HARD_SATURATION, DOMAIN_SATURATION)
"""Laws that bend at one process count."""
RATE = ("rate", 0.0, np.inf)
CEILING = ("ceiling", 0.0, np.inf)
LAWS = (
    Law(
        name="linear",
        formula="g n",
        parameters=(RATE,),
        throughput=lambda n, p: p[0] * n,
        starts=lambda n, x: [(float(np.exp(np.log(x / n).mean())),)],
        knee=lambda _: None,
    ),
    Law(
        name=HARD_SATURATION,
        formula="min(g n, C)",
        parameters=(RATE, CEILING),
        throughput=lambda n, p: np.minimum(p[0] * n, p[1]),
        starts=_split_starts,
        knee=lambda p: float(p[1] / p[0]),
    ),
    Law(
        name="smooth_saturation",
        formula="g n / (1 + (g n / C)^k)^(1/k)",
        parameters=(RATE, CEILING, ("sharpness", 1.0, SHARPEST_BEND)),
        throughput=lambda n, p: (
            p[0] * n * np.exp(-np.logaddexp(0.0, p[2] * np.log(p[0] * n / p[1])) / p[2])
        ),
        starts=lambda n, x: [(*start, k) for start in _split_starts(n, x) for k in (1.5, 6.0)],
        knee=lambda p: float(p[1] / p[0]),
    ),
    Law(
        name="usl",
        formula="g n / (1 + a (n - 1) + b n (n - 1))",
        parameters=(RATE, ("contention", 0.0, np.inf), ("coherence", 0.0, np.inf)),
        throughput=lambda n, p: p[0] * n / (1 + p[1] * (n - 1) + p[2] * n * (n - 1)),
        starts=lambda n, x: [
            (float(np.max(x / n)), a, b) for a in (0.01, 0.3) for b in (1e-4, 1e-2)
        ],
        knee=_usl_peak,
    ),
)


def domain_saturation(domain: str, occupancy: Floats) -> Law:
    """Return the law by which members saturate each cache, node or socket that they are bound to.

    Args:
        domain: Name of the kind of domain.
        occupancy: Shape (counts from 1, domains): members, or parts of them, in each domain.
    """

    def throughput(n: Integers, p: Floats) -> Floats:
        return np.asarray(np.minimum(p[0] * occupancy[n - 1], p[1]).sum(axis=1))

    def knee(p: Floats) -> float | None:
        full = np.flatnonzero(occupancy.max(axis=1) >= p[1] / p[0])
        return float(full[0] + 1) if full.size else None

    domains = occupancy.shape[1]
    return Law(
        name=DOMAIN_SATURATION,
        domain=domain,
        formula=f"sum over the {domain}s of min(g members in it, C)",
        parameters=(RATE, CEILING),
        throughput=throughput,
        starts=lambda n, x: [
            (rate, ceiling / used) for rate, ceiling in _split_starts(n, x) for used in {1, domains}
        ],
        knee=knee,
    )


class Fit:
    """A law fitted to a launch's points.

    Args:
        law: The candidate.
        n: Distinct process counts, ascending; at least three more than the law has parameters.
        throughput: Steps/s at each.

    Attributes:
        bounds: Lowest and highest values of the parameters.
        parameters: The fitted values.
        aicc: The law's criterion.
        r2: Share of the variance of log throughput that it explains; NaN without variance.
        misfit: Standard deviation of the residuals.
        sensitivity: Shape (parameters, counts): change of each parameter per error of each log
            throughput.
    """

    def __init__(self, law: Law, n: Integers, throughput: Floats) -> None:
        from scipy import optimize  # noqa: PLC0415 (experiments read laws, and fit none)

        logs = np.log(throughput)

        def residuals(parameters: Floats) -> Floats:
            return np.asarray(np.log(law.throughput(n, parameters)) - logs)

        starts = [np.array(start) for start in law.starts(n, throughput)]
        starts.sort(key=lambda start: float((residuals(start) ** 2).sum()))
        low, high = (np.array(bound) for bound in list(zip(*law.parameters, strict=True))[1:])
        ends = [
            optimize.least_squares(residuals, start, bounds=(low, high), x_scale=start)
            for start in starts[:REFINED_STARTS]
        ]
        end = min(ends, key=lambda each: float(each.cost))
        squares = 2 * float(end.cost)
        contrasts = len(n) - 1
        counted = len(law.parameters)  # without the level, with the variance
        aicc = (
            contrasts * np.log(max(squares / contrasts, RESOLUTION**2))
            + 2 * counted
            + 2 * counted * (counted + 1) / (contrasts - counted - 1)
        )
        total = float(((logs - logs.mean()) ** 2).sum())
        self.law, self.bounds, self.parameters, self.aicc = law, (low, high), end.x, float(aicc)
        self.r2 = 1 - squares / total if total else np.nan
        self.misfit = float(np.sqrt(squares / (len(n) - counted)))
        self.sensitivity = np.linalg.pinv(np.asarray(end.jac))


def fewest_counts(law: Law) -> int:
    """Return how many process counts a law's AICc needs to be defined."""
    return len(law.parameters) + 3


def choose(
    n: Integers, throughput: Floats, scatter: Floats, further: Sequence[Law] = ()
) -> ChosenLaw:
    """Fit all candidates to a launch's points and choose one.

    Args:
        n: Distinct process counts, ascending.
        throughput: Steps/s at each.
        scatter: Standard deviation of the logarithm of each, without the part that all share; NaN
            where it is not known.
        further: Candidates of this launch besides `LAWS`.
    """
    laws = (*LAWS, *further)
    fitted = [law for law in laws if len(n) >= fewest_counts(law)]
    if len(fitted) < 2:  # noqa: PLR2004 - a choice needs two
        needed = sorted(map(fewest_counts, laws))[1]
        reason = f"process counts measured: {len(n)}; a choice needs {needed}"
        return ChosenLaw(status="refused", reason=reason)
    fits = sorted((Fit(law, n, throughput) for law in fitted), key=lambda each: each.aicc)
    best = fits[0]
    support = np.exp([(best.aicc - each.aicc) / 2 for each in fits])
    weights = (support / support.sum()).tolist()
    return ChosenLaw(
        status="fitted",
        best=best.law.name,
        text=_text(fits, weights),
        candidates=tuple(_candidate(*each) for each in zip(fits, weights, strict=True)),
        knee=_knee(best, n, scatter),
    )


def _knee(best: Fit, n: Integers, scatter: Floats) -> Interval | None:
    """Return the knee of the chosen law with its interval, in processes; None if not reported."""
    value = best.law.knee(best.parameters)
    if value is None or np.isnan(scatter).any():
        return None
    normals = np.random.default_rng(0).standard_normal((REDRAWN, len(n)))
    errors = np.maximum(scatter, best.misfit) * normals
    low = np.maximum(best.bounds[0], NEAR_NOTHING * best.parameters)
    parameters = (best.parameters + errors @ best.sensitivity.T).clip(low, best.bounds[1])
    # If the law does not bend in a draw, its knee is beyond all counts.
    knees = [np.inf if (knee := best.law.knee(each)) is None else knee for each in parameters]
    ends = np.quantile(knees, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], method="nearest")
    if not n[0] <= ends[0] <= value <= ends[1] <= n[-1]:
        return None
    return Interval(value, float(ends[0]), float(ends[1]))


def _candidate(fitted: Fit, weight: float) -> FittedLaw:
    law = fitted.law
    names = [name for name, *_ in law.parameters]
    return FittedLaw(
        law=law.name,
        domain=law.domain,
        formula=law.formula,
        parameters=dict(zip(names, fitted.parameters.tolist(), strict=True)),
        aicc=fitted.aicc,
        weight=weight,
        r2=fitted.r2,
    )


def _words(law: Law) -> str:
    name = law.name.replace("_", " ")
    return name if law.domain is None else f"{name} ({law.domain})"


def _text(fits: Sequence[Fit], weights: Sequence[float]) -> str:
    """Return which law fits, its Akaike weight, and which others fit as well, in words."""
    best = fits[0]
    like = [_words(each.law) for each in fits[1:] if each.aicc - best.aicc < INDISTINGUISHABLE]
    text = f"{_words(best.law)}, Akaike weight {weights[0]:.2f}"
    return f"{text}; {' and '.join(like)} fit as well" if like else text


def read_law(study_folder: Path, machine: str, launch: str) -> ChosenLaw | None:
    """Return a launch's scaling law; None where it has no knee, or nothing was analysed.

    Args:
        study_folder: results/<study>, or a machine's.
        machine: hash.
        launch: id.
    """
    path = study_folder / "analysis/scaling.json"
    scaling = read_file(path, Machines[Scaling]).of(machine) if path.exists() else None
    laws = (entry.laws for entry in (scaling.launches if scaling else ()) if entry.launch == launch)
    return next((law for law in laws if law.knee), None)


def coinciding(
    law: ChosenLaw, points: pd.DataFrame, machine: Machine, cpus_per_process: float | None = None
) -> Boundary | None:
    """Return the only boundary in a sharp knee's interval, if the interval is close around it.

    Args:
        law: scaling law of a launch on a machine.
        points: rows of tables/points for this launch and machine.
        machine: machine.json.
        cpus_per_process: CPUs that a member needs; without it a launch whose members keep more
            than one CPU busy is compared with no boundary.
    """
    if cpus_per_process is None:
        first = points.sort_values("n").iloc[0]
        if not first["cpu_use"] / first["n"] <= ONE_CPU:
            return None
        cpus_per_process = 1.0
    low, high = (law.knee.low, law.knee.high) if law.knee else (None, None)
    if law.best not in SHARP or low is None or high is None:
        return None
    quota = machine.quota_cpus
    limits: dict[float, str] = {
        n: ", ".join(names)
        for n, names in boundaries(machine.usable, None).items()
        if quota is None or n < quota
    }
    if quota is not None:
        limits[quota] = "CPU quota"
    inside = [
        Boundary(name, n / cpus_per_process)
        for n, name in limits.items()
        if n > cpus_per_process and low <= n / cpus_per_process <= high
    ]
    if len(inside) != 1 or low * CLOSE < inside[0].n or high > inside[0].n * CLOSE:
        return None
    return inside[0]
