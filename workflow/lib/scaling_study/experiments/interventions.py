"""Interventions: launches that differ from a reference by one change, which removes one cause.

An entry defines the change, and when it cannot matter. Then the change is not tried, and the report
gives the reason. The machine's layout, the members' readback and the reference's own counters
decide.

One intervention avoids the CPU quota: the reference trains in bursts too short to be throttled. A
quota grants a cgroup an amount of CPU time per period, and throttles it once that is used up
(Documentation/scheduler/sched-bwc.rst). A period of rest restores the full amount, so members that
train for no longer than it lasts are not throttled. The kernel counts throttling (cpu.stat), and a
window that has any is not valid. The cgroup itself stays as it is; changing it would need root.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace

from msgspec import convert

from scaling_study.common.axis_values import Axes
from scaling_study.common.topology import Domain, Topology, parse_cpu_list
from scaling_study.experiments.conditions import Variant
from scaling_study.experiments.loader_model import SWITCHED, is_pipeline
from scaling_study.host.limits import Quota
from scaling_study.launch.axes import ranks
from scaling_study.member.loader_substitutes import FROM_MEMORY, SWAPPED, Ask
from scaling_study.records.experiment import Change, UntriedChange
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Loader, Readback
from scaling_study.records.window import MemberWindow, Taken
from scaling_study.runner.cohort import WindowSettings
from scaling_study.stats.thresholds import SHARE_AT_LEAST

# A minor fault costs 0.1 us; with clearing the page and in a virtual machine, 0.5 us and more. If
# all faults take less than FAULTS_SHARE of a step, and the kernel less than SYSTEM_SHARE, no
# setting of the allocator can save much.
FAULT_S = 0.5e-6
FAULTS_SHARE = 0.01
SYSTEM_SHARE = 0.03

# Each CPU takes CPU time from the group's account in slices of this size, and may leave its last
# one unused (the default of sched_cfs_bandwidth_slice_us).
SLICE_S = 0.005
# The coordinator and helper threads use some of the quota, too.
USED_SHARE = 0.9
# The quota's account is filled at the end of each period.
REST_PERIODS = 1.2
# Bursts in a window.
BURSTS = 8

QUOTA_BURSTS = "quota_bursts"
"""The name of the intervention that avoids the quota, in records: the reference itself, in windows
of bursts."""

Reason = str | None


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference, as known when interventions are chosen.

    Attributes:
        axes: of its launch.
        machine: machine.json.
        readback: what its first member reported.
        n: the number of its members.
        windows: records of its windows, at least one.
        quota: the cgroup's quota, if it has one.
    """

    axes: Axes
    machine: Machine
    readback: Readback
    n: int
    windows: Sequence[Taken]
    quota: Quota | None = None

    @property
    def topology(self) -> Topology:
        """The CPUs and memory that the study may use."""
        return self.machine.usable

    @property
    def loaders(self) -> Sequence[Loader]:
        """The script's loaders, as its first member reported them."""
        return self.readback.loaders or ()

    def most(self, share: Callable[[MemberWindow], float]) -> float:
        """Return the largest share that any member had in any window."""
        return max(share(member) for window in self.windows for member in window.members)


@dataclass(frozen=True, slots=True)
class Intervention(Variant):
    """One change. It cannot matter if the reference has the values of its axes.

    Attributes:
        excluded: Each returns why it cannot matter for a reference, or None if it may.
        quick: Whether a quick diagnosis tries it.
        alone: Whether it removes something that slows one process as much as many. A quick
            diagnosis then tries it with one process only.
        derived: Returns the intervention as it is tried on a reference, or why it is not tried.
    """

    _: KW_ONLY
    excluded: tuple[Callable[[Reference], Reason], ...] = ()
    quick: bool = True
    alone: bool = False
    derived: Callable[["Intervention", Reference], "Intervention | str"] | None = None

    def counts(self, n: int, effort: str) -> list[int]:
        """Return the process counts at which it is tried; ``n`` is the reference's."""
        return [1] if self.alone and effort == "quick" else sorted({1, n})

    def left_out(self, reason: str) -> UntriedChange:
        """Return the record of the intervention as one that is not tried, with the reason."""
        return UntriedChange(intervention=self.name, title=self.title, reason=reason)

    def fitted(self, reference: Reference, effort: str) -> "Intervention | str":
        """Return the intervention as it is tried on a reference, or why it is not tried."""
        if self.axes and self.axes.items() <= dict(reference.axes).items():
            return " and ".join(f"{axis} is {value} already" for axis, value in self.axes.items())
        reasons = (excluded(reference) for excluded in self.excluded)
        if reason := next(filter(None, reasons), None):
            return reason
        if effort == "quick" and not self.quick:
            return "tried with why: full only"
        return self.derived(self, reference) if self.derived else self


