"""How members are started: one entry for each value of the launcher axis.

A launcher turns a member's specification into a running process and returns its process id. What
runs there is always ``worker.serve``; what differs is where the process comes from.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from scaling_study.member import bind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Member:
    """What a member is to be, apart from what its whole launch shares."""

    slot: int
    cpus: str | None
    mempolicy: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """What all members of a cohort share.

    Attributes:
        folder: the cohort's private folder.
        python: the interpreter of the build.
        env: the members' whole environment.
        step: what ends a step, as ``iterations.encode`` writes it.
        inter_op: inter-op threads, None for torch's default.
        change: single changes that are made inside each member (see ``changes``).
        masked: names of variables whose values are for the members alone.
    """

    folder: Path
    python: str
    env: Mapping[str, str]
    step: str
    inter_op: int | None
    change: tuple[str, ...] = ()
    masked: frozenset[str] = frozenset()

    def log(self, slot: int) -> Path:
        """Return the file that gets a member's output."""
        return self.folder / f"log-{slot}"


class Launcher(Protocol):
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
        """Say how a member ended."""


class LaunchError(Exception):
    """A member could not be started; the text says why."""


def bind_command(cpus: str | None, mempolicy: str, env: Mapping[str, str]) -> list[str]:
    """Return the start of a command line that binds, sets ``env`` and becomes what follows."""
    command = [sys.executable, "-P", str(bind.__file__), "--mempolicy", mempolicy]
    if cpus is not None:
        command += ["--cpus", cpus]
    for name, value in env.items():
        command += ["--env", f"{name}={value}"]
    return [*command, "--die-with", str(os.getpid()), "--"]


def split_preload(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split an environment: a preload is for the member alone, not for what binds it."""
    preload = {name: value for name, value in env.items() if name == "LD_PRELOAD"}
    return {name: env[name] for name in env if name not in preload}, preload


class Exec:
    """A fresh interpreter for each member."""

    host: int | None = None

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, member: Member) -> int:
        """Start ``worker`` in a new interpreter, bound before it begins."""
        launch = self._launch
        env, preload = split_preload(launch.env)
        options = ["--step", launch.step]
        if launch.inter_op is not None:
            options += ["--inter-op", str(launch.inter_op)]
        for name in launch.change:
            options += ["--change", name]
        command = [
            *bind_command(member.cpus, member.mempolicy, preload),
            *(launch.python, "-m", "scaling_study.member.worker"),
            *(str(launch.folder), str(member.slot), *options, "--", *member.command),
        ]
        with launch.log(member.slot).open("ab") as log:
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process.pid

    def close(self) -> None:
        """Wait for the members, which have been killed."""
        for process in self._processes:
            process.wait()

    def exit_reason(self, pid: int) -> str:
        """Say how a member ended."""
        code = next(process for process in self._processes if process.pid == pid).wait()
        return describe_exit(code)


def describe_exit(code: int) -> str:
    """Say what a process's return code means, as subprocess gives it."""
    if code >= 0:
        return f"ended with status {code}"
    hint = " (the kernel does this when memory runs out)" if code == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"


class Host:
    """Members that come from a process of their own: a fork server, or a Dask cluster.

    The host reads one JSON line for each member and answers with a line: the process id, or a
    text that begins with ``error``.
    """

    def __init__(self, launch: Launch, module: str, members: int) -> None:
        self._launch = launch
        env, preload = split_preload(launch.env)
        command = [
            *bind_command(None, "default", preload),
            *(launch.python, "-m", module),
            *(str(launch.folder), str(members)),
        ]
        with launch.log(-1).open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.host = self._process.pid

    def start(self, member: Member) -> int:
        """Have the host start a member."""
        launch = self._launch
        shared = {name: getattr(launch, name) for name in ("step", "inter_op", "change")}
        request = asdict(member) | shared
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise LaunchError("the host has no pipes")
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            answer = stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer.isdecimal():
            log = launch.log(-1).read_text(errors="replace").strip()
            raise LaunchError(answer or f"the launcher's host ended: {log[-2000:]}")
        return int(answer)

    def close(self) -> None:
        """End the host."""
        self._process.kill()
        self._process.communicate()

    def exit_reason(self, pid: int) -> str:
        """Say that a member ended; only its host could tell how."""
        return f"process {pid} ended"


def launcher(name: str, launch: Launch, members: int) -> Launcher:
    """Return the launcher of this name, ready to start members."""
    if name == "exec":
        return Exec(launch)
    return Host(launch, HOSTS[name], members)


HOSTS = {"fork": "scaling_study.member.fork_server", "dask": "scaling_study.member.dask_host"}
