"""A launcher turns the specification of a member into a running process.

A launcher is a module of this package, or of a folder ``scaling_study_launchers`` on PYTHONPATH,
with a ``LAUNCHER``; the module's name is the launcher's. A member always runs ``worker.serve``;
launchers differ in where the process comes from.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from scaling_study.member import bind, worker
from scaling_study.member.member import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Member:
    """The specification of one member, beside what its whole launch shares."""

    slot: int
    cpus: str | None
    mempolicy: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class Launch:
    """The specification that all members of a cohort share.

    Attributes:
        folder: the cohort's private folder.
        python: the interpreter of the build.
        cwd: the folder in which the script runs.
        env: the members' whole environment.
        step: what ends a step, as ``iterations.encode`` writes it.
        launcher: name of what starts them.
        switches: values of axes that are made true inside each member (see ``changes``).
        change: single changes that are made inside each member (see ``changes``).
        passed: names of variables from the user's shell, whose values no record holds.
        ranks: processes of each member, which train together; None for one that knows of no ranks.
        loader: a loader's class that the config names, as ``module:Class``; empty for none.
    """

    folder: Path
    python: str
    env: Mapping[str, str]
    step: str
    cwd: str = "."
    launcher: str = "exec"
    switches: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    passed: frozenset[str] = frozenset()
    ranks: int | None = None
    loader: str = ""

    def words(self, member: Member) -> list[str]:
        """Return the arguments of ``worker.main`` for a member."""
        options = Options(
            self.step, self.launcher, self.switches, self.change, self.loader, self.ranks
        )
        return worker.words(self.folder, member.slot, member.command, options)

    @property
    def group(self) -> list[str]:
        """Options of ``bind.py`` for a member that is a group."""
        return [] if self.ranks is None else ["--ranks", str(self.ranks)]

    def log(self, slot: int) -> Path:
        """Return the file that gets a member's standard output."""
        return self.folder / f"log-{slot}"

    def errors(self, slot: int) -> Path:
        """Return the file that gets its standard error, where a traceback stays the last thing."""
        return self.folder / f"errors-{slot}"


class Starter(Protocol):
    """Starts the members of one cohort."""

    @property
    def host(self) -> int | None:
        """The process that all members come from; None where each is started by itself."""

    def start(self, member: Member) -> int:
        """Start a member and return its process id.

        Raises:
            LaunchError: it cannot be started.
        """

    def close(self) -> None:
        """End what the launcher itself started."""

    def exit_reason(self, pid: int) -> str:
        """Describe how a member ended."""


class LaunchError(Exception):
    """A member could not be started; the text says why."""


@dataclass(frozen=True)
class Launcher:
    """A way to start members.

    Attributes:
        meaning: One line for a person.
        starter: Makes what starts the members of a cohort, of so many members.
        least_bytes: The least memory that a member keeps for itself. With torch, relocated
            libraries and Python's objects are some 140 MiB.
        rests: Members that may not train take no CPU time, nor does what started them.
        binds_memory: A member's memory policy is set before it begins.
        environment: Variables that it sets by itself; axes that set them, too, replace them.
        note: Lines of the launch script on how members were started, where the script does it
            otherwise.
        remark: A sentence that the cause "page faults" adds for members of this launcher.
    """

    meaning: str
    starter: Callable[[Launch, int], Starter]
    least_bytes: int = 64 * 1024**2
    rests: bool = True
    binds_memory: bool = True
    environment: Callable[[], Mapping[str, str]] = dict
    note: tuple[str, ...] = ()
    remark: str = ""


def bind_command(
    cpus: str | None, mempolicy: str, env: Mapping[str, str], group: Sequence[str] = ()
) -> list[str]:
    """Return the start of a command line that binds, sets ``env`` and becomes what follows.

    Args:
        cpus: a list of CPUs; None is not bound.
        mempolicy: a memory policy.
        env: what is for the command alone, such as preloads.
        group: options for a group of ranks (see ``Launch.group``).
    """
    command = [sys.executable, "-E", "-P", str(bind.__file__), "--mempolicy", mempolicy]
    if cpus is not None:
        command += ["--cpus", cpus]
    for name, value in env.items():
        command += ["--env", f"{name}={value}"]
    return [*command, *group, "--die-with", str(os.getpid()), "--"]


def split_preload(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split an environment: a preload is for the member alone, not for what binds it."""
    preload = {name: value for name, value in env.items() if name == "LD_PRELOAD"}
    return {name: env[name] for name in env if name not in preload}, preload


def describe_exit(code: int) -> str:
    """Describe a process's return code, as subprocess gives it."""
    if code >= 0:
        return f"ended with status {code}"
    hint = " (the kernel does this when memory runs out)" if code == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"
