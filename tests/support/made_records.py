"""Records as they usually are, for tests that change a field or two."""

import json
import sys
from functools import partial

import msgspec
from msgspec import structs

from scaling_study.common.topology import Cpu, Node, Topology
from scaling_study.config.launches import Launch
from scaling_study.config.plan import Plan
from scaling_study.config.workload import Workload
from scaling_study.records import codec
from scaling_study.records.cohorts import CohortSummary, Reported
from scaling_study.records.confirmation import FirstModels, ModelRun, Round
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Readback
from scaling_study.records.window import (
    CohortHead,
    MemberWindow,
    Slot,
    Taken,
    Window,
    WindowMachine,
)

HARDWARE = Machine(
    hash="m", hostname="host-a", cpu_model="Example CPU", cpu_vendor="GenuineIntel", isa=("avx2",),
    topology=Topology(
        tuple(Cpu(cpu, core=cpu, socket=0, node=0, l3=0) for cpu in range(8)),
        (Node(0, 2**36, {0: 10}),),
    ),
    smt=False, l2_bytes=2**20, l3_bytes=2**25, virtual=None, allowed_cpus="0-7", allowed_nodes="0",
    quota_cpus=None, cgroup_version=2, memory_bytes=2**36, memory_limit_bytes=None, swap_bytes=0,
    kernel="6.1.0", libc="glibc 2.36", governor=None, thp="madvise", numa_balancing=False,
    perf_counters=False, libraries={}, versions={}, commit=None,
)  # fmt: skip
hardware = partial(structs.replace, HARDWARE)
"""A machine of eight CPUs, but for some fields."""

HEAD = CohortHead(
    schema_version=2, study="s", launch="a", role="grid", label="a", axes={}, replicate=0, cohort=0,
    process_counts=[1], seed=1, measured_hash="w", harness_hash="h", machine_hash="m",
    machine=HARDWARE, started="2025-01-01T00:00:00+00:00", slots=[], requested_env={},
)  # fmt: skip
head = partial(structs.replace, HEAD)
"""The first record of a cohort, but for some fields."""

MACHINE = WindowMachine(
    foreign_cpu_s=0.0, sleeping_cpu_s=0.0, steal_s=0.0, throttled_s=None, psi_cpu_some_s=0.0,
    psi_memory_some_s=0.0, psi_io_some_s=0.0, frequency_mhz=None,
)  # fmt: skip
machine = partial(structs.replace, MACHINE)
"""What happened on a quiet machine, but for some fields."""


def member(step_us, slot=0, **changed):
    """One member's share of a window with these counted steps."""
    counted_s = sum(step_us) / 1e6
    usual = {
        "slot": slot, "steps": len(step_us), "step_us": step_us, "load_s": 0.1 * counted_s,
        "forward_s": 0.4 * counted_s, "backward_s": 0.4 * counted_s, "optimizer_s": 0.1 * counted_s,
        "active_s": counted_s, "steps_active": len(step_us), "restarts": 0, "cpu_user_s": counted_s,
        "cpu_system_s": 0.0, "runqueue_s": 0.0, "trainer_user_s": counted_s,
        "trainer_system_s": 0.0, "trainer_runqueue_s": 0.0, "minor_faults": 0, "major_faults": 0,
        "voluntary_switches": 0, "involuntary_switches": 0, "migrations": None, "threads": 1,
        "processes": 1, "rss_bytes": 2**28,
    }  # fmt: skip
    return MemberWindow(**usual | changed)


def taken(members, **changed):
    """A valid window of these members."""
    usual = {
        "window": 0, "block": 0, "n": len(members), "valid": True, "flags": [], "window_s": 1.0,
        "start_skew_s": 0.0, "overlap": 1.0, "machine": MACHINE, "members": members,
    }  # fmt: skip
    return Taken(**usual | changed)


def window(members=(), *, cohort=0, attempt=0, **changed):
    """The record of a window of a cohort."""
    of_cohort = {"cohort": cohort, "attempt": attempt}
    return Window(**structs.asdict(taken(list(members), **changed)), **of_cohort)


def kept(record):
    """A record as its file gives it back."""
    return msgspec.json.decode(codec.ENCODER.encode(record), type=type(record))


def read_lines(path):
    """The records of a file, as JSON holds them."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path, records):
    """Write a file of records."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def edit(path, kind, change, **wanted):
    """Change the first record of a kind in a file, with these values."""
    records = read_lines(path)
    wanted["kind"] = kind
    change(next(record for record in records if wanted.items() <= record.items()))
    write_lines(path, records)


