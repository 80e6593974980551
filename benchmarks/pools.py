"""Steps/s of programs that train in processes of their own: what a study says, what they count.

Each program (tests/workloads/pool.py: joblib, executors that fork and spawn, torch.multiprocessing,
Dask) writes when each of its steps ends, while a study measures a window of the same run. So both
count the same seconds of the same machine. A study counts the steps that begin in a window, a
program those that end in it: a pause of 0.2 s across an edge, as Dask's workers make one now and
then, is 3% of a window of 6 s. The worst of the rounds is printed. Usage:

    python benchmarks/pools.py [--rounds 3] [--how joblib fork ...] [--processes 1 2]
"""

import argparse
import array
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.runner import counter_snapshots, jobs, measure

SCRIPT = Path(__file__).parents[1] / "tests/workloads/pool.py"
KINDS = ("joblib", "fork", "spawn", "torch", "dask")
STEPS, MODELS = 2000, 40
read = counter_snapshots.read


def studied(how: str, n: int, replicate: int) -> tuple[float, float]:
    """Measure one window; return its steps/s, and those that the program counted in this window."""
    opened_ns: list[int] = []

    def noted(*args: Any) -> counter_snapshots.CounterSnapshot:
        edge = read(*args)
        opened_ns.append(edge.wall_ns)
        return edge

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(counter_snapshots, "read", noted),
    ):
        own = Path(folder, "own")
        own.mkdir()
        args = ["--how", how, "--jobs", "{n}", "--steps", str(STEPS), "--models", str(MODELS)]
        mapping = {
            "study": "pools",
            "workload": {
                "script": str(SCRIPT),
                "step": "optimizer",
                "args": [*args, "--ends", str(own)],
            },
            "processes": [n],
            "launches": {"baseline": {"intra_op": 1}},
            "measure": {"windows": 1, "window_s": [6.0, 10.0]},
        }
        plan = make_plan(load_config(mapping))
        job = jobs.Job(plan, plan.by_id[plan.baseline], replicate)
        path = Path(folder, "measure/it/0.jsonl")
        path.parent.mkdir(parents=True)
        windows: list[dict[str, Any]] = []
        while not windows:  # what was lost to other programs is measured by the next run
            measure.Measurement(job, path, Path(folder, "builds")).run()
            records = [json.loads(line) for line in path.read_text().splitlines()]
            windows = [one for one in records if one["kind"] == "window" and one["valid"]]
        window = windows[0]
        # No window holds when it was: it lies between the two edges that are so far apart.
        start_ns, end_ns = next(
            (start, end)
            for start, end in itertools.combinations(opened_ns, 2)
            if (end - start) / 1e9 == window["window_s"]
        )
        counted = 0
        for written in own.iterdir():
            ends = array.array("q", written.read_bytes())
            counted += sum(start_ns < end <= end_ns for end in ends)
    said = sum(1e6 * one["steps"] / sum(one["step_us"]) for one in window["members"])
    return float(said), counted / window["window_s"]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--how", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    for how in options.how:
        for n in options.processes:
            pairs = [studied(how, n, turn) for turn in range(options.rounds)]
            said, counted = max(pairs, key=lambda pair: abs(pair[0] / pair[1] - 1))
            rates = f"study {said:8.1f} steps/s, program {counted:8.1f}, {said / counted - 1:+.1%}"
            print(f"{how:8} n = {n}: {rates}", flush=True)


if __name__ == "__main__":
    main()
