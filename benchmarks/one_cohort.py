"""Windows from one cohort: how much of its time they are, and how well members train together.

Runs the baseline of config/tsmixerx.yaml at full size, and prints the part of the cohort's time
inside windows, start skew and overlap.
"""

import json
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import figure
from scipy import stats

from scaling_study.config.config import load_config
from scaling_study.config.config_file import read_config
from scaling_study.config.plan import make_plan
from scaling_study.runner import jobs, measure

ROOT = Path(__file__).parent.parent
TIMING = {"windows": 12, "window_s": [1.5, 8.0]}
"""As a grid of full size has them."""


def main() -> None:
    """Measure one full-size cohort, and print its figures."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    os.chdir(ROOT)
    config: Any = read_config(ROOT / "config/tsmixerx.yaml")
    config["measure"] = {**config.get("measure", {}), **TIMING}
    plan = make_plan(load_config(config))
    job = jobs.Job(plan, plan.by_id[plan.baseline], 0)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "0.jsonl")
        measure.Measurement(job, output, Path(folder)).run()
        records = [json.loads(line) for line in output.read_text().splitlines()]
    windows = [record for record in records if record["kind"] == "window"]
    share = records[-1]["in_windows_s"] / records[-1]["wall_s"]
    figure("full-size cohort inside windows", "at least 80%", f"{share:.1%}", met=share >= 0.8)
    cpus = len(os.sched_getaffinity(0))
    skews = [record["start_skew_s"] for record in windows if record["n"] <= cpus]
    skew_ms = 1e3 * float(stats.scoreatpercentile(skews, 99))
    figure("start skew, p99", "at most 2 ms", f"{skew_ms:.3f} ms", met=skew_ms <= 2)
    overlap = min(record["overlap"] for record in windows)
    figure("least overlap", "at least 99%", f"{overlap:.2%}", met=overlap >= 0.99)


if __name__ == "__main__":
    main()
