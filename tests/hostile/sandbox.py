"""Runs a command as root without a network, on a copy of the whole file system.

The copy is an overlay (mount(8)) in a mount namespace of its own: every write of every process
lands in its upper folder, so that what a command wrote anywhere can be listed afterwards, and the
real files stay as they were. The network namespace has no interface but a loopback that is down.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from processes import captured

INSIDE = Path(__file__).with_name("sandbox.sh")


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did.

    Attributes:
        returncode: of the command.
        output: its standard output and standard error.
        written: files and folders that were new, changed or removed when it ended.
    """

    returncode: int
    output: str
    written: tuple[Path, ...]


def reason_against() -> str | None:
    """Say why no sandbox can be made here; None if it can."""
    if os.geteuid() != 0:
        return "an overlay of the whole file system needs root"
    if missing := [name for name in ("unshare", "mount", "chroot") if shutil.which(name) is None]:
        return f"{', '.join(missing)} not installed"
    probe = run(["true"], cwd=Path("/"))
    return None if probe.returncode == 0 else f"no overlay here: {probe.output.strip()}"


def run(command, *, cwd, env=None, kept=(), output=None):
    """Run a command in a sandbox.

    Args:
        command: its program and arguments.
        cwd: its working directory.
        env: its whole environment.
        kept: names in the working directory that are copied out of the sandbox afterwards.
        output: the folder that `kept` is copied to.
    """
    with tempfile.TemporaryDirectory() as base:
        Path(base, "top").mkdir()
        variables = [f"{name}={value}" for name, value in (env or {}).items()]
        words = [base, cwd, output or base, " ".join(kept), *variables, *command]
        command = ["/usr/bin/unshare", "--mount", "--net", "/bin/sh", INSIDE, *words]
        done = captured(command, stdin=subprocess.DEVNULL)
        listing = Path(base, "written")
        names = listing.read_bytes().split(b"\0")[:-1] if listing.exists() else []
        paths = [Path("/", os.fsdecode(name)) for name in names]
        # An overlay has the folders above what was written, too.
        written = tuple(path for path in paths if not path.is_dir())
        return Done(done.returncode, done.stdout + done.stderr, written)
