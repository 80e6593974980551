"""Programs beside the study that take CPU time.

A look lasts a second and reads every process of the machine, so it is taken before a study or
between windows, never inside one.
"""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scaling_study.common.printable import printable
from scaling_study.common.quantities import format_count, format_cpus
from scaling_study.host import kernel_counters, machine_counters
from scaling_study.records.experiment import Foreign, ForeignProcess
from scaling_study.runner import windows

PROC = Path("/proc")

# A program that takes less than this share of a CPU is not worth a name, nor more than so many.
NAMED_SHARE = 0.05
NAMED_MOST = 5

# A tick of /proc/stat is 10 ms: over a second a CPU's share is known to some percent.
LOOK_S = 1.0

# Load that no program explains is worth a warning from here on. Less may be nothing that a user can
# stop: work of the kernel and the hypervisor (FOREIGN_CPUS, 0.05), whole ticks for exact times (two
# counters of each of two CPUs, 0.04), and a program that is too small for a name (0.05).
UNSEEN_CPUS = 0.15

# So many windows in a row are not lost by chance, and so many looks are enough for one job.
LOST_IN_A_ROW = 2
MOST_LOOKS = 3

# Flags of windows that something outside of the study has spoilt.
FOREIGN_FLAGS = frozenset({"foreign_cpu", "stolen_cpu"})

Times = dict[int, tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Program:
    """Processes of one name beside the study, and how many CPUs they keep busy together."""

    name: str
    processes: int
    cpus: float


@dataclass(frozen=True, slots=True)
class Look:
    """The load of other programs on the CPUs of a study.

    Attributes:
        usable_cpus: how many CPUs the study may use.
        foreign_cpus: how many of them other programs kept busy.
        stolen_cpus: how many of them the hypervisor gave to others.
        programs: those with the most CPU time, on whatever CPU.
    """

    usable_cpus: int
    foreign_cpus: float
    stolen_cpus: float
    programs: tuple[Program, ...]

    @property
    def taken(self) -> bool:
        """Whether windows would be lost to other programs."""
        limit = windows.foreign_limit_cpus(self.usable_cpus)
        return self.foreign_cpus > (limit if self.programs else max(limit, UNSEEN_CPUS))

    @property
    def stolen(self) -> bool:
        """Whether windows would be lost to the hypervisor."""
        return self.stolen_cpus > windows.foreign_limit_cpus(self.usable_cpus)


def cpu_times(proc: Path = PROC) -> Times:
    """Return the name and the CPU time (s) since its start of every process of the machine."""
    found = {}
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):  # it has just ended
            text = (folder / "stat").read_text(errors="replace")
            name, _, fields = text.partition("(")[2].rpartition(")")
            found[int(folder.name)] = name, sum(kernel_counters.user_and_system_s(fields.split()))
    return found


def largest(before: Times, after: Times, span_s: float) -> list[ForeignProcess]:
    """Return who beside the study took a share of a CPU between two readings, the largest first.

    A process that ended in between is not seen.

    Args:
        before: from ``cpu_times``.
        after: the same, later.
        span_s: time between the two.
    """
    own = set(kernel_counters.descendants(os.getpid()))
    found = []
    for pid, (name, total_s) in after.items():
        cpu_s = total_s - before.get(pid, ("", 0.0))[1]
        if pid not in own and cpu_s >= NAMED_SHARE * span_s:
            found.append(ForeignProcess(name=name, pid=pid, cpu_s=cpu_s, share=cpu_s / span_s))
    return sorted(found, key=lambda one: -one.cpu_s)


def record(before: Times, after: Times, span_s: float) -> Foreign:
    """Return, as a record, which programs beside the study took CPU time between two readings."""
    return Foreign(span_s=span_s, processes=largest(before, after, span_s)[:NAMED_MOST])


def look(cpus: frozenset[int], span_s: float = LOOK_S) -> Look:
    """Look for a while at what other programs do on the CPUs that a study may use.

    Whoever calls is the study, with all processes below it, and should do nothing meanwhile.
    """
    pid = os.getpid()
    own_s, machine = kernel_counters.tree_cpu_s(pid), machine_counters.read_machine(cpus)
    times, began_s = cpu_times(), time.perf_counter()
    time.sleep(span_s)
    took_s, after = time.perf_counter() - began_s, cpu_times()
    used = machine_counters.machine_usage(machine, machine_counters.read_machine(cpus))
    own_s = kernel_counters.tree_cpu_s(pid) - own_s

    def busy_cpus(cpu_s: float) -> float:
        # Whole ticks may make it a little less or more than there is.
        return min(float(len(cpus)), max(0.0, cpu_s) / took_s)

    return Look(
        usable_cpus=len(cpus),
        foreign_cpus=busy_cpus(used.busy_cpu_s - own_s),
        stolen_cpus=busy_cpus(used.steal_s),
        programs=_by_name(largest(times, after, took_s)),
    )


def _by_name(processes: Iterable[ForeignProcess]) -> tuple[Program, ...]:
    cpus: dict[str, list[float]] = defaultdict(list)
    for one in processes:
        cpus[one.name].append(one.share)
    found = (Program(name, len(shares), sum(shares)) for name, shares in cpus.items())
    return tuple(sorted(found, key=lambda one: -one.cpus)[:NAMED_MOST])


def describe(seen: Look) -> str:
    """Say who keeps the CPUs of a study busy; empty if nobody does. Safe for a terminal."""
    of = f"of the {format_count(seen.usable_cpus, 'CPU')} of this study"
    parts = []
    if seen.taken:
        names = ", ".join(map(_program, seen.programs))
        who = names or "none that can be seen from here: short-lived, or of another container"
        parts.append(f"other programs keep {format_cpus(seen.foreign_cpus)} {of} busy ({who})")
    if seen.stolen:
        parts.append(f"the hypervisor gives {format_cpus(seen.stolen_cpus)} {of} to others")
    return "; ".join(parts)


def _program(one: Program) -> str:
    many = f" in {one.processes} processes" if one.processes > 1 else ""
    return f"{printable(one.name)}: {format_cpus(one.cpus)}{many}"


class Lookout:
    """Notices that windows keep being lost to others, and looks who that is."""

    def __init__(self, cpus: frozenset[int], span_s: float = LOOK_S) -> None:
        self._cpus = cpus
        self._span_s = span_s
        self._lost = 0
        self._left = MOST_LOOKS

    def after_window(self, flags: Collection[str]) -> Look | None:
        """Take notice of a window; all members must be at rest.

        Args:
            flags: of the window.

        Returns:
            What a look found, where some windows in a row were lost and a look is left.
        """
        self._lost = self._lost + 1 if FOREIGN_FLAGS.intersection(flags) else 0
        if self._lost < LOST_IN_A_ROW or not self._left:
            return None
        self._lost = 0
        self._left -= 1
        return look(self._cpus, self._span_s)
