"""Runs of experiments made up from a known truth: a cause is injected with a known share.

A `World` says where the time of a step goes for a cohort (the reference or an intervention) at a
process count. What is made are the records of experiments; noise is multiplied onto each window.
"""

import copy
import dataclasses

import numpy as np
from msgspec import convert, structs

import made_records
from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.diagnosis import cause_file
from scaling_study.experiments.interventions import INTERVENTIONS, record
from scaling_study.records import codec, experiment
from scaling_study.records.machine import Machine
from scaling_study.records.readback import Check, Loader
from scaling_study.records.window import Slot
from synthetic import AXES, machine

MS = 1e-3
BY_NAME = {intervention.name: intervention for intervention in INTERVENTIONS}
WHOSE = {intervention.name: intervention.of for intervention in INTERVENTIONS if intervention.of}
DERIVED = {
    "more_workers": {"loader_workers": 1},
    "loader_apart": {"intra_op": 1, "placement": "cores", "loader_cpus": "rest"},
}
"""Axes of interventions that depend on the reference."""
TIMED = (
    *("load", "backward", "collect", "compile", "ranks_wait"),
    *("loader_starts", "loader_made", "loader_computed"),
)
"""Times of a step that are members' counters of the same name."""
KERNELS = ("register", "llc", "memory", "pages")
NOISE = {"noise": 0.04, "outliers": 0.3, "start": 0.01}
"""Of windows, of single windows that are 30% off, and of starts."""


@dataclasses.dataclass(slots=True)
class Step:
    """Where the time of one member's step goes, and what else is counted meanwhile.

    Times in ms per step of the training thread, except `helper` (CPU time of other threads) and
    `helper_wait`; `quota_wait` is the part of the run-queue wait in which a quota held it back.
    """

    user: float = 10
    system: float = 0.2
    runqueue: float = 0.0
    blocked: float = 0.0
    quota_wait: float = 0.0
    load: float = 0.3
    collect: float = 0.05
    backward: float = 0.0
    compile: float = 0.0
    ranks_wait: float = 0.0
    loader_starts: float = 0.0
    loader_made: float = 0.0
    loader_computed: float = 0.0
    helper: float = 0.0
    helper_wait: float = 0.0
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


def seen(states, *waits, locks=()):
    """What looks found: states, waits as system call, what it was on and how often, and locks."""
    found = [experiment.Wait(syscall=call, on=on, count=count) for call, on, count in waits]
    return {"states": states, "waits": found, "locks": list(locks)}


class World:
    """A machine and a launch without any cause; subclasses inject one.

    Attributes:
        n: Process count that is explained.
        cpus: CPUs of the machine.
        threads: Threads of an operator.
        interventions: What is tried.
        gflops: Speed of a multiply by cohort, where it is not 100.
        axes: Of the launch, that are not the default.
        loader: What is read back of the loader; empty for none.
        first: The cause that is injected; empty for none.
        steps: Where time goes, by cohort; that of the reference stands for others too.
        looks: What looks at the training threads find.
        seen_alone: Whether they find it with one process too.
        slowed: By what part of a step a full dose of a kernel slows it down.
        inflated: How much slower a kernel's member gets with n of them.
        foreign: Programs beside the study.
        calls: What calls of operators cost; None if that was not measured.
    """

    n = 2
    cpus = 2
    threads = 1
    interventions: tuple[str, ...] = (
        *("pinned", "large_thresholds", "cached_batches", "flush_denormals", "openblas"),
        *("jemalloc", "huge_pages", "no_gc"),
    )
    gflops = {}
    axes = {}
    loader = {}
    first = ""
    looks = seen({"R": 60, "S": 0})
    steps = {"reference": Step()}
    seen_alone = True
    slowed = {}
    inflated = {}
    foreign = []
    calls = None

    def __init__(self, **changed):
        for name, value in changed.items():
            assert hasattr(self, name)
            setattr(self, name, value)

    def step(self, intervention, n):
        """Where time goes for a cohort at a process count."""
        found = self.steps.get(intervention, self.steps["reference"])
        return self.crowd(copy.copy(found), n)

    def slowness(self, _intervention):
        """What each member's steps are multiplied by."""
        return np.ones(self.n)

    def mask(self, _intervention, _slot):
        """The CPUs that a member may run on."""
        return list(range(self.cpus))

    def crowd(self, step, n):
        """Let members of one thread wait for each other where they outnumber the CPUs."""
        if n > self.cpus:
            step.runqueue += (n / self.cpus - 1) * (step.user + step.system)
        return step

    def samples(self, n):
        """What looks at a training thread found."""
        return self.looks if n > 1 or self.seen_alone else World.looks

    def machine(self):
        """machine.json."""
        return machine(cpus=self.cpus, cpus_per_l3=self.cpus, cpus_per_node=self.cpus)


