"""Scaling laws: candidates for throughput against process count, chosen by AICc.

Every candidate is fitted to the logarithm of throughput (a percentage is the same error at every n)
by bounded least squares, and judged by Akaike's information criterion with the small-sample
correction (Burnham and Anderson, Model Selection and Multimodel Inference, 2002, ch. 2.4), which
counts the error's variance as a parameter. A law whose correction is not defined is not fitted, and
no law is chosen where fewer than two could be. A fitted law says nothing outside the process counts
that were measured: its curve ends there, and a knee outside them is not reported.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from scaling_study.common.stats import Floats, Integers

FEWEST_COUNTS = 4  # three points fit any saturating curve
RESOLUTION = 1e-4  # relative: no fit is better than step times are read and averaged
INDISTINGUISHABLE = 2.0  # AICc difference below which a law has support like the best's (ib. 2.6)
REFINED_STARTS = 2  # the best start, and one more in case it leads to a local optimum
CURVE_POINTS = 60  # enough for a smooth line across a figure
SHARPEST_BEND = 50.0  # at its knee the smoothed law is then within 1.4% of the hard one


@dataclasses.dataclass(frozen=True, slots=True)
class Law:
    """One candidate.

    Attributes:
        name: As in scaling.json.
        formula: As in the report; X in steps/s.
        parameters: Name of each, with its lower and upper bound.
        throughput: Steps/s at process counts under parameters.
        starts: Parameters to start fitting from, given counts and throughputs.
        knee: Process count at which the law bends under parameters, or None.
        domain: What saturates, if it is a part of the machine.
    """

    name: str
    formula: str
    parameters: tuple[tuple[str, float, float], ...]
    throughput: Callable[[Integers, Floats], Floats]
    starts: Callable[[Integers, Floats], Sequence[Sequence[float]]]
    knee: Callable[[Floats], float | None]
    domain: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """A law fitted to a launch's points."""

    law: Law
    parameters: Floats
    aicc: float
    r2: float


def _split_starts(n: Integers, x: Floats) -> list[tuple[float, float]]:
    """Rate and ceiling for every split of the counts into a rising and a flat part.

    min(g n, C) has a local optimum in each; these are their solutions.
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


DOMAIN_SATURATION = "domain_saturation"
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
        name="hard_saturation",
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
    """Saturation of each cache, node or socket by the members that are bound to it.

    Args:
        domain: Name of the kind of domain.
        occupancy: Counts from 1 times domains: members (or parts of them) in each domain.
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


def fit(law: Law, n: Integers, throughput: Floats) -> Fit:
    """Fit one law.

    Args:
        law: The candidate.
        n: Distinct process counts, ascending; at least three more than the law has parameters.
        throughput: Steps/s at each.
    """
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
    squares = max(2 * float(end.cost), len(n) * RESOLUTION**2)
    counted = len(law.parameters) + 1
    aicc = (
        len(n) * np.log(squares / len(n))
        + 2 * counted
        + 2 * counted * (counted + 1) / (len(n) - counted - 1)
    )
    total = float(((logs - logs.mean()) ** 2).sum())
    return Fit(law, end.x, float(aicc), 1 - 2 * float(end.cost) / total if total else np.nan)


def fewest_counts(law: Law) -> int:
    """Process counts below which a law's AICc is not defined."""
    return len(law.parameters) + 3


def choose(n: Integers, throughput: Floats, further: Sequence[Law] = ()) -> dict[str, Any]:
    """Fit all candidates to a launch's points and choose one.

    Args:
        n: Distinct process counts, ascending.
        throughput: Steps/s at each.
        further: Candidates of this launch besides `LAWS`.

    Returns:
        As scaling.json holds it: status, reason, best, text, candidates (fitted, best first),
        not_fitted, knee, curve.
    """
    laws = (*LAWS, *further)
    fitted = [law for law in laws if len(n) >= fewest_counts(law)]
    not_fitted = [
        {"law": law.name, "reason": f"needs {fewest_counts(law)} process counts"}
        for law in laws
        if law not in fitted
    ]
    if len(n) < FEWEST_COUNTS or len(fitted) < 2:  # noqa: PLR2004 - a choice needs two
        needed = max(FEWEST_COUNTS, sorted(map(fewest_counts, laws))[1])
        return {
            "status": "refused",
            "reason": f"process counts measured: {len(n)}; a choice needs {needed}",
            "best": None,
            "text": None,
            "candidates": [],
            "not_fitted": not_fitted,
            "knee": None,
            "curve": [],
        }
    fits = sorted((fit(law, n, throughput) for law in fitted), key=lambda each: each.aicc)
    best = fits[0]
    support = np.exp([(best.aicc - each.aicc) / 2 for each in fits])
    weights = (support / support.sum()).tolist()
    knee = best.law.knee(best.parameters)
    return {
        "status": "fitted",
        "reason": None,
        "best": best.law.name,
        "text": _text(fits, weights),
        "candidates": [_candidate(*each) for each in zip(fits, weights, strict=True)],
        "not_fitted": not_fitted,
        "knee": knee if knee is not None and n[0] <= knee <= n[-1] else None,
        "curve": _curve(best, n),
    }


def _candidate(fitted: Fit, weight: float) -> dict[str, Any]:
    names = [name for name, *_ in fitted.law.parameters]
    return {
        "law": fitted.law.name,
        "domain": fitted.law.domain,
        "formula": fitted.law.formula,
        "parameters": dict(zip(names, fitted.parameters.tolist(), strict=True)),
        "aicc": fitted.aicc,
        "weight": weight,
        "r2": None if np.isnan(fitted.r2) else fitted.r2,
    }


def _curve(best: Fit, n: Integers) -> list[dict[str, float]]:
    """The chosen law at whole process counts from the first to the last measured."""
    counts = np.unique(np.rint(np.geomspace(n[0], n[-1], CURVE_POINTS)).astype(np.int64))
    rates = best.law.throughput(counts, best.parameters)
    return [
        {"n": count, "steps_per_s": rate}
        for count, rate in zip(counts.tolist(), rates.tolist(), strict=True)
    ]


def _words(law: Law) -> str:
    name = law.name.replace("_", " ")
    return name if law.domain is None else f"{name} ({law.domain})"


def _text(fits: Sequence[Fit], weights: Sequence[float]) -> str:
    """Which law, how surely, and which others do as well."""
    best = fits[0]
    like = [_words(each.law) for each in fits[1:] if each.aicc - best.aicc < INDISTINGUISHABLE]
    text = f"{_words(best.law)}, Akaike weight {weights[0]:.2f}"
    return f"{text}; {' and '.join(like)} fit as well" if like else text