def record(variant: Variant) -> Change:
    """Return the record of an intervention, as it is tried."""
    options: dict[str, object] = dict.fromkeys(variant.change, True)
    if variant.timing is not None:
        options["timing"] = asdict(variant.timing)
    if variant.of:
        options["of"] = variant.of
    return Change(
        intervention=variant.name, title=variant.title, axes=dict(variant.axes), options=options
    )


def recorded(change: Change) -> Intervention:
    """Return the intervention of a record."""
    known = next(
        intervention for intervention in INTERVENTIONS if intervention.name == change.intervention
    )
    timing = convert(change.options.get("timing"), WindowSettings | None)
    return replace(known, axes=change.axes, timing=timing)


def _in_bursts(intervention: Intervention, reference: Reference) -> Intervention | str:
    """Return it with windows of bursts that are not throttled, or why there can be none."""
    quota = reference.quota
    if quota is None:
        return "no quota is set"
    if not any(window.machine.throttled_s for window in reference.windows):
        return f"the quota of {quota.cpus:g} CPUs held nobody back, as far as the kernel counts it"
    # Loader workers and the like want CPUs too.
    wanted_cpus = reference.n * max(reference.readback.intra_op, reference.most(_runnable))
    busy_cpus = min(wanted_cpus, len(reference.topology.cpus))
    lasts_s = USED_SHARE * (quota.cpus * quota.period_s / busy_cpus - SLICE_S)
    # The step in the window with the most members, without waiting for a CPU.
    members = max((window.members for window in reference.windows), key=len)
    step_s = (wanted_cpus / busy_cpus) * statistics.fmean(
        (member.active_s - (member.trainer_runqueue_s or 0.0)) / max(1, member.steps_active)
        for member in members
    )
    steps = math.floor(lasts_s / step_s)
    if steps < 1:
        return (
            f"a step takes {1e3 * step_s:.0f} ms, and after {max(0.0, 1e3 * lasts_s):.0f} ms the"
            f" quota of {quota.cpus:g} CPUs holds {reference.n} members back"
        )
    # Members rest at the end of a step, so the order to rest comes in the middle of the last one.
    told_s = (steps - 0.5) * step_s
    timing = WindowSettings(
        steps=0,
        shortest_s=told_s,
        longest_s=told_s,
        settle_s=0.0,
        bursts=BURSTS,
        rest_s=REST_PERIODS * quota.period_s,
    )
    return replace(intervention, timing=timing)


def _runnable(member: MemberWindow) -> float:
    """Return how many threads of a member run or wait for a CPU."""
    wanted_s = member.cpu_user_s + member.cpu_system_s + (member.runqueue_s or 0.0)
    return wanted_s / member.active_s


def _where(test: Callable[[Reference], bool], reason: str) -> Callable[[Reference], Reason]:
    """Return a check that excludes a reference if a test holds for it."""
    return lambda reference: reason if test(reference) else None


def _without(reason: str, test: Callable[[Loader], object]) -> Callable[[Reference], Reason]:
    """Return a check that excludes a reference if a test holds for none of its loaders."""
    return _where(lambda reference: not any(map(test, reference.loaders)), reason)


def _is(axis: str, value: str) -> Callable[[Reference], Reason]:
    return _where(lambda reference: reference.axes[axis] == value, f"{axis} is {value} already")


def _one_group(*domains: Domain) -> Callable[[Reference], Reason]:
    names = {"l3": "last-level cache", "node": "memory node", "socket": "socket"}
    return _where(
        lambda reference: all(len(reference.topology.domains(domain)) == 1 for domain in domains),
        "only one " + " and one ".join(names[domain] for domain in domains),
    )


def _one_kind(reference: Reference) -> Reason:
    return None if len(reference.topology.kinds) > 1 else "cores of one kind"


def _slow_needed(reference: Reference) -> Reason:
    """Return why members cannot all be on fast cores: they are too many."""
    fast = len(reference.topology.kinds[0].domains("core"))
    processes = reference.n * ranks.processes(reference.axes)
    return f"{processes} processes on {fast} fast cores" if processes > fast else None