def make_records(world, rng, *, noise=0.04, outliers=0.0, start=0.0, replicate=0, blocks=6,
                 effort="quick"):  # fmt: skip
    """Make the records of one job.

    Args:
        world: What is true.
        rng: Of all noise.
        noise: Standard deviation of a window's log time.
        outliers: Chance that a block has one window that takes 30% longer or shorter.
        start: Standard deviation of a member's log time, the same in all its windows.
        replicate: Which fresh start.
        blocks: Blocks of windows.
        effort: As the records have it.
    """
    names = ["reference", *world.interventions]
    starts = [name for name in names if name not in WHOSE]
    records = [_head(world, replicate, effort), *(_readback(world, name) for name in starts)]
    bias = {name: np.exp(rng.normal(0, start, world.n)) for name in starts}
    for block in range(blocks):
        odd = rng.integers(2 * len(names)) if rng.random() < outliers else -1
        cells = [(name, n) for name in names for n in (1, world.n)]
        fit = world.cpus // world.threads
        cells += [("reference", fit)] if 1 < fit < world.n else []
        for at, (name, n) in enumerate(cells):
            factor = np.exp(rng.normal(0, noise)) * bias[WHOSE.get(name, name)]
            factor = factor * world.slowness(name)
            turns = block if (world.slowness(name) == 1).all() else 0
            if at == odd:
                factor *= rng.choice([1.3, 1 / 1.3])
            kind = "reference" if name == "reference" else "intervention"
            step = world.step(name, n)
            records.append(
                _window(world, step, kind, name=name, n=n, block=block, factor=factor, first=turns)
            )
    for block in range(blocks, blocks + 3):
        for kernel, dose in [("none", 0.0)] + [(k, d / 3) for k in KERNELS for d in (1, 2, 3)]:
            beside = 1 + world.slowed.get(kernel, 0.0) * dose
            factor = np.exp(rng.normal(0, noise)) * beside * bias["reference"]
            alone = world.step("reference", 1)
            window = _window(world, alone, "stressor", name=kernel, n=1, block=block, factor=factor)
            rate = None if kernel == "none" else 0.95
            records.append(
                structs.replace(window, dose=dose, count=max(1, world.n - 1), rate_share=rate)
            )
    for n in sorted({1, world.n}):
        one = world.samples(n)
        members = [
            experiment.SampledMember(
                slot=slot, samples=60, states=one["states"], waits=one["waits"]
            )
            for slot in range(n)
        ]
        records.append(
            experiment.Samples(n=n, interval_s=0.02, members=members, locks=one["locks"])
        )
    records += [world.calls] if world.calls else []
    records.append(experiment.Foreign(span_s=60.0, processes=world.foreign))
    records.append(
        experiment.ExperimentEnd(status="complete", reason=None, remedy=None, wall_s=90.0)
    )
    return records


def write_run(path, world, rng, **options):
    """Write one file of experiments; options are those of `make_records`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(codec.encode, make_records(world, rng, **options))))
    return path


def judge(world, seed=3, *, replicates=1, change=list, measured=True, **options):
    """Judge a world.

    Args:
        world: What is true.
        seed: Of its noise.
        replicates: Fresh starts.
        change: Gets the records of each, and returns those that are judged.
        measured: Whether the machine has microbenchmarks.
        options: Of `make_records`.
    """
    rng = np.random.default_rng(seed)
    runs = []
    for replicate in range(replicates):
        records = change(make_records(world, rng, replicate=replicate, **options))
        runs.append(WhyRun(records[0], records))
    known = microbenchmarks(world, rng) if measured else None
    return codec.plain(cause_file.judge(runs, known, None))


def named(target, scope=None):
    """Causes that are named, by id; of both scopes where none is given."""
    scopes = [scope] if scope else ["scaling_loss", "single_process_loss"]
    return {one["cause"]: one for each in scopes for one in target[each]["named"]}


def microbenchmarks(world, rng, noise=0.03):
    """Make microbenchmarks.json of the world's machine."""
    rows = []
    for kernel in KERNELS:
        for n in sorted({1, world.n}):
            for block in range(4):
                slow = world.inflated.get(kernel, 1.0) if n > 1 else 1.0
                rate = float(500 / slow * np.exp(rng.normal(0, noise)))
                rows.append(
                    experiment.KernelRates(
                        kernel=kernel, placement="cores", n=n, block=block, rates=[rate] * n,
                        valid=True, flags=[],
                    )
                )  # fmt: skip
    return experiment.Microbenchmarks(
        schema_version=1, machine=world.machine()["hash"], started="2025-01-01T00:00:00+00:00",
        kernels=[experiment.NamedKernel(kernel=one, title=one, bound_by="") for one in KERNELS],
        rows=rows,
    )  # fmt: skip


