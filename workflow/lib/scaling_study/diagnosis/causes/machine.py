"""The machine: the clock, cores and caches that members share; memory: pages, nodes and swap."""

import numpy as np

from scaling_study.common.quantities import format_bytes, format_number, format_seconds
from scaling_study.diagnosis.case import REFERENCE
from scaling_study.diagnosis.cause import SCALING_LOSS, Cause, Proof
from scaling_study.diagnosis.checks import falls, inflated, present, read_back
from scaling_study.diagnosis.evidence import Evidence, Measured, Query, Untested
from scaling_study.diagnosis.shares import Counted, share_of
from scaling_study.diagnosis.stressors import NO_CLOCK, clock_column
from scaling_study.launch.axes.launcher import DEFAULT, LAUNCHERS
from scaling_study.stats.ratios import mean

FAULTS = "minor_faults_per_step"
CHEAPEST_FAULT_S, DEAREST_FAULT_S = 0.05e-6, 30e-6
"""A minor fault costs 0.1 us natively, and several us with the clearing of a page, in a nested
virtual machine and with many processes. Time recovered at another price has another reason."""
FEWEST_FAULTS = 10.0
"""Fewer faults per step, at up to 10 us each, take less than a tenth of a step of a millisecond."""
MAJOR_FAULTS = 0.1
"""A read from a disk takes 0.1 to 10 ms, so one in ten steps can matter."""


def clock(query: Query) -> Measured | Untested:
    """Return the user time that a lower clock adds with n processes."""
    case = query.case
    column = clock_column(case)
    if column is None:
        return Untested(NO_CLOCK)
    low, high = case.column(column, 1), case.column(column, case.n)
    user = case.column("trainer_user_s_per_step", 1) / case.step(1)
    text = (
        f"The clock is {format_number(mean(low))} MHz with 1 process and "
        f"{format_number(mean(high))} MHz with {case.n}: {{share}} of the added time."
    )
    return share_of(query, user * (low / high - 1), text)


def _siblings(query: Query) -> Evidence:
    machine = query.case.machine
    cpus, cores = len(machine.cpus), len(machine.usable.domains("core"))
    if cores < cpus:
        return Evidence(query.case.n > cores, "fact", f"{cpus} CPUs are {cores} cores.")
    if machine.virtual:
        text = "A virtual machine does not tell which of its CPUs share a core."
        return Evidence(None, "fact", text)
    return Evidence(False, "fact", "Every CPU is a core of its own.")


def _clock_known(query: Query) -> Evidence:
    """Check that the clock is known: a loop in registers slows down on a lower clock, too."""
    if clock_column(query.case) is None:
        return Evidence(None, "fact", f"{NO_CLOCK[:1].upper()}{NO_CLOCK[1:]}.")
    text = "The clock of the members' CPUs is known, and what it costs is set off."
    return Evidence(True, "fact", text)


def _caches(query: Query) -> Evidence:
    n, machine = query.case.n, query.case.machine
    caches = len(machine.usable.domains("l3"))
    text = f"{n} members share {caches} last-level caches of {format_bytes(machine.l3_bytes)}."
    return Evidence(n > caches, "fact", text)


def _kinds(query: Query) -> Evidence:
    fast, *slower = (len(part.domains("core")) for part in query.case.machine.usable.kinds)
    if not slower:
        return Evidence(False, "fact", "As far as the kernel tells, all cores are of one kind.")
    return Evidence(True, "fact", f"{fast} cores are fast, {sum(slower)} are slower.")


def on_slower_cores(query: Query) -> Measured | Untested:
    """Return the time that members on slower cores add, from bound members' own steps."""
    case = query.case
    for name in (REFERENCE, "pinned"):
        slower_s = case.column("slower_cores_s", case.n, name)
        if not np.isnan(slower_s).all():
            where = "" if name == REFERENCE else f" (with this change: {case.titles[name]})"
            text = (
                f"A mean step takes {format_seconds(mean(slower_s))} more than one on fast cores"
                f"{where}: {{share}} of the added time."
            )
            return share_of(query, slower_s / case.step(1), text)
    return Untested("which kind of core each member runs on is known of bound members only")


def _priced(query: Query) -> Evidence:
    """Check that the time saved per avoided page fault is plausible for one."""
    case, n, name = query.case, query.n, query.intervention
    faults = query.mean(FAULTS) - query.mean(FAULTS, name)
    if not faults > 0:
        return Evidence(False, "account", "No page fault is avoided.")
    each_s = mean(case.step(n) - case.step(n, name)) / faults
    text = f"{format_seconds(each_s)} is recovered for each page fault that is avoided."
    if remark := LAUNCHERS[str(case.head.axes.get("launcher", DEFAULT))].remark:
        text += f" {remark}"
    return Evidence(CHEAPEST_FAULT_S <= each_s <= DEAREST_FAULT_S, "account", text)


def _swap(query: Query) -> Evidence:
    major, swapped = (query.mean(f"{name}_per_step") for name in ("major_faults", "pswpin"))
    text = (
        f"Major faults per step: {format_number(major)}; pages read from swap: "
        f"{format_number(swapped)}."
    )
    return Evidence(major >= MAJOR_FAULTS or swapped >= MAJOR_FAULTS, "account", text)


