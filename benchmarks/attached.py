"""Cost of being measured: step time of an attached script against the same script bare.

One process trains; the harness's hooks and wrappers are put in and taken out after every few steps,
in the order attached, bare, bare, attached. The figure is the median, over such groups of four
neighbouring blocks, of the attached blocks' step time by the bare ones', with a bootstrap interval:
whatever else the machine does meets both alike. Each case is a process of its own. Usage:

    python benchmarks/attached.py [--runs 15] [--case NCF]
"""

import argparse
import contextlib
import ctypes
import functools
import io
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
from scipy import stats
from torch.optim import optimizer
from torch.utils.data import dataloader

from scaling_study.common import private
from scaling_study.member import channel, files, loaders
from scaling_study.member.member import Member, Options, member_of

ROOT = Path(__file__).parent.parent
ITERATOR = dataloader._BaseDataLoaderIter  # noqa: SLF001 (what the harness wraps)

INTERPRETER_WORDS = 4096
"""Words of CPython's PyInterpreterState, a larger structure, that hold its list of audit hooks."""

LOWEST_ADDRESS = 2**32
"""Addresses of a 64-bit process's heap are above it, and the state's counts below."""

LONG_S = 3e-3
"""A ratio is promised of steps from here on, an addition of shorter ones."""


class Case(NamedTuple):
    """A script, and how many steps make a block: short ones meet the machine's changes alike.

    The first steps of a block meet cold code and do not count. Between steps of milliseconds all
    code gets cold, so one is enough there.
    """

    command: list[str]
    block: int
    cold: int


CASES = {
    "TSMixerx": Case(["scripts/workloads/tsmixerx.py", "--steps", "260"], 4, 1),
    "NCF": Case(["scripts/workloads/ncf.py", "--rows", "33792", "--epochs", "1"], 4, 1),
    "plain loop": Case(["tests/workloads/plain_loop.py", "--steps", "2000"], 16, 2),
}


def attached_member(folder: Path) -> Member:
    """Make a member whose gate stays open."""
    channel.create(folder, 1, 1)
    os.open(folder / "rest", os.O_RDWR | os.O_NONBLOCK)
    os.open(channel.gate(folder, 0, 0), os.O_RDWR)
    words = channel.open_words(folder)
    member = member_of(folder, 0, Options())
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
        self._hooks = AuditHooks(lambda: files.note_written(member.folder, 0))
        self._inner = ITERATOR.__next__, torch.autograd.backward
        self._loader = member.timed(channel.LOAD_NS, self._inner[0])
        self._backward = member.timed(channel.BACKWARD_NS, self._inner[1])
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
            optimizer.register_optimizer_step_pre_hook(self._member.before_optimizer)
            optimizer.register_optimizer_step_post_hook(self._member.after_optimizer)
        else:
            ITERATOR.__next__, torch.autograd.backward = self._inner


class Clock:
    """Times every step in the same way, and switches between them, outside of what it times."""

    def __init__(self, switch: Switch, case: Case) -> None:
        self._switch = switch
        self._block, self._cold = case.block, case.cold
        self.durations: list[int] = []
        self._began = 0

    def install(self) -> None:
        """Wrap the optimizers' step outside of torch's hooks, where both kinds of step pass."""
        for kind in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
            kind.step = self._timed(kind.step)

    def _timed(self, step: Callable[..., Any]) -> Callable[..., Any]:
        # torch wraps the step of a class once, unless it is marked as wrapped (hooked) already:
        # functools.wraps copies that mark, which the first run has made.
        @functools.wraps(step)
        def timed(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            self.durations.append(time.perf_counter_ns() - self._began)
            block, rest = divmod(len(self.durations), self._block)
            if rest == 0:
                self._switch.attach(attached=block % 4 in {0, 3})
            self._began = time.perf_counter_ns()
            return result

        return timed

    def groups(self) -> tuple[list[float], list[float]]:
        """Return the ratio of each group of blocks since the last call, and the bare times (s)."""
        group = 4 * self._block
        whole = len(self.durations) // group
        blocks = np.array(self.durations[: whole * group]).reshape(whole, 4, self._block)
        step = np.median(blocks[:, :, self._cold :], axis=2) / 1e9
        self.durations.clear()
        bare_s = (step[:, 1] + step[:, 2]) / 2
        return list((step[:, 0] + step[:, 3]) / 2 / bare_s), list(bare_s)


def run(command: list[str]) -> None:
    """Run a script as the harness does."""
    sys.argv = command
    with contextlib.redirect_stdout(io.StringIO()):
        sys.path.insert(0, str((ROOT / command[0]).parent))
        runpy.run_path(str(ROOT / command[0]), run_name="__main__")


def measure(name: str, runs: int, folder: Path) -> None:
    """Print the ratio attached / bare; of short steps, what is added to each."""
    case = CASES[name]
    run(case.command)
    switch = Switch(attached_member(folder))
    clock = Clock(switch, case)
    clock.install()
    ratios: list[float] = []
    bare_s: list[float] = []
    for _ in range(runs):
        switch.attach(attached=True)
        run(case.command)
        more, times = clock.groups()
        ratios += more
        bare_s += times
    found = stats.bootstrap((ratios,), np.median, n_resamples=2000, rng=np.random.default_rng(1))
    ratio, step_s = float(np.median(ratios)), float(np.median(bare_s))
    ends = found.confidence_interval
    text = f"{ratio:.4f} ({ends.low:.4f} to {ends.high:.4f}) of {1e3 * step_s:.2f} ms"
    if step_s > LONG_S:
        figure(f"attached / bare, {name}", "at most 1.01", text, met=ratio <= 1.01)
    else:
        added_us = (ratio - 1) * step_s * 1e6
        what = f"attached - bare, {name}"
        figure(what, "at most 25 us a step", f"{added_us:.1f} us; {text}", met=added_us <= 25)


def main() -> None:
    """Measure one case, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--case", choices=CASES)
    options = parser.parse_args()
    if options.case is None:
        for name in CASES:
            command = [sys.executable, __file__, "--runs", str(options.runs), "--case", name]
            subprocess.run(command, check=True)
        return
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "scripts/workloads"))
    with private.folder() as folder:
        measure(options.case, options.runs, folder)


if __name__ == "__main__":
    main()
