"""Summarise the rounds of a confirmation into analysis/confirmation.json."""

import argparse
import sys
from pathlib import Path

from scaling_study.collecting.record_schema import RecordError
from scaling_study.common import file_errors
from scaling_study.common.columns import WINDOWS
from scaling_study.common.printable import printable_lines
from scaling_study.common.storage import read_columns, read_json, write_json
from scaling_study.confirming.summary import summarise
from scaling_study.planning.work import with_learnt, work_by_launch

COLUMNS = ("machine", "launch", "n", "valid", "frequency_mhz")


def main() -> int:
    """Parse the arguments, summarise, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--rounds", type=Path, nargs="*", default=[], help="confirm/rounds.jsonl")
    arguments = parser.parse_args()
    folder = arguments.study_folder
    plan = with_learnt(read_json(arguments.plan), read_json(folder / "tables" / "cohorts.json"))
    try:
        content = summarise(
            read_json(folder / "analysis" / "recommendation.json"),
            arguments.rounds,
            read_columns(folder / "tables", WINDOWS, COLUMNS),
            plan["workload"]["steps_per_model"],
            work_by_launch(plan),
            off=plan["confirm"]["seconds"] is None,
            learnt=None
            if plan["workload"].get("pool", False)
            else plan["workload"].get("model_length"),
            pool=plan["workload"].get("pool", False),
        )
    except RecordError as error:
        print(printable_lines(f"confirmation: {error}"), file=sys.stderr)
        return 1
    write_json(folder / "analysis" / "confirmation.json", content)
    print(f"confirmation: {', '.join(one['status'] for one in content['machines'])}")
    return 0


if __name__ == "__main__":
    with file_errors.told("confirmation", reads="confirm, analysis, tables and plan.json"):
        sys.exit(main())
