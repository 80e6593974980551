"""Say what the data loader costs, from the windows of its variants; the rule ``feed_parts``."""

import argparse
import sys
from pathlib import Path

from scaling_study.collecting.feeds import read_run
from scaling_study.collecting.record_schema import RecordError
from scaling_study.common import file_errors
from scaling_study.common.printable import printable_lines
from scaling_study.common.storage import write_json
from scaling_study.diagnosing.feed import feed


def main() -> int:
    """Parse the arguments, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="feed/*.jsonl")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        runs = [read_run(path) for path in arguments.runs]
    except RecordError as error:
        print(printable_lines(f"feed: {error}"), file=sys.stderr)
        return 1
    machines = dict.fromkeys(run.head["machine_hash"] for run in runs)
    entries = [
        {"machine": machine, **feed([run for run in runs if run.head["machine_hash"] == machine])}
        for machine in machines
    ]
    write_json(arguments.output, {"schema_version": 1, "machines": entries})
    print(f"feed: {', '.join(one['status'] for one in entries)}")
    return 0


if __name__ == "__main__":
    with file_errors.told("feed", reads="feed"):
        sys.exit(main())
