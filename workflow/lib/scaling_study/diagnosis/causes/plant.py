"""How a cause is planted: something that slows training down in this one way.

Plants prove that verdicts are right (``benchmarks/planted.py``); no study has any. The scripts that
some of them put around a workload are in the repository's benchmarks.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CPUS = sorted(os.sched_getaffinity(0))

HALF = max(1, len(CPUS) // 2)

FOLDER = Path(__file__).parents[4] / "benchmarks/plants"
"""Where the scripts are."""


@dataclass(frozen=True, slots=True)
class Dose:
    """What a plant's options may depend on.

    Attributes:
        step_s: about what a step of the workload takes alone.
        strength: one of STRENGTHS.
        multiplies: of the workload.
        folder: of this run, for files that members share.
    """

    step_s: float
    strength: float
    multiplies: int
    folder: Path


Options = tuple[str, ...]


def _none(_dose: Dose) -> Options:
    return ()


def _no_variables(_dose: Dose) -> Mapping[str, str]:
    return {}


def _possible() -> str | None:
    return None


WRAPPER = """\
import argparse
import sys

sys.path.insert(0, {0!r})
import real_workload


{1}

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float)
options, command = real_workload.options_of(parser)
real_workload.once({2!r}, lambda: {3}(options.seconds))
real_workload.run(command)
"""


@dataclass(frozen=True, slots=True)
class Plant:
    """Something that slows training down, and what a verdict should call it.

    Attributes:
        title: for people.
        causes: any of them, named first, is right; empty: none may be named.
        axes: the launch; one thread where nothing is said.
        env: further variables of the script's environment.
        most: processes at the reference n.
        clean_most: processes of the clean workload that it is compared with.
        wrapper: a file in FOLDER and options, around the script.
        code: in place of a wrapper, what slows a process down: called once in it, before the
            script, with about how long (s) it may take in each step. Its source is copied into a
            wrapper, so it imports inside of the function what it uses.
        control: the same wrapper without what makes it slow; empty: the bare script.
        control_axes: the launch without what makes it slow; None: one thread.
        outside: options of plants/outside.py, around the whole job.
        missing: why it cannot be planted here, or None.
        own: causes that come with what is around the plant, in its control too; as of a workload.
        level: whether it slows one process alone already.
        promised: whether the self-test runs it unasked; others are for whoever writes rules.
        only: the workloads that it can be planted in; empty: all.
    """

    title: str
    causes: tuple[str, ...]
    axes: Mapping[str, Any] = field(default_factory=lambda: {"intra_op": 1})
    env: Callable[[Dose], Mapping[str, str]] = _no_variables
    most: int = len(CPUS)
    clean_most: int = len(CPUS)
    wrapper: Callable[[Dose], Options] = _none
    code: Callable[[float], None] | None = None
    control: Callable[[Dose], Options] = _none
    control_axes: Mapping[str, Any] | None = None
    outside: Callable[[Dose], Options] = _none
    missing: Callable[[], str | None] = _possible
    own: Mapping[str, str] = field(default_factory=dict)
    level: bool = False
    promised: bool = True
    only: tuple[str, ...] = ()

    def around(self, name: str, dose: Dose) -> Options:
        """Return the wrapper, written if it is `code`, and its options."""
        if self.code is None:
            return self.wrapper(dose)
        path = dose.folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        source = textwrap.dedent(inspect.getsource(self.code))
        path.write_text(WRAPPER.format(str(FOLDER), source, name, self.code.__name__))
        return str(path), "--seconds", f"{dose.strength * dose.step_s:.5f}"

    def suits(self, workload: str) -> bool:
        """Whether it can be planted in a workload, a key of WORKLOADS."""
        return not self.only or workload in self.only

    @property
    def counts(self) -> list[int]:
        """Process counts of its study."""
        return sorted({1, min(len(CPUS), self.most), self.most})

    @property
    def controlled(self) -> bool:
        """Whether its runs are compared with a control of their own."""
        return self.control is not _none or self.control_axes is not None


def slow_loader(dose: Dose, *more: str) -> Options:
    """Return a wrapper that makes every batch take longer."""
    return ("slow_loader.py", "--seconds", f"{dose.strength * dose.step_s:.5f}", *more)


def step_thread(dose: Dose, *more: str) -> Options:
    """Return a wrapper whose thread computes beside each step."""
    seconds = 0.8 * dose.strength * dose.step_s
    return ("step_thread.py", "--seconds", f"{seconds:.5f}", *more)


def _ranks(dose: Dose, *what: str) -> Options:
    seconds = f"{dose.strength * dose.step_s:.5f}"
    return ("ranks.py", *(word for option in what for word in (option, seconds)))


def ranks_plant(title: str, cause: str, what: str) -> Plant:
    """Return a plant in a group of two ranks."""
    return Plant(
        title,
        (cause,),
        axes={"intra_op": 1, "ranks": 2},
        most=1,
        clean_most=1,
        wrapper=lambda dose: _ranks(dose, what),
        control=_ranks,
        missing=one_cpu,
        own={"communication": "the ranks exchange their gradients in every step"},
        level=True,
        promised=False,
        only=("ncf", "plain"),
    )


def one_cpu() -> str | None:
    """Say why no two processes can compete here."""
    return None if len(CPUS) > 1 else "there is one CPU only"
