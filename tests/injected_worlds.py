"""Worlds with one injected cause each: what physics says the accounts then are."""

import dataclasses

from synthetic_why import MS, Step, World

ALL = (
    *("passive", "one_thread", "pinned", "large_thresholds", "cached_batches"),
    *("flush_denormals", "openblas"),
)


@dataclasses.dataclass(slots=True)
class Quota(World):
    """A quota of one CPU for n members of one thread."""

    first: str = "cpu_quota"
    quota: float = 1.0

    def step(self, intervention, n):
        step = self.crowd(Step(), n)
        waits = max(0.0, n / self.quota - 1) * (step.user + step.system) - step.runqueue
        if waits > 0:
            step.runqueue += waits
            step.quota_s = waits
        return step


@dataclasses.dataclass(slots=True)
class ColdQuota(Quota):
    """The same, where going on after a rest costs a quarter: in bursts at any count."""

    interventions: tuple[str, ...] = (*ALL[2:], "quota_bursts")
    colder: float = 0.25

    def step(self, intervention, n):
        if intervention == "quota_bursts":
            return self.crowd(Step(user=Step().user * (1 + self.colder)), n)
        step = Quota.step(self, intervention, n)
        step.user *= 1 + self.colder * (n > self.quota)
        return step


@dataclasses.dataclass(slots=True)
class PileUp(World):
    """All members on one CPU, until they are pinned."""

    first: str = "affinity_pileup"

    def step(self, intervention, n):
        if intervention == "pinned":
            return self.crowd(Step(), n)
        step = Step()
        step.runqueue = (n - 1) * (step.user + step.system)
        step.trainers_cpus = 1
        return step


@dataclasses.dataclass(slots=True)
class ColdPileUp(PileUp):
    """The same, where each finds its caches cold after every turn."""

    colder: float = 0.25

    def step(self, intervention, n):
        step = PileUp.step(self, intervention, n)
        if step.runqueue:
            step.user *= 1 + self.colder
            step.runqueue = (n - 1) * (step.user + step.system)
        return step


@dataclasses.dataclass(slots=True)
class Oversubscribed(World):
    """Twice as many members as CPUs."""

    first: str = "cpu_oversubscription"
    n: int = 4


@dataclasses.dataclass(slots=True)
class TakingTurns(World):
    """Members that outnumber the CPUs, and find their caches cold after every turn."""

    first: str = "cpu_oversubscription"
    n: int = 4
    colder: float = 0.25

    def step(self, intervention, n):
        cold = self.colder if n > self.cpus else 0.0
        return self.crowd(Step(user=Step().user * (1 + cold)), n)


@dataclasses.dataclass(slots=True)
class Threaded(World):
    """Two threads on two CPUs that share the work perfectly: a second member halves the CPUs."""

    first: str = "cpu_oversubscription"
    threads: int = 2
    interventions: tuple[str, ...] = ALL

    def step(self, intervention, n):
        work = 18 * MS
        if intervention in {"one_thread", "pinned"}:
            return self.crowd(Step(user=work), n)
        shared = max(1.0, n * self.threads / self.cpus)
        return Step(
            user=work / 2, helper_s=work / 2, runqueue=(shared - 1) * work / 2,
            helper_wait_s=(shared - 1) * work / 2,
        )  # fmt: skip


@dataclasses.dataclass(slots=True)
class Spinning(World):
    """Default threads: alone faster than one thread, together many times slower."""

    first: str = "spinning"
    threads: int = 2
    interventions: tuple[str, ...] = ALL
    worse: float = 10.0

    def step(self, intervention, n):
        if intervention in {"one_thread", "pinned"}:
            return self.crowd(Step(user=14 * MS), n)
        alone = 10 * MS
        if intervention == "passive":
            slower = 1.2 + 0.5 * (n > 1)
            return Step(user=alone * slower, helper_s=6 * MS)
        if n == 1:
            return Step(user=alone, helper_s=alone)
        total = alone * self.worse
        return Step(user=total / 2, runqueue=total / 2, helper_s=total / 2, helper_wait_s=total / 2)


@dataclasses.dataclass(slots=True)
class CostlySleep(Spinning):
    """Spinning where threads that sleep make one process slow, since waking them takes long."""

    def step(self, intervention, n):
        if intervention == "passive":
            return Step(user=25 * MS, helper_s=6 * MS)
        return Spinning.step(self, intervention, n)


