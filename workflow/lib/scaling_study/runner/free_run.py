"""Programs that run as the launch script starts them, with each of their processes counting steps.

Pool mode and confirmation run them. Their processes rest at no gates.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scaling_study.common import placeholders, printable
from scaling_study.common.axis_values import Axes
from scaling_study.config import work
from scaling_study.config.workload import Workload
from scaling_study.launch.launchers.launcher import (
    LaunchSpec,
    MemberSpec,
    bind_command,
    split_preload,
)
from scaling_study.member import iterations
from scaling_study.queues import model_queue
from scaling_study.runner import environment, supervisor, switch_script
from scaling_study.runner.cohort_windows import CohortRun
from scaling_study.runner.member_processes import HostFacts

ORPHANS_S = 1.0
"""Processes that a program left behind have this long to end with it."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a launch script, run as its user runs it.

    Attributes:
        words: the words that stand for the script after ``python`` (``work.program``).
        switches: the file that applies the launch's switches; None if it has none.
        marks: whether the script imports this package, to mark its steps.
        pool: whether it trains in processes of its own.
        bare: whether the words are a command of their own, without ``python``.
        runs: whether whole runs are measured, so that nothing counts in its processes.
    """

    words: Sequence[str]
    switches: Path | None = None
    marks: bool = False
    pool: bool = False
    bare: bool = False
    runs: bool = False

    def environment(self, launch: LaunchSpec) -> dict[str, str]:
        """Return the environment that the launch script gives the program."""
        paths = launch.env.get("PYTHONPATH", "").split(os.pathsep)
        if not self.marks:
            paths = [path for path in paths if path != str(environment.LIBRARY_FOLDER)]
        kept = {name: value for name, value in launch.env.items() if name != "PYTHONPATH"}
        return {**kept, **({"PYTHONPATH": os.pathsep.join(paths)} if any(paths) else {})}

    def command(
        self,
        launch: LaunchSpec,
        member: MemberSpec,
        pages: Path,
        *,
        served: Sequence[str] = (),
        read_back: bool = False,
    ) -> list[str]:
        """Return the command line of a slot: the launch script's, with a counter on PYTHONPATH.

        The arguments of the script are appended to it, or sent to the server.

        Args:
            launch: the launch.
            member: the slot's member.
            pages: folder for the pages in which processes count.
            served: options of a server that forks models; empty if the process is the program.
            read_back: whether its processes write down the settings that they got.
        """
        env, variables = split_preload(self.environment(launch))
        if not self.runs:
            variables |= iterations.environment(pages, launch.step, env, read_back=read_back)
        if served:
            options = [*served, *launch.fresh()]
            group, words = (
                [],
                switch_script.served_command(launch.python, self.words, self.switches, options),
            )
        else:
            group, python = [*launch.group, *launch.fresh()], None if self.bare else launch.python
            words = switch_script.command(python, self.words, self.switches)
        return [*bind_command(member.cpus, member.mempolicy, variables, group), *words]


@dataclass(slots=True)
class ProgramWindows(CohortRun):
    """The windows of a program that runs as a whole, at all process counts of a launch.

    Attributes:
        launch: the launch; its folder is private.
        members: the program in each slot.
        program: the words that all of them share.
        host: facts about the machine.
        proven: whether processes have shown that they got what the launch asks for.
    """

    launch: LaunchSpec
    members: Sequence[MemberSpec]
    program: Program
    host: HostFacts
    proven: bool = field(init=False, default=False)


def program_of(workload: Workload, axes: Axes, folder: Path) -> Program:
    """Return a launch's program, with the file of its switches in a private folder."""
    switches = folder / "recommended.switches.py"
    text = switch_script.render_switches(axes, switches.name)
    if text:
        switches.write_text(text, encoding="utf-8")
    return Program(
        work.program(workload),
        switches if text else None,
        marks=work.marks(workload),
        pool=workload.pool,
        bare=bool(workload.command),
        runs=workload.runs,
    )


def with_processes(members: Sequence[MemberSpec], n: int) -> list[MemberSpec]:
    """Return the only member of a program that starts n processes itself, with n for ``{n}``."""
    values = {placeholders.N: n}
    words = tuple(placeholders.fill_known(word, values) for word in members[0].command)
    return [replace(members[0], command=words)]


def at_once(workload: Workload, members: Sequence[MemberSpec], n: int) -> Sequence[MemberSpec]:
    """Return what runs at once for n processes: n members, or one that starts n processes."""
    return with_processes(members, n) if workload.starts_processes else members[:n]


class FreeRun:
    """Processes of a program in the slots of a launch.

    Args:
        launch: its folder is private to this run.
        members: one for each slot.
        program: what runs in the slots.
        imports: the file that lists what the slots' servers import before they fork processes; None
            if each process starts afresh.
        read_back: whether processes write down the settings that they got.

    Attributes:
        pages: for each slot, the folder of the pages in which its processes count.
    """

    def __init__(
        self,
        launch: LaunchSpec,
        members: Sequence[MemberSpec],
        program: Program,
        *,
        imports: Path | None = None,
        read_back: bool = False,
    ) -> None:
        self.launch, self._members, self._program = launch, members, program
        self.pages = [launch.folder / "memory" / f"pages-{at}" for at in range(len(members))]
        served = [] if imports is None else ["--imports", str(imports)]
        commands = [
            program.command(launch, member, pages, served=served, read_back=read_back)
            for member, pages in zip(members, self.pages, strict=True)
        ]
        for pages in self.pages:
            pages.mkdir()
        kind = model_queue.FreshModels if imports is None else model_queue.ServedModels
        env, _ = split_preload(program.environment(launch))
        self.slots = kind(commands, env=env, folder=launch.cwd)

    def start(self, slot: int) -> None:
        """Start a process in a free slot."""
        arguments = self._members[slot].command[len(self._program.words) :]
        self.slots.train(slot, arguments, self.launch.log(slot), self.launch.errors(slot))

    def end(self, orphans_s: float) -> None:
        """End all processes at once, and any that they have started after this grace period."""
        self.slots.stop(grace_s=0)
        supervisor.end_descendants(orphans_s)

    def output(self, slot: int) -> str:
        """Return the end of what a slot's process has printed, its standard error last."""
        files = self.launch.log(slot), self.launch.errors(slot)
        return b"".join(map(printable.tail, files)).decode(errors="replace") or "(no output)"

    def last_words(self, slot: int) -> str:
        """Return the line that says why a slot's process ended; empty if it printed none."""
        return printable.words_of(self.launch.errors(slot), self.launch.log(slot))
