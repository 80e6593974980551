"""Snapshots of the kernel's counters at the two edges of a window, and the window's record.

Edges lie before members are released and after they have come to rest: counters then belong to
whole steps, and reading them disturbs none.
"""

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec import structs

from scaling_study.common.counter import TIMED
from scaling_study.host import kernel_counters, machine_counters, perf_events
from scaling_study.records.window import Life, MemberWindow, Taken, Usage, WindowMachine
from scaling_study.runner import windows

GATED = ("load_s", "forward_s", "backward_s", "optimizer_s", *(timer.field for timer in TIMED))
"""Times of a window that are known only for members with gates."""


Threads = Mapping[int, kernel_counters.Thread]
"""Threads by their ids."""


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """Counters at one edge of a window; those of members are by slot.

    Attributes:
        wall_ns: when they were read.
        machine: counters of the CPUs that the study may use.
        throttled: time (s) for which each cgroup above a member was held back by its quota.
        trainers: the training thread.
        trees: a member's process and all that it has started, by process id.
        events: hardware counters.
        sleeping_s: CPU time of the members that the window leaves out.
        study_s: CPU time of all that belongs to the study.
        coordinator_s: CPU time of this process.
    """

    wall_ns: int
    machine: machine_counters.MachineCounters
    throttled: dict[Path, float]
    trainers: dict[int, int]
    trees: dict[int, dict[int, kernel_counters.Process]]
    events: dict[int, dict[str, perf_events.Reading]]
    sleeping_s: float
    study_s: float
    coordinator_s: float


def read(
    pids: Mapping[int, int],
    trainers: dict[int, int],
    cpus: frozenset[int],
    hardware: perf_events.PerfEvents,
) -> CounterSnapshot:
    """Read all counters.

    Args:
        pids: the process of each member that lives, by slot.
        trainers: the training thread of each member in the window, by slot.
        cpus: the CPUs that the study may use.
        hardware: the members' hardware counters.
    """
    trees = {slot: kernel_counters.read_tree(pids[slot]) for slot in trainers}
    active_s = sum(kernel_counters.known_cpu_s(tree) for tree in trees.values())
    sleeping_s = sum(kernel_counters.tree_cpu_s(pids[slot]) for slot in pids.keys() - trainers)
    # Whatever else belongs to this study: the launcher's host, cohorts of other launches.
    others_s = kernel_counters.tree_cpu_s(os.getpid(), without=pids.values())
    return CounterSnapshot(
        wall_ns=time.perf_counter_ns(),
        machine=machine_counters.read_machine(cpus),
        throttled=machine_counters.read_throttled(pids[slot] for slot in trainers),
        trainers=trainers,
        trees=trees,
        events={slot: hardware.read(slot) for slot in trainers},
        sleeping_s=sleeping_s,
        study_s=active_s + sleeping_s + others_s,
        coordinator_s=time.process_time(),
    )


def read_frequencies_mhz(files: Sequence[tuple[int, Path]]) -> dict[int, float]:
    """Return the frequency of each CPU whose file (kHz) can be read now."""
    frequencies = {}
    for cpu, path in files:
        with suppress(OSError, ValueError):  # the CPU is offline; "<unknown>"
            frequencies[cpu] = int(kernel_counters.read_text(path)) / 1e3
    return frequencies


def members_mhz(
    frequencies_mhz: Mapping[int, float], before: Threads, after: Threads
) -> float | None:
    """Return the mean frequency of the CPUs that members ran on, weighted by their run time.

    CPUs on which no member ran do not count: idle ones are slow, and other programs' are fast.

    Args:
        frequencies_mhz: by CPU, as read when the window closed.
        before: members' threads at the window's first edge.
        after: the same at its second edge.

    Returns:
        None if no member ran, or if the frequency of any of these CPUs is unknown.
    """
    used = kernel_counters.run_s_by_cpu(before, after)
    if not used or not used.keys() <= frequencies_mhz.keys():
        return None
    return sum(run_s * frequencies_mhz[cpu] for cpu, run_s in used.items()) / sum(used.values())


