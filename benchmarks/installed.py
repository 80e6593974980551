"""The installed command, as a new user types it: its size, its first answer, its time by stage.

    python benchmarks/installed.py [--minutes 5] [--only plain pool ...] [--table FILE]

The wheel is built and installed into an empty environment, without torch. The programs of
benchmarks/programs are copied into an empty folder, and each is studied with one command. The
`python` of PATH there is this one, which has torch. The time to the first answer ends with the
first line that says how many models, runs or steps something trains.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from child_processes import folder, stop_cleanly
from doc_tables import publish, write_table
from ledger import ROOT

from scaling_study.common.quantities import format_seconds
from scaling_study.records.analysis import STAGE_TIMES

PROGRAMS = {
    "plain": "python plain.py --seed {}",
    "with_lightning": "python with_lightning.py {}",
    "ranker": "python -m ranker.train --seed {}",
    "pool": "python pool.py {n}",
    "train": "bash train.sh {}",
}
"""What a user types after ``--``, by the study's name."""
ANSWER = re.compile(r"so far: .*(models|runs)/hour|steps/s")
LARGEST = 8
"""Packages whose size is stated."""
COLUMNS = ("command", "first answer", "report", "headline", "time by stage")


@dataclass(frozen=True)
class Outcome:
    """What a command gave.

    Attributes:
        first_s: time to the first answer; None without any.
        whole_s: time to the report.
        headline: the terminal's last sentence on the result.
        stages: the study's stages, with their times (s).
    """

    first_s: float | None
    whole_s: float
    headline: str
    stages: dict[str, float]


def install(place: Path) -> Path:
    """Build and install the wheel; return the folder of its commands."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(place)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(ROOT)], check=True)
    (wheel,) = place.glob("*.whl")
    environment = place / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    words = ["install", "--quiet", "--constraint", str(ROOT / "requirements.lock"), str(wheel)]
    subprocess.run([str(environment / "bin/python"), "-m", "pip", *words], check=True)
    return environment / "bin"


def size(environment: Path) -> str:
    """Return the size of an environment, and of the packages that take most of it."""

    def megabytes(*paths: Path) -> list[tuple[int, str]]:
        words = ["du", "--summarize", "--block-size=1MB", *map(str, paths)]
        lines = subprocess.check_output(words, text=True).splitlines()
        sizes = (line.split("\t") for line in lines)
        return sorted(((int(size), Path(path).name) for size, path in sizes), reverse=True)

    ((whole, _),) = megabytes(environment)
    parts = megabytes(*environment.glob("lib/*/site-packages/*"))[:LARGEST]
    return f"{whole} MB, of which " + ", ".join(f"{name} {size}" for size, name in parts)


def study(name: str, commands: Path, place: Path, minutes: float) -> Outcome:
    """Study a program with one command.

    Raises:
        RuntimeError: it left no report.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    words = [commands / "torch-scaling-study", "--minutes", f"{minutes:g}", "--name", name, "--"]
    began_s, first_s, lines = time.monotonic(), None, []
    with subprocess.Popen(
        [*map(str, words), *PROGRAMS[name].split()], cwd=place, env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as running:  # fmt: skip
        for line in running.stdout or ():
            lines.append(line.rstrip())
            print(f"{time.monotonic() - began_s:6.0f} s  {lines[-1]}", flush=True)
            if first_s is None and ANSWER.search(line):
                first_s = time.monotonic() - began_s
    whole_s = time.monotonic() - began_s
    if running.returncode or not (place / f"reports/{name}.html").exists():
        raise RuntimeError("\n".join(lines))
    headline = next(
        (line for line in reversed(lines) if ANSWER.search(line) or "/hour" in line), ""
    )
    stages = json.loads((place / "results" / name / STAGE_TIMES).read_text())
    return Outcome(first_s, whole_s, headline.strip(), stages)


def row(name: str, outcome: Outcome) -> list[str]:
    """Return a row of the table."""
    stages = (f"{stage} {format_seconds(each_s)}" for stage, each_s in outcome.stages.items())
    first = "none" if outcome.first_s is None else format_seconds(outcome.first_s)
    whole = format_seconds(outcome.whole_s)
    return [f"`{PROGRAMS[name]}`", first, whole, outcome.headline, ", ".join(stages)]


def main() -> None:
    """Install the command, and study each program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="budget of each study")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--table", type=Path, help="the document to renew")
    options = parser.parse_args()
    stop_cleanly()
    with folder("installed-") as place:
        commands = install(place)
        text = f"Installed size, without torch: {size(commands.parent)}.\n\n"
        projects = place / "project"
        shutil.copytree(ROOT / "benchmarks/programs", projects)
        rows = [
            row(name, study(name, commands, projects, options.minutes)) for name in options.only
        ]
    text += f"With `--minutes {options.minutes:g}`:\n\n{write_table(COLUMNS, rows)}"
    publish(text, "installed", options.table)


if __name__ == "__main__":
    main()
