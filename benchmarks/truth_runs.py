"""One run of the truth benchmark: a shell loop or a study, and the code that it depends on."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, NamedTuple

from truth_list import PROCESSES, ROOT, ROWS, SCRIPTS
from truth_loops import loop
from truth_processes import folder
from truth_studies import study

import scaling_study
from scaling_study.runner import measure

NO_RATES = {"rendering", "documenting", "diagnosing", "experimenting", "profiling", "importing"}
"""Parts of the package that no number depends on."""
NO_THROUGHPUT = NO_RATES | {"analysing", "confirming", "counted.py", "model_queue.py"}
"""Parts that no throughput depends on."""

Entry = dict[str, Any]


class Run(NamedTuple):
    """One loop or study of a row; `counts` are the process counts that it gives a number for."""

    row: str
    kind: str
    counts: tuple[int, ...]


@functools.cache
def code(row: str) -> str:
    """Return the digest of the code that a row's numbers depend on."""
    package = Path(scaling_study.__file__).parent
    without = NO_RATES if ROWS[row].compares == PROCESSES else NO_THROUGHPUT
    files = [
        *(file for file in sorted(package.rglob("*.py")) if not without & set(file.parts)),
        *(ROOT / "benchmarks" / f"truth_{name}.py" for name in ("loops", "rates", "studies")),
        *(ROOT / SCRIPTS / name for name in ("counting.py", "loop.sh")),
        ROOT / ROWS[row].script,
    ]
    return measure.digest([file.read_text(encoding="utf-8") for file in files])


def execute(run: Run, deadline: float) -> Entry:
    """Do a run; return what it found, or why it failed.

    Args:
        run: The run.
        deadline: When it is stopped (s of the monotonic clock).

    Raises:
        OverdueError: it was stopped.
    """
    row = ROWS[run.row]
    try:
        with folder() as own:
            if run.kind == "loop":
                counted = loop(row, run.counts[0], own, deadline)
                return {"status": "ok", **dataclasses.asdict(counted)}
            return {"status": "ok", "points": study(run.row, run.counts, own, deadline)}
    except (RuntimeError, ValueError, OSError) as error:
        return {"status": "failed", "reason": str(error)}
