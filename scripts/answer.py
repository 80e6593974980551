"""Report what is known after a round of a race; the rule ``answer`` runs this.

It goes the way of the whole study, without what comes after the race: confirmation, profiles and
experiments. Its files are in interim/, which each round writes anew.
"""

import argparse
import os
import runpy
import shutil
import sys
from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.common.storage import read_json, write_json
from scaling_study.searching import rounds

SCRIPTS = Path(__file__).parent


def main() -> int | str | None:
    """Parse the command line; nothing is to say where a round had nothing to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study-folder", type=Path, required=True, help="results/<study>")
    parser.add_argument("--round", type=int, required=True)
    parser.add_argument(
        "--following", type=Path, nargs="*", default=[], help="the next round, where there is one"
    )
    parser.add_argument("--report", type=Path, required=True, help="the HTML file to write")
    options = parser.parse_args()
    folder = options.study_folder
    files = [folder / f"rounds/{number}.json" for number in range(options.round + 1)]
    if not read_json(files[-1])["batches"]:
        return 0
    interim = folder / "interim"
    shutil.rmtree(interim, ignore_errors=True)
    interim.mkdir()
    for name in ("measure", "machine.json"):
        (interim / name).symlink_to(Path(os.path.relpath(folder / name, interim)))
    plan = rounds.grown(read_json(folder / "plan.json"), folder)
    following = next(map(read_json, options.following), None)
    plan = rounds.searched(plan, [read_json(one) for one in files], following)
    write_json(interim / "plan.json", rounds.without_the_rest(plan))
    study = ["--study-folder", str(interim)]
    builds = ["--builds", str(folder.parent / ".builds")]
    for words in (
        ["collect.py", *study],
        ["analyse.py", *study],
        ["inflation.py", *study],
        ["render.py", *study, "--report", str(options.report), *builds],
    ):
        status = run(words)
        if status:
            return status
    return 0


def run(words: list[str]) -> int | str | None:
    """Run a script of the study in this process, which has loaded already what they all need."""
    sys.argv = words
    try:
        runpy.run_path(str(SCRIPTS / words[0]), run_name="__main__")
    except SystemExit as end:
        return end.code
    return 0


if __name__ == "__main__":
    with file_errors.told("answer", reads="plan.json and the rounds"):
        sys.exit(main())