def member_record(
    stretches: Sequence[windows.Stretch],
    at: int,
    before: CounterSnapshot,
    after: CounterSnapshot,
    used: Usage | None = None,
) -> MemberWindow:
    """Return a window's record of one member.

    Args:
        stretches: the stretches of the window.
        at: the member's index in their activities.
        before: counters at the first edge.
        after: counters at the second edge.
        used: what it used, where that is not read at the edges.
    """
    steps = windows.window_record(stretches, at)
    if used is not None:
        return MemberWindow(**structs.asdict(steps), **structs.asdict(used))
    slot = steps.slot
    used = kernel_counters.usage(before.trees[slot], after.trees[slot], after.trainers[slot])
    hardware = perf_events.count(before.events[slot], after.events[slot], used.cpu_s)
    life = Life()
    if len(stretches) == 1:
        stretch = stretches[0]
        life = windows.life_record(stretch.activities[at], stretch.opened_ns, stretch.closed_ns)
    parts = steps, life, structs.replace(used, **hardware)
    known = {name: value for part in parts for name, value in structs.asdict(part).items()}
    return MemberWindow(**known | kernel_counters.read_usage(before.trees[slot], after.trees[slot]))


def machine_record(
    before: CounterSnapshot, after: CounterSnapshot, frequencies_mhz: Mapping[int, float]
) -> WindowMachine:
    """Return a window's record of the machine.

    Args:
        before: counters at the first edge.
        after: counters at the second edge.
        frequencies_mhz: by CPU, as read when the window closed.
    """
    machine = machine_counters.machine_usage(before.machine, after.machine)
    study_s = after.study_s - before.study_s
    then = kernel_counters.threads_of(before.trees.values())
    threads = kernel_counters.threads_of(after.trees.values())
    trainers = [threads[tid] for tid in after.trainers.values() if tid in threads]
    return WindowMachine(
        **asdict(machine),
        throttled_s=machine_counters.throttled_s(before.throttled, after.throttled),
        foreign_cpu_s=max(0.0, machine.busy_cpu_s - study_s),
        sleeping_cpu_s=max(0.0, after.sleeping_s - before.sleeping_s),
        coordinator_cpu_s=after.coordinator_s - before.coordinator_s,
        members_cpus=len(kernel_counters.allowed_cpus(threads.values())),
        trainers_cpus=len(kernel_counters.allowed_cpus(trainers)),
        frequency_mhz=members_mhz(frequencies_mhz, then, threads),
    )


def taken(
    window: windows.WindowPlan,
    stretches: Sequence[windows.Stretch],
    before: CounterSnapshot,
    after: CounterSnapshot,
    *,
    usable_cpus: int,
    asked_steps: int,
    gated: bool = True,
    used: Sequence[Usage] | None = None,
) -> Taken:
    """Return the record of a window.

    Args:
        window: the window that was taken.
        stretches: the stretches of the window; several are bursts.
        before: counters at the first edge.
        after: counters at the second edge.
        usable_cpus: CPUs that the study may use.
        asked_steps: the steps that the config asks of each member.
        gated: whether members start and rest at gates; otherwise they train before and after.
        used: what each member used, where that is not read at the edges.
    """
    members = [
        member_record(stretches, at, before, after, used[at] if used else None)
        for at in range(len(stretches[0].activities))
    ]
    machine = machine_record(before, after, stretches[-1].frequencies_mhz)
    if gated:
        began_ns = min(activity.released_ns for activity in stretches[0].activities)
        start_skew_s = max(stretch.start_skew_s for stretch in stretches)
        overlap = statistics.fmean(stretch.overlap for stretch in stretches)
    else:
        members = [structs.replace(member, **dict.fromkeys(GATED)) for member in members]
        began_ns, start_skew_s, overlap = stretches[0].opened_ns, 0.0, 1.0
    flags = windows.flags(
        stretches,
        members,
        machine,
        overlap=overlap,
        edges_s=(after.wall_ns - before.wall_ns) / 1e9,
        usable_cpus=usable_cpus,
        asked_steps=asked_steps,
    )
    return Taken(
        **asdict(window),
        valid=not windows.INVALID.intersection(flags),
        flags=flags,
        window_s=(stretches[-1].closed_ns - began_ns) / 1e9,
        released_s=began_ns / 1e9,
        start_skew_s=start_skew_s,
        overlap=overlap,
        machine=machine,
        members=members,
    )
