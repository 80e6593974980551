"""Say what a race measures next, from all records so far; the rule ``decide`` runs this."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from scaling_study.analysing.unequal_work import unequal_work
from scaling_study.collecting.collect import collect
from scaling_study.collecting.record_schema import RecordError
from scaling_study.common import file_errors
from scaling_study.common.printable import printable_lines
from scaling_study.common.storage import read_json, write_json
from scaling_study.diagnosing.cause_file import read_causes
from scaling_study.planning.work import with_learnt
from scaling_study.searching import rounds


def main() -> int:
    """Parse the command line, look at the records, write the round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what all measurements depend on, as JSON")
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--output", type=Path, required=True, help="rounds/<number>.json")
    options = parser.parse_args()
    folder, now = options.study_folder, datetime.now(UTC).isoformat(timespec="seconds")
    before = rounds.set_aside(folder, options.job, now)
    if before is not None:
        print(f"what is measured has changed: records of before are in {before}")
    again = rounds.left(folder) if options.output.stem == "0" else ()
    plan = rounds.grown(read_json(folder / "plan.json"), folder)
    machine = read_json(folder / "machine.json")
    further = rounds.helpful(plan, read_causes(folder).get(machine["hash"], []))
    plan["launches"] += [{**launch, "replicates": 0} for launch in further]
    starts, done, unequal = [], 0, []
    if any(launch["replicates"] for launch in plan["launches"]):
        try:
            collected = collect(folder, plan)
        except RecordError as error:
            print(printable_lines(f"decide: {error}"), file=sys.stderr)
            return 1
        plan = with_learnt(plan, collected.cohorts)
        here = machine["hash"]
        cohorts = [one for one in collected.cohorts["cohorts"] if one["machine"] == here]
        rates = collected.replicates[collected.replicates["machine"] == here]
        starts, done = rounds.starts(cohorts, rates, plan), rounds.done(cohorts)
        tables = (one[one["machine"] == here] for one in (collected.points, collected.windows))
        points, windows = tables
        unequal = unequal_work(points, rates, windows, cohorts, plan)
    found = rounds.next_round(plan, machine, starts, done, now, unequal=unequal, again=again)
    write_json(options.output, found)
    print(printable_lines(rounds.describe(found, plan)))
    return 0


if __name__ == "__main__":
    with file_errors.told("decide", reads="plan.json, machine.json and the records"):
        sys.exit(main())
