"""The ``exec`` launcher: a fresh interpreter for each member."""

import subprocess

from scaling_study.launch.launchers import launcher
from scaling_study.member import worker


class Exec:
    """Starts a fresh interpreter for each member."""

    host: int | None = None

    def __init__(self, launch: launcher.LaunchSpec, _members: int = 1) -> None:
        self._launch = launch
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, member: launcher.MemberSpec) -> int:
        """Start ``worker`` in a new interpreter, bound before it begins."""
        launch = self._launch
        env, preload = launcher.split_preload(launch.env)
        again = ["--again"] if launch.group else []
        command = [
            *launcher.bind_command(member.cpus, member.mempolicy, preload, [*launch.group, *again]),
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
        return launcher.describe_exit(self._processes[pid].wait())


LAUNCHER = launcher.Launcher("a fresh interpreter for each", Exec)
