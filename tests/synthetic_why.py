"""Runs of experiments made up from a known truth: a cause is injected with a known share.

A `World` says where the time of a step goes for a cohort (the reference or an intervention) at a
process count. What is written is what the experiments write; noise is multiplied onto each window.
"""

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import convert

from made_records import readback
from scaling_study.experiments.interventions import INTERVENTIONS
from scaling_study.records import codec
from scaling_study.records.readback import Loader
from synthetic import AXES, machine

MS = 1e-3
TITLES = {
    "passive": "waiting threads sleep at once",
    "one_thread": "one thread per operator",
    "cleared": "nothing of what the shell sets",
    "pinned": "each member bound to its own core",
    "spread": "members spread over caches and memory nodes",
    "local_memory": "memory of the member's own node only",
    "large_thresholds": "glibc keeps large blocks",
    "jemalloc": "jemalloc",
    "tcmalloc": "tcmalloc",
    "cached_batches": "batches from memory instead of the loader",
    "loader_beside": "batches from memory while the loader does all that it does",
    "no_snapshots": "no snapshots of a StatefulDataLoader's state",
    "kept_workers": "loader workers that live on between epochs",
    "whole_batches": "all rows of a batch read at once",
    "no_copies": "loader workers that send no data",
    "quick_switches": "threads that give the interpreter to others at once",
    "more_workers": "more loader workers",
    "pipeline_elsewhere": "SPDL's threads in a process of their own",
    "loader_apart": "loader workers on CPUs of their own",
    "flush_denormals": "denormal numbers flushed to zero",
    "openblas": "OpenBLAS",
    "huge_pages": "huge pages asked for by malloc",
    "one_element": "ranks that exchange one number instead of gradients",
    "no_gc": "Python's garbage collector off",
    "quota_bursts": "bursts that the quota leaves alone",
}
WHOSE = {intervention.name: intervention.of for intervention in INTERVENTIONS if intervention.of}
INTERVENTION_AXES = {
    "passive": {"wait_policy": "passive"},
    "one_thread": {"intra_op": 1},
    "cleared": {"shell": "none"},
    "pinned": {"placement": "cores"},
    "spread": {"placement": "spread"},
    "local_memory": {"placement": "cores", "membind": "local"},
    "large_thresholds": {"allocator": "glibc-large-thresholds"},
    "jemalloc": {"allocator": "jemalloc"},
    "tcmalloc": {"allocator": "tcmalloc"},
    "openblas": {"blas": "openblas"},
    "huge_pages": {"huge_pages": "always"},
    "kept_workers": {"persistent_workers": "keep"},
    "more_workers": {"loader_workers": 1},
    "loader_apart": {"intra_op": 1, "placement": "cores", "loader_cpus": "rest"},
}
KERNELS = ("register", "llc", "memory", "pages")


@dataclasses.dataclass(slots=True)
class Step:
    """Where the time of one member's step goes, and what else is counted meanwhile.

    Times in s per step of the training thread, except `helper_s` (CPU time of other threads) and
    `helper_wait_s`; `quota_s` is the part of the run-queue wait in which a quota held it back.
    """

    user: float = 10 * MS
    system: float = 0.2 * MS
    runqueue: float = 0.0
    blocked: float = 0.0
    quota_s: float = 0.0
    load: float = 0.3 * MS
    collect: float = 0.05 * MS
    backward: float = 0.0
    compile: float = 0.0
    ranks_wait: float = 0.0
    loader_starts: float = 0.0
    loader_made: float = 0.0
    loader_computed: float = 0.0
    helper_s: float = 0.0
    helper_wait_s: float = 0.0
    faults: float = 20.0
    major_faults: float = 0.0
    migrations: float = 0.0
    foreign_cpus: float = 0.005
    steal_cpus: float = 0.0
    trainers_cpus: int | None = None
    memory_stall: float = 0.0
    frequency_mhz: float | None = None

    @property
    def total(self):
        return self.user + self.system + self.runqueue + self.blocked


@dataclasses.dataclass(slots=True)
class World:
    """A machine and a launch without any cause; subclasses plant one.

    Attributes:
        n: Process count that is explained.
        cpus: CPUs of the machine.
        threads: Threads of an operator.
        interventions: What is tried.
        loader: What is read_back of the loader; empty for none.
    """

    n: int = 2
    cpus: int = 2
    threads: int = 1
    interventions: tuple[str, ...] = (
        *("pinned", "large_thresholds", "cached_batches", "flush_denormals", "openblas"),
        *("jemalloc", "huge_pages", "no_gc"),
    )
    gflops: dict[str, float] = dataclasses.field(default_factory=dict)
    axes: dict[str, Any] = dataclasses.field(default_factory=dict)
    loader: dict[str, Any] = dataclasses.field(default_factory=dict)
    first: str = ""
    """The cause that is injected; empty for none."""

    def step(self, intervention: str, n: int) -> Step:
        """Where time goes for a cohort at a process count."""
        return self.crowd(Step(), n)

    def crowd(self, step: Step, n: int) -> Step:
        """Let members of one thread wait for each other where they outnumber the CPUs."""
        if n > self.cpus:
            step.runqueue += (n / self.cpus - 1) * (step.user + step.system)
        return step

    def beside(self, kernel: str, dose: float) -> float:
        """Step over step alone, beside stressors."""
        return 1.0

    def inflation(self, kernel: str) -> float:
        """How much slower a kernel's member gets with n of them."""
        return 1.0

    def samples(self, n: int) -> dict[str, Any]:
        """Waits and locks of the record of samples."""
        return {"states": {"R": 60, "S": 0}, "waits": [], "locks": []}

    def machine(self) -> dict[str, Any]:
        """machine.json."""
        return machine(cpus=self.cpus, cpus_per_l3=self.cpus, cpus_per_node=self.cpus)

    def foreign(self) -> list[dict[str, Any]]:
        """Programs beside the study."""
        return []


