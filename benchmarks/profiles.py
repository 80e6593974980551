"""What profiling costs: the profiled member, the members beside it, and the study's time.

Profiles the quick study's baseline (one thread per process) in fresh cohorts and prints, as JSON:
the step time of a member while py-spy samples it at the default rate, by its step time in the
windows around; the step time of members beside one under torch's profiler, by theirs, and how much
windows without any profiler differ among themselves; and the seconds that a point adds with the
default number of samples. Usage:

    python benchmarks/profiles.py [--cohorts 3]
"""

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from one_cohort import ROOT

from scaling_study.config.config import load_config
from scaling_study.config.config_file import read_config
from scaling_study.config.plan import make_plan
from scaling_study.profiling import profile_launch
from scaling_study.runner import measure

SAMPLES = 45
"""Enough to see what sampling costs; a profile of the default number takes two minutes."""


def profile(folder: Path, **settings: object) -> tuple[list[dict[str, Any]], float]:
    """Profile the baseline; return its points and the seconds that took."""
    mapping: Any = read_config(ROOT / "config/quick.yaml")
    mapping["profile"] = settings
    plan = make_plan(load_config(mapping))
    job = measure.Job(plan, plan.by_id[plan.baseline], 0)
    output = folder / str(time.monotonic_ns())
    began = time.perf_counter()
    profile_launch.profile_launch(job, plan.baseline, output, folder)
    took_s = time.perf_counter() - began
    content = json.loads((output / "profile.json").read_text())
    if content["status"] != "complete":
        sys.exit(f"{content['status']}: {content['reason']}")
    return content["points"], took_s


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, default=3)
    cohorts = parser.parse_args().cohorts
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    os.chdir(ROOT)
    spied, beside, spread = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        points, took_s = profile(folder)
        for _ in range(cohorts):
            # Long windows: the overhead is a few percent of a step time that drifts by as much.
            (point,), _ = profile(
                folder, processes=[1], operators=False, samples=SAMPLES, unprofiled_s=8.0
            )
            spied.append(point["kinds"][0]["overhead"])
            (point,), _ = profile(
                folder, processes=[2], stacks=False, calls=False, steps=50, unprofiled_s=8.0
            )
            beside.append(point["kinds"][0]["others_overhead"])
            first, second = point["unprofiled_windows"]
            spread.append(abs(second / first - 1))
    print(
        json.dumps(
            {
                "py_spy_overhead": statistics.median(spied) - 1,
                "py_spy_overheads": [overhead - 1 for overhead in spied],
                "others_overhead": statistics.median(beside) - 1,
                "others_overheads": [overhead - 1 for overhead in beside],
                "unprofiled_spread": max(spread),
                "point_s": took_s / len(points),
            }
        )
    )


if __name__ == "__main__":
    main()
