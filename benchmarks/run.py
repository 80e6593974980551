"""Measure every figure that the project promises, on this machine, and print them in one table.

    python benchmarks/run.py [--only attached one_cohort ...]

Each figure is a ratio or a time of its own run; nothing else should run meanwhile.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from figures import figure

ROOT = Path(__file__).parent.parent
SCRIPTS = ("large_study", "attached", "one_cohort", "coordinator")


def dry_run() -> None:
    """Plan 10,000 launches by a grid, and dry-run them."""
    config = {
        "study": "dry-run",
        "workload": {"script": "scripts/workloads/tsmixerx.py"},
        "processes": [1],
        # 100 x 100, of which one is the baseline; the default launch and the repeat come besides.
        "launches": {
            "baseline": {"intra_op": 1, "inter_op": 1},
            "grid": {"intra_op": list(range(1, 101)), "inter_op": list(range(1, 101))},
            "exclude": [{"intra_op": 100, "inter_op": count} for count in (99, 100)],
        },
        "measure": {"replicates": 1},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        snakemake = [sys.executable, "-m", "snakemake", "--cores", "192", "--dry-run"]
        began = time.perf_counter()
        command = [*snakemake, "--configfile", str(path)]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        wall_s = time.perf_counter() - began
    figure("dry run of 10,000 launches", "at most 12 s", f"{wall_s:.1f} s", met=wall_s <= 12)


def main() -> None:
    """Run the benchmarks, each of which prints its figures when they are known."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = ("dry_run", *SCRIPTS)
    parser.add_argument("--only", nargs="+", choices=known, default=list(known))
    for name in parser.parse_args().only:
        if name == "dry_run":
            dry_run()
        else:
            command = [sys.executable, str(ROOT / f"benchmarks/{name}.py")]
            env = {**os.environ, "PYTHONPATH": "tests/launchers"}  # the coordinator's members fork
            subprocess.run(command, cwd=ROOT, env=env, check=True)


if __name__ == "__main__":
    main()
