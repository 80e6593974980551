"""Windows from one cohort: how much of its time they are, and what launching each point costs.

Runs the baseline of config/tsmixerx.yaml at full size, and against it, in turn, a shell loop that
starts n processes of the same script for every window: with the same warm-up, for as many steps as
the window had. Prints the part of the cohort's time inside windows, start skew, overlap, and
windows per minute of both. With --isolated it also measures fresh cohorts per point, and compares
step times. Usage:

    python benchmarks/one_cohort.py [--isolated]
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scipy import stats

from scaling_study.config.config import load_config
from scaling_study.config.config_file import read_config
from scaling_study.config.plan import make_plan
from scaling_study.runner import measure

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "config/tsmixerx.yaml"
TIMING = {"windows": 12, "longest_s": 8.0}
"""As a grid of full size has them."""

# One window as a person takes it: start n processes of enough steps, wait for them all.
LOOP = """
for member in $(seq 0 $(($1 - 1))); do
  OMP_NUM_THREADS=1 "$2" "$3" --seed "$member" --steps "$4" > /dev/null 2>&1 &
done
wait
"""


def job(replicate: int, **settings: object) -> measure.Job:
    """Return a job of the full-size baseline, with some settings of its own."""
    config: Any = read_config(CONFIG)
    config["measure"] = {**config.get("measure", {}), **TIMING, **settings}
    plan = make_plan(load_config(config))
    return measure.Job(plan, plan.by_id[plan.baseline], replicate)


def run(one: measure.Job, folder: Path) -> list[dict[str, Any]]:
    """Measure a job and return its records."""
    output = folder / f"{time.monotonic_ns()}.jsonl"
    measure.Measurement(one, output, folder).run()
    return [json.loads(line) for line in output.read_text().splitlines()]


def step_ms(record: dict[str, Any]) -> float:
    """Return a window's mean step time over its members."""
    means = [statistics.fmean(member["step_us"]) for member in record["members"]]
    return statistics.fmean(means) / 1e3


def shell_loop_s(windows: list[dict[str, Any]], warm_up: int) -> float:
    """Take the same windows by a shell loop; return the wall time."""
    script = ROOT / "scripts/workloads/tsmixerx.py"
    began = time.perf_counter()
    for window in windows:
        steps = warm_up + max(member["steps_active"] for member in window["members"])
        command = ["bash", "-c", LOOP, "loop", str(window["n"]), sys.executable, str(script)]
        subprocess.run([*command, str(steps)], check=True)
    return time.perf_counter() - began


def interval(values: list[float]) -> tuple[float, float]:
    """Return a 95% t interval of the mean."""
    mean = statistics.fmean(values)
    half = float(stats.t.ppf(0.975, len(values) - 1)) * stats.sem(values)
    return mean - half, mean + half


def cohort_figures(folder: Path) -> dict[str, Any]:
    """Measure one full-size cohort, and the shell loop beside it."""
    one = job(0)
    records = run(one, folder)
    windows = [record for record in records if record["kind"] == "window"]
    end = records[-1]
    cpus = len(os.sched_getaffinity(0))
    skews = sorted(record["start_skew_s"] for record in windows if record["n"] <= cpus)
    # A third of the windows, every n alike, is enough to know what a launch for each costs.
    sample = windows[: len(records[0]["process_counts"]) * 2]
    loop_s = shell_loop_s(sample, one.plan.measure.warmup_steps)
    per_minute = {"cohort": 60 * len(windows) / end["wall_s"], "loop": 60 * len(sample) / loop_s}
    return {
        "windows": len(windows),
        "valid": sum(record["valid"] for record in windows),
        "inside_windows": end["in_windows_s"] / end["wall_s"],
        "start_skew_p99_ms": 1e3 * stats.scoreatpercentile(skews, 99),
        "overlap_least": min(record["overlap"] for record in windows),
        "windows_per_minute": per_minute,
        "times_the_shell_loop": per_minute["cohort"] / per_minute["loop"],
    }


def isolated_figures(folder: Path, replicates: int = 3) -> dict[str, Any]:
    """Compare step times of one cohort's windows with those of fresh cohorts for each point."""
    found: dict[bool, dict[int, list[float]]] = {False: {}, True: {}}
    for replicate in range(replicates):
        for isolated in (False, True) if replicate % 2 else (True, False):
            records = run(job(replicate, isolated=isolated, windows=3), folder)
            counts: dict[int, list[float]] = {}
            for record in records:
                if record["kind"] == "window" and record["valid"]:
                    counts.setdefault(record["n"], []).append(step_ms(record))
            for n, values in counts.items():
                found[isolated].setdefault(n, []).append(statistics.fmean(values))
    rows: dict[str, Any] = {}
    for n in sorted(found[False]):
        shared, alone = interval(found[False][n]), interval(found[True][n])
        agree = bool(shared[0] <= alone[1] and alone[0] <= shared[1])
        rows[str(n)] = {"shared_ms": shared, "isolated_ms": alone, "agree": agree}
    return rows


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isolated", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = isolated_figures(folder) if options.isolated else cohort_figures(folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
