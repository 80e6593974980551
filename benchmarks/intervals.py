"""Coverage and width of the 95% intervals, on simulated machines whose truth is known.

A simulated machine has launches with four process counts each. The spread between starts of a
launch is 4%, times a factor that differs by launch (log-normal, 0.3). Deviations of two counts of a
launch are correlated, since a cohort measures both. Then one launch is changed: its spread is ten
times as large, or every start of it falls into one of two modes that are a factor of 5 apart.

Student's t from each point's own replicates is what the widths are compared with.

    python benchmarks/intervals.py --worlds 10000
"""

import argparse

import numpy as np
from scipy import stats as distributions

from scaling_study.common.doc_tables import write_table
from scaling_study.stats import variances
from scaling_study.stats.intervals import Floats
from scaling_study.stats.thresholds import CONFIDENCE
from scaling_study.stats.variances import QUANTILE

SPREAD, SCATTER, COUNTS = 0.04, 0.3, 4
TENFOLD, MODES = 10.0, 5.0


def simulate(
    launches: int, replicates: int, correlation: float, changed: str, worlds: int
) -> tuple[Floats, Floats, Floats]:
    """Draw machines and estimate every point.

    Args:
        launches: of a machine.
        replicates: of each launch.
        correlation: between two counts of a launch.
        changed: what the first launch is: ``alike``, ``tenfold`` or ``modes``.
        worlds: how many machines.

    Returns:
        By machine, launch and count: whether the interval holds the truth, half its width on the
        log scale, and half of Student's.
    """
    rng = np.random.default_rng(0)
    shape = worlds, launches, replicates
    shared = rng.standard_normal((*shape, 1))
    apart = rng.standard_normal((*shape, COUNTS))
    normals = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * apart
    spreads = SPREAD * np.exp(SCATTER * rng.standard_normal(shape[:2]))
    if changed == "tenfold":
        spreads[:, 0] = SPREAD * TENFOLD
    logs = spreads[..., None, None] * normals
    if changed == "modes":
        logs[:, 0] += rng.choice([-0.5, 0.5], (worlds, replicates, 1)) * np.log(MODES)
    found = [
        variances.deviations({str(launch): values for launch, values in enumerate(one)})
        for one in logs
    ]
    reach = QUANTILE * np.array([list(deviations.values()) for deviations, _ in found])
    quantile = distributions.t.ppf((1 + CONFIDENCE) / 2, replicates - 1)
    students = quantile * logs.std(axis=2, ddof=1) / np.sqrt(replicates)
    covered = (np.abs(logs.mean(axis=2)) <= reach).astype(np.float64)
    return covered, reach, students


def row(launches: int, replicates: int, correlation: float, changed: str, worlds: int) -> list[str]:
    """Return a row of the table; the arguments are those of ``simulate``."""
    covered, reach, students = simulate(launches, replicates, correlation, changed, worlds)
    texts = [
        f"{covered[:, part].mean():.1%}, "
        f"{np.median(reach[:, part]) / np.median(students[:, part]):.2f}"
        for part in (slice(1, None), slice(0, 1))
    ]
    widest = [f"{np.exp(np.quantile(each[:, 0], 0.99)):.3g}" for each in (reach, students)]
    return [f"{launches}", f"{replicates}", f"{correlation}", changed, *texts, ", ".join(widest)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=10_000)
    options = parser.parse_args()
    heads = (
        *("launches", "replicates", "correlation", "changed launch"),
        "ordinary launches: covered, width / Student's",
        "changed launch: covered, width / Student's",
        "changed launch, widest 1%: upper end / value, Student's",
    )
    rows = [
        row(launches, replicates, correlation, changed, options.worlds)
        for changed in ("alike", "tenfold", "modes")
        for launches, correlation in ((3, 0.5), (10, 0.5), (27, 0.5), (10, 0.9))
        for replicates in (2, 3)
    ]
    print(write_table(heads, rows))


if __name__ == "__main__":
    main()
