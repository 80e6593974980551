"""Causes that have to do with memory: caches, bandwidth, nodes, pages."""

import dataclasses

from scaling_study.common.quantities import format_bytes, format_number, format_seconds
from scaling_study.diagnosing.agreement import Attested, Fact, Falls, Inflated, Present, Sensitive
from scaling_study.diagnosing.case import Case
from scaling_study.diagnosing.cause import Cause, Remedy, Route
from scaling_study.diagnosing.effects import mean
from scaling_study.diagnosing.evidence import Asked, Weight
from scaling_study.diagnosing.measures import Account, Beside
from scaling_study.diagnosing.relief_share import ByRelief
from scaling_study.launchers.table import DEFAULT, LAUNCHERS

FAULTS = "minor_faults_per_step"
CHEAPEST_FAULT_S, DEAREST_FAULT_S = 0.05e-6, 30e-6
"""A minor fault costs 0.1 us natively; with the clearing of a page, in a nested virtual machine and
with many processes it costs several. Time that comes back at another price has another reason."""
FEWEST_FAULTS = 10.0
"""Fewer faults a step than this cannot be a tenth of any step of a millisecond."""

ALLOCATORS = ("large_thresholds", "exec", "glibc", "jemalloc", "tcmalloc", "mimalloc")


@dataclasses.dataclass(frozen=True, slots=True)
class Priced:
    """The time that comes back, per page fault that is avoided, must be that of a page fault."""

    def weigh(self, asked: Asked) -> Weight:
        """Whether it is."""
        case = asked.case
        n, name = asked.n, asked.relief
        faults = case.mean(FAULTS, n) - case.mean(FAULTS, n, name)
        back_s = mean(case.step(n) - case.step(n, name))
        if not faults > 0:
            return Weight(False, "account", "No page fault is avoided.")
        agrees = CHEAPEST_FAULT_S <= back_s / faults <= DEAREST_FAULT_S
        text = f"{format_seconds(back_s / faults)} comes back for each page fault that is avoided."
        return Weight(agrees, "account", f"{text}{_remark(case)}")


def _remark(case: Case) -> str:
    remark = LAUNCHERS[case.head["axes"].get("launcher", DEFAULT)].remark
    return remark and f" {remark}"


