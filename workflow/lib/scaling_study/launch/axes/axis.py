"""One axis of a launch: its words, its effect on a process, and the check that it took effect.

A module of this package holds the axes of one theme by name, in ``AXES``, or a single axis,
``AXIS``. A further axis is a module with an ``AXIS`` in a folder ``scaling_study_axes`` on
PYTHONPATH; the module's name is the axis's. A member imports the module of an axis that changes the
process itself, so such modules need only the standard library and import torch where they use it.

Several axes take the same values (`counts`, `LIBRARY`, `read_id_list`), observe the value in effect
in objects that live in the process (`living`, `the_one`), or preload a library (`preload`) and
recognise it afterwards.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from scaling_study.common.problems import found, require_file, wrong
from scaling_study.common.topology import format_cpu_list, parse_cpu_list
from scaling_study.common.unavailable import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scaling_study.common.axis_values import Axes, Value
    from scaling_study.common.topology import Topology
    from scaling_study.records import window
    from scaling_study.records.machine import Machine
    from scaling_study.records.readback import Readback

V_contra = TypeVar("V_contra", contravariant=True)
"""The values of an axis."""
T = TypeVar("T")
V = TypeVar("V", int, str)

MOST_THREADS = 4096
"""Far above any machine: a larger count is a slip of the keyboard."""


@dataclass(frozen=True)
class Library:
    """A library that a launch may preload or need.

    ``patterns`` are globs relative to a library folder, the preferred first; ``install`` is a
    command that provides it.
    """

    patterns: tuple[str, ...]
    install: str


@dataclass(frozen=True)
class Others:
    """The values of an axis that are not words.

    Attributes:
        allowed: Text that describes them in messages.
        read: Reads a value of the config, given whether files must exist. Returns None if it does
            not understand the value, and raises ConfigError if the value is nearly right.
    """

    allowed: str
    read: Callable[[object, bool], Value | None]


@dataclass(frozen=True)
class Where:
    """A machine on which a launch is prepared.

    Attributes:
        machine: machine.json.
        builds: folder of built environments and libraries; None where nothing may be built.
        axes: the whole launch, for a value whose effect depends on another axis.
    """

    machine: Machine
    builds: Path | None = None
    axes: Axes = field(default_factory=dict)


@dataclass(frozen=True)
class Effects:
    """Changes that a launch makes to a process before it starts.

    Attributes:
        env: Environment variables.
        preload: Shared libraries, in the order of LD_PRELOAD.
        python: The interpreter; None for the study's own.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()
    python: str | None = None

    def __or__(self, other: Effects) -> Effects:
        """Return both together; if both set the same variable, ``other`` wins."""
        return Effects(
            {**self.env, **other.env}, (*self.preload, *other.preload), other.python or self.python
        )

    def environment(self) -> dict[str, str]:
        """Return the variables, with the preloads as ``LD_PRELOAD``."""
        return {**self.env, **({"LD_PRELOAD": ":".join(self.preload)} if self.preload else {})}


@dataclass(frozen=True)
class PlacedSlot:
    """The place of one member.

    Attributes:
        slot: The member's number.
        cpus: Its CPUs, ascending; None when it is not bound.
        oversubscribed: Whether it shares a CPU with an earlier slot; if not bound, whether it and
            the earlier ones ask for more CPUs than there are.
        policy: Its memory policy, as numa_maps writes it (proc(5)): ``default``, ``bind:0-1``,
            ``interleave:0,2``.
        loader_cpus: The part of its CPUs that is for its loader's workers alone; None without.
    """

    slot: int
    cpus: tuple[int, ...] | None = None
    oversubscribed: bool = False
    policy: str = "default"
    loader_cpus: tuple[int, ...] | None = None


Slots = tuple[PlacedSlot, ...]


