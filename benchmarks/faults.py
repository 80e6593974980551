"""Run every fault, and write what each of them left into docs/evidence/faults.md.

    python benchmarks/faults.py [pytest's options]

The faults are the tests below tests/faults; each of them counts what was there before and after.
With ``-k`` only some are run, and the table keeps what earlier runs have counted of the others.
"""

import sys
from pathlib import Path
from typing import cast

import pandas as pd
import pytest
from doc_tables import publish, write_table

from scaling_study.records import codec

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs/evidence/faults.md"
COUNTED = ROOT / "results/.faults.json"  # no study can have this name
HEAD = ("fault", "runs", "completed windows", "lost", "counted twice", "left behind")


Row = tuple[str, int, int, int, int]
"""A fault's title, completed windows, lost ones, doubled ones, and things left behind."""
Counted = dict[str, list[Row]]
"""By test, what it has counted."""


class Counts:
    """A pytest plugin that gathers what the tests count, and why some cannot run here."""

    def __init__(self) -> None:
        self.counts: Counted = {}
        self.not_run: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test has counted, once."""
        if report.skipped and isinstance(report.longrepr, tuple):
            self.not_run[report.nodeid.rpartition("::")[2]] = report.longrepr[2]
        if report.when == "call":
            self.counts[report.nodeid] = [
                cast("Row", value) for name, value in report.user_properties if name == "fault"
            ]


def table(counts: Counts) -> str:
    """Return the table of the document: each kind of fault, then all of them."""
    rows = pd.DataFrame([row for rows in counts.counts.values() for row in rows])
    rows.insert(1, "runs", 1)
    sums = rows.groupby(0, sort=False).sum()
    sums.loc["**all**"] = sums.sum()
    lines = [(str(title), *map(str, own)) for title, *own in sums.itertuples()]
    left_out = [f"- not run here: {name} ({reason})\n" for name, reason in counts.not_run.items()]
    return write_table(HEAD, lines) + ("\n" if left_out else "") + "".join(left_out)


def main() -> int:
    """Run the tests, and write the table if all of them passed."""
    counts = Counts()
    folder = ROOT / "tests/faults"
    code = pytest.main(["-q", "-m", "", str(folder), *sys.argv[1:]], plugins=[counts])
    passed = code == pytest.ExitCode.OK
    if passed:
        before = codec.read_file(COUNTED, Counted) if COUNTED.exists() else {}
        counts.counts = {**before, **counts.counts}
        codec.write_file(COUNTED, counts.counts)
    publish(table(counts), "faults", DOCUMENT if passed else None)
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