@dataclasses.dataclass(slots=True)
class TwoModes(Spinning):
    """Spinning that takes four times as long for one window and sixty times for another."""

    windows: int = 0

    def step(self, intervention, n):
        self.windows += 1
        self.worse = 60.0 if self.windows % 5 == 0 else 4.0
        return Spinning.step(self, intervention, n)


@dataclasses.dataclass(slots=True)
class TooManyThreads(World):
    """Sleeping threads that still cost more than they save, alone and together."""

    first: str = "too_many_threads"
    threads: int = 2
    interventions: tuple[str, ...] = ALL[1:]
    axes: dict = dataclasses.field(default_factory=lambda: {"wait_policy": "passive"})

    def step(self, intervention, n):
        if intervention in {"one_thread", "pinned"}:
            return self.crowd(Step(user=10 * MS), n)
        return Step(user=(12 + 6 * (n > 1)) * MS, blocked=(6 + 14 * (n > 1)) * MS, helper_s=4 * MS)


@dataclasses.dataclass(slots=True)
class Hog(World):
    """Another program that always wants one CPU."""

    first: str = "foreign_load"

    def step(self, intervention, n):
        step = Step()
        share = min(1.0, self.cpus / (n + 1))
        step.runqueue = (1 / share - 1) * (step.user + step.system)
        step.foreign_cpus = share
        return step

    def foreign(self):
        return [{"name": "stress", "pid": 7, "cpu_s": 50.0, "share": 0.8}]


@dataclasses.dataclass(slots=True)
class Steal(World):
    """A hypervisor that takes half of the CPUs when both are wanted."""

    first: str = "steal"

    def step(self, intervention, n):
        step = Step()
        if n > 1:
            step.blocked = step.user
            step.steal_cpus = 1.0
        return step


@dataclasses.dataclass(slots=True)
class Lock(World):
    """Members that hold one lock for most of a step."""

    first: str = "lock_contention"

    def step(self, intervention, n):
        return Step(blocked=(n - 1) * 7 * MS)

    def samples(self, n):
        if n == 1:
            return World.samples(self, n)
        return {
            "states": {"R": 30, "S": 30},
            "waits": [{"syscall": "flock", "on": "/data/cache.lock", "count": 28}],
            "locks": [{"path": "/data/cache.lock", "waiters_mean": 0.5, "samples": 60}],
        }


@dataclasses.dataclass(slots=True)
class Semaphore(Lock):
    """The same lock in memory that processes share."""

    where: tuple[str, str] = ("futex", "/dev/shm/sem.mp-x1 (deleted)")  # noqa: S108 (a name only)

    def samples(self, n):
        syscall, on = self.where
        waits = [{"syscall": syscall, "on": on, "count": 28}]
        return World.samples(self, n) if n == 1 else {**Lock.samples(self, n), "waits": waits,
                                                      "locks": []}  # fmt: skip


@dataclasses.dataclass(slots=True)
class PolledLock(Semaphore):
    """A file lock that is tried again after a pause."""

    where: tuple[str, str] = ("clock_nanosleep", "/data/cache.lock")


@dataclasses.dataclass(slots=True)
class Server(Semaphore):
    """A service that answers one member after the other, as fast as it can."""

    first: str = "pauses"
    where: tuple[str, str] = ("recvfrom", "socket")


@dataclasses.dataclass(slots=True)
class Paused(Server):
    """A script that sleeps in every step, alone as well, beside a loader that computes."""

    where: tuple[str, str] = ("clock_nanosleep", "")

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return Step(user=7 * MS, blocked=8 * MS, load=0.05 * MS)
        return Step(blocked=8 * MS, load=3 * MS)

    def samples(self, _):
        return Server.samples(self, 2)


@dataclasses.dataclass(slots=True)
class Stopped(World):
    """Another program that stops the members for half of the time."""

    first: str = "stopped"

    def step(self, intervention, n):
        return self.crowd(Step(blocked=10 * MS), n)

    def samples(self, _):
        return {"states": {"R": 30, "T": 30}, "waits": [], "locks": []}


@dataclasses.dataclass(slots=True)
class Collector(World):
    """A garbage collection in every step."""

    first: str = "interpreter"

    def step(self, intervention, n):
        if intervention == "no_gc":
            return self.crowd(Step(), n)
        return self.crowd(Step(user=16 * MS, collect=6 * MS), n)


@dataclasses.dataclass(slots=True)
class UntriedCollector(Collector):
    """The same, where no intervention of it has a result."""

    interventions: tuple[str, ...] = ("pinned", "openblas")


