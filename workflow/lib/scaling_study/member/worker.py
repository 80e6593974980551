"""The harness inside a member: it runs the user's script, times its steps and holds it at the gate.

``python -m scaling_study.member.worker FOLDER SLOT OPTIONS PROGRAM``, with OPTIONS as JSON

The script runs in this process as ``__main__`` (see ``program``). The end of a step is also the
gate at which a member outside the current window sleeps (see ``member``).

A script that ends is started again in the same process. If it can run only once in a process, this
process restarts itself first (execve). The module needs torch and the standard library only,
because it runs in every build that a study compares.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import scaling_study
from scaling_study.common.counter import COUNTERS
from scaling_study.member import after_torch, changes, channel, files, iterations, loaders
from scaling_study.member.member import Options, member_of
from scaling_study.queues import bind, ending, program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scaling_study.member.member import Member


def attach(member: Member, further: Sequence[str]) -> None:
    """Install the member's hooks and wrappers in this process's torch.

    Args:
        member: this process's.
        further: loaders that the config names (see ``loaders``).
    """
    import torch  # noqa: PLC0415 (see after_torch)
    from torch.utils.data import dataloader  # noqa: PLC0415

    loaders.wrap(member.iterates, further)
    # An epoch may start worker processes and end them, which can take longer than all its batches.
    workers = dataloader._MultiProcessingDataLoaderIter  # noqa: SLF001
    ends = member.timed(channel.LOAD_NS, workers._shutdown_workers)  # noqa: SLF001
    workers._shutdown_workers = ends  # noqa: SLF001
    torch.autograd.backward = member.timed(channel.BACKWARD_NS, torch.autograd.backward)
    for counter in COUNTERS:
        if counter.time is not None:
            counter.time(member.timer(counter.name))
    if member.how not in {iterations.MARK, iterations.BACKWARD}:
        iterations.after_backward(member.had_step)
    if member.how != iterations.MARK:
        member.hook()


def run(member: Member, command: Sequence[str], begin_anew: Callable[[], None] | None) -> None:
    """Run the program as ``python PROGRAM`` would, repeatedly.

    Args:
        member: this process's.
        command: the program (see ``program``).
        begin_anew: replaces this process by a fresh one that runs the script again, for a script
            that can run only once in a process; None if that is not possible.

    Raises:
        SystemExit: the script failed, or ended without having finished a step.
    """
    program.add_path(command)
    folder = Path.cwd()
    starts = ending.Starts()
    again = False
    while True:
        os.chdir(folder)  # the script may have left it
        fresh = bind.enter_fresh_folder(str(member.folder)) if member.options.fresh_folder else None
        status = 0
        try:
            program.run(command)
        except BaseException as error:  # noqa: BLE001 (whatever it is, Python would end with it)
            # A later run fails before its first step, unlike the first: it can run only once.
            failed = isinstance(error, Exception) and again and member.fresh
            if failed and not member.forked and begin_anew is not None:
                begin_anew()
            status = program.report(error)
        if member.forked:
            ending.end(status)
        if status:
            sys.exit(status)
        if member.fresh:  # no step since the script was started
            # Its log ends with the script's lines, not with a traceback of ours.
            sys.exit(f"{program.name(command)} {member.without_step()}")
        again = starts.end()
        if not again and begin_anew is not None:
            ending.finish()
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
        member.script_ended()
        if begin_anew is not None and (member.options.once or not again):
            begin_anew()


def main(cohort: str, number: str, how: str, *command: str, replaceable: bool = True) -> None:
    """Be a member: attach, then run the script until the cohort is over.

    Args:
        cohort: the cohort's private folder; with the next three, as ``words`` returns them.
        number: this member's slot.
        how: how to run the script.
        command: the program (see ``program``).
        replaceable: whether a fresh process may take this one's place.
    """
    folder, slot, options = Path(cohort), int(number), Options(**json.loads(how))
    begin_anew: Callable[[], None] | None = None
    if options.ranks is not None:
        # The parent of all ranks starts the next group, on a port of its own.
        options, begin_anew = options._replace(once=True), functools.partial(sys.exit, 0)
    elif replaceable:
        arguments = words(folder, slot, command, options._replace(once=True))
        anew = command_line(sys.executable, arguments)
        begin_anew = functools.partial(_become, anew, dict(os.environ), Path.cwd())
    member = member_of(folder, slot, options, write_readback)
    elsewhere = folder / f"{iterations.ELSEWHERE}{slot}"
    elsewhere.mkdir(exist_ok=True)
    os.environ.update(iterations.environment(elsewhere, options.step, os.environ))

    def leave() -> None:
        counter = iterations.IterationCounter(str(elsewhere), options.step)
        member.leave_cohort(counter.step_end if counter.leads else lambda: None)

    os.register_at_fork(after_in_child=leave)
    scaling_study.mark = member.mark
    scaling_study.asked = member.asked
    files.note_written(str(folder), slot)

    def prepare() -> None:
        # Switches come before the gate's own hook: one that acts at the end of the first step has
        # done so when the member rests there and reports its settings.
        changes.switch(options.switches)
        further = [options.loader] if options.loader else []
        # A substitute is timed as the loader is.
        for name in options.change:
            changes.CHANGES[name](member, further)
        attach(member, further)

    after_torch.call_back(prepare)
    if begin_anew is not None and options.ranks is None:
        _count_exits(member, begin_anew)
    run(member, command, begin_anew)


def write_readback(file: str, switches: Sequence[str], **process: object) -> None:
    """Write what holds in this process to a file.

    Args:
        file: the path.
        switches: values of axes to read (see ``changes``).
        process: what only the member knows of this process.
    """
    from scaling_study.member import readback  # noqa: PLC0415 (not needed by any step)

    readback.write(file, switches=changes.observed(switches), **process)


def _count_exits(member: Member, begin_anew: Callable[[], None]) -> None:
    """Have ``os._exit(0)`` end a start of the script, not this member."""
    leave = os._exit

    def leave_or_begin_anew(status: int) -> NoReturn:
        if not status and not member.forked and not member.fresh:
            member.script_ended()
            begin_anew()
        leave(status)

    os._exit = leave_or_begin_anew


def _become(command: list[str], environment: dict[str, str], folder: Path) -> None:
    """Replace this process, which keeps its id, CPUs and memory policy (execve(2))."""
    os.chdir(folder)
    sys.stdout.flush()
    sys.stderr.flush()
    import multiprocessing  # noqa: PLC0415 (see changes)

    for child in multiprocessing.active_children():
        child.kill()  # a loader's worker would not notice that its parent is another program
    os.execve(command[0], command, environment)  # noqa: S606 (no shell is wanted)


def words(folder: Path, slot: int, command: Sequence[str], options: Options) -> list[str]:
    """Return the arguments of ``main``."""
    return [str(folder), str(slot), json.dumps(options._asdict()), *command]


def command_line(python: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of a member, whose arguments are ``words``."""
    return [*program.harness(python, "scaling_study.member.worker"), *arguments]


if __name__ == "__main__":
    main(*sys.argv[1:])
