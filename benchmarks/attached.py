"""Cost of being measured: step time of an attached script against the same script bare.

One process trains; the harness's hooks and wrappers are put in and taken out after every few steps,
in the order attached, bare, bare, attached. The figure is the median, over such groups of four
neighbouring blocks, of the attached blocks' step time by the bare ones', with a bootstrap interval:
whatever else the machine does meets both alike. Each case is a process of its own. Usage:

    python benchmarks/attached.py [--seconds 60] [--case NCF]

The scripts of benchmarks/truth.py are cases too, which `--case` alone runs.
"""

import argparse
import contextlib
import ctypes
import functools
import io
import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from figures import figure
from ledger import ROOT, describe
from torch.optim import optimizer
from torch.utils.data import dataloader
from truth_list import ROWS, SCRIPTS
from truth_table import median_ratio

from scaling_study.common import private
from scaling_study.member import channel, files, iterations, loaders, worker
from scaling_study.member.member import Member, Options, member_of

ITERATOR = dataloader._BaseDataLoaderIter  # noqa: SLF001 (what the harness wraps)

INTERPRETER_WORDS = 4096
"""Words of CPython's PyInterpreterState, a larger structure, that hold its list of audit hooks."""

LOWEST_ADDRESS = 2**32
"""Addresses of a 64-bit process's heap are above it, and the state's counts below."""

LONG_S = 3e-3
"""A ratio is promised of steps from here on, an addition of shorter ones."""


class Case(NamedTuple):
    """A script, and how many steps make a block: short ones meet the machine's changes alike.

    Attributes:
        command: The script and its arguments.
        block: Steps of a block.
        cold: The first steps of a block, which meet cold code and do not count. Between steps of
            milliseconds all code gets cold, so one is enough there.
        period: Whether a block is a period of unequal steps, whose mean counts; else the median.
        step: What ends a step, as `Iterations` takes it.
        counts: Whether the script counts its steps itself; else each optimizer's step is one.
    """

    command: list[str]
    block: int
    cold: int
    period: bool = False
    step: str = "optimizer"
    counts: bool = False