@dataclasses.dataclass(slots=True)
class Recompiling(World):
    """Recompilation for new shapes."""

    first: str = "compilation"

    def step(self, intervention, n):
        return self.crowd(Step(user=16 * MS, compile=6 * MS), n)


@dataclasses.dataclass(slots=True)
class SlowExchange(World):
    """Two ranks of each member that exchange much, and sleep meanwhile."""

    first: str = "communication"
    axes: dict = dataclasses.field(default_factory=lambda: {"ranks": 2})
    cpus: int = 4
    interventions: tuple[str, ...] = (*ALL[2:], "one_element")

    def step(self, intervention, n):
        exchange = 0.3 * MS if intervention == "one_element" else 6 * MS
        # Threads of the library that exchanges compute, and the training thread waits for them.
        return self.crowd(Step(blocked=exchange, backward=3 * MS + exchange, helper_s=exchange), n)

    def samples(self, _):
        waits = [{"syscall": "futex", "on": "", "count": 20}]
        return {"states": {"R": 40, "S": 20}, "waits": waits, "locks": []}


@dataclasses.dataclass(slots=True)
class SlowRank(SlowExchange):
    """Ranks of which one has more to do: whatever they exchange, the other one waits."""

    first: str = "imbalance"

    def step(self, intervention, n):
        wait = Step(blocked=6 * MS, backward=9 * MS, ranks_wait=6 * MS, helper_s=6 * MS)
        return self.crowd(wait, n)


@dataclasses.dataclass(slots=True)
class LockedLoader(Lock):
    """The same inside the loader, so that cached batches bring the time back too."""

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return Step()
        wait = (n - 1) * 7 * MS
        return Step(blocked=wait, load=1 * MS + wait)


@dataclasses.dataclass(slots=True)
class UnknownLoader(World):
    """A loader that sleeps, and is none of torch's; the same with any number of members."""

    first: str = "data_loading"

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return self.crowd(Step(load=0.05 * MS), n)
        return self.crowd(Step(blocked=8 * MS, load=8.3 * MS), n)


@dataclasses.dataclass(slots=True)
class SlowLoader(UnknownLoader):
    """One of torch's that sleeps."""

    first: str = "loader_storage"
    loader: dict = dataclasses.field(default_factory=lambda: {"workers": 0})
    made: Step = dataclasses.field(
        default_factory=lambda: Step(loader_made=8.2 * MS, loader_computed=0.2 * MS)
    )

    def step(self, intervention, n):
        made = dataclasses.asdict(self.made)
        own = {name: made[name] for name in ("loader_made", "loader_computed")}
        step = UnknownLoader.step(self, intervention, n)
        return step if intervention == "cached_batches" else dataclasses.replace(step, **own)


@dataclasses.dataclass(slots=True)
class SlowDisk(SlowLoader):
    """The same, where it is found to read."""

    def samples(self, _):
        waits = [{"syscall": "pread64", "on": "/data/rows", "count": 26}]
        return {"states": {"R": 34, "D": 26}, "waits": waits, "locks": []}


@dataclasses.dataclass(slots=True)
class SlowWorker(SlowLoader):
    """A worker that sleeps, and is waited for in a futex."""

    loader: dict = dataclasses.field(default_factory=lambda: {"workers": 1})
    made: Step = dataclasses.field(
        default_factory=lambda: Step(loader_made=18 * MS, loader_computed=1 * MS)
    )
    interventions: tuple[str, ...] = (*ALL, "loader_beside", "more_workers")

    def step(self, intervention, n):
        if intervention == "more_workers":
            return self.crowd(Step(load=0.1 * MS), n)
        return SlowLoader.step(self, intervention, n)

    def samples(self, _):
        waits = [{"syscall": "futex", "on": "", "count": 26}]
        return {"states": {"R": 34, "S": 26}, "waits": waits, "locks": []}


@dataclasses.dataclass(slots=True)
class NoWorkers(World):
    """A loader that computes in the training thread, though there are CPUs for it."""

    first: str = "too_few_workers"
    cpus: int = 4
    loader: dict = dataclasses.field(default_factory=lambda: {"workers": 0})
    interventions: tuple[str, ...] = (*ALL, "more_workers")

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return self.crowd(Step(load=0.05 * MS), n)
        made = {"loader_made": 8.2 * MS, "loader_computed": 8.1 * MS}
        if intervention == "more_workers":
            return self.crowd(Step(load=0.5 * MS, helper_s=8.2 * MS, **made), n)
        return self.crowd(Step(user=18 * MS, load=8.3 * MS, **made), n)


