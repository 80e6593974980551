"""Reliefs: launches that differ from a reference by one change, which takes one cause away.

Each is an entry: what it changes, and where it cannot apply. What cannot matter here is not tried:
the machine's layout, the members' attestation and the reference's own counters say so, and their
reason stands in the report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from scaling_study.common.topology import parse_cpu_list
from scaling_study.experiments import quota_bursts
from scaling_study.host import probe
from scaling_study.launch.axes import ranks
from scaling_study.member import loader_request
from scaling_study.member.loader_request import Ask
from scaling_study.stats.thresholds import SHARE_AT_LEAST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scaling_study.host.limits import Quota

# A minor fault costs 0.1 us, and with the clearing of the page and in a virtual machine 0.5 us and
# more. Where all of them take less than this part of the step, and the kernel no more than that of
# its time, no setting of the allocator can bring back much.
FAULT_S = 0.5e-6
FAULTS_SHARE = 0.01
SYSTEM_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Reference:
    """What is known of the reference when reliefs are chosen.

    Attributes:
        axes: of its launch.
        machine: machine.json.
        attestation: what its first member reported.
        n: its members.
        windows: records of windows that were taken of it, at least one.
        quota: of the cgroup, if it has one.
    """

    axes: Mapping[str, Any]
    machine: Mapping[str, Any]
    attestation: Mapping[str, Any]
    n: int
    windows: Sequence[Mapping[str, Any]]
    quota: Quota | None = None

    def most(self, share: Callable[[Mapping[str, Any]], float]) -> float:
        """Return the largest share that any member had in any window."""
        return max(share(member) for window in self.windows for member in window["members"])


Reason = str | None


@dataclass(frozen=True, slots=True)
class Relief:
    """One change.

    Attributes:
        name: Its name in records.
        title: For a person.
        excluded: Says why it cannot matter for this reference; None when it may.
        axes: The axes that it changes.
        change: The change inside the members that it makes (see ``changes``).
        quick: Whether a quick diagnosis tries it.
        alone: Whether what it takes away slows one process as much as many, so that a quick
            diagnosis tries it with one only.
        bursts: Whether it is the reference itself, in windows of bursts (see ``unthrottled``).
        asked: What its members are asked for (see ``asked``); None where they are asked nothing.
        of: The relief whose members these are, asked for something else; empty for its own.
        restless: Whether its members do something while they rest, so that they are stopped.
        derived: Returns its axes, where they depend on the reference.
    """

    name: str
    title: str
    excluded: Callable[[Reference], Reason]
    axes: Mapping[str, Any] = field(default_factory=dict)
    change: str | None = None
    quick: bool = True
    alone: bool = False
    bursts: bool = False
    asked: int | None = None
    of: str = ""
    restless: bool = False
    derived: Callable[[Reference], Mapping[str, Any]] | None = None

    def counts(self, n: int, effort: str) -> list[int]:
        """Return the process counts at which it is tried; n is the reference's."""
        return [1] if self.alone and effort == "quick" else sorted({1, n})

    def options(self) -> dict[str, bool]:
        """Return the change as records hold it."""
        return {} if self.change is None else {self.change: True}


def _one_thread(reference: Reference) -> Reason:
    if reference.attestation["intra_op"] == 1:
        return "an operator has one thread already"
    return None


def _passive(reference: Reference) -> Reason:
    if reference.axes["wait_policy"] == "passive":
        return "waiting threads sleep at once already"
    return _one_thread(reference)


def _is(axis: str, *values: str) -> Callable[[Reference], Reason]:
    def excluded(reference: Reference) -> Reason:
        value = reference.axes[axis]
        return f"{axis} is {value} already" if value in values else None

    return excluded


