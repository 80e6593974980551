"""Collect a study's record files into tables/."""

import argparse
import sys
from pathlib import Path

from scaling_study.collecting.collect import collect
from scaling_study.collecting.record_schema import RecordError
from scaling_study.common import file_errors
from scaling_study.common.columns import BETWEEN, POINTS, REPLICATES, WINDOWS
from scaling_study.common.printable import printable_lines
from scaling_study.common.storage import read_json, write_json, write_table
from scaling_study.measuring import journal


def main() -> int:
    """Parse the arguments, collect, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--plan", type=Path, help="default: plan.json in the study's folder")
    arguments = parser.parse_args()
    try:
        collected = collect(
            arguments.study_folder,
            read_json(arguments.plan or arguments.study_folder / "plan.json"),
        )
    except RecordError as error:
        print(printable_lines(f"collect: {error}"), file=sys.stderr)
        return 1
    folder = arguments.study_folder / "tables"
    write_table(folder, WINDOWS, collected.windows)
    write_table(folder, REPLICATES, collected.replicates)
    write_table(folder, BETWEEN, collected.between)
    write_table(folder, POINTS, collected.points)
    write_json(folder / "cohorts.json", collected.cohorts)
    files = {cohort["file"] for cohort in collected.cohorts["cohorts"]}
    journal.settle(arguments.study_folder / file for file in files)
    print(
        f"collected {len(collected.cohorts['cohorts'])} cohorts, {len(collected.windows)} rows of "
        f"windows, {len(collected.points)} points into {folder}",
    )
    return 0


if __name__ == "__main__":
    with file_errors.told("collect", reads="plan.json"):
        sys.exit(main())
