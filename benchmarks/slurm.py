"""Overhead of a SLURM study against the same study run locally on the same node.

Starts a SLURM on this machine (as root; see tests/slurm), and runs one small study twice in one
go: directly, and through profiles/slurm. Usage:

    python benchmarks/slurm.py [--windows 8] [--replicates 2]
"""

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import figure

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/slurm")]

cluster = importlib.import_module("cluster")
slurm_study = importlib.import_module("slurm_study")


def run(study: Any, *options: str) -> tuple[float, float]:
    """Run a study; return its wall time (s), and that without the time that its cohorts lived.

    The same cohorts take a little longer or shorter each time; that is not SLURM's.
    """
    began = time.perf_counter()
    command = study.command(*options)
    subprocess.run(
        command, cwd=study.folder, env=study.environment(), stdout=sys.stderr, check=True
    )
    wall_s = time.perf_counter() - began
    paths = study.records(slurm_study.NAME)
    cohorts_s = sum(slurm_study.records(study.folder / path)[-1]["wall_s"] for path in paths)
    return wall_s, wall_s - cohorts_s


def main() -> None:
    """Run both, and print what SLURM added."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=8, help="for each process count")
    parser.add_argument("--replicates", type=int, default=2, help="an allocation for each")
    options = parser.parse_args()
    config = slurm_study.config()
    config["measure"] |= {"windows": options.windows, "replicates": options.replicates}
    config["measure"] |= {"window_s": [2.0, 2.0]}
    profile = (*slurm_study.OPTIONS, *slurm_study.ONE_MACHINE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            with cluster.cluster(folder / "cluster") as slurm:
                studies = [slurm_study.Study(folder / kind, slurm) for kind in ("local", "slurm")]
                for study in studies:
                    study.configure(config)
                _, locally_s = run(studies[0])
                wall_s, through_slurm_s = run(studies[1], *profile)
                allocations = len(studies[1].jobs())
        except cluster.NoClusterError as error:
            sys.exit(f"benchmarks/slurm.py: {error}")
    added_s = through_slurm_s - locally_s
    each_s, share = added_s / allocations, added_s / wall_s
    what = f"SLURM adds to {wall_s:.0f} s, {allocations} allocations"
    text = f"{each_s:.1f} s for each, {share:.1%}"
    figure(what, "at most 10 s for each, 10%", text, met=each_s <= 10 and share <= 0.1)


if __name__ == "__main__":
    main()
