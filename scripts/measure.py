"""Measure one launch and replicate of a study; the rule ``measure`` runs this."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from scaling_study.common import file_errors
from scaling_study.measuring import job_process, measure


def place(output: Path, plan: Path | None) -> str:
    """Say which of the study's cohorts this is, as far as its folder tells."""
    done = len(list(output.parent.parent.glob("*/*.jsonl")))
    try:
        planned: Any = json.loads(plan.read_text()) if plan else {"launches": [], "replicates": 0}
        cohorts = int(len(planned["launches"]) * planned["replicates"])
    except (OSError, ValueError, KeyError, TypeError):  # who needs the plan says what is wrong
        cohorts = 0
    return f"cohort {done + 1} of {cohorts}" if cohorts else f"cohort {done + 1}"


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what to measure, as JSON")
    parser.add_argument("--replicate", type=int, required=True)
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument(
        "--plan", type=Path, help="without it the cohorts of the study are not counted"
    )
    parser.add_argument("--probed", type=Path, nargs="?", help="machine.json of the named machine")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if (options.output.parent.parent / measure.STOPPED).exists():  # a cluster queues many at once
        sys.exit("the default launch's script ended before its first step, so nothing is measured")
    job = measure.read_job(options.job, options.replicate)
    title = f"{place(options.output, options.plan)} ({job.launch['label']})"
    with job_process.prepared(title, options.log, options.probed):
        measure.Measurement(job, options.output, options.builds).run()


if __name__ == "__main__":
    with file_errors.told("measure"):
        main()
