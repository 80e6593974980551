"""Steps/s of programs that train in processes of their own: what a study says, what they count.

Each program (tests/workloads/pool.py: joblib, executors that fork and spawn, torch.multiprocessing,
Dask) runs by itself and in a study's windows, in turn. It counts its own steps, over the time that
each of its processes trains. Usage:

    python benchmarks/pools.py [--rounds 3] [--how joblib fork ...] [--processes 1 2]
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scaling_study.configuring.config import load_config
from scaling_study.measuring import measure
from scaling_study.planning.plan import make_plan

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests/workloads/pool.py"
KINDS = ("joblib", "fork", "spawn", "torch", "dask")
STEPS, MODELS = 2000, 4


def alone(how: str, n: int) -> float:
    """Run the program with one thread for each operator; return the steps/s that it prints."""
    done = subprocess.run(
        [sys.executable, SCRIPT, "--how", how, "--jobs", str(n), "--steps", str(STEPS),
         "--models", str(MODELS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout.split()[-2])


def studied(how: str, n: int, replicate: int) -> float:
    """Measure one window of the same launch; return its steps/s."""
    args = ["--how", how, "--jobs", "{n}", "--steps", str(STEPS), "--models", str(10 * MODELS)]
    mapping = {
        "study": "pools",
        "workload": {"script": str(SCRIPT), "pool": True, "args": args},
        "processes": [n],
        "launches": {"baseline": {"intra_op": 1}},
        # As long as the program counts: the clock of a shared machine wanders within seconds.
        "measure": {"windows": 1, "shortest_s": 8.0, "longest_s": 10.0},
    }
    plan = make_plan(load_config(mapping)).to_dict()
    launch = next(one for one in plan["launches"] if one["id"] == plan["baseline"])
    job = measure.read_job(measure.job_text(plan, launch), replicate)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "measure/it/0.jsonl")
        path.parent.mkdir(parents=True)
        measure.Measurement(job, path, Path(folder, "builds")).run()
        records = [json.loads(line) for line in path.read_text().splitlines()]
    window = next(one for one in records if one["kind"] == "window" and one["valid"])
    return float(sum(1e6 * one["steps"] / sum(one["step_us"]) for one in window["members"]))


def main() -> None:
    """Print a table, and the same as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--how", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    found = {}
    for how in options.how:
        for n in options.processes:
            pairs = [(studied(how, n, turn), alone(how, n)) for turn in range(options.rounds)]
            said, counted = (statistics.median(each) for each in zip(*pairs, strict=True))
            found[f"{how} {n}"] = said / counted
            print(
                f"{how:8} n = {n}: study {said:8.1f} steps/s, program {counted:8.1f},"
                f" {said / counted - 1:+.1%}", flush=True,
            )  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