@dataclasses.dataclass(slots=True)
class LongPreparation(NoWorkers):
    """The same where workers have no CPU of their own."""

    first: str = "loader_preparation"
    cpus: int = 2

    def step(self, intervention, n):
        return NoWorkers.step(
            self, "reference" if intervention == "more_workers" else intervention, n
        )


@dataclasses.dataclass(slots=True)
class RowByRow(NoWorkers):
    """The same, where most of it is in reading rows one by one."""

    first: str = "loader_rows"
    interventions: tuple[str, ...] = (*ALL, "more_workers", "whole_batches")

    def step(self, intervention, n):
        if intervention == "whole_batches":
            made = {"loader_made": 1 * MS, "loader_computed": 1 * MS}
            return self.crowd(Step(user=11 * MS, load=1.1 * MS, **made), n)
        return NoWorkers.step(self, intervention, n)


@dataclasses.dataclass(slots=True)
class LargeBatches(World):
    """A worker whose batches take long to get to the training process."""

    first: str = "loader_copies"
    loader: dict = dataclasses.field(default_factory=lambda: {"workers": 1})
    interventions: tuple[str, ...] = (*ALL, "loader_beside", "more_workers", "no_copies")

    def step(self, intervention, n):
        made = {"loader_made": 3 * MS, "loader_computed": 3 * MS}
        if intervention == "cached_batches":
            return self.crowd(Step(load=0.05 * MS), n)
        if intervention == "loader_beside":
            return self.crowd(
                Step(user=10.5 * MS, blocked=5 * MS, load=5.05 * MS, helper_s=8 * MS, **made), n
            )
        if intervention == "no_copies":
            return self.crowd(Step(load=0.1 * MS, helper_s=3 * MS, **made), n)
        return self.crowd(
            Step(user=11 * MS, blocked=5 * MS, load=6 * MS, helper_s=8 * MS, **made), n
        )


@dataclasses.dataclass(slots=True)
class LoaderThreads(World):
    """Threads of a loader that keep training from the interpreter."""

    first: str = "loader_lock"
    loader: dict = dataclasses.field(default_factory=lambda: {"workers": None, "threads": True})
    interventions: tuple[str, ...] = (*ALL, "loader_beside", "quick_switches")

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return self.crowd(Step(load=0.05 * MS), n)
        blocked = 0.8 * MS if intervention == "quick_switches" else 8 * MS
        return self.crowd(Step(load=0.1 * MS, blocked=blocked, helper_s=6 * MS), n)

    def samples(self, _):
        return SlowWorker.samples(self, 2)


@dataclasses.dataclass(slots=True)
class UntriedThreads(LoaderThreads):
    """The same, where no intervention of it has a result."""

    interventions: tuple[str, ...] = ("pinned", "openblas")


@dataclasses.dataclass(slots=True)
class StartedWorkers(World):
    """A loader that starts its workers again and again, and sleeps meanwhile."""

    first: str = "loader_starts"
    interventions: tuple[str, ...] = (*ALL, "kept_workers")

    def step(self, intervention, n):
        if intervention in {"cached_batches", "kept_workers"}:
            return self.crowd(Step(load=0.2 * MS), n)
        return self.crowd(Step(blocked=7 * MS, load=7.2 * MS, loader_starts=7 * MS), n)


@dataclasses.dataclass(slots=True)
class UntriedWorkers(StartedWorkers):
    """The same, where no intervention of it has a result."""

    interventions: tuple[str, ...] = ("pinned", "openblas")


@dataclasses.dataclass(slots=True)
class Snapshots(World):
    """A StatefulDataLoader with a large state."""

    first: str = "loader_snapshots"
    interventions: tuple[str, ...] = (*ALL, "loader_beside", "no_snapshots")

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return self.crowd(Step(load=0.05 * MS), n)
        if intervention == "loader_beside":
            return self.crowd(Step(load=5.05 * MS, blocked=5 * MS, helper_s=5 * MS), n)
        busy = 0.0 if intervention == "no_snapshots" else 5 * MS
        return self.crowd(Step(load=1 * MS + busy, blocked=busy, helper_s=busy), n)


