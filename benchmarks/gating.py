"""Short gated windows against long free runs: does starting members together change their steps?

Members of a window start at one instant. If that alone made them faster or slower than members that
have trained beside each other for a minute, every window would be wrong. This takes short windows
and one long one of the default launch of the quick study, which is the most sensitive one known
(its threads wait for each other by spinning), from fresh cohorts in turn. Usage:

    python benchmarks/gating.py [--cohorts 2] [--long-s 60]
"""

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from one_cohort import ROOT, run, step_ms

from scaling_study.config.config import load_config
from scaling_study.config.config_file import read_config
from scaling_study.config.plan import make_plan
from scaling_study.runner import measure


def job(replicate: int, **settings: object) -> measure.Job:
    """Return a job of the quick study's default launch, at its largest count alone."""
    config: Any = read_config(ROOT / "config/quick.yaml")
    config["measure"] = {**config.get("measure", {}), **settings}
    config["processes"] = [max(config["processes"])]
    plan = make_plan(load_config(config))
    return measure.Job(plan, plan.by_id[plan.default], replicate)


def per_second(window: dict[str, Any]) -> list[float]:
    """Return steps per second of all members together, for each whole second of a window."""
    counts: dict[int, int] = {}
    ends = []
    for member in window["members"]:
        at_us = 0
        for step_us in member["step_us"]:
            at_us += step_us
            counts[at_us // 1_000_000] = counts.get(at_us // 1_000_000, 0) + 1
        ends.append(at_us // 1_000_000)
    return [float(counts.get(second, 0)) for second in range(min(ends))]


def main() -> None:
    """Print steps/s of both kinds as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, default=2)
    parser.add_argument("--long-s", type=float, default=60.0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    os.chdir(ROOT)
    long_s = options.long_s
    kinds: dict[str, dict[str, object]] = {
        "gated": {"windows": round(long_s / 3.5)},
        "free": {"windows": 1, "steps": 1, "shortest_s": long_s, "longest_s": long_s},
    }
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        for replicate in range(options.cohorts):
            for kind, settings in kinds.items():
                records = run(job(replicate, **settings), Path(name))
                windows = [record for record in records if record["kind"] == "window"]
                rates = [rate for window in windows for rate in per_second(window)]
                found[kind].append(
                    {
                        "mean_step_ms": statistics.fmean(map(step_ms, windows)),
                        "steps_per_s": statistics.fmean(rates),
                        "rates": rates,
                    }
                )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
