"""A launcher turns the specification of a member into a running process.

A further launcher is a module with a ``LAUNCHER`` in a folder ``scaling_study_launchers`` on
PYTHONPATH; the module's name is the launcher's. A member always runs ``worker.main``; launchers
differ in where the process comes from: a fresh interpreter (`Exec`), or another process, such as a
Dask cluster (`Host`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, TypedDict, cast

from scaling_study.common import printable
from scaling_study.member import worker
from scaling_study.member.member import Options
from scaling_study.queues import bind, program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import IO


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


class Exec:
    """Starts a fresh interpreter for each member."""

    host: int | None = None

    def __init__(self, launch: LaunchSpec, _members: int = 1) -> None:
        self._launch = launch
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, member: MemberSpec) -> int:
        """Start ``worker`` in a new interpreter, bound before it begins."""
        launch = self._launch
        env, preload = split_preload(launch.env)
        again = ["--again"] if launch.group else []
        command = [
            *bind_command(member.cpus, member.mempolicy, preload, [*launch.group, *again]),
            *worker.command_line(launch.python, launch.words(member)),
        ]
        with (
            launch.log(member.slot).open("ab") as log,
            launch.errors(member.slot).open("ab") as errors,
        ):
            process = subprocess.Popen(
                command,
                env=env,
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=errors,
                start_new_session=True,
            )
        self._processes[process.pid] = process
        return process.pid

    def close(self) -> None:
        """Wait for the members, which have been killed."""
        for process in self._processes.values():
            process.wait()

    def exit_reason(self, pid: int) -> str:
        """Describe how a member ended."""
        return describe_exit(self._processes[pid].wait())


APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class Request(TypedDict):
    """A request to a host to start a member, sent as a line of JSON."""

    slot: int
    cpus: str | None
    mempolicy: str
    words: list[str]


def hosted(module: str) -> Callable[[LaunchSpec, int], Host]:
    """Return a function that makes a host, which runs a launcher's module."""
    return lambda launch, members: Host(launch, module, members)


def print_apart(folder: str, slot: int) -> None:
    """Redirect this process's output to the files of a slot (``LaunchSpec.log`` and ``errors``)."""
    for kind, descriptor in (("log", 1), ("errors", 2)):
        os.dup2(os.open(f"{folder}/{kind}-{slot}", APPENDED, 0o600), descriptor)


class Host:
    """A process that starts members when it is asked to.

    The host reads one JSON line for each member and answers with a line: the process id, or a
    text that begins with ``error``.
    """

    def __init__(self, launch: LaunchSpec, module: str, members: int) -> None:
        self._launch = launch
        env, preload = split_preload(launch.env)
        command = [
            *bind_command(None, "default", preload),
            *program.harness(launch.python, module),
            *(str(launch.folder), str(members)),
        ]
        with launch.log(-1).open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=launch.cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.host = self._process.pid

    def start(self, member: MemberSpec) -> int:
        """Have the host start a member."""
        launch = self._launch
        request = asdict(member) | {"words": launch.words(member)}
        stdin, stdout = cast("tuple[IO[str], IO[str]]", (self._process.stdin, self._process.stdout))
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            answer = stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer.isdecimal():
            words = printable.words_of(launch.log(-1))
            raise LaunchError(answer or f"the launcher's host ended: {words}")
        return int(answer)

    def close(self) -> None:
        """End the host."""
        self._process.kill()
        self._process.communicate()

    def exit_reason(self, pid: int) -> str:
        """Return that a member ended; only its host knows how."""
        return f"process {pid} ended"
