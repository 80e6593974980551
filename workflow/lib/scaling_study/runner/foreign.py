"""Programs outside the study that take CPU time.

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

# Programs that take less than this share of a CPU are not named, and at most NAMED_MOST are.
NAMED_SHARE = 0.05
NAMED_MOST = 5

# A tick of /proc/stat is 10 ms: over a second, a CPU's share is known to within a few percent.
LOOK_S = 1.0

# Load that no named program explains gets a warning from this many CPUs on. A user may be unable to
# stop a smaller load: work of the kernel and the hypervisor (FOREIGN_CPUS, 0.05), rounding to whole
# ticks (two counters of each of two CPUs, 0.04), and a program too small to be named (0.05).
UNSEEN_CPUS = 0.15

# This many windows in a row are not lost by chance. A job looks at most MOST_LOOKS times.
LOST_IN_A_ROW = 2
MOST_LOOKS = 3

# Flags of windows that something outside the study has spoilt.
FOREIGN_FLAGS = frozenset({"foreign_cpu", "stolen_cpu"})

Times = dict[int, tuple[str, float]]


@dataclass(frozen=True, slots=True)
class ForeignProgram:
    """Processes of one name outside the study, and how many CPUs they keep busy together."""

    name: str
    processes: int
    cpus: float


@dataclass(frozen=True, slots=True)
class ForeignLoad:
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
    programs: tuple[ForeignProgram, ...]

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
    """Return the name and CPU time (s) of every process of the machine, by process id."""
    times = {}
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):  # it has just ended
            text = (folder / "stat").read_text(errors="replace")
            name, _, fields = text.partition("(")[2].rpartition(")")
            times[int(folder.name)] = name, sum(kernel_counters.user_and_system_s(fields.split()))
    return times


def largest(before: Times, after: Times, span_s: float) -> list[ForeignProcess]:
    """Return the processes outside the study that used CPUs between two readings, largest first.

    A process that ended in between is not seen.

    Args:
        before: from ``cpu_times``.
        after: the same, later.
        span_s: time between the two.
    """
    own_pids = set(kernel_counters.descendants(os.getpid()))
    processes = []
    for pid, (name, total_s) in after.items():
        cpu_s = total_s - before.get(pid, ("", 0.0))[1]
        if pid not in own_pids and cpu_s >= NAMED_SHARE * span_s:
            processes.append(ForeignProcess(name=name, pid=pid, cpu_s=cpu_s, share=cpu_s / span_s))
    return sorted(processes, key=lambda process: -process.cpu_s)


def record(before: Times, after: Times, span_s: float) -> Foreign:
    """Return the record of programs outside the study that used CPUs between two readings."""
    return Foreign(span_s=span_s, processes=largest(before, after, span_s)[:NAMED_MOST])


def look(cpus: frozenset[int], span_s: float = LOOK_S) -> ForeignLoad:
    """Measure for a while the load of other programs on the CPUs that a study may use.

    The calling process, with all processes below it, is the study. It should be idle meanwhile.
    """
    pid = os.getpid()
    own_s, machine = kernel_counters.tree_cpu_s(pid), machine_counters.read_machine(cpus)
    times, began_s = cpu_times(), time.perf_counter()
    time.sleep(span_s)
    took_s, after = time.perf_counter() - began_s, cpu_times()
    used = machine_counters.machine_usage(machine, machine_counters.read_machine(cpus))
    own_s = kernel_counters.tree_cpu_s(pid) - own_s

    def busy_cpus(cpu_s: float) -> float:
        # Rounding to whole ticks may give a little less than 0, or more than all CPUs.
        return min(float(len(cpus)), max(0.0, cpu_s) / took_s)

    return ForeignLoad(
        usable_cpus=len(cpus),
        foreign_cpus=busy_cpus(used.busy_cpu_s - own_s),
        stolen_cpus=busy_cpus(used.steal_s),
        programs=_by_name(largest(times, after, took_s)),
    )


def _by_name(processes: Iterable[ForeignProcess]) -> tuple[ForeignProgram, ...]:
    cpus: dict[str, list[float]] = defaultdict(list)
    for process in processes:
        cpus[process.name].append(process.share)
    programs = (ForeignProgram(name, len(shares), sum(shares)) for name, shares in cpus.items())
    return tuple(sorted(programs, key=lambda program: -program.cpus)[:NAMED_MOST])


def describe(reading: ForeignLoad) -> str:
    """Describe who keeps the CPUs of a study busy; empty if nobody does. Safe for a terminal."""
    of = f"of the {format_count(reading.usable_cpus, 'CPU')} of this study"
    parts = []
    if reading.taken:
        names = ", ".join(map(_program, reading.programs))
        who = names or "none that can be seen from here: short-lived, or of another container"
        parts.append(f"other programs keep {format_cpus(reading.foreign_cpus)} {of} busy ({who})")
    if reading.stolen:
        parts.append(f"the hypervisor gives {format_cpus(reading.stolen_cpus)} {of} to others")
    return "; ".join(parts)


def _program(program: ForeignProgram) -> str:
    many = f" in {program.processes} processes" if program.processes > 1 else ""
    return f"{printable(program.name)}: {format_cpus(program.cpus)}{many}"


class Lookout:
    """Notices when windows keep being lost to other programs, and looks which ones."""

    def __init__(self, cpus: frozenset[int], span_s: float = LOOK_S) -> None:
        self._cpus = cpus
        self._span_s = span_s
        self._lost = 0
        self._left = MOST_LOOKS

    def after_window(self, flags: Collection[str]) -> ForeignLoad | None:
        """Note a window's flags, and look at other programs if windows keep being lost to them.

        Args:
            flags: the flags of the window, all of whose members must be at rest.

        Returns:
            The look; None if too few windows in a row were lost, or no look is left.
        """
        self._lost = self._lost + 1 if FOREIGN_FLAGS.intersection(flags) else 0
        if self._lost < LOST_IN_A_ROW or not self._left:
            return None
        self._lost = 0
        self._left -= 1
        return look(self._cpus, self._span_s)
