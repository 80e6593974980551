"""Memory: pages, huge pages, nodes, swap."""

from scaling_study.common.quantities import format_number, format_seconds
from scaling_study.diagnosis.cause import Cause
from scaling_study.diagnosis.checks import falls, present, read_back
from scaling_study.diagnosis.evidence import Evidence, Query
from scaling_study.diagnosis.shares import Counted
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


def _priced(query: Query) -> Evidence:
    """Check that the time saved per avoided page fault is plausible for one."""
    case, n, name = query.case, query.n, query.intervention
    faults = case.mean(FAULTS, n) - case.mean(FAULTS, n, name)
    if not faults > 0:
        return Evidence(False, "account", "No page fault is avoided.")
    each_s = mean(case.step(n) - case.step(n, name)) / faults
    text = f"{format_seconds(each_s)} is recovered for each page fault that is avoided."
    if remark := LAUNCHERS[str(case.head.axes.get("launcher", DEFAULT))].remark:
        text += f" {remark}"
    return Evidence(CHEAPEST_FAULT_S <= each_s <= DEAREST_FAULT_S, "account", text)


def _swap(query: Query) -> Evidence:
    major, swapped = (
        query.case.mean(f"{name}_per_step", query.n) for name in ("major_faults", "pswpin")
    )
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