def _nodes(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    pages = case.attested.get("reference", {}).get("pages_by_node") or {}
    return case.machine.nodes > 1, (
        f"{case.machine.nodes} memory nodes; pages of the first member by node: {pages}."
    )


def _balancing(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    on = case.machine.raw.get("numa_balancing")
    if on is None:
        return None, "Whether automatic NUMA balancing is on cannot be read."
    return bool(on), f"Automatic NUMA balancing is {'on' if on else 'off'}."


def _caches(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    size = case.machine.raw.get("l3_bytes")
    return case.n > case.machine.caches, (
        f"{case.n} members share {case.machine.caches} last-level caches of {format_bytes(size)}."
    )


def _thp(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    mode = case.machine.raw.get("thp")
    return mode != "always", f"Transparent huge pages: {mode}."


def _swap(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    n = asked.n
    swapped = case.mean("pswpin_per_step", n)
    major = case.mean("major_faults_per_step", n)
    text = (
        f"Major faults per step: {format_number(major)}; pages read from swap: "
        f"{format_number(swapped)}."
    )
    return major >= MAJOR_FAULTS or swapped >= MAJOR_FAULTS, text


MAJOR_FAULTS = 0.1
"""A read from a disk takes 0.1 to 10 ms: one in ten steps is what can matter."""

MEMORY = (
    Cause(
        "swap",
        "Swapping, or a memory limit",
        "memory does not suffice, and parts of it are fetched from the disk again and again",
        "Major faults and pages from swap appear with more members; threads stall for memory.",
        "Documentation/accounting/psi.rst; memory.max in Documentation/admin-guide/cgroup-v2.rst",
        Remedy(
            "Start fewer processes, or give them more memory.",
            command="cat /sys/fs/cgroup/memory.max /proc/pressure/memory; free -m",
        ),
        growth=(
            Route(
                Account(("memory_stall_s_per_step",), "stalled for memory"),
                (Fact(_swap, "account"),),
            ),
        ),
        level=(
            Route(
                Account(("memory_stall_s_per_step",), "stalled for memory"),
                (Fact(_swap, "account"),),
            ),
        ),
    ),
    Cause(
        "page_faults",
        "Page faults by the allocator's settings",
        "memory is given back to the system and fetched anew in every step",
        "Thousands of minor faults in every step and time in the kernel, which both go with an "
        "allocator that keeps large blocks. Setting any of glibc's thresholds (as Dask's nanny "
        "does with MALLOC_TRIM_THRESHOLD_) freezes the mmap threshold at 128 KiB.",
        "mallopt(3); dask/distributed#5098",
        Remedy(
            "Let glibc keep large blocks (both of its thresholds large), or preload another "
            "allocator.",
            axes={"allocator": "glibc-large-thresholds"},
        ),
        growth=(
            Route(
                ByRelief(ALLOCATORS), (Falls(FAULTS, "Minor faults", floor=FEWEST_FAULTS), Priced())
            ),
        ),
        level=(
            Route(
                ByRelief(ALLOCATORS), (Falls(FAULTS, "Minor faults", floor=FEWEST_FAULTS), Priced())
            ),
        ),
    ),
    Cause(
        "thp",
        "Small pages where huge ones would do",
        "memory is managed in small pieces, and finding them takes time",
        "Time comes back when malloc asks for huge pages, beyond what an allocator that keeps its "
        "blocks brings back.",
        "Documentation/admin-guide/mm/transhuge.rst; glibc.malloc.hugetlb",
        Remedy("Let malloc ask for huge pages.", axes={"huge_pages": "always"}),
        growth=(
            Route(
                ByRelief(("huge_pages",), beyond=("large_thresholds",)),
                (Fact(_thp), Attested("huge_page_bytes", "Bytes in huge pages")),
            ),
        ),
        level=(
            Route(
                ByRelief(("huge_pages",), beyond=("large_thresholds",)),
                (Fact(_thp), Attested("huge_page_bytes", "Bytes in huge pages")),
            ),
        ),
    ),
    Cause(
        "numa_balancing",
        "Automatic NUMA balancing",
        "the system keeps moving memory between the processors' memories",
        "Hint faults and migrated pages; time comes back when memory is bound to its node, which "
        "the balancing leaves alone.",
        "numa_balancing in Documentation/admin-guide/sysctl/kernel.rst",
        Remedy(
            "Bind each member's memory to its node, or switch the balancing off.",
            axes={"placement": "cores", "membind": "local"},
            command="echo 0 > /proc/sys/kernel/numa_balancing  # as root",
        ),
        growth=(
            Route(
                ByRelief(("local_memory",), beyond=("pinned",)),
                (
                    Present("numa_hint_faults_per_step", "NUMA hint faults per step", 1.0),
                    Falls("numa_hint_faults_per_step", "NUMA hint faults"),
                ),
                needs=(Fact(_balancing),),
            ),
        ),
        level=(
            Route(
                ByRelief(("local_memory",), beyond=("pinned",)),
                (
                    Present("numa_hint_faults_per_step", "NUMA hint faults per step", 1.0),
                    Falls("numa_hint_faults_per_step", "NUMA hint faults"),
                ),
                needs=(Fact(_balancing),),
            ),
        ),
    ),
    Cause(
        "remote_memory",
        "Memory of another NUMA node",
        "processes fetch their data from memory that belongs to another processor",
        "Time comes back when members are bound and take memory of their own node only.",
        "numa(7), set_mempolicy(2); Documentation/admin-guide/mm/numa_memory_policy.rst",
        Remedy(
            "Bind each member, and its memory to the node of its CPUs.",
            axes={"placement": "cores", "membind": "local"},
        ),
        growth=(Route(ByRelief(("local_memory",), beyond=("pinned",)), needs=(Fact(_nodes),)),),
        level=(Route(ByRelief(("local_memory",), beyond=("pinned",)), needs=(Fact(_nodes),)),),
    ),
)

SHARED = (
    Cause(
        "last_level_cache",
        "The last-level cache that members share",
        "the processes push each other's data out of a cache that they share",
        "User time grows; a stream that only fills this cache slows a member down beyond the "
        "control and is itself slowed down among many; or spreading members over caches helps.",
        "Intel 64 and IA-32 Optimization Reference Manual, cache hierarchy",
        Remedy(
            "Spread members over the caches (placement spread or per_l3), or start fewer.",
            axes={"placement": "spread"},
        ),
        growth=(
            Route(
                ByRelief(("per_l3", "spread"), beyond=("pinned", "one_thread", "passive")),
                (Sensitive("llc"),),
                needs=(Fact(_caches),),
            ),
            Route(Beside("llc"), (Sensitive("llc"), Inflated("llc")), needs=(Fact(_caches),)),
        ),
    ),
    Cause(
        "memory_bandwidth",
        "Memory bandwidth",
        "all processes together want more data from memory than it can deliver",
        "User time grows; a stream through memory beside a member slows it down beyond the "
        "control, and streams slow each other down; operators that stream grow, small multiplies "
        "do not.",
        "STREAM: McCalpin 1995, Memory Bandwidth and Machine Balance",
        Remedy(
            "Start fewer processes, spread them over memory nodes, or make tensors smaller "
            "(bfloat16, in-place operators).",
            axes={"placement": "spread"},
        ),
        growth=(
            Route(Beside("memory", minus=("llc",)), (Sensitive("memory"), Inflated("memory"))),
        ),
    ),
)