def _small_pages(query: Query) -> Evidence:
    mode = query.case.machine.thp
    return Evidence(mode != "always", "fact", f"Transparent huge pages: {mode}.")


def _balancing(query: Query) -> Evidence:
    on = query.case.machine.numa_balancing
    if on is None:
        return Evidence(None, "fact", "Whether automatic NUMA balancing is on cannot be read.")
    return Evidence(on, "fact", f"Automatic NUMA balancing is {'on' if on else 'off'}.")


def _nodes(query: Query) -> Evidence:
    nodes = len(query.case.machine.usable.domains("node"))
    pages = query.case.reported("pages_by_node") or {}
    text = f"{nodes} memory nodes; pages of the first member by node: {pages}."
    return Evidence(nodes > 1, "fact", text)


CAUSES = {
    "slower_cores": Cause(
        "Slower cores beside fast ones",
        "cpu_capacity in Documentation/scheduler/sched-capacity.rst; pytorch/pytorch#102269",
        "Keep to the fast cores (placement fast_cores), or expect less of each further process: "
        "those on slower cores take longer for a model.",
        axes={"placement": "fast_cores"},
        interventions=("fast_cores",),
        minus=("pinned",),
        needs=(_kinds,),
        others=(Proof(on_slower_cores, needs=(_kinds,), scopes=SCALING_LOSS),),
    ),
    "frequency": Cause(
        "A lower clock with more CPUs at work",
        "Documentation/admin-guide/pm/cpufreq.rst; turbo tables of the processor",
        "Nothing is wrong: the processor stays within its power limit. Check the governor.",
        command="cpupower frequency-info",
        share=clock,
        requires=(inflated("register"),),
        scopes=SCALING_LOSS,
    ),
    "smt": Cause(
        "CPUs that share a core (SMT)",
        "Intel 64 and IA-32 Optimization Reference Manual, Hyper-Threading; lscpu(1)",
        "Count cores, not CPUs: start one process for each core.",
        axes={"placement": "cores"},
        stressor="register",
        needs=(_siblings, _clock_known),
    ),
    "last_level_cache": Cause(
        "The last-level cache that members share",
        "Intel 64 and IA-32 Optimization Reference Manual, cache hierarchy",
        "Spread members over the caches (placement spread or per_l3), or start fewer.",
        axes={"placement": "spread"},
        interventions=("per_l3", "spread"),
        minus=("pinned", "one_thread", "passive"),
        stressor="llc",
        needs=(_caches,),
        scopes=SCALING_LOSS,
    ),
    "memory_bandwidth": Cause(
        "Memory bandwidth",
        "STREAM: McCalpin 1995, Memory Bandwidth and Machine Balance",
        "Start fewer processes, spread them over memory nodes, or make tensors smaller "
        "(bfloat16, in-place operators).",
        axes={"placement": "spread"},
        stressor="memory",
        minus=("llc",),
    ),
    "swap": Cause(
        "Swapping, or a memory limit",
        "Documentation/accounting/psi.rst; memory.max in Documentation/admin-guide/cgroup-v2.rst",
        "Start fewer processes, or give them more memory.",
        command="cat /sys/fs/cgroup/memory.max /proc/pressure/memory; free -m",
        counted=Counted(("memory_stall_s_per_step",), "stalled for memory"),
        requires=(_swap,),
    ),
    "page_faults": Cause(
        "Page faults by the allocator's settings",
        "mallopt(3); dask/distributed#5098",
        "Let glibc keep large blocks (both of its thresholds large), or preload another allocator.",
        interventions=("large_thresholds", "exec", "glibc", "jemalloc", "tcmalloc", "mimalloc"),
        requires=(falls(FAULTS, "Minor faults", floor=FEWEST_FAULTS), _priced),
    ),
    "thp": Cause(
        "Small pages where huge ones would do",
        "Documentation/admin-guide/mm/transhuge.rst; glibc.malloc.hugetlb",
        "Let malloc ask for huge pages.",
        interventions=("huge_pages",),
        minus=("large_thresholds",),
        requires=(_small_pages, read_back("huge_page_bytes", "Bytes in huge pages")),
    ),
    "numa_balancing": Cause(
        "Automatic NUMA balancing",
        "numa_balancing in Documentation/admin-guide/sysctl/kernel.rst",
        "Bind each member's memory to its node, or switch the balancing off.",
        command="echo 0 > /proc/sys/kernel/numa_balancing  # as root",
        interventions=("local_memory",),
        minus=("pinned",),
        requires=(
            present("numa_hint_faults_per_step", "NUMA hint faults per step", 1.0),
            falls("numa_hint_faults_per_step", "NUMA hint faults"),
        ),
        needs=(_balancing,),
    ),
    "remote_memory": Cause(
        "Memory of another NUMA node",
        "numa(7), set_mempolicy(2); Documentation/admin-guide/mm/numa_memory_policy.rst",
        "Bind each member, and its memory to the node of its CPUs.",
        interventions=("local_memory",),
        minus=("pinned",),
        needs=(_nodes,),
    ),
}
