"""Studies made up from a known truth: a plan, a machine, and record files as the harness writes.

`write_study` is what tests of the tables, the analysis and the report start from, and what the
collecting benchmark fills its folder with. Everything is drawn from one seed.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import convert
from msgspec.structs import replace

import made_records
from scaling_study.analysis.collect import Collected, collect
from scaling_study.common.topology import Cpu, Node, Topology, format_cpu_list, parse_cpu_list
from scaling_study.config.plan import Plan
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.records import codec, window
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Check

AXES: dict[str, Any] = dict(DEFAULTS)
MEASURE: dict[str, Any] = {
    "replicates": 3, "windows": 3, "steps": 20, "window_s": [1.0, 10.0], "warmup_steps": 10,
    "retries": 2, "timeout_s": 300, "isolated": False,
}  # fmt: skip

Law = Callable[[int], float]


def linear(rate: float) -> Law:
    """Throughput that grows by `rate` steps/s with every process."""
    return lambda n: rate * n


def hard_saturation(rate: float, ceiling: float) -> Law:
    """Throughput that grows by `rate` and then stays at `ceiling` steps/s."""
    return lambda n: min(rate * n, ceiling)


def usl(rate: float, contention: float, coherence: float) -> Law:
    """Gunther's universal scalability law."""
    return lambda n: rate * n / (1 + contention * (n - 1) + coherence * n * (n - 1))


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a made-up study and what becomes of it.

    Attributes:
        values: Axes that differ from all-default.
        role: Why it is in the plan.
        law: True throughput in steps/s of n processes.
        ending: Status of its cohorts; a failed or skipped one has no windows, a partial one lacks
            its largest process count.
        check_ok: Whether its readback passes.
        invalid: Share of first takes that are flagged and taken again.
        never_valid: Process counts none of whose windows is valid.
    """

    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    role: str = "grid"
    law: Law = dataclasses.field(default_factory=lambda: hard_saturation(50.0, 150.0))
    ending: Literal["complete", "partial", "failed", "skipped"] = "complete"
    check_ok: bool = True
    invalid: float = 0.0
    never_valid: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """Folder name, as the plan forms it."""
        slug = "-".join(f"{axis}-{value}" for axis, value in self.values.items()) or "default"
        digest = hashlib.sha256(json.dumps(self.values, sort_keys=True).encode()).hexdigest()[:6]
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", slug)
        return f"{slug}-{digest}" + ("-repeat" if self.role == "repeat" else "")

    @property
    def label(self) -> str:
        """Differing values as text."""
        text = ", ".join(f"{axis} {value}" for axis, value in self.values.items()) or "default"
        return text + (" (repeat)" if self.role == "repeat" else "")

    def planned(self) -> dict[str, Any]:
        """The launch as plan.json holds it."""
        axes = AXES | self.values
        return {"id": self.id, "label": self.label, "role": self.role, "axes": axes}


LAUNCHES = (
    Launch({}, "default", usl(40.0, 0.6, 0.02)),
    Launch({"intra_op": 1}, "baseline", hard_saturation(50.0, 150.0)),
    Launch({"intra_op": 1}, "repeat", hard_saturation(50.0, 150.0)),
    Launch({"intra_op": 2}, "grid", hard_saturation(45.0, 120.0), invalid=0.2),
    Launch({"intra_op": 1, "allocator": "jemalloc"}, "one_change", hard_saturation(60.0, 180.0)),
    Launch({"intra_op": 1, "blas": "mkl"}, "one_change", ending="skipped"),
    Launch({"intra_op": 1, "blas": "blis"}, "one_change", ending="failed", check_ok=False),
)
"""The study that `write_study` makes unless told otherwise; its best launch is jemalloc."""


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of log throughput: per replicate, per point, per window, per step."""

    replicate: float = 0.01
    point: float = 0.005
    window: float = 0.005
    step: float = 0.05


QUIET = Noise(replicate=0.002, point=0.002, window=0.002, step=0.01)


