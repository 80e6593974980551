"""Measure one launch and replicate of a study; the rule ``measure`` runs this."""

import argparse
import json
import logging
import signal
import sys
from pathlib import Path
from types import FrameType

from scaling_study import measure


def stop(signum: int, _frame: FrameType | None) -> None:
    """End members and remove the private folder on the way out, then exit."""
    sys.exit(128 + signum)


def place(output: Path) -> str:
    """Say which of the study's cohorts this is, as far as its folder tells."""
    done = len(list(output.parent.parent.glob("*/*.jsonl")))
    plan = output.parents[2] / "plan.json"
    if not plan.exists():
        return f"cohort {done + 1}"
    planned = json.loads(plan.read_text())
    return f"cohort {done + 1} of {len(planned['launches']) * planned['replicates']}"


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what to measure, as JSON")
    parser.add_argument("--replicate", type=int, required=True)
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    measure.raise_descriptor_limit()
    job = measure.read_job(options.job, options.replicate)
    logging.basicConfig(
        level=logging.INFO,
        format=f"{place(options.output)} ({job.launch['label']}): %(message)s",
        handlers=[logging.FileHandler(options.log, mode="w"), logging.StreamHandler()],
    )
    measure.Measurement(job, options.output, options.builds).run()


if __name__ == "__main__":
    main()
