"""A launcher turns the specification of a member into a running process.

A launcher is a module of this package, or of a folder ``scaling_study_launchers`` on PYTHONPATH,
with a ``LAUNCHER``; the module's name is the launcher's. A member always runs ``worker.main``;
launchers differ in where the process comes from.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from scaling_study.member import worker
from scaling_study.member.member import Options
from scaling_study.queues import bind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class MemberSpec:
    """The specification of one member, without what all members of its launch share."""

    slot: int
    cpus: str | None
    mempolicy: str
    command: tuple[str, ...]


@dataclass(frozen=True)
class LaunchSpec:
    """The specification that all members of a cohort share.

    Attributes:
        folder: the cohort's private folder.
        python: the interpreter of the build.
        cwd: the folder in which the script runs.
        env: the members' whole environment.
        step: what ends a step, as ``iterations.encode`` writes it.
        launcher: the name of the launcher.
        switches: values of axes that are applied inside each member (see ``changes``).
        change: single changes that are made inside each member (see ``changes``).
        passed: names of variables from the user's shell, whose values no record holds.
        ranks: number of processes of each member that train together; None for a plain process.
        loader: a loader's class that the config names, as ``module:Class``; empty for none.
        fresh_folder: whether each start of the script has a new folder, with links to what ``cwd``
            holds.
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
    fresh_folder: bool = False

    def words(self, member: MemberSpec) -> list[str]:
        """Return the arguments of ``worker.main`` for a member."""
        options = Options(
            self.step, self.launcher, self.switches, self.change, self.loader, self.ranks,
            fresh_folder=self.fresh_folder,
        )  # fmt: skip
        return worker.words(self.folder, member.slot, member.command, options)

    def fresh(self, parent: Path | None = None) -> list[str]:
        """Return the option of ``bind.py``, or of a server, that makes a fresh folder, if any."""
        return ["--fresh-folder", str(parent or self.folder)] if self.fresh_folder else []

    @property
    def group(self) -> list[str]:
        """Options of ``bind.py`` for a member that is a group of ranks."""
        return [] if self.ranks is None else ["--ranks", str(self.ranks)]

    def log(self, slot: int) -> Path:
        """Return the file that gets a member's standard output."""
        return self.folder / f"log-{slot}"

    def errors(self, slot: int) -> Path:
        """Return the file that gets its standard error alone, so that a traceback stays last."""
        return self.folder / f"errors-{slot}"


class Starter(Protocol):
    """Starts the members of one cohort."""

    @property
    def host(self) -> int | None:
        """The id of the process that all members come from; None if each is started by itself."""

    def start(self, member: MemberSpec) -> int:
        """Start a member and return its process id.

        Raises:
            LaunchError: it cannot be started.
        """

    def close(self) -> None:
        """End what the launcher itself started."""

    def exit_reason(self, pid: int) -> str:
        """Describe how a member ended."""


class LaunchError(Exception):
    """A member could not be started; the text is the reason."""


@dataclass(frozen=True)
class Launcher:
    """A way to start members.

    Attributes:
        meaning: Its description, in one line.
        starter: Makes the starter of a cohort, from its launch and its number of members.
        least_bytes: A lower bound of a member's private memory. With torch, relocated libraries
            and Python's objects take some 140 MiB.
        rests: Whether members that may not train, and their host, take no CPU time.
        binds_memory: Whether a member's memory policy is set before it begins.
        environment: Returns the variables that it sets itself; axes that set them replace them.
        note: Lines of the launch script on how members were started, if the script starts
            processes differently.
        remark: A sentence that the cause "page faults" adds for members of this launcher.
    """

    meaning: str
    starter: Callable[[LaunchSpec, int], Starter]
    least_bytes: int = 64 * 1024**2
    rests: bool = True
    binds_memory: bool = True
    environment: Callable[[], Mapping[str, str]] = dict
    note: tuple[str, ...] = ()
    remark: str = ""


def bind_command(
    cpus: str | None, mempolicy: str, env: Mapping[str, str], group: Sequence[str] = ()
) -> list[str]:
    """Return the start of a command line that binds, sets ``env`` and becomes the command after it.

    Args:
        cpus: a list of CPUs; None for no binding.
        mempolicy: a memory policy.
        env: variables for the command alone, such as preloads.
        group: options for a group of ranks (see ``LaunchSpec.group``).
    """
    command = [sys.executable, "-E", "-P", str(bind.__file__), "--mempolicy", mempolicy]
    if cpus is not None:
        command += ["--cpus", cpus]
    for name, value in env.items():
        command += ["--env", f"{name}={value}"]
    return [*command, *group, "--die-with", str(os.getpid()), "--"]


def split_preload(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split preloads off an environment: they are for the member alone, not for ``bind.py``."""
    preload = {name: value for name, value in env.items() if name == "LD_PRELOAD"}
    return {name: env[name] for name in env if name not in preload}, preload


def describe_exit(code: int) -> str:
    """Describe a process's return code, as subprocess gives it."""
    if code >= 0:
        return f"ended with status {code}"
    hint = " (the kernel does this when memory runs out)" if code == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"
