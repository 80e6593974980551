"""Cost of being measured: step time of an attached script against the same script bare.

One process runs a script's training again and again; the harness's hooks and wrappers are
installed for every second run and taken out for the others. The figure is the ratio of the two
median step times, with a bootstrap interval over the pairs of runs. Usage:

    python benchmarks/attached.py [--pairs 40] [--case NCF]
"""

import argparse
import contextlib
import functools
import io
import json
import os
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch.optim import optimizer
from torch.utils.data import dataloader

from scaling_study import channel, private, worker

ROOT = Path(__file__).parent.parent
CASES = {
    "TSMixerx": ["scripts/workloads/tsmixerx.py", "--steps", "60"],
    "NCF": ["scripts/workloads/ncf.py", "--rows", "8192", "--epochs", "1"],
    "plain loop": ["tests/workloads/plain_loop.py", "--steps", "400"],
}


def attached_member(folder: Path) -> worker.Member:
    """Make a member whose gate stays open."""
    channel.create(folder, 1)
    os.open(folder / "rest", os.O_RDWR | os.O_NONBLOCK)
    os.open(folder / "gate-0", os.O_RDWR)
    member = worker.Member(folder, 0, "exec")
    channel.open_words(folder)[channel.ORDER] = channel.RUN
    return member


@contextlib.contextmanager
def attached(member: worker.Member) -> Iterator[None]:
    """Attach for one run, then take everything out again."""
    iterator = dataloader._BaseDataLoaderIter  # noqa: SLF001 (what the harness wraps)
    inner, backward = iterator.__next__, torch.autograd.backward
    worker.attach(member, by_mark=False)
    try:
        yield
    finally:
        iterator.__next__, torch.autograd.backward = inner, backward
        optimizer._global_optimizer_pre_hooks.clear()  # noqa: SLF001
        optimizer._global_optimizer_post_hooks.clear()  # noqa: SLF001


class Clock:
    """Times the steps of both kinds of run in the same way: one time stamp after each."""

    def __init__(self) -> None:
        self._stamps: list[int] = []

    def install(self) -> None:
        """Wrap the optimizers' step outside of torch's hooks, where both kinds of run pass."""
        for kind in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
            kind.step = self._timed(kind.step)

    def _timed(self, step: Callable[..., Any]) -> Callable[..., Any]:
        # torch wraps the step of a class once, unless it is marked as wrapped (hooked) already:
        # functools.wraps copies that mark, which the first run has made.
        @functools.wraps(step)
        def timed(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            self._stamps.append(time.perf_counter_ns())
            return result

        return timed

    def median_s(self) -> float:
        """Return the median step time since the last call."""
        median = float(np.median(np.diff(self._stamps))) / 1e9
        self._stamps.clear()
        return median


def run(command: list[str]) -> None:
    """Run a script as the harness does."""
    sys.argv = command
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(ROOT / command[0]), run_name="__main__")


def measure(command: list[str], pairs: int, folder: Path) -> dict[str, float]:
    """Return the ratio attached / bare with its 95% interval, and the bare step time."""
    member, clock = attached_member(folder), Clock()
    with attached(member):
        run(command)
    clock.install()
    ratios, bare_s = [], []
    for pair in range(pairs):
        times = {}
        for attach in (False, True) if pair % 2 else (True, False):
            with attached(member) if attach else contextlib.nullcontext():
                run(command)
            times[attach] = clock.median_s()
        ratios.append(times[True] / times[False])
        bare_s.append(times[False])
    found = stats.bootstrap((ratios,), np.median, rng=np.random.default_rng(1))
    return {
        "step_ms": float(np.median(bare_s)) * 1e3,
        "ratio": float(np.median(ratios)),
        "low": float(found.confidence_interval.low),
        "high": float(found.confidence_interval.high),
    }


def main() -> None:
    """Measure one case and print its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--case", choices=CASES, default="TSMixerx")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.insert(0, str(ROOT / "scripts/workloads"))
    with private.folder() as folder:
        print(json.dumps(measure(CASES[options.case], options.pairs, folder)))


if __name__ == "__main__":
    main()
