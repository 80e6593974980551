"""Set the machines of a study side by side in analysis/machines.json; the rule ``compare``."""

import argparse
import json
import sys
from pathlib import Path

from scaling_study.analysing import compare, machine_results
from scaling_study.common import file_errors
from scaling_study.common.storage import read_json, write_json


def main() -> int:
    """Parse the arguments, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--machines", type=json.loads, required=True, help="of the config, as JSON")
    parser.add_argument("--currency", required=True, help="of their prices")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    plan = read_json(options.study_folder / "plan.json")
    found = {
        name: machine_results.read_results(folder, plan)
        for name, folder in machine_results.folders(options.study_folder, options.machines).items()
    }
    missing = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    for name, reason in missing.items():
        print(f"{name} is missing: {reason}", file=sys.stderr)
    if len(missing) == len(found):
        print("compare: no machine is measured yet", file=sys.stderr)
        return 1
    write_json(options.output, compare.compare(found, options.machines, options.currency))
    print(f"compared {len(found) - len(missing)} of {len(found)} machines")
    return 0


if __name__ == "__main__":
    with file_errors.told("compare", reads="analysis and tables of each machine, and plan.json"):
        sys.exit(main())
