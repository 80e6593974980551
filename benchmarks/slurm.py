"""Overhead of a SLURM study against the same study run locally on the same node.

Starts a SLURM on this machine (as root; see tests/slurm), and runs one small study twice in one
go: by itself, and through profiles/slurm. Prints what both took as JSON, and a table to standard
error. Usage:

    python benchmarks/slurm.py [--windows 8] [--replicates 2]
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/slurm")]

cluster = importlib.import_module("cluster")
slurm_study = importlib.import_module("slurm_study")


def config(windows: int, replicates: int) -> dict[str, Any]:
    """Return a study of one allocation for each replicate, and windows of two seconds."""
    found: dict[str, Any] = slurm_study.config()
    found["measure"] |= {"windows": windows, "replicates": replicates}
    found["measure"] |= {"shortest_s": 2.0, "longest_s": 2.0}
    return found


def wall_s(command: list[str], study: Any) -> float:
    """Run a study's command and return how long it took."""
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=study.folder, env=study.environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return time.perf_counter() - began


def measured_s(study: Any) -> float:
    """Return how long a study's cohorts lived: what SLURM cannot shorten or lengthen."""
    ends = [
        slurm_study.records(study.folder / path)[-1] for path in study.records(slurm_study.NAME)
    ]
    return float(sum(end["wall_s"] for end in ends))


def figures(folder: Path, windows: int, replicates: int) -> dict[str, Any]:
    """Run both and compare."""
    with cluster.cluster(folder / "cluster") as slurm:
        found: dict[str, dict[str, float]] = {}
        for name, options in (
            ("local", ()),
            ("slurm", (*slurm_study.OPTIONS, *slurm_study.ONE_MACHINE)),
        ):
            study = slurm_study.Study(folder / name, slurm)
            study.configure(config(windows, replicates))
            wall = wall_s(study.command(*options), study)
            found[name] = {
                "wall_s": wall,
                "cohorts_s": measured_s(study),
                "allocations": len(study.jobs()),
            }
    # The same cohorts take a little longer or shorter each time; that is not SLURM's.
    beside = {name: one["wall_s"] - one["cohorts_s"] for name, one in found.items()}
    overhead_s = beside["slurm"] - beside["local"]
    allocations = found["slurm"]["allocations"]
    return {
        **found,
        "overhead_s": overhead_s,
        "per_allocation_s": overhead_s / allocations,
        "of_the_whole": overhead_s / found["slurm"]["wall_s"],
    }


def table(found: dict[str, Any]) -> str:
    """Return the figures as people read them."""
    lines = [f"{'':10} {'whole':>9} {'cohorts':>9} {'allocations':>12}"]
    for name in ("local", "slurm"):
        one = found[name]
        lines.append(
            f"{name:10} {one['wall_s']:7.1f} s {one['cohorts_s']:7.1f} s {one['allocations']:12d}"
        )
    lines.append(
        f"SLURM adds {found['overhead_s']:.1f} s: {found['per_allocation_s']:.1f} s for each"
        f" allocation (at most 10), {found['of_the_whole']:.1%} of the whole (at most 10%)"
    )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, run both, and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=8, help="for each process count")
    parser.add_argument("--replicates", type=int, default=2, help="an allocation for each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = figures(Path(folder), options.windows, options.replicates)
        except cluster.NoClusterError as error:
            raise SystemExit(f"benchmarks/slurm.py: {error}") from None
    print(table(found), file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
