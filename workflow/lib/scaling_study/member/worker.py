"""The harness inside a member: it runs the user's script, times its steps and holds it at the gate.

``python -m scaling_study.member.worker FOLDER SLOT [--step HOW] [options] -- PROGRAM``

The script runs in this process as ``__main__`` (see ``program``). The end of a step is also the
gate at which a member outside the current window sleeps (see ``member``).

A script that ends is started again in the same process, or, where it can run only once in one, in
this process begun anew. The module needs torch and the standard library only, because it runs in
every build that a study compares.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import scaling_study
from scaling_study.common.counter import COUNTERS
from scaling_study.member import (
    after_torch,
    bind,
    iterations,
    loaders,
    program,
    runtime_settings,
    written,
)
from scaling_study.member.member import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_collect = gc.collect  # the module's own may be replaced: changes.py


def attach(member: Member, *, by_mark: bool, further: Sequence[str] = ()) -> None:
    """Install the member's hooks and wrappers in this process's torch.

    Args:
        member: this process's.
        by_mark: whether the script's marks end its steps.
        further: loaders that the config names (see ``loaders``).
    """
    import torch  # noqa: PLC0415 (see after_torch)
    from torch.optim import optimizer  # noqa: PLC0415
    from torch.utils.data import dataloader  # noqa: PLC0415

    loaders.wrap(member.wrap_iter, further)
    # An epoch may start worker processes and end them, which can take longer than all its batches.
    workers = dataloader._MultiProcessingDataLoaderIter  # noqa: SLF001
    workers._shutdown_workers = member.wrap_loader(workers._shutdown_workers)  # noqa: SLF001
    torch.autograd.backward = member.wrap_backward(torch.autograd.backward)
    for counter in COUNTERS:
        if counter.time is not None:
            counter.time(member.timer(counter.name))
    if not by_mark:
        optimizer.register_optimizer_step_pre_hook(member.before_optimizer)
        optimizer.register_optimizer_step_post_hook(member.after_optimizer)


def run(
    member: Member,
    command: Sequence[str],
    begin_anew: Callable[[], None] | None = None,
    *,
    once: bool = False,
) -> None:
    """Run the program as ``python PROGRAM`` would, again and again.

    Args:
        member: this process's.
        command: the program (see ``program``).
        begin_anew: replaces this process by a fresh one that runs the script again, for a script
            that can run only once in a process; None where that is not possible.
        once: this script is known to be such a one.

    Raises:
        RuntimeError: the script ended without having finished a step, so it never will.
    """
    program.add_path(command)
    folder = Path.cwd()
    again = False
    while True:
        os.chdir(folder)  # the script may have left it
        try:
            program.run(command)
        except SystemExit as stop:
            if stop.code not in {None, 0}:
                raise
        except Exception:
            # The second run fails where the first one did not, before its first step.
            if again and member.fresh and not member.forked and begin_anew is not None:
                os.chdir(folder)
                begin_anew()
            raise
        again = True
        if member.forked:
            sys.stdout.flush()
            os._exit(0)
        if member.fresh:  # no step since the script was started
            raise RuntimeError(
                f"{program.name(command)} ended without a step: a step ends with optimizer.step(),"
                " or, with 'step: mark' in the config, with scaling_study.mark()"
            )
        # The script's globals refer to each other: its model and data would stay beside the next.
        gc.unfreeze()
        _collect()
        member.script_ended()
        if once and begin_anew is not None:
            os.chdir(folder)
            begin_anew()


def serve(
    folder: Path,
    slot: int,
    command: list[str],
    *,
    step: str = "optimizer",
    switches: Sequence[str] = (),
    launcher: str = "exec",
    change: Sequence[str] = (),
    loader: str = "",
    ranks: int | None = None,
    once: bool = False,
    replaceable: bool = True,
) -> None:
    """Be a member: attach, then run the script until the cohort is over.

    Args:
        folder: the cohort's private folder.
        slot: this member's slot.
        command: the program (see ``program``).
        step: what ends a step: ``mark`` where the script calls ``scaling_study.mark()``, else as
            ``Iterations`` takes it.
        switches: values of axes that are made true in this process (see ``switching``).
        launcher: how this process was started, for the readback.
        change: names of single changes to make in this process (see ``changes``).
        loader: a loader that the config names, as ``module:Class``.
        ranks: of the group that this process is one of; None where it is none.
        once: the script can run only once in a process.
        replaceable: a fresh process may take this one's place.
    """
    begin_anew: Callable[[], None] | None = None
    if ranks is not None:
        from scaling_study.member import ranked  # noqa: PLC0415 (needed by few launches)

        member = ranked.member(folder, slot, launcher, step, switches, ranks=ranks)
        # The parent of all ranks starts the next group, on a port of its own.
        once, begin_anew = True, functools.partial(sys.exit, 0)
    else:
        member = Member(folder, slot, launcher, step, switches, once=once)
        if replaceable:
            options = ["--step", step, "--launcher", launcher, "--once"]
            options += runtime_settings.options(switches)
            options += [word for name in change for word in ("--change", name)]
            options += ["--loader", loader] if loader else []
            module = program.harness(sys.executable, "scaling_study.member.worker")
            anew = [*module, str(folder), str(slot), *options, "--", *command]
            begin_anew = functools.partial(_become, anew, dict(os.environ))
    elsewhere = folder / f"{iterations.ELSEWHERE}{slot}"
    elsewhere.mkdir(exist_ok=True)
    os.environ.update(iterations.environment(elsewhere, step, os.environ))

    def leave() -> None:
        counter = iterations.Counter(str(elsewhere), step)
        member.leave(counter.count if counter.leads else lambda: None)

    os.register_at_fork(after_in_child=leave)
    scaling_study.mark = member.mark
    scaling_study.asked = member.asked
    written.note(folder, slot)

    def prepare() -> None:
        # Before the gate's own hook: what a switch does at the end of the first step is done when
        # the member rests there, and tells what it has.
        runtime_settings.apply(switches)
        further = [loader] if loader else []
        if change:
            from scaling_study.member import changes  # noqa: PLC0415 (of experiments only)

            # What takes a loader's place is timed as the loader is.
            for name in change:
                changes.apply(name, member, further)
        attach(member, by_mark=step == iterations.MARK, further=further)

    after_torch.call_back(prepare)
    run(member, command, begin_anew, once=once)


def _become(command: list[str], environment: dict[str, str]) -> None:
    """Replace this process, which keeps its id, CPUs and memory policy (execve(2))."""
    sys.stdout.flush()
    sys.stderr.flush()
    import multiprocessing  # noqa: PLC0415 (needed by few scripts)

    for child in multiprocessing.active_children():
        child.kill()  # a loader's worker would not notice that its parent is another program
    os.execve(command[0], command, environment)  # noqa: S606 (no shell is wanted)


def main(argv: list[str]) -> None:
    """Parse ``FOLDER SLOT [options] -- PROGRAM`` and serve."""
    import argparse  # noqa: PLC0415

    parser = argparse.ArgumentParser(description="Run a training script as a member of a cohort.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("slot", type=int)
    parser.add_argument("--step", default="optimizer", help="what ends a step")
    parser.add_argument("--launcher", default="exec", help="how this process was started")
    parser.add_argument("--once", action="store_true", help="each run needs a process of its own")
    parser.add_argument("--switch", action="append", default=[], help="an axis's value to set")
    parser.add_argument("--change", action="append", default=[], help="a change to make")
    parser.add_argument("--loader", default="", help="a loader's class, as module:Class")
    parser.add_argument("--ranks", type=int, help="this is one of so many ranks")
    arguments, command = bind.split_command(argv)
    options = parser.parse_args(arguments)
    serve(
        options.folder,
        options.slot,
        command,
        step=options.step,
        launcher=options.launcher,
        once=options.once,
        ranks=options.ranks,
        switches=options.switch,
        change=options.change,
        loader=options.loader,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