def described(
    *, name: str = "host-a", cpus: int = 8, cpus_per_l3: int = 4, cpus_per_node: int = 8
) -> Machine:
    """A machine of one socket without SMT."""
    nodes = range(-(-cpus // cpus_per_node))
    topology = Topology(
        tuple(
            Cpu(cpu, cpu, 0, cpu // cpus_per_node, cpu // cpus_per_l3 * cpus_per_l3)
            for cpu in range(cpus)
        ),
        tuple(
            Node(node, 32 * 2**30, {other: 10 if other == node else 20 for other in nodes})
            for node in nodes
        ),
    )
    digest = hashlib.sha256(f"{name} {json.dumps(codec.plain(topology))}".encode())
    libraries = ("openblas", "blis", "mkl", "jemalloc", "tcmalloc", "mimalloc")
    return made_records.hardware(
        hash=digest.hexdigest()[:12], hostname=name, cpu_model=f"Example CPU of {name}",
        isa=("avx2", "avx512f"), topology=topology, allowed_cpus=f"0-{cpus - 1}",
        allowed_nodes=format_cpu_list(nodes), governor="performance",
        libraries=dict.fromkeys(libraries), commit="0123abc",
        versions={"python": "3.11.7", "torch": "2.13.0+cpu", "numpy": "2.4.6"},
    )  # fmt: skip


def machine(**options: Any) -> dict[str, Any]:
    """A machine.json; options are of `described`."""
    return json.loads(codec.encode(described(**options)))


def write_study(
    folder: Path,
    *,
    study: str = "synthetic",
    seed: int = 1,
    launches: Sequence[Launch] = LAUNCHES,
    ns: Sequence[int] = (1, 2, 3, 4, 6, 8),
    replicates: int = 3,
    windows: int = 3,
    steps: int = 20,
    noise: Noise | None = None,
    steps_per_model: int | Literal["auto"] | None = 500,
    objective: str = "models_per_hour",
    machines: Sequence[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Write plan.json, machine.json and measure/<launch>/<replicate>.jsonl under `folder`.

    Args:
        folder: The study's folder; made when missing.
        study: Name of the study.
        seed: Of everything drawn.
        launches: What is measured; `LAUNCHES` has one of every ending.
        ns: the process counts.
        replicates: Files per launch.
        windows: Valid windows per point and replicate.
        steps: Counted steps per member and window.
        noise: Spread around each launch's law.
        steps_per_model: Of the workload; None leaves models/hour out.
        objective: Of the study.
        machines: Every replicate is measured on each of them (a cohort per machine in its file).

    Returns:
        The plan.
    """
    machines = [machine()] if machines is None else machines
    measure = MEASURE | {"replicates": replicates, "windows": windows, "steps": steps}
    plan = _plan(launches, measure, steps_per_model)
    plan |= {"study": study, "seed": seed, "processes": list(ns), "objective": objective}
    codec.write_file(folder / "plan.json", plan)
    codec.write_file(folder / "machine.json", machines[0])
    rng = np.random.default_rng(seed)
    for launch in launches:
        threads = launch.values.get("intra_op")
        for replicate in range(replicates):
            path = folder / "measure" / launch.id / f"{replicate}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for cohort, where in enumerate(machines):
                    head = made_records.head(
                        study=study, launch=launch.id, role=launch.role, label=launch.label,
                        axes=AXES | launch.values, replicate=replicate, cohort=cohort,
                        process_counts=list(ns), seed=seed, measured_hash="measured0001",
                        harness_hash="harness00001", machine_hash=where["hash"],
                        machine=convert(where, Machine, str_keys=True),
                        slots=_slots(launch, max(ns), where),
                        requested_env={"OMP_NUM_THREADS": str(threads)} if threads else {},
                    )  # fmt: skip
                    spread = noise or Noise()
                    made = _cohort(head, launch, spread, rng, windows=windows, steps=steps)
                    file.writelines(codec.encode(record) for record in made)
    return plan


def _plan(
    launches: Sequence[Launch],
    measure: dict[str, Any],
    steps_per_model: int | Literal["auto"] | None,
) -> dict[str, Any]:
    by_role = {launch.role: launch.id for launch in launches}
    default = by_role.get("default", launches[0].id)
    workload = {
        "script": "scripts/workloads/example.py", "args": ["--seed", "{member}"], "env": {},
        "pass_env": [], "step": "optimizer", "steps_per_model": steps_per_model, "inputs": [],
    }  # fmt: skip
    return {
        "schema_version": 9, "description": "made up",
        "default": default, "baseline": by_role.get("baseline", default),
        "repeat": by_role.get("repeat", "no repeat"), "dropped": [],
        "launches": [launch.planned() for launch in launches],
        "search": {"budget_minutes": None, "tolerance": 0.02, "confidence": 0.9},
        "replicates": measure["replicates"], "measure": measure, "confirm": {"seconds": 100.0},
        "profiled": {"recommended": "recommended"} | {one.id: one.id for one in launches},
        "workload": workload,
    }  # fmt: skip


def typed(plan: dict[str, Any]) -> Plan:
    """Return the plan of the content of plan.json."""
    return Plan.from_dict(plan)


def collected(
    folder: Path, change: Callable[[dict[str, Any]], None] = lambda _: None, **options: Any
) -> tuple[Plan, Collected]:
    """Write a study and collect it; return its plan, and what was collected.

    Args:
        folder: Of the study.
        change: What becomes of the plan, and of the records, before they are read.
        options: Of `write_study`.
    """
    content = write_study(folder, **options)
    change(content)
    plan = typed(content)
    return plan, collect(folder, plan)


def _slots(launch: Launch, count: int, where: dict[str, Any]) -> list[window.Slot]:
    if launch.ending == "skipped":
        return []
    cpus = len(where["topology"]["cpus"])
    bound = launch.values.get("placement", "none") != "none"
    return [
        made_records.slot(
            slot=slot,
            cpus=str(slot % cpus) if bound else None,
            oversubscribed=bound and slot >= cpus,
        )
        for slot in range(count)
    ]


def _cohort(
    head: window.CohortHead,
    launch: Launch,
    noise: Noise,
    rng: np.random.Generator,
    *,
    windows: int,
    steps: int,
) -> Iterator[window.Record]:
    """All records of one cohort, in the order the harness writes them."""
    end = window.CohortEnd(
        cohort=head.cohort, status=launch.ending, reason=None, remedy=None, wall_s=30.0,
        start_s=6.0, in_windows_s=22.0,
    )  # fmt: skip
    ns = list(head.process_counts)
    yield head
    if launch.ending == "skipped":
        no_time = {"wall_s": 0.0, "start_s": 0.0, "in_windows_s": 0.0}
        reason = {"reason": "the library was not found", "remedy": "pip install the-library"}
        yield replace(end, **no_time, **reason)
        return
    yield _readback(head, launch)
    if launch.ending == "failed":
        yield replace(end, reason="what was asked for did not take effect", in_windows_s=0.0)
        return
    if launch.ending == "partial":
        lost = ns.pop()
        end = replace(end, reason=f"a member died at n = {lost}")
        yield window.CohortEvent(
            cohort=head.cohort, slot=lost - 1, what="died", reason="killed by signal 9",
            log="Traceback …",
        )  # fmt: skip
    replicate_factor = rng.normal(0.0, noise.replicate)
    point_factor = {n: rng.normal(0.0, noise.point) for n in ns}
    number = 0
    for block in range(windows):
        for n in rng.permutation(ns).tolist():
            level = replicate_factor + point_factor[n] + rng.normal(0.0, noise.window)
            rate = launch.law(n) * np.exp(level)
            spoiled = int(rng.random() < launch.invalid)
            for take in range(spoiled + 1):
                valid = take == spoiled and n not in launch.never_valid
                flags = [] if valid else ["foreign_cpu", "short_overlap"]
                yield _window(
                    rate, steps, noise.step, rng, cohort=head.cohort, window=number, block=block,
                    n=n, attempt=take, valid=valid, flags=flags,
                )  # fmt: skip
            number += 1
    yield end


def _readback(head: window.CohortHead, launch: Launch) -> window.Readbacks:
    checks = []
    for axis, value in head.axes.items():
        effective = value if launch.check_ok or axis != "blas" else "bundled"
        checks.append(Check(axis, str(value), str(effective), effective == value))
    cpus = len(head.machine.topology.cpus)
    members = [
        made_records.readback(
            slot=slot.slot, pid=1000 + slot.slot, sgemm_gflops=108.0, spin_s=0.01, start_s=START_S,
            cpus=list(parse_cpu_list(slot.cpus or head.machine.allowed_cpus)), inter_op=cpus,
            intra_op=launch.values.get("intra_op", cpus), env=head.requested_env,
            allocator=str(head.axes["allocator"]),
        )
        for slot in head.slots
    ]  # fmt: skip
    return window.Readbacks(cohort=head.cohort, checks=checks, members=members)


START_S = 0.0
"""What a process takes to the end of its first step."""


def _window(
    rate: float, steps: int, step_noise: float, rng: np.random.Generator, *, n: int, **head: Any
) -> window.Window:
    """One window whose members share a rate (steps/s) equally."""
    step_us = n / rate * 1e6 * np.exp(rng.normal(0.0, step_noise, (n, steps)))
    window_s = float(step_us.sum(axis=1).max()) / 1e6 + 0.3
    counted = np.maximum(np.rint(step_us), 1).astype(int).tolist()
    return made_records.window(
        [_member(slot, own, window_s) for slot, own in enumerate(counted)],
        **head, n=n, window_s=window_s, start_skew_s=0.0004, overlap=0.998,
        machine=made_records.machine(
            foreign_cpu_s=0.01, coordinator_cpu_s=0.001, busy_cpu_s=0.97 * n * window_s,
            psi_cpu_some_s=0.02 * n,
        ),
    )  # fmt: skip


def _member(slot: int, step_us: list[int], window_s: float) -> window.MemberWindow:
    counted_s = sum(step_us) / 1e6
    steps = len(step_us) + 2
    return made_records.member(
        step_us, slot, load_s=0.05 * counted_s, backward_s=0.45 * counted_s,
        collect_s=0.01 * counted_s, active_s=window_s, steps_active=steps,
        cpu_user_s=0.90 * window_s, cpu_system_s=0.05 * window_s, runqueue_s=0.02 * window_s,
        trainer_user_s=0.88 * window_s, trainer_system_s=0.04 * window_s,
        trainer_runqueue_s=0.02 * window_s, minor_faults=100 * steps, voluntary_switches=3 * steps,
        involuntary_switches=steps, threads=4, rss_bytes=600 * 2**20 + slot,
    )  # fmt: skip
