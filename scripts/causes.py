"""Gather a study's experiments into tables/experiments and judge them in analysis/causes.json."""

import argparse
import sys
from pathlib import Path

from scaling_study.collecting.record_schema import RecordError
from scaling_study.common import file_errors
from scaling_study.common.columns import EXPERIMENTS
from scaling_study.common.printable import printable_lines
from scaling_study.common.storage import write_json, write_table
from scaling_study.diagnosing.cause_file import gather
from scaling_study.measuring import journal


def main() -> int:
    """Parse the arguments, gather, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument(
        "--why", type=Path, nargs="*", default=[], help="files of experiments, all replicates"
    )
    parser.add_argument("--fingerprint", type=Path, help="fingerprint.json of the machine")
    arguments = parser.parse_args()
    try:
        experiments, content = gather(arguments.why, arguments.study_folder, arguments.fingerprint)
    except RecordError as error:
        print(printable_lines(f"causes: {error}"), file=sys.stderr)
        return 1
    write_table(arguments.study_folder / "tables", EXPERIMENTS, experiments)
    write_json(arguments.study_folder / "analysis" / "causes.json", content)
    journal.settle(arguments.why)
    targets = [target for entry in content["machines"] for target in entry["targets"]]
    print(f"gathered {len(experiments)} windows of experiments on {len(targets)} launches")
    for target in targets:
        named = [entry["title"] for side in ("growth", "level") for entry in target[side]["named"]]
        print(f"{target['target']}: {target['status']}{': ' if named else ''}{'; '.join(named)}")
    return 0


if __name__ == "__main__":
    with file_errors.told("causes", reads="why, tables and fingerprint.json"):
        sys.exit(main())
