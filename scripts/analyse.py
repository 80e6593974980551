"""Analyse a study's tables into analysis/*.json."""

import argparse
import sys
from pathlib import Path

from scaling_study.analysing import pace, unequal_work
from scaling_study.analysing.analyse import analyse
from scaling_study.common import file_errors
from scaling_study.common.columns import POINTS, REPLICATES, WINDOWS
from scaling_study.common.storage import read_json, read_table, write_json


def main() -> int:
    """Parse the arguments, analyse, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--plan", type=Path, help="default: plan.json in the study's folder")
    arguments = parser.parse_args()
    folder = arguments.study_folder
    tables = folder / "tables"
    try:
        content = analyse(
            read_table(tables, POINTS),
            read_table(tables, REPLICATES),
            read_table(tables, WINDOWS)[list({*pace.COLUMNS, *unequal_work.COLUMNS})],
            read_json(tables / "cohorts.json"),
            read_json(arguments.plan or folder / "plan.json"),
        )
    except FileNotFoundError as error:
        print(f"analyse: {error.filename or error} is missing: collect first", file=sys.stderr)
        return 1
    for name, entry in content.items():
        write_json(folder / "analysis" / f"{name}.json", entry)
    print(f"wrote {', '.join(content)} to {folder / 'analysis'}")
    return 0


if __name__ == "__main__":
    with file_errors.told("analyse", reads="tables and plan.json"):
        sys.exit(main())