def _faults(reference: Reference) -> Reason:
    """Return why no allocator can help, if pages are hardly ever touched for the first time."""
    share = reference.most(lambda member: member.minor_faults * FAULT_S / member.active_s)
    in_kernel = reference.most(lambda member: (member.trainer_system_s or 0.0) / member.active_s)
    if share >= FAULTS_SHARE or in_kernel >= SYSTEM_SHARE:
        return None
    return (
        f"page faults take less than {max(share, 0.001):.1%} of a step, the kernel {in_kernel:.1%}"
    )


def _spent_s(member: MemberWindow, name: str) -> float:
    """Return the time (s) that counted steps spent in a part; 0 if no hook has timed it."""
    return getattr(member, name) or 0.0


def _short(name: str, title: str) -> Callable[[Reference], Reason]:
    """Return a check that excludes a reference if a part of its step takes hardly any time."""

    def part(member: MemberWindow) -> float:
        counted_s = sum(member.step_us) / 1e6
        return _spent_s(member, name) / counted_s if counted_s else 0.0

    def excluded(reference: Reference) -> Reason:
        share = reference.most(part)
        return f"{title} takes {share:.1%} of a step" if share < SHARE_AT_LEAST else None

    return excluded


_loads = _short("load_s", "the loader")
_one_thread = _where(
    lambda reference: reference.readback.intra_op == 1, "an operator has one thread already"
)
_no_workers = _without(
    "no loader with workers or threads of its own", lambda loader: loader.workers != 0
)
_no_processes = _without(
    "no loader with worker processes of torch's", lambda loader: loader.workers
)


def _workers(reference: Reference) -> int | None:
    """Return the number of loader workers; None if it cannot be set, or loaders differ in it."""
    counts = {loader.workers if loader.settable else None for loader in reference.loaders}
    return counts.pop() if len(counts) == 1 else None


def _more_workers(intervention: Intervention, reference: Reference) -> Intervention:
    """Return it with as many workers as keep up with training and have CPUs.

    That is at least one more than now. The first member of the first window shows how long making a
    batch and training on it take.
    """
    more = (_workers(reference) or 0) + 1
    member = reference.windows[0].members[0]
    training_s = sum(member.step_us) / 1e6 - (member.load_s or 0.0)
    needed = math.ceil(_spent_s(member, "loader_made_s") / training_s) if training_s > 0 else 0
    workers = max(more, min(needed, _loader_cpus(reference)))
    return replace(intervention, axes={"loader_workers": workers})


def _loader_cpus(reference: Reference) -> int:
    """Return how many CPUs a member's loader workers have.

    These are the workers' own, or those that the member is bound to, or its part of the machine.
    """
    if apart := (reference.readback.switches or {}).get("loader_cpus"):
        return len(parse_cpu_list(str(apart)))
    if reference.axes["placement"] != "none":
        return len(reference.readback.cpus or ())
    return len(reference.topology.cpus) // reference.n


def _apart(intervention: Intervention, reference: Reference) -> Intervention | str:
    """Return it with separate CPUs for loader workers, for which members are bound."""
    threads = reference.readback.intra_op * ranks.processes(reference.axes)
    cpus = len(reference.topology.cpus) // reference.n
    if cpus <= threads:
        return f"training on {threads} of {cpus} CPUs leaves none for a loader"
    bound = reference.axes["placement"] != "none"
    axes: Axes = {
        "intra_op": reference.readback.intra_op,
        "placement": reference.axes["placement"] if bound else "cores",
        "loader_cpus": "rest",
    }
    return replace(intervention, axes=axes)


