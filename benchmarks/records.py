"""Print time and peak memory of collecting, analysing and rendering a large made-up study.

The study has 200,000 records of a member in a window. Every stage is its own process, as in the
workflow, started from a parent that stays small: the kernel counts the memory that a process had
before exec into its peak.
"""

import argparse
import dataclasses
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEMBER_WINDOWS = 200_000
NS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
REPLICATES = 3
WINDOWS = 3
STEPS = 50  # a window of a second or more of 20 ms steps
STAGES = ("analyse", "render")
KIB = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What one stage took."""

    stage: str
    wall_s: float
    peak_bytes: int


def generate(study_folder: Path) -> None:
    """Write the made-up study."""
    sys.path.insert(0, str(ROOT / "tests"))
    synthetic = importlib.import_module("synthetic")
    count = -(-MEMBER_WINDOWS // (sum(NS) * REPLICATES * WINDOWS))
    roles = ("default", "baseline", "repeat")
    launches = [
        synthetic.Launch(
            {"intra_op": 1 if roles[index : index + 1] == ("repeat",) else max(index, 1)}
            if index
            else {},
            roles[index] if index < len(roles) else "grid",
            synthetic.hard_saturation(40.0 + index % 17, 600.0 + index),
        )
        for index in range(count)
    ]
    synthetic.write_study(
        study_folder,
        launches=launches,
        ns=NS,
        replicates=REPLICATES,
        windows=WINDOWS,
        steps=STEPS,
        machines=[synthetic.machine(cpus=48)],
    )


def run(stage: str, command: list[str]) -> Cost:
    """Run one stage and wait for it."""
    started_s = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{stage} failed: {' '.join(command)}")
    return Cost(stage, time.perf_counter() - started_s, usage.ru_maxrss * KIB)


def main() -> None:
    """Generate, run every stage, print what each took and the sum as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--generate", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.generate:
        generate(arguments.generate)
        return
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "results" / "synthetic"
        run("generate", [sys.executable, __file__, "--generate", str(study)])
        costs = []
        for stage in STAGES:
            command = [sys.executable, "-m", "scaling_study", stage, "--study-folder", str(study)]
            if stage == "render":
                command += ["--report", str(Path(folder) / "report.html")]
            costs.append(run(stage, command))
    for cost in costs:
        print(
            f"{cost.stage:8} {cost.wall_s:6.1f} s {cost.peak_bytes / 2**20:7.0f} MiB",
            file=sys.stderr,
        )
    wall_s = sum(cost.wall_s for cost in costs)
    peak_bytes = max(cost.peak_bytes for cost in costs)
    print(json.dumps({"records": MEMBER_WINDOWS, "wall_s": wall_s, "peak_bytes": peak_bytes}))


if __name__ == "__main__":
    main()