def edit_members(folder, change):
    """Change each launch's members in the windows of a study."""
    for path in sorted((folder / "measure").glob("*/*.jsonl")):
        records = read_lines(path)
        for record in records:
            for member in record["members"] if record["kind"] == "window" else ():
                change(path.parent.name, member)
        write_lines(path, records)


REPORTED = Reported(checks=(), member=None, intra_op=(1,), start_s=())
reported = partial(structs.replace, REPORTED)
"""What the one member of a cohort reported that got what it asked for."""

SUMMARY = CohortSummary(
    launch="a", label="a", role="grid", file="measure/a/0.jsonl", machine="m", host="host-a",
    replicate=0, cohort=0, process_counts=(1,), seed=1, started="2025-01-01T00:00:00+00:00",
    measured_hash="w", harness_hash="h", axes={}, slots=(), requested_env={}, windows_valid=0,
    steps=0,
)  # fmt: skip
summary = partial(structs.replace, SUMMARY)
"""A cohort of one process, as cohorts.json holds it."""


def first_models(fresh=(0.0, 4.0, 14.5), *forked):
    """First models of launch "a": when each began, made its first step, and ended.

    A fourth number is the time from its last step to its end (by default 0.5 s). Forked ones come
    after one that shows what is imported.
    """

    def record(*runs):
        made = [
            ModelRun(
                slot=0, model=at, ahead=bool(at), began_s=began_s, first_s=first_s,
                latest_s=ended_s and ended_s - (end_s or [0.5])[0], iterations=100, ordinary_s=0.1,
                ended_s=ended_s,
            )
            for at, (began_s, first_s, ended_s, *end_s) in enumerate(runs)
        ]  # fmt: skip
        return structs.replace(Round.failed("models/fresh", ""), status="ok", runs=made)

    rounds = [record(fresh), *([record((0.0, 6.0, 18.0), *forked)] if forked else [])]
    return FirstModels(schema_version=1, launch="a", machine_hash="m", wall_s=30.0, rounds=rounds)


TORCH = "/env/lib/python3.11/site-packages/torch/lib"
READBACK = Readback(
    slot=0, launcher="exec", once=False, counted={"how": "optimizer", "optimizers": []}, pid=100,
    cpus=[0, 1], thread_cpus=None, policy="default", pages_by_node={"0": 50_000}, os_threads=4,
    intra_op=2, inter_op=2, openmp=[f"{TORCH}/libgomp-98b21ff3.so.1"],
    parallel=f"{TORCH}/libgomp-98b21ff3.so.1", sgemm=f"{TORCH}/libtorch_cpu.so", sgemm_kernel=None,
    sgemm_gflops=100.0, intel_path=f"{TORCH}/libtorch_cpu.so",
    allocator="/usr/lib/x86_64-linux-gnu/libc.so.6", jemalloc_decay_ms=None, huge_page_bytes=0,
    isa="AVX512", default_dtype="torch.float32", spin_s=0.015, changes={}, impossible={},
    cached={}, compiled={}, torch="2.13.0+cpu", python=sys.executable, env={"PATH": "/bin"},
    switches={}, loaders=[], start_s=2.0, warm_up_compile_s=0.0,
)  # fmt: skip
readback = partial(structs.replace, READBACK)
"""What a member reports that nothing was asked of."""

UNBOUND = Slot(slot=0, cpus=None, policy="default", oversubscribed=False)
slot = partial(structs.replace, UNBOUND)
"""A slot that is not bound, but for some fields."""


def made_plan(*launches, **fields):
    """A plan of launches, given by their axes; the first one is the default and the baseline.

    Args:
        launches: axes of each, which has its place for its id.
        fields: of the plan; `workload` without a script has one.
    """
    made = tuple(Launch(str(at), f"launch {at}", "grid", axes) for at, axes in enumerate(launches))
    workload = {"script": "train.py", **fields.pop("workload", {})}
    workload.setdefault("args", [f"{{{name}}}" for name in workload.get("parameters", ())])
    usual = {
        "study": "s", "description": "", "seed": 1, "objective": "models_per_hour",
        "default": "0", "baseline": "0", "repeat": "none", "launches": made, "dropped": (),
        "processes": (1, 2), "replicates": 1, "workload": Workload.model_validate(workload),
    }  # fmt: skip
    return Plan(**{**usual, **fields})
