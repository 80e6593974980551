"""The processes and files of a run of a benchmark: none of them outlives the run."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ledger import ROOT

from scaling_study.runner import supervisor

STOP_S = 30.0
ORPHANS_S = 2.0
LINES = 5
"""Of what a run printed, where it fails."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class OverdueError(Exception):
    """A run was not done in time; it was stopped, and nothing of it counts."""


def _stop(signum: int, _frame: FrameType | None) -> None:
    """Leave by an exception, and let no further signal disturb the cleanup."""
    for another in STOP_SIGNALS:
        signal.signal(another, signal.SIG_IGN)
    sys.exit(128 + signum)


def stop_cleanly() -> None:
    """Have the signals that ask this program to end leave nothing behind."""
    for signum in STOP_SIGNALS:
        signal.signal(signum, _stop)
    supervisor.adopt()


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """Give a folder for all that a run writes; remove it and end what the run has started."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        supervisor.end_descendants(ORPHANS_S)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(
    command: Sequence[str], folder: Path, cwd: Path, env: Mapping[str, str] = os.environ
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command in a session of its own; stop all of it afterwards.

    Args:
        command: The program and its arguments.
        folder: Gets its output, temporary files and torch.compile's caches.
        cwd: Its working directory.
        env: Its environment.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    own = {"TMPDIR": str(temporary), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**env, **own},
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


def snakemake(config: Path) -> list[str]:
    """Return the command that runs a study; its results go where it is run."""
    return [
        *(*supervisor.supervised(), sys.executable, "-m", "snakemake", "--cores", "all"),
        *("--snakefile", str(ROOT / "Snakefile"), "--configfile", str(config)),
    ]


def last_lines(file: Path) -> str:
    """Return the last lines that something printed, as one."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
    return "; ".join(line.strip() for line in lines[-LINES:])


def run(
    command: Sequence[str],
    folder: Path,
    cwd: Path,
    longest_s: float,
    env: Mapping[str, str] = os.environ,
) -> None:
    """Run a command to its end (see `started`).

    Raises:
        OverdueError: it takes longer; it was stopped.
        RuntimeError: it failed.
    """
    with started(command, folder, cwd, env) as process:
        try:
            status = process.wait(max(0.0, longest_s))
        except subprocess.TimeoutExpired:
            raise OverdueError(f"not done after {longest_s:.0f} s") from None
    if status:
        raise RuntimeError(f"status {status}: {last_lines(folder / 'output')}")
