"""The processes and files of a run of a benchmark: none of them outlives the run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.runner import supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STOP_S = 15.0
ORPHANS_S = 2.0
LINES = 5
"""Of what a run printed, where it fails."""


class OverdueError(Exception):
    """A run was not done in time; it was stopped, and nothing of it counts."""


@contextmanager
def folder(prefix: str = "truth-") -> Iterator[Path]:
    """Give a folder for all that a run writes; remove it and end what the run has started."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        (folder / "tmp").mkdir()
        yield folder
    finally:
        supervisor.end_descendants(ORPHANS_S)
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return a run's environment: temporary files and torch.compile's caches are its own."""
    given = {name: value for name, value in env.items() if name != "TRUTH_LOG"}
    caches = str(folder / "inductor")
    return {**given, "TMPDIR": str(folder / "tmp"), "TORCHINDUCTOR_CACHE_DIR": caches}


@contextmanager
def started(
    command: Sequence[str], folder: Path, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a session of its own; stop all of it afterwards.

    Args:
        command: The program and its arguments.
        folder: Gets its output; has its temporary files in `tmp`.
        cwd: Its working directory.
        env: Its environment; None for this process's.
    """
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=_environment(folder, os.environ if env is None else env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_lines(file: Path) -> str:
    """Return the last lines that something printed, as one."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    return "; ".join(line.strip() for line in lines[-LINES:])