# Ordered by the cost of missing them.
INTERVENTIONS: tuple[Intervention, ...] = (
    Intervention(QUOTA_BURSTS, "bursts that the quota leaves alone", derived=_in_bursts),
    Intervention("passive", "waiting threads sleep at once", {"wait_policy": "passive"},
           excluded=(_one_thread,)),
    Intervention("one_thread", "one thread per operator", {"intra_op": 1},
           excluded=(_one_thread,)),
    Intervention("cleared", "no settings of the shell", {"shell": "none"}),
    Intervention("pinned", "each member bound to its own core", {"placement": "cores"}),
    Intervention("unpinned", "members free to move", {"placement": "none"}),
    Intervention("fast_cores", "members on fast cores alone", {"placement": "fast_cores"},
           excluded=(_one_kind, _slow_needed)),
    Intervention("spread", "members spread over caches and memory nodes", {"placement": "spread"},
           excluded=(_one_group("l3", "node", "socket"),)),
    Intervention("per_l3", "a whole last-level cache for each member", {"placement": "per_l3"},
           excluded=(_one_group("l3"),)),
    Intervention("local_memory", "memory of the member's own node first",
           {"placement": "cores", "membind": "preferred"},
           excluded=(_is("membind", "local"), _is("membind", "preferred"), _one_group("node"))),
    Intervention("exec", "a fresh interpreter for each member", {"launcher": "exec"}),
    Intervention("large_thresholds", "glibc keeps large blocks",
           {"allocator": "glibc-large-thresholds"}, excluded=(_faults,)),
    Intervention("glibc", "the system's malloc", {"allocator": "glibc"},
           excluded=(_is("allocator", "glibc-large-thresholds"),)),
    *(Intervention(name, name, {"allocator": name}, excluded=(_faults,), quick=False)
      for name in ("tcmalloc", "jemalloc", "mimalloc")),
    # A loader with workers may slow training, however briefly the training thread waits for it.
    Intervention("cached_batches", "batches from memory instead of the loader",
           change=(SWITCHED,), asked=Ask(FROM_MEMORY).code,
           excluded=(lambda reference: _loads(reference) if _no_workers(reference) else None,)),
    Intervention("loader_beside", "batches from memory while the loader does all that it does",
           change=(SWITCHED,), asked=Ask(SWAPPED).code, of="cached_batches",
           excluded=(_no_workers,)),
    Intervention("no_snapshots", "no snapshots of a StatefulDataLoader's state",
           change=("no_snapshots",),
           excluded=(_without("no StatefulDataLoader with workers",
                     lambda loader: "StatefulDataLoader" in loader.kinds and loader.workers),)),
    Intervention("kept_workers", "loader workers that live on between epochs",
           {"persistent_workers": "keep"},
           excluded=(_short("loader_starts_s", "starting loader workers"),)),
    Intervention("whole_batches", "all rows of a batch read at once",
           change=("whole_batches",), alone=True,
           excluded=(_loads, _without("no loader that makes its batches row by row",
                                      lambda loader: loader.by_row))),
    Intervention("no_copies", "loader workers that send no data", change=("no_copies",),
           excluded=(_no_processes,), alone=True),
    Intervention("quick_switches", "threads that give the interpreter to others at once",
           change=("quick_switches",), alone=True,
           excluded=(_without("no loader with threads in this process",
                              lambda loader: loader.threads),)),
    Intervention("pipeline_elsewhere", "SPDL's threads in a process of their own",
           change=("pipeline_elsewhere",), alone=True,
           excluded=(_without("no pipeline of SPDL's with threads in this process", is_pipeline),)),
    Intervention("more_workers", "more loader workers", derived=_more_workers,
           excluded=(_loads, _where(lambda reference: _workers(reference) is None,
                                    "no loader whose workers could be more"))),
    Intervention("loader_apart", "loader workers on CPUs of their own", derived=_apart,
           excluded=(_is("loader_cpus", "rest"), _no_processes)),
    Intervention("one_element", "ranks that exchange one number instead of gradients",
           change=("one_element",),
           excluded=(_where(lambda reference: ranks.processes(reference.axes) == 1,
                            "no ranks that exchange anything"),)),
    Intervention("flush_denormals", "denormal numbers flushed to zero",
           change=("flush_denormals",), alone=True,
           excluded=(_where(lambda reference: (reference.readback.changes or {})["flush_denormals"],
                            "denormals are flushed already"),)),
    Intervention("isa_default", "all vector instructions of the CPU", {"isa": "default"}),
    Intervention("bundled_blas", "the BLAS inside torch", {"blas": "bundled"}),
    Intervention("openblas", "OpenBLAS", {"blas": "openblas"}, alone=True),
    Intervention("blis", "BLIS", {"blas": "blis"}, quick=False, alone=True),
    Intervention("mkl", "MKL from PyPI", {"blas": "mkl"}, quick=False, alone=True),
    Intervention("huge_pages", "huge pages asked for by malloc", {"huge_pages": "always"},
           quick=False),
    Intervention("no_gc", "Python's garbage collector off", change=("no_gc",), alone=True,
           excluded=(_short("collect_s", "the garbage collector"),)),
)  # fmt: skip


def choose(reference: Reference, effort: str) -> tuple[list[Intervention], list[UntriedChange]]:
    """Choose the interventions to try.

    Args:
        reference: the reference.
        effort: ``quick`` or ``full``.

    Returns:
        The interventions, and the records of those that are left out.
    """
    chosen, left = [], []
    for intervention in INTERVENTIONS:
        fitted = intervention.fitted(reference, effort)
        if isinstance(fitted, str):
            left.append(intervention.left_out(fitted))
        else:
            chosen.append(fitted)
    return chosen, left
