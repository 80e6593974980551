"""Scaling laws: candidates for throughput against process count; ``law_choice`` fits them."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from scaling_study.stats.interval import Floats, Integers

SHARPEST_BEND = 50.0  # at its knee the smoothed law is then within 1.4% of the hard one


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
