"""Time and peak memory of analysing and rendering a large made-up study.

The study has 200,000 records of a member in a window. Every stage is its own process, as in the
workflow, started from a parent that stays small: the kernel counts the memory that a process had
before exec into its peak.
"""

import dataclasses
import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import figure

ROOT = Path(__file__).resolve().parent.parent
MEMBER_WINDOWS = 200_000
NS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
REPLICATES, WINDOWS = 3, 3
STEPS = 50  # a window of a second or more of 20 ms steps


def generate(study_folder: Path) -> None:
    """Write the made-up study."""
    sys.path.insert(0, str(ROOT / "tests/support"))
    synthetic = importlib.import_module("synthetic")
    count = -(-MEMBER_WINDOWS // (sum(NS) * REPLICATES * WINDOWS))
    roles = {0: "default", 1: "baseline"}
    launches = [
        synthetic.Launch(
            {"intra_op": index} if index else {},
            roles.get(index, "grid"),
            synthetic.hard_saturation(40.0 + index % 17, 600.0 + index),
        )
        for index in range(count - 1)
    ]
    launches.append(dataclasses.replace(launches[1], role="repeat"))
    synthetic.write_study(
        study_folder,
        launches=launches,
        ns=NS,
        replicates=REPLICATES,
        windows=WINDOWS,
        steps=STEPS,
        machines=[synthetic.machine(cpus=48)],
    )


def run(*words: str) -> tuple[float, int]:
    """Run a command to its end; return its wall time (s) and peak memory (bytes)."""
    started_s = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(words)}")
    return time.perf_counter() - started_s, usage.ru_maxrss * 1024


def main() -> None:
    """Generate, run both stages, print what they took."""
    if len(sys.argv) > 1:
        generate(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        study = f"{folder}/results/synthetic"
        run(__file__, study)
        stage = ("-m", "scaling_study")
        analysed = run(*stage, "analyse", "--study-folder", study)
        report = ("--report", f"{folder}/report.html")
        rendered = run(*stage, "render", "--study-folder", study, *report)
    wall_s, peak = analysed[0] + rendered[0], max(analysed[1], rendered[1]) / 2**30
    text = f"{wall_s:.1f} s, {peak:.2f} GiB"
    met = wall_s <= 15 and peak <= 0.6
    figure("analyse and render 200,000 records", "at most 15 s, 0.6 GiB", text, met=met)


if __name__ == "__main__":
    main()