@dataclass(frozen=True)
class Axis(Generic[V_contra]):
    """A setting that is fixed when a process starts.

    Attributes:
        meaning: Its description, in one line.
        words: The allowed words, each with its meaning. The first one is the default.
        others: Further values that are allowed.
        variables: Environment variables that belong to this axis, so no workload may set them.
        libraries: Shared libraries that its values need, by name.
        refuse: Raises UnavailableError if other axes exclude a value other than the default.
        prepare: Returns the effects of a value other than the default before a process starts;
            raises UnavailableError if the machine cannot do it.
        place: Gives slots their CPUs or memory policies; raises UnavailableError likewise.
        apply: Applies a value other than the default in the process itself, as soon as torch is
            imported. Its source is copied into a file next to the launch script. So it uses
            nothing of its module, and of this package only what it imports from `after_torch`,
            which is copied too.
        lines: Returns lines of Python that do the same in the script, after it imports torch.
        observe: Returns, in the process itself, the value in effect, or why there is none.
        numbers: Effect of a value other than the default on the numbers that training computes
            with: ``same``, ``rounding`` (sums in another order), or ``coarser``, which may change
            how the loss falls.
        requested: Describes the request to a member, from the value and the slot's record.
        effective: Describes what a member got, from the value and its readback; by default the
            observed value.
        holds: Returns whether a value took effect, from the value, the readback and the slot's
            record. If None, the axis's default always holds, and another value if it is observed.
    """

    meaning: str
    words: Mapping[str, str]
    others: Others | None = None
    variables: tuple[str, ...] = ()
    libraries: Mapping[str, Library] = field(default_factory=dict)
    refuse: Callable[[Axes], None] | None = None
    prepare: Callable[[V_contra, Where], Effects] | None = None
    place: Callable[[Axes, Topology, Slots], Slots] | None = None
    apply: Callable[[V_contra], None] | None = None
    lines: Callable[[V_contra], str] = lambda _value: ""
    observe: Callable[[], object] | None = None
    numbers: Literal["same", "rounding", "coarser"] = "same"
    requested: Callable[[V_contra, window.Slot], str] = lambda value, _slot: str(value)
    effective: Callable[[V_contra, Readback], str] | None = None
    holds: Callable[[V_contra, Readback, window.Slot], bool] | None = None

    @property
    def of_environment(self) -> bool:
        """Whether it changes the environment alone, which child processes inherit."""
        return self.prepare is not None and self.apply is None and self.place is None

    @property
    def default(self) -> str:
        """The value where nothing is set."""
        return next(iter(self.words))

    @property
    def allowed(self) -> str:
        """All allowed values, as text for messages."""
        return ", ".join([*self.words, *([self.others.allowed] if self.others else [])])


def living(kind: type[T]) -> list[T]:
    """Return all objects of a class and its subclasses, also those that gc.freeze has set aside."""
    frozen = gc.get_freeze_count() > 0
    if frozen:
        gc.unfreeze()
    # isinstance would ask objects of any kind for their __class__, which may do anything.
    objects = [one for one in gc.get_objects() if issubclass(type(one), kind)]
    if frozen:
        gc.freeze()
    return objects


def the_one(values: set[V], without: str) -> V | str:
    """Return the only value, several values as one text, or ``without`` if there is none."""
    if len(values) == 1:
        return next(iter(values))
    return ", ".join(map(str, sorted(values))) or without


def counts(least: int) -> Others:
    """Return whole numbers from ``least`` on as the values of an axis."""
    allowed = f"a whole number from {least} to {MOST_THREADS}"

    def read(value: object, _files: bool) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        if not least <= value <= MOST_THREADS:
            raise wrong(value, "is not allowed", allowed)
        return value

    return Others(allowed, read)


def _read_library(value: object, files: bool) -> str | None:
    if not isinstance(value, str) or "/" not in value:
        return None
    if files:
        require_file(value, LIBRARY.allowed)
    return value


def read_id_list(value: object, allowed: str) -> str:
    """Read a list of ids such as ``0-3,8``, or one id.

    Raises:
        ConfigError: the value is neither.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise wrong(value, found(value), allowed)
    with suppress(ValueError):
        if ids := parse_cpu_list(str(value)):
            return format_cpu_list(ids)
    raise wrong(value, "is not a list of ids", allowed)


COUNT = counts(1)
LIBRARY = Others("the path of a shared library (with a /)", _read_library)


def path_of(name: str, machine: Machine, entry: Library) -> str:
    """Return the path of a library that the probe found.

    Raises:
        UnavailableError: it is not installed.
    """
    found = machine.libraries.get(name)
    if found is None:
        # The probe looks in the environment of the study, which need not be the one of the shell.
        own = f"{sys.executable} -m " if entry.install.startswith("pip ") else ""
        raise UnavailableError(f"{name} is not installed", f"{own}{entry.install}")
    return found


def preloaded(path: str) -> Effects:
    """Return the effect of preloading a library.

    Raises:
        UnavailableError: its path cannot be written into LD_PRELOAD.
    """
    # Both are separators to ld.so(8), which has no way to quote them.
    if " " in path or ":" in path:
        raise UnavailableError(
            f"{path} cannot be preloaded: its path has a space or a colon",
            f"ln -s {shlex.quote(path)} to a path without, and name that one",
        )
    return Effects(preload=(os.path.abspath(path),))  # noqa: PTH100 (members run elsewhere)


def preload(value: str, machine: Machine, libraries: Mapping[str, Library]) -> Effects:
    """Return the effect of preloading a library that is given by its path, or by its name.

    Raises:
        UnavailableError: it is not installed, or cannot be preloaded.
    """
    return preloaded(value if is_path(value) else path_of(value, machine, libraries[value]))


def is_path(value: Value) -> bool:
    """Return whether a value is a path and not a word."""
    return isinstance(value, str) and os.sep in value


def is_preloaded(path: str | None, readback: Readback) -> bool:
    """Return whether a library is among those that a member's environment preloads."""
    preloads = readback.env.get("LD_PRELOAD", "").split(":")
    return any(_same_file(one, path) for one in preloads if one)


def is_named(value: str, path: str | None) -> bool:
    """Return whether a value names a library: by its path, or by a word in its file's name."""
    return _same_file(value, path) if is_path(value) else value in Path(path or "").name


def _same_file(path: str, other: str | None) -> bool:
    return other is not None and os.path.realpath(path) == os.path.realpath(other)