def _head(world, replicate, effort):
    where = convert(world.machine(), Machine, str_keys=True)
    changes = [
        record(dataclasses.replace(BY_NAME[name], axes=BY_NAME[name].axes or DERIVED.get(name, {})))
        for name in world.interventions
    ]
    return experiment.WhyHead(
        schema_version=2, study="synthetic", target="default-44136f", launch="default-44136f",
        label="default", role="default", axes=AXES | world.axes, replicate=replicate,
        effort=effort, n=world.n, seed=1, machine_hash=where.hash, machine=where,
        measured_hash="m", harness_hash="h", started="2025-01-01T00:00:00+00:00", same_as=None,
        slots=[
            Slot(slot=slot, cpus=None, policy="default", oversubscribed=slot >= world.cpus)
            for slot in range(world.n)
        ],
        interventions=changes,
        not_applicable=[BY_NAME["spread"].left_out("only one last-level cache")],
    )  # fmt: skip


def _readback(world, name):
    threads = 1 if name in {"one_thread", "pinned"} else world.threads
    spins = 10 * MS if name != "passive" else 0.1 * MS
    loaders = [Loader(kind="Loader", **{"workers": 0} | world.loader)] if world.loader else []
    member = made_records.readback(
        slot=0, pid=100, cpus=list(range(world.cpus)), intra_op=threads,
        spin_s=None if threads == 1 else spins, sgemm_gflops=world.gflops.get(name, 100.0),
        isa="AVX512", huge_page_bytes=2**30 if name == "huge_pages" else 2**22,
        pages_by_node={"0": 1000}, loaders=loaders,
    )  # fmt: skip
    return experiment.ExperimentReadbacks(
        cohort=name,
        checks=[Check(axis="launcher", requested="exec", effective="exec", ok=True)],
        members=[
            structs.replace(member, slot=slot, cpus=world.mask(name, slot))
            for slot in range(world.n)
        ],
    )


def _window(world, step, kind, *, name, n, block, factor, first=0):
    """One window: every time of a member's step is multiplied by the member's factor."""
    step = copy.copy(step)
    counted = 40
    slots = sorted((first + at) % world.n for at in range(n))  # members take turns
    window_s = counted * step.total * MS * factor[slots].max()
    members = [_member(world, step, slot, counted, factor[slot]) for slot in slots]
    flags = ["foreign_cpu"] if step.foreign_cpus > 0.05 else []
    taken = made_records.taken(
        members, window=block, block=block, valid=not flags, flags=flags, window_s=window_s,
        machine=made_records.machine(
            foreign_cpu_s=step.foreign_cpus * window_s,
            steal_s=step.steal_cpus * window_s,
            # The counter is of the CPUs that were held back, whoever waited on them.
            throttled_s=step.quota_wait * MS * counted * factor[:n].sum(),
            psi_memory_some_s=step.memory_stall * MS * counted * factor[:n].mean(),
            frequency_mhz=step.frequency_mhz,
            members_cpus=step.trainers_cpus or world.cpus,
            trainers_cpus=step.trainers_cpus or world.cpus,
            busy_cpu_s=0.0,
        ),
    )  # fmt: skip
    return experiment.ExperimentWindow(
        **structs.asdict(taken), experiment=kind, name=name, dose=None, count=None,
        rate_share=None, attempt=0, vmstat={"pswpin": 0, "pswpout": 0},
    )  # fmt: skip


def _member(world, step, slot, counted, factor):
    own = counted * factor * MS
    return made_records.member(
        [max(1, round(step.total * factor * 1e3))] * counted, slot,
        **{f"{name}_s": getattr(step, name) * own for name in TIMED},
        forward_s=max(0.0, (step.total - step.load - step.backward) * own),
        optimizer_s=0.0,
        active_s=step.total * own,
        cpu_user_s=(step.user + step.helper) * own,
        cpu_system_s=step.system * own,
        runqueue_s=(step.runqueue + step.helper_wait) * own,
        trainer_user_s=step.user * own,
        trainer_system_s=step.system * own,
        trainer_runqueue_s=step.runqueue * own,
        minor_faults=round(step.faults * counted),
        major_faults=round(step.major_faults * counted),
        voluntary_switches=5,
        involuntary_switches=5,
        migrations=round(step.migrations * counted),
        threads=2 + world.threads,
    )  # fmt: skip
