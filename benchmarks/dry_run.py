"""Time of a dry run of 10,000 launches: ``python benchmarks/dry_run.py``."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
LAUNCHES = 10_000


def main() -> None:
    """Plan 10,000 launches by a grid, dry-run them, and print the wall time as JSON."""
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
        done = subprocess.run(
            [*snakemake, "--configfile", str(path)], cwd=ROOT, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        wall_s = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    print(json.dumps({"launches": LAUNCHES, "wall_s": wall_s}))


if __name__ == "__main__":
    main()