@dataclasses.dataclass(slots=True)
class NoisyLoader(World):
    """A loader whose workers take the last-level cache from training, and let it wait a little."""

    first: str = "loader_interference"
    interventions: tuple[str, ...] = (*ALL, "loader_beside")

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return self.crowd(Step(load=0.05 * MS), n)
        return self.crowd(Step(user=15 * MS, helper_s=4 * MS, blocked=2 * MS, load=2 * MS), n)


@dataclasses.dataclass(slots=True)
class Denormals(World):
    """Arithmetic on denormals."""

    first: str = "denormals"
    factor: float = 2.0

    def step(self, intervention, n):
        return self.crowd(
            Step(user=(1 if intervention == "flush_denormals" else self.factor) * 10 * MS), n
        )


@dataclasses.dataclass(slots=True)
class OldBlas(World):
    """A slow kernel, until another library is preloaded."""

    first: str = "slow_blas"
    gflops: dict = dataclasses.field(default_factory=lambda: {"openblas": 240.0})

    def step(self, intervention, n):
        return self.crowd(Step(user=(6 if intervention == "openblas" else 10) * MS), n)


@dataclasses.dataclass(slots=True)
class Faults(World):
    """Pages that are mapped anew in every step."""

    first: str = "page_faults"

    def step(self, intervention, n):
        if intervention in {"large_thresholds", "jemalloc"}:
            return self.crowd(Step(), n)
        return self.crowd(Step(system=5 * MS, user=11 * MS, faults=8000), n)


@dataclasses.dataclass(slots=True)
class Bandwidth(World):
    """Streaming operators that share memory."""

    first: str = "memory_bandwidth"

    def step(self, intervention, n):
        return Step(user=10 * MS * (1 + 0.5 * (n - 1)))

    def beside(self, kernel, dose):
        return 1 + {"memory": 0.6, "pages": 0.3}.get(kernel, 0.0) * dose

    def inflation(self, kernel):
        return {"memory": 1.8, "pages": 1.3}.get(kernel, 1.0)


@dataclasses.dataclass(slots=True)
class Cache(World):
    """Working sets that push each other out of the last-level cache."""

    first: str = "last_level_cache"

    def step(self, intervention, n):
        return Step(user=10 * MS * (1 + 0.5 * (n - 1)))

    def beside(self, kernel, dose):
        return 1 + {"memory": 0.62, "llc": 0.6}.get(kernel, 0.0) * dose

    def inflation(self, kernel):
        return {"memory": 1.4, "llc": 1.5}.get(kernel, 1.0)


@dataclasses.dataclass(slots=True)
class Smt(World):
    """Two CPUs that are one core, at a clock that stays what it is."""

    first: str = "smt"
    mhz: float | None = 3000.0

    def step(self, intervention, n):
        return Step(user=10 * MS * (1 + 0.6 * (n - 1)), frequency_mhz=self.mhz)

    def beside(self, kernel, dose):
        return 1 + 0.6 * dose

    def inflation(self, kernel):
        return 1.6

    def machine(self):
        found = World.machine(self)
        for cpu in found["topology"]["cpus"]:
            cpu["core"] = 0
        return found | {"smt": True}


@dataclasses.dataclass(slots=True)
class Swap(World):
    """Memory that does not suffice for all."""

    first: str = "swap"

    def step(self, intervention, n):
        if n == 1:
            return Step()
        return Step(blocked=9 * MS, major_faults=3.0, memory_stall=9 * MS)


@dataclasses.dataclass(slots=True)
class Migrations(World):
    """Members that are moved about until they are pinned."""

    first: str = "migrations"

    def step(self, intervention, n):
        if intervention == "pinned" or n == 1:
            return Step(migrations=0.01)
        return Step(user=16 * MS, migrations=2.0)


INJECTED = (
    *(
        Quota,
        ColdQuota,
        PileUp,
        ColdPileUp,
        Oversubscribed,
        TakingTurns,
        Threaded,
        Spinning,
        CostlySleep,
        TooManyThreads,
        Hog,
        Steal,
        Lock,
        PolledLock,
        Semaphore,
        Server,
        Paused,
        Stopped,
        Collector,
        Recompiling,
        SlowExchange,
        SlowRank,
        UntriedCollector,
    ),
    *(StartedWorkers, UntriedWorkers, Snapshots, NoisyLoader),
    *(UnknownLoader, SlowDisk, SlowWorker, NoWorkers, LongPreparation, RowByRow, LargeBatches),
    *(LoaderThreads, UntriedThreads),
    *(LockedLoader, SlowLoader, Denormals, OldBlas, Faults, Bandwidth, Cache, Smt, Swap),
    Migrations,
)