PROMISED = {
    "TSMixerx": Case(["scripts/workloads/tsmixerx.py", "--steps", "260"], 4, 1),
    "NCF": Case(["scripts/workloads/ncf.py", "--rows", "33792", "--epochs", "1"], 4, 1),
    "plain loop": Case(["tests/workloads/plain_loop.py", "--steps", "2000"], 16, 2),
}
COLD = 2
TRUTH = {
    name: Case(
        [str(row.script), *row.args],
        row.block,
        0 if row.period else min(COLD, row.block // 4),
        row.period,
        row.step,
        counts=True,
    )
    for name, row in ROWS.items()
    if not row.whole
}
CASES = PROMISED | TRUTH


class OverError(BaseException):
    """The time is over: it ends a script without an end, past its own handlers."""


def attached_member(folder: Path, step: str) -> Member:
    """Make a member whose gate stays open.

    Args:
        folder: Its channel's, empty.
        step: What ends a step.
    """
    channel.create(folder, 1, 1)
    os.open(folder / "rest", os.O_RDWR | os.O_NONBLOCK)
    os.open(channel.gate(folder, 0, 0), os.O_RDWR)
    words = channel.open_words(folder)
    member = member_of(folder, 0, Options(step), worker.write_readback)
    words[channel.ORDER] = channel.RUN
    return member


class AuditHooks:
    """The interpreter's list of audit hooks, which Python can only add to (CPython 3.11).

    Args:
        add: adds the first hook.
    """

    def __init__(self, add: Callable[[], None]) -> None:
        state = ctypes.pythonapi.PyInterpreterState_Get
        state.restype = ctypes.c_void_p
        words = (ctypes.c_size_t * INTERPRETER_WORDS).from_address(state())
        before = list(words)
        add()
        set_now = [at for at, word in enumerate(before) if not word and words[at] >= LOWEST_ADDRESS]
        # An object's second word is its type.
        (at,) = (
            at for at in set_now if ctypes.c_size_t.from_address(words[at] + 8).value == id(list)
        )
        self._words, self._at, self._list = words, at, words[at]

    def attach(self, *, attached: bool) -> None:
        """Put the hooks in, or take them out."""
        self._words[self._at] = self._list if attached else 0


class Switch:
    """Puts the harness into torch and takes it out."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._hooks = AuditHooks(lambda: files.note_written(str(member.folder), 0))
        self._inner = ITERATOR.__next__, torch.autograd.backward
        self._loader = member.timed(channel.LOAD_NS, self._inner[0])
        torch.autograd.backward = member.timed(channel.BACKWARD_NS, self._inner[1])
        if member.how == iterations.BACKWARD:
            member.hook()
        self._backward = torch.autograd.backward
        self._fetcher: Any = None
        self._fetch: tuple[Any, Any] = (None, None)
        loaders.watch(loaders.MADE, member.timer("loader_made"))
        loaders.watch(loaders.COMPUTED, member.timer("loader_computed"))
        loaders.around_fetch(self._keep)

    def _keep(self, fetcher: Any, timed: Any) -> Any:
        """Remember what makes a loader's batches, timed and bare."""
        self._fetcher, self._fetch = fetcher, (timed, type(fetcher).fetch.__get__(fetcher))
        return timed

    def attach(self, *, attached: bool) -> None:
        """Make the next step an attached or a bare one."""
        optimizer._global_optimizer_pre_hooks.clear()  # noqa: SLF001
        optimizer._global_optimizer_post_hooks.clear()  # noqa: SLF001
        if self._fetcher is not None:
            self._fetcher.fetch = self._fetch[not attached]
        self._hooks.attach(attached=attached)
        if attached:
            ITERATOR.__next__, torch.autograd.backward = self._loader, self._backward
            if self._member.how == iterations.BACKWARD:
                return
            optimizer.register_optimizer_step_pre_hook(self._member.before_optimizer)
            optimizer.register_optimizer_step_post_hook(self._member.after_optimizer)
        else:
            ITERATOR.__next__, torch.autograd.backward = self._inner


class Clock:
    """Times every step in the same way, and switches between them, outside of what it times."""

    def __init__(self, switch: Switch, case: Case, seconds: float) -> None:
        self._switch, self._case = switch, case
        self.over_s = time.monotonic() + seconds
        self.durations: list[int] = []
        self._began = 0

    def install(self) -> None:
        """Time what the script counts, or the optimizers' step outside of torch's hooks."""
        if self._case.counts:
            import counting  # noqa: PLC0415 (`main` adds its folder to the path)

            counting.iteration = self.step_end
            return
        for kind in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
            kind.step = self._timed(kind.step)

    def _timed(self, step: Callable[..., Any]) -> Callable[..., Any]:
        # torch wraps the step of a class once, unless it is marked as wrapped (hooked) already:
        # functools.wraps copies that mark, which the first run has made.
        @functools.wraps(step)
        def timed(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            self.step_end()
            return result

        return timed

    def step_end(self) -> None:
        """Time the step that ends now, and switch after a block of them."""
        self.durations.append(time.perf_counter_ns() - self._began)
        block, rest = divmod(len(self.durations), self._case.block)
        if rest == 0:
            if time.monotonic() > self.over_s:
                raise OverError
            self._switch.attach(attached=block % 4 in {0, 3})
        self._began = time.perf_counter_ns()

    def groups(self) -> tuple[list[float], list[float]]:
        """Return the ratio of each group of blocks since the last call, and the bare times (s).

        The first group has the first steps of the script, and does not count.
        """
        group = 4 * self._case.block
        whole = len(self.durations) // group
        blocks = np.array(self.durations[: whole * group]).reshape(whole, 4, self._case.block)
        mean = np.mean if self._case.period else np.median
        step = mean(blocks[1:, :, self._case.cold :], axis=2) / 1e9
        self.durations.clear()
        bare_s = (step[:, 1] + step[:, 2]) / 2
        return list((step[:, 0] + step[:, 3]) / 2 / bare_s), list(bare_s)


def run(command: list[str]) -> None:
    """Run a script as the harness does."""
    sys.argv = command
    with contextlib.redirect_stdout(io.StringIO()):
        sys.path.insert(0, str((ROOT / command[0]).parent))
        runpy.run_path(str(ROOT / command[0]), run_name="__main__")


def measure(name: str, seconds: float, folder: Path) -> list[float]:
    """Print the ratio attached / bare; of short steps, what is added to each.

    Returns:
        The ratio of each group of blocks.
    """
    case = CASES[name]
    if not case.counts:
        run(case.command)
    switch = Switch(attached_member(folder, case.step))
    clock = Clock(switch, case, seconds)
    clock.install()
    ratios: list[float] = []
    bare_s: list[float] = []
    while time.monotonic() < clock.over_s:
        switch.attach(attached=True)
        with contextlib.suppress(OverError):
            run(case.command)
        more, times = clock.groups()
        ratios += more
        bare_s += times
    found, step_s = median_ratio(ratios), float(np.median(bare_s))
    text = f"{describe(found, 4)} of {1e3 * step_s:.2f} ms"
    if step_s > LONG_S:
        figure(f"attached / bare, {name}", "at most 1.01", text, met=found.value <= 1.01)
    else:
        added_us = (found.value - 1) * step_s * 1e6
        what = f"attached - bare, {name}"
        figure(what, "at most 25 us a step", f"{added_us:.1f} us; {text}", met=added_us <= 25)
    return ratios


def main() -> None:
    """Measure one case, or all that are promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--ratios", type=Path, help="a file for the ratios of all groups of blocks")
    options = parser.parse_args()
    if options.case is None:
        for name in PROMISED:
            command = [sys.executable, __file__, "--seconds", str(options.seconds), "--case", name]
            subprocess.run(command, check=True)
        return
    torch.set_num_threads(1)
    sys.path[:0] = [str(ROOT / "scripts/workloads"), str(ROOT / SCRIPTS)]
    with private.folder() as folder:
        ratios = measure(options.case, options.seconds, folder)
    if options.ratios:
        options.ratios.write_text(json.dumps([round(one, 5) for one in ratios]), encoding="utf-8")


if __name__ == "__main__":
    main()