def _one_group(*domains: str) -> Callable[[Reference], Reason]:
    def excluded(reference: Reference) -> Reason:
        topology = probe.usable_topology(reference.machine)
        if all(len(topology.domains(domain)) == 1 for domain in domains):  # type: ignore[arg-type]
            names = {"l3": "last-level cache", "node": "memory node", "socket": "socket"}
            return "only one " + " and one ".join(names[domain] for domain in domains)
        return None

    return excluded


def _faults(reference: Reference) -> Reason:
    """No allocator helps where pages are hardly ever touched for the first time."""

    def faults(member: Mapping[str, Any]) -> float:
        return float(member["minor_faults"] * FAULT_S / member["active_s"])

    def system(member: Mapping[str, Any]) -> float:
        return float(member["trainer_system_s"] / member["active_s"])

    share, in_kernel = reference.most(faults), reference.most(system)
    if share < FAULTS_SHARE and in_kernel < SYSTEM_SHARE:
        return (
            f"page faults take less than {max(share, 0.001):.1%} of a step,"
            f" the kernel {in_kernel:.1%}"
        )
    return None


def _no_workers(reference: Reference) -> Reason:
    if all(loader["workers"] == 0 for loader in _loaders(reference)):
        return "no loader with workers or threads of its own"
    return None


def _loaders(reference: Reference) -> Sequence[Mapping[str, Any]]:
    seen: Sequence[Mapping[str, Any]] = reference.attestation.get("loaders", ())
    return seen


def _no_copies(reference: Reference) -> Reason:
    if any(loader["workers"] for loader in _loaders(reference)):
        return None
    return "no loader with worker processes of torch's"


def _not_by_row(reference: Reference) -> Reason:
    if any(loader.get("by_row") for loader in _loaders(reference)):
        return None
    return "no loader that makes its batches row by row"


def _no_threads(reference: Reference) -> Reason:
    if any(loader.get("threads") for loader in _loaders(reference)):
        return None
    return "no loader with threads in this process"


def _no_pipeline(reference: Reference) -> Reason:
    if any(loader["threads"] and "Pipeline" in loader["kinds"] for loader in _loaders(reference)):
        return None
    return "no pipeline of SPDL's with threads in this process"


def _workers(reference: Reference) -> int | None:
    """Return how many workers the loader has, where that can be set and is one number."""
    found = {loader["workers"] for loader in _loaders(reference)}
    settable = all(loader["settable"] for loader in _loaders(reference))
    return found.pop() if len(found) == 1 and settable else None


def _not_settable(reference: Reference) -> Reason:
    return "no loader whose workers could be more" if _workers(reference) is None else None


def _more_workers(reference: Reference) -> dict[str, Any]:
    """Return as many workers as keep up with training, as far as there are CPUs; one more at least.

    What it takes to make a batch, and to train on it, is that of the first window's first member.
    """
    more = (_workers(reference) or 0) + 1
    member = reference.windows[0]["members"][0]
    training_s = sum(member["step_us"]) / 1e6 - member["load_s"]
    needed = math.ceil(member.get("loader_made_s", 0.0) / training_s) if training_s > 0 else 0
    return {"loader_workers": max(more, min(needed, _loader_cpus(reference)))}


def _loader_cpus(reference: Reference) -> int:
    """Return how many CPUs a member's loader workers have.

    Their own ones, those that the member is bound to, or the member's part of the machine.
    """
    apart = reference.attestation.get("switches", {}).get("loader_cpus")
    if apart:
        return len(parse_cpu_list(apart))
    if reference.axes["placement"] != "none":
        return len(reference.attestation["cpus"])
    return len(probe.usable_topology(reference.machine).cpus) // reference.n


def _not_apart(reference: Reference) -> Reason:
    threads = reference.attestation["intra_op"] * ranks.processes(reference.axes)
    cpus = len(probe.usable_topology(reference.machine).cpus)
    if cpus // reference.n <= threads:
        return f"training on {threads} of {cpus // reference.n} CPUs leaves none for a loader"
    return None


