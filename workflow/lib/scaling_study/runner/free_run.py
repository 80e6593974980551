"""Programs that run as the launch script starts them, with each of their processes counting steps.

Pool mode and confirmation run them. Their processes rest at no gates.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scaling_study.common import last_words
from scaling_study.launch.launchers.launcher import Launch, Member, bind_command, split_preload
from scaling_study.member import iterations, model_queue
from scaling_study.runner import environment, supervisor, switch_script


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a launch script, run as its user runs it.

    Attributes:
        words: the words that stand for the script after ``python`` (``work.program``).
        switches: the file that applies the launch's switches; None if it has none.
        marks: whether the script imports this package, to mark its steps.
        pool: whether it trains in processes of its own.
    """

    words: Sequence[str]
    switches: Path | None = None
    marks: bool = False
    pool: bool = False

    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the environment that the launch script gives the program."""
        paths = launch.env.get("PYTHONPATH", "").split(os.pathsep)
        if not self.marks:
            paths = [path for path in paths if path != str(environment.LIBRARY_FOLDER)]
        kept = {name: value for name, value in launch.env.items() if name != "PYTHONPATH"}
        return {**kept, **({"PYTHONPATH": os.pathsep.join(paths)} if any(paths) else {})}

    def command(
        self,
        launch: Launch,
        member: Member,
        pages: Path,
        *,
        served: Sequence[str] = (),
        read_back: bool = False,
    ) -> list[str]:
        """Return the command line of a slot: the launch script's, with a counter on PYTHONPATH.

        Args:
            launch: the launch.
            member: the slot's member.
            pages: folder for the pages in which processes count.
            served: options of a server that trains the models of its standard input one after the
                other; empty if the process is the program itself.
            read_back: whether its processes write down the settings that they got.
        """
        env, preload = split_preload(self.environment(launch))
        own = {**preload, **iterations.environment(pages, launch.step, env, read_back=read_back)}
        how = (launch.python, self.words, self.switches)
        bound = partial(bind_command, member.cpus, member.mempolicy, own)
        if served:
            return [*bound(), *switch_script.served_command(*how, [*served, *launch.fresh()])]
        return [
            *bound([*launch.group, *launch.fresh()]),
            *switch_script.command(*how),
            *member.command[len(self.words) :],
        ]


class FreeRun:
    """Processes of a program in the slots of a launch.

    Args:
        launch: its folder is private to this run.
        members: one for each slot.
        program: what runs in the slots.
    """

    def __init__(self, launch: Launch, members: Sequence[Member], program: Program) -> None:
        self.launch, self.members, self.program = launch, members, program
        self.slots = model_queue.Slots(len(members))

    def start(
        self,
        slot: int,
        pages: Path,
        *,
        served: Sequence[str] = (),
        orders: Path | None = None,
        read_back: bool = False,
    ) -> float:
        """Start a process in a free slot; return when (s of the monotonic clock).

        Args:
            slot: the slot.
            pages: folder for the pages of its processes, which is created.
            served: options of the server in the slot (see ``Program.command``).
            orders: the file from which a server takes its models.
            read_back: whether its processes write down the settings that they got.
        """
        launch = self.launch
        pages.mkdir()
        words = self.program.command(
            launch, self.members[slot], pages, served=served, read_back=read_back
        )
        env, _ = split_preload(self.program.environment(launch))
        return self.slots.start(
            slot, words, launch.log(slot), env, launch.errors(slot), folder=launch.cwd,
            orders=orders,
        )  # fmt: skip

    def end(self, orphans_s: float) -> None:
        """End all processes at once, and any that they have started after this grace period."""
        self.slots.stop(grace_s=0)
        supervisor.end_descendants(orphans_s)

    def last_words(self, slot: int) -> str:
        """Return the line that says why a slot's process ended; empty if it printed none."""
        return last_words.words_of(self.launch.errors(slot), self.launch.log(slot))
