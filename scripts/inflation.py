"""Gather a study's profiles into tables/operators and compare them in analysis/inflation.json."""

import argparse
import sys
from pathlib import Path

from scaling_study.analysing.inflation import compare_all
from scaling_study.common import file_errors
from scaling_study.common.columns import OPERATORS
from scaling_study.common.printable import printable_lines
from scaling_study.common.storage import write_json, write_table
from scaling_study.profiling.profiles import ProfileError, read_profiles


def main() -> int:
    """Parse the arguments, gather, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument(
        "--profiles", type=Path, nargs="*", default=[], help="folders that hold a profile.json"
    )
    arguments = parser.parse_args()
    try:
        manifests, operators = read_profiles(arguments.profiles)
    except ProfileError as error:
        print(printable_lines(f"inflation: {error}"), file=sys.stderr)
        return 1
    write_table(arguments.study_folder / "tables", OPERATORS, operators)
    content = compare_all(manifests, operators)
    write_json(arguments.study_folder / "analysis" / "inflation.json", content)
    compared = sum(len(entry["comparisons"]) for entry in content["machines"])
    print(f"gathered {len(operators)} rows of operators, made {compared} comparisons")
    return 0


if __name__ == "__main__":
    with file_errors.told("inflation", reads="profile"):
        sys.exit(main())