def _apart(reference: Reference) -> dict[str, Any]:
    """Return what gives loader workers CPUs of their own: those of members have to be known."""
    bound = reference.axes["placement"] != "none"
    return {
        "intra_op": reference.attestation["intra_op"],
        "placement": reference.axes["placement"] if bound else "cores",
        "loader_cpus": "rest",
    }


def _no_snapshots(reference: Reference) -> Reason:
    for loader in _loaders(reference):
        if "StatefulDataLoader" in loader["kinds"] and loader["workers"]:
            return None
    return "no StatefulDataLoader with workers"


def _no_ranks(reference: Reference) -> Reason:
    return None if ranks.processes(reference.axes) > 1 else "no ranks that exchange anything"


def _short(name: str, title: str) -> Callable[[Reference], Reason]:
    """Exclude what a part of a step takes hardly any time for."""

    def excluded(reference: Reference) -> Reason:
        def part(member: Mapping[str, Any]) -> float:
            counted_s = sum(member["step_us"]) / 1e6
            return member.get(name, 0.0) / counted_s if counted_s else 0.0

        share = reference.most(part)
        return f"{title} takes {share:.1%} of a step" if share < SHARE_AT_LEAST else None

    return excluded


def _flushed(reference: Reference) -> Reason:
    if reference.attestation["changes"]["flush_denormals"]:
        return "denormals are flushed already"
    return None


def _held_back(reference: Reference) -> Reason:
    timing = quota_bursts.timing(reference)
    return timing if isinstance(timing, str) else None


def _any(*tests: Callable[[Reference], Reason]) -> Callable[[Reference], Reason]:
    def excluded(reference: Reference) -> Reason:
        return next((reason for test in tests if (reason := test(reference))), None)

    return excluded


def _all(*tests: Callable[[Reference], Reason]) -> Callable[[Reference], Reason]:
    """Exclude what all of them exclude, for the first one's reason."""

    def excluded(reference: Reference) -> Reason:
        reasons = [test(reference) for test in tests]
        return None if None in reasons else reasons[0]

    return excluded


_loads = _short("load_s", "the loader")