def write_run(
    path: Path,
    world: World,
    rng: np.random.Generator,
    *,
    noise: float = 0.04,
    outliers: float = 0.0,
    start: float = 0.0,
    replicate: int = 0,
    blocks: int = 6,
    effort: str = "quick",
) -> Path:
    """Write one file of experiments.

    Args:
        path: The file.
        world: What is true.
        rng: Of all noise.
        noise: Standard deviation of a window's log time.
        outliers: Chance that a block has one window that takes 30% longer or shorter.
        start: Standard deviation of a member's log time, the same in all its windows.
        replicate: Which fresh start.
        blocks: Blocks of windows.
        effort: As the records have it.
    """
    records = [_head(world, replicate, effort)]
    names = ["reference", *world.interventions]
    starts = [name for name in names if name not in WHOSE]
    records += [_readback(world, name) for name in starts]
    luck = {name: np.exp(rng.normal(0, start, world.n)) for name in starts}
    for block in range(blocks):
        odd = rng.integers(2 * len(names)) if rng.random() < outliers else -1
        cells = [(name, n) for name in names for n in (1, world.n)]
        fit = world.cpus // world.threads
        cells += [("reference", fit)] if 1 < fit < world.n else []
        for at, (name, n) in enumerate(cells):
            factor = np.exp(rng.normal(0, noise)) * luck[WHOSE.get(name, name)]
            if at == odd:
                factor *= rng.choice([1.3, 1 / 1.3])
            step = world.step(name, n)
            experiment = "reference" if name == "reference" else "intervention"
            records.append(
                _window(
                    world, step, experiment, name=name, n=n, block=block, factor=factor, first=block
                )
            )
    for block in range(blocks, blocks + 3):
        for kernel, dose in [("none", 0.0)] + [(k, d / 3) for k in KERNELS for d in (1, 2, 3)]:
            factor = np.exp(rng.normal(0, noise)) * world.beside(kernel, dose) * luck["reference"]
            alone = world.step("reference", 1)
            window = _window(world, alone, "stressor", name=kernel, n=1, block=block, factor=factor)
            window |= {"dose": dose, "count": max(1, world.n - 1)}
            window["rate_share"] = None if kernel == "none" else 0.95
            records.append(window)
    for n in sorted({1, world.n}):
        one = world.samples(n)
        records.append(
            {
                "kind": "samples",
                "n": n,
                "interval_s": 0.02,
                "members": [
                    {"slot": slot, "samples": 60, "states": one["states"], "waits": one["waits"]}
                    for slot in range(n)
                ],
                "locks": one["locks"],
            }
        )
    records.append({"kind": "foreign", "span_s": 60.0, "processes": world.foreign()})
    records.append(
        {"kind": "end", "status": "complete", "reason": None, "remedy": None, "wall_s": 90.0}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def microbenchmarks(world: World, rng: np.random.Generator, noise: float = 0.03) -> dict[str, Any]:
    """Return microbenchmarks.json of the world's machine."""
    rows = []
    for kernel in (*KERNELS, "multiply", "wake"):
        for n in sorted({1, world.n}):
            for block in range(4):
                slow = world.inflation(kernel) if n > 1 else 1.0
                rate = 500 / slow * np.exp(rng.normal(0, noise))
                rows.append(
                    {"kernel": kernel, "placement": "cores", "n": n, "block": block,
                     "rates": [rate] * n, "valid": True, "flags": []}
                )  # fmt: skip
    return {
        "schema_version": 1,
        "machine": world.machine()["hash"],
        "started": "2025-01-01T00:00:00+00:00",
        "kernels": [
            {"kernel": kernel, "title": kernel, "bound_by": "", "bytes": None} for kernel in KERNELS
        ],
        "rows": rows,
    }


def _head(world: World, replicate: int, effort: str) -> dict[str, Any]:
    where = world.machine()
    return {
        "kind": "why",
        "schema_version": 2,
        "study": "synthetic",
        "target": "default-44136f",
        "launch": "default-44136f",
        "label": "default",
        "role": "default",
        "axes": AXES | world.axes,
        "replicate": replicate,
        "effort": effort,
        "n": world.n,
        "seed": 1,
        "machine_hash": where["hash"],
        "machine": where,
        "measured_hash": "m",
        "harness_hash": "h",
        "started": "2025-01-01T00:00:00+00:00",
        "same_as": None,
        "slots": [
            {"slot": slot, "cpus": None, "policy": "default", "oversubscribed": slot >= world.cpus}
            for slot in range(world.n)
        ],
        "interventions": [
            {
                "intervention": name,
                "title": TITLES[name],
                "axes": INTERVENTION_AXES.get(name, {}),
                "options": ({} if name in INTERVENTION_AXES else {name: True})
                | ({"of": WHOSE[name]} if name in WHOSE else {}),
            }
            for name in world.interventions
        ],
        "not_applicable": [
            {
                "intervention": "spread",
                "title": TITLES["spread"],
                "reason": "only one last-level cache",
            }
        ],
    }


LOADER = {
    "kind": "Loader", "kinds": ["Loader"], "workers": 0, "threads": False, "settable": False,
    "shares_out": False, "by_row": False, "batches": None, "ready": 0,
}  # fmt: skip


def _readback(world: World, name: str) -> dict[str, Any]:
    threads = 1 if name in {"one_thread", "pinned"} else world.threads
    spins = 10 * MS if name != "passive" else 0.1 * MS
    loaders = [convert(LOADER | world.loader, Loader)] if world.loader else []
    member = readback(
        cpus=list(range(world.cpus)),
        intra_op=threads,
        spin_s=None if threads == 1 else spins,
        sgemm_gflops=world.gflops.get(name, 100.0),
        huge_page_bytes=2**30 if name == "huge_pages" else 2**22,
        pages_by_node={"0": 1000},
        loaders=loaders,
    )
    return {
        "kind": "readback",
        "cohort": name,
        "checks": [{"axis": "launcher", "requested": "exec", "effective": "exec", "ok": True}],
        "members": [codec.plain(member) | {"slot": slot} for slot in range(world.n)],
    }


def _window(world, step, experiment, *, name, n, block, factor, first=0):
    """One window: every time of a member's step is multiplied by the member's factor."""
    step = copy.copy(step)
    counted = 40
    slots = sorted((first + at) % world.n for at in range(n))  # members take turns
    window_s = counted * step.total * factor[slots].max()
    members = []
    for slot in slots:
        own = counted * factor[slot]
        total_s = step.total * factor[slot]
        members.append(
            {
                "slot": slot,
                "steps": counted,
                "step_us": [max(1, round(total_s * 1e6))] * counted,
                "load_s": step.load * own,
                "forward_s": max(0.0, (step.total - step.load - step.backward) * own),
                "backward_s": step.backward * own,
                "optimizer_s": 0.0,
                "collect_s": step.collect * own,
                "compile_s": step.compile * own,
                "loader_starts_s": step.loader_starts * own,
                "loader_made_s": step.loader_made * own,
                "loader_computed_s": step.loader_computed * own,
                "ranks_wait_s": step.ranks_wait * own,
                "active_s": step.total * own,
                "steps_active": counted,
                "restarts": 0,
                "cpu_user_s": (step.user + step.helper_s) * own,
                "cpu_system_s": step.system * own,
                "runqueue_s": (step.runqueue + step.helper_wait_s) * own,
                "trainer_user_s": step.user * own,
                "trainer_system_s": step.system * own,
                "trainer_runqueue_s": step.runqueue * own,
                "minor_faults": round(step.faults * counted),
                "major_faults": round(step.major_faults * counted),
                "voluntary_switches": 5,
                "involuntary_switches": 5,
                "migrations": round(step.migrations * counted),
                "threads": 2 + world.threads,
                "processes": 1,
                "rss_bytes": 2**28,
            }
        )
    flags = ["foreign_cpu"] if step.foreign_cpus > 0.05 else []
    return {
        "kind": "window",
        "experiment": experiment,
        "name": name,
        "dose": None,
        "count": None,
        "rate_share": None,
        "window": block,
        "block": block,
        "n": n,
        "attempt": 0,
        "valid": not flags,
        "flags": flags,
        "window_s": window_s,
        "start_skew_s": 1e-5,
        "overlap": 1.0,
        "machine": {
            "foreign_cpu_s": step.foreign_cpus * window_s,
            "sleeping_cpu_s": 0.0,
            "steal_s": step.steal_cpus * window_s,
            # The counter is of the CPUs that were held back, whoever waited on them.
            "throttled_s": step.quota_s * counted * factor[:n].sum(),
            "psi_cpu_some_s": 0.0,
            "psi_memory_some_s": step.memory_stall * counted * factor[:n].mean(),
            "psi_io_some_s": 0.0,
            "frequency_mhz": step.frequency_mhz,
            "members_cpus": step.trainers_cpus or world.cpus,
            "trainers_cpus": step.trainers_cpus or world.cpus,
            "busy_cpu_s": 0.0,
        },
        "members": members,
        "vmstat": {"pswpin": 0, "pswpout": 0},
    }
