"""A program that runs as the launch script starts it, with each of its processes counting steps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scaling_study.launch.launchers.launcher import bind_command, split_preload
from scaling_study.member import iterations
from scaling_study.runner import environment, switch_script

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scaling_study.launch.launchers.launcher import Launch, Member


@dataclass(frozen=True, slots=True)
class Program:
    """The program of a launch script, run as its user runs it: no gate, no window.

    Attributes:
        words: what stands for the script after ``python`` (``work.program``).
        switches: the file that makes the launch's switches true; None where it has none.
        marks: the script imports this package, to mark its steps.
        pool: it trains in processes of its own.
    """

    words: Sequence[str]
    switches: Path | None = None
    marks: bool = False
    pool: bool = False

    def environment(self, launch: Launch) -> dict[str, str]:
        """Return the environment that the launch script gives it."""
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
        reused: bool = False,
        read_back: bool = False,
    ) -> list[str]:
        """Return the command line of a slot: the launch script's, with a counter on PYTHONPATH.

        Args:
            launch: the launch.
            member: of the slot.
            pages: folder of what processes count.
            reused: each process trains one model after the other, as standard input says.
            read_back: its processes write down what they got.
        """
        env, preload = split_preload(self.environment(launch))
        own = {**preload, **iterations.environment(pages, launch.step, env, read_back=read_back)}
        python, words, switches = launch.python, self.words, self.switches
        return [
            *bind_command(member.cpus, member.mempolicy, own, launch.group),
            *(
                switch_script.reused_command(python, words, switches)
                if reused
                else switch_script.command(python, words, switches)
            ),
            *(() if reused else member.command[len(words) :]),
        ]