# In the order of what they cost when missed: a short budget takes the first.
RELIEFS: tuple[Relief, ...] = (
    Relief(quota_bursts.NAME, "bursts that the quota leaves alone", _held_back,
           bursts=True),
    Relief("passive", "waiting threads sleep at once", _passive, {"wait_policy": "passive"}),
    Relief("one_thread", "one thread per operator", _one_thread, {"intra_op": 1}),
    Relief("cleared", "nothing of what the shell sets", _is("shell", "none"), {"shell": "none"}),
    Relief(
        "pinned", "each member bound to its own core", _is("placement", "cores"),
        {"placement": "cores"},
    ),
    Relief(
        "unpinned", "members free to move", _is("placement", "none"), {"placement": "none"},
    ),
    Relief(
        "spread", "members spread over caches and memory nodes",
        _any(_is("placement", "spread"), _one_group("l3", "node", "socket")),
        {"placement": "spread"},
    ),
    Relief(
        "per_l3", "a whole last-level cache for each member",
        _any(_is("placement", "per_l3"), _one_group("l3")), {"placement": "per_l3"},
    ),
    Relief(
        "local_memory", "memory of the member's own node only",
        _any(_is("membind", "local"), _one_group("node")),
        {"placement": "cores", "membind": "local"},
    ),
    Relief("exec", "a fresh interpreter for each member", _is("launcher", "exec"),
           {"launcher": "exec"}),
    Relief(
        "large_thresholds", "glibc keeps large blocks",
        _any(_is("allocator", "glibc-large-thresholds"), _faults),
        {"allocator": "glibc-large-thresholds"},
    ),
    Relief(
        "glibc", "the system's malloc", _is("allocator", "glibc", "glibc-large-thresholds"),
        {"allocator": "glibc"},
    ),
    Relief("tcmalloc", "tcmalloc", _any(_is("allocator", "tcmalloc"), _faults),
           {"allocator": "tcmalloc"}, quick=False),
    Relief("jemalloc", "jemalloc", _any(_is("allocator", "jemalloc"), _faults),
           {"allocator": "jemalloc"}, quick=False),
    Relief("mimalloc", "mimalloc", _any(_is("allocator", "mimalloc"), _faults),
           {"allocator": "mimalloc"}, quick=False),
    Relief("cached_batches", "batches from memory instead of the loader",
           _all(_loads, _no_workers), change="loader_switched",
           asked=Ask(loader_request.FROM_MEMORY).code, restless=True),
    Relief("loader_beside", "batches from memory while the loader does all that it does",
           _no_workers, change="loader_switched", asked=Ask(loader_request.SWAPPED).code,
           of="cached_batches", restless=True),
    Relief("no_snapshots", "no snapshots of a StatefulDataLoader's state", _no_snapshots,
           change="no_snapshots"),
    Relief("kept_workers", "loader workers that live on between epochs",
           _short("loader_starts_s", "starting loader workers"), {"persistent_workers": "keep"}),
    Relief("whole_batches", "all rows of a batch read at once", _any(_loads, _not_by_row),
           change="whole_batches", alone=True),
    Relief("no_copies", "loader workers that send no data", _no_copies, change="no_copies",
           alone=True),
    Relief("quick_switches", "threads that give the interpreter to others at once", _no_threads,
           change="quick_switches", alone=True),
    Relief("pipeline_elsewhere", "SPDL's threads in a process of their own", _no_pipeline,
           change="pipeline_elsewhere", alone=True),
    Relief("more_workers", "more loader workers", _any(_loads, _not_settable),
           derived=_more_workers),
    Relief("loader_apart", "loader workers on CPUs of their own",
           _any(_is("loader_cpus", "rest"), _no_copies, _not_apart), derived=_apart),
    Relief("one_element", "ranks that exchange one number instead of gradients", _no_ranks,
           change="one_element"),
    Relief("flush_denormals", "denormal numbers flushed to zero", _flushed,
           change="flush_denormals", alone=True),
    Relief("isa_default", "all vector instructions of the CPU", _is("isa", "default"),
           {"isa": "default"}),
    Relief("bundled_blas", "the BLAS inside torch", _is("blas", "bundled"), {"blas": "bundled"}),
    Relief("openblas", "OpenBLAS", _is("blas", "openblas"), {"blas": "openblas"}, alone=True),
    Relief("blis", "BLIS", _is("blas", "blis"), {"blas": "blis"}, quick=False, alone=True),
    Relief("mkl", "MKL from PyPI", _is("blas", "mkl"), {"blas": "mkl"}, quick=False, alone=True),
    Relief("huge_pages", "huge pages asked for by malloc", _is("huge_pages", "always"),
           {"huge_pages": "always"}, quick=False),
    Relief("no_collector", "Python's garbage collector off",
           _short("collect_s", "the garbage collector"), change="no_collector", alone=True),
)  # fmt: skip


def choose(reference: Reference, effort: str) -> tuple[list[Relief], list[dict[str, str]]]:
    """Choose the reliefs to try.

    Args:
        reference: what is known of the reference.
        effort: ``quick`` or ``full``.

    Returns:
        The reliefs, and those that are left out as records hold them, with the reason.
    """
    chosen, left = [], []
    for relief, reason in _reasons(reference, effort):
        if reason is None:
            chosen.append(relief)
        else:
            left.append({"relief": relief.name, "title": relief.title, "reason": reason})
    return chosen, left


def _reasons(reference: Reference, effort: str) -> Iterator[tuple[Relief, Reason]]:
    for relief in RELIEFS:
        reason = relief.excluded(reference)
        if reason is None and effort == "quick" and not relief.quick:
            reason = "tried with why: full only"
        if relief.derived is not None and reason is None:
            relief = replace(relief, axes=relief.derived(reference))  # noqa: PLW2901
        yield relief, reason
