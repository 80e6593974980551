"""Measure the launches of one round of a race; the rule ``race`` runs this."""

import argparse
import dataclasses
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.common.storage import read_json
from scaling_study.measuring import job_process, measure
from scaling_study.searching import rounds
from scaling_study.searching.race import dealt


def main() -> None:
    """Parse the command line and measure what is not measured yet, batch by batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", required=True, help="what all measurements depend on, as JSON")
    parser.add_argument("--round", type=Path, required=True, help="rounds/<number>.json")
    parser.add_argument("--node", type=int, default=0, help="which of the nodes that measure it")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--builds", type=Path, required=True, help="folder of built environments")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="made when all is measured")
    options = parser.parse_args()
    with file_errors.told("race", reads="the round"):
        found = read_json(options.round)
    base = measure.read_job(options.job, 0)
    launches = {launch["id"]: launch for launch in found["launches"]}
    folder = options.round.parent.parent / "measure"
    numbered = dealt(list(enumerate(found["batches"])), options.nodes)[options.node]
    with job_process.prepared(f"round {options.round.stem} ({found['stage']})", options.log):
        for number, batch in numbered:
            runs = []
            # The study's first start decides whether there is anything to measure.
            batch.sort(
                key=lambda one: not measure.is_first(launches[one["launch"]], one["replicate"])
            )
            for task in batch:
                path = folder / task["launch"] / f"{task['replicate']}.jsonl"
                if path.exists():  # before a kill
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                job = dataclasses.replace(
                    base, launch=launches[task["launch"]], replicate=task["replicate"]
                )
                name = rounds.batch_name(found["decided"], number, options.node)
                runs.append(measure.Measurement(job, path, options.builds, task["counts"], name))
            measure.in_turns(runs)
        options.output.touch()


if __name__ == "__main__":
    with file_errors.told("race"):
        main()
