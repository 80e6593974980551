"""Write the plan with what a race has made of it; the rule ``searched`` runs this."""

import argparse
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.common.storage import read_json, write_json
from scaling_study.searching import rounds


def main() -> None:
    """Parse the command line, put together, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--rounds", type=Path, nargs="+", required=True, help="in their order")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    plan = rounds.grown(read_json(options.study_folder / "plan.json"), options.study_folder)
    write_json(options.output, rounds.searched(plan, [read_json(one) for one in options.rounds]))


if __name__ == "__main__":
    with file_errors.told("searched", reads="plan.json and the rounds"):
        main()
