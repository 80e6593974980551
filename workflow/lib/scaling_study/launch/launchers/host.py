"""Starts members from another process, such as a Dask cluster."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict
from typing import TYPE_CHECKING, TypedDict

from scaling_study.common import printable
from scaling_study.launch.launchers.launcher import LaunchError, bind_command, split_preload
from scaling_study.queues import program

if TYPE_CHECKING:
    from collections.abc import Callable

    from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec

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
