"""Worlds with one injected cause each: what physics says the accounts then are."""

import numpy as np

from scaling_study.records.experiment import ForeignProcess, OperatorCalls, SampledLock
from synthetic_why import KERNELS, Step, World, seen

ALL = (
    *("passive", "one_thread", "pinned", "large_thresholds", "cached_batches"),
    *("flush_denormals", "openblas"),
)


class Quota(World):
    """A quota of one CPU for n members of one thread."""

    first = "cpu_quota"
    quota = 1.0

    def step(self, intervention, n):
        step = self.crowd(Step(), n)
        waits = max(0.0, n / self.quota - 1) * (step.user + step.system) - step.runqueue
        if waits > 0:
            step.runqueue += waits
            step.quota_wait = waits
        return step


class ColdQuota(Quota):
    """The same, where going on after a rest costs a quarter: in bursts at any count."""

    interventions = (*ALL[2:], "quota_bursts")
    colder = 0.25

    def step(self, intervention, n):
        if intervention == "quota_bursts":
            return self.crowd(Step(user=Step().user * (1 + self.colder)), n)
        step = Quota.step(self, intervention, n)
        step.user *= 1 + self.colder * (n > self.quota)
        return step


class SlowerCores(World):
    """Two fast and two slow cores: half of the members take twice as long where they are bound."""

    first = "slower_cores"
    n = 4
    cpus = 4
    axes = {"placement": "cores"}
    interventions = (*ALL[3:], "unpinned")
    slower = 2.0

    def slowness(self, intervention):
        slow = (1 + self.slower) / 2 if intervention == "unpinned" else self.slower
        fast = slow if intervention == "unpinned" else 1.0
        return np.array([fast, fast, slow, slow])

    def mask(self, intervention, slot):
        return World.mask(self, intervention, slot) if intervention == "unpinned" else [slot]

    def machine(self):
        found = World.machine(self)
        for cpu in found["topology"]["cpus"][2:]:
            cpu["kind"] = 1
        return found


class SmallOperators(World):
    """Six thousand calls of a microsecond in a step of ten milliseconds."""

    first = "operator_calls"
    calls = OperatorCalls(calls_per_step=6000, call_s=1e-6, width=32, stacks={8: 3.0, 32: 7.5})


class PileUp(World):
    """All members on one CPU, until they are pinned."""

    first = "affinity_pileup"

    def step(self, intervention, n):
        if intervention == "pinned":
            return self.crowd(Step(), n)
        return Step(runqueue=(n - 1) * 10.2, trainers_cpus=1)


class ColdPileUp(PileUp):
    """The same, where each finds its caches cold after every turn."""

    colder = 0.25

    def step(self, intervention, n):
        step = PileUp.step(self, intervention, n)
        if step.runqueue:
            step.user *= 1 + self.colder
            step.runqueue = (n - 1) * (step.user + step.system)
        return step


class Oversubscribed(World):
    """Twice as many members as CPUs."""

    first = "cpu_oversubscription"
    n = 4


class TakingTurns(Oversubscribed):
    """Members that outnumber the CPUs, and find their caches cold after every turn."""

    colder = 0.25

    def step(self, intervention, n):
        cold = self.colder if n > self.cpus else 0.0
        return self.crowd(Step(user=Step().user * (1 + cold)), n)


class Threaded(World):
    """Two threads on two CPUs that share the work perfectly: a second member halves the CPUs."""

    first = "cpu_oversubscription"
    threads = 2
    interventions = ALL

    def step(self, intervention, n):
        work = 18
        if intervention in {"one_thread", "pinned"}:
            return self.crowd(Step(user=work), n)
        shared = max(1.0, n * self.threads / self.cpus)
        return Step(
            user=work / 2, helper=work / 2, runqueue=(shared - 1) * work / 2,
            helper_wait=(shared - 1) * work / 2,
        )  # fmt: skip


class Spinning(World):
    """Default threads: alone faster than one thread, together many times slower."""

    first = "spinning"
    threads = 2
    interventions = ALL
    worse = 10.0

    def step(self, intervention, n):
        if intervention in {"one_thread", "pinned"}:
            return self.crowd(Step(user=14), n)
        alone = 10
        if intervention == "passive":
            slower = 1.2 + 0.5 * (n > 1)
            return Step(user=alone * slower, helper=6)
        if n == 1:
            return Step(user=alone, helper=alone)
        total = alone * self.worse
        return Step(user=total / 2, runqueue=total / 2, helper=total / 2, helper_wait=total / 2)


class CostlySleep(Spinning):
    """Spinning where threads that sleep make one process slow, since waking them takes long."""

    def step(self, intervention, n):
        if intervention == "passive":
            return Step(user=25, helper=6)
        return Spinning.step(self, intervention, n)


class TwoModes(Spinning):
    """Spinning that takes four times as long for one window and sixty times for another."""

    windows = 0

    def step(self, intervention, n):
        self.windows += 1
        self.worse = 60.0 if self.windows % 5 == 0 else 4.0
        return Spinning.step(self, intervention, n)


class TooManyThreads(World):
    """Sleeping threads that still cost more than they save, alone and together."""

    first = "too_many_threads"
    threads = 2
    interventions = ALL[1:]
    axes = {"wait_policy": "passive"}

    def step(self, intervention, n):
        if intervention in {"one_thread", "pinned"}:
            return self.crowd(Step(user=10), n)
        return Step(user=12 + 6 * (n > 1), blocked=6 + 14 * (n > 1), helper=4)


class Hog(World):
    """Another program that always wants one CPU."""

    first = "foreign_load"
    foreign = [ForeignProcess(name="stress", pid=7, cpu_s=50.0, share=0.8)]

    def step(self, intervention, n):
        share = min(1.0, self.cpus / (n + 1))
        return Step(runqueue=(1 / share - 1) * 10.2, foreign_cpus=share)


class Steal(World):
    """A hypervisor that takes half of the CPUs when both are wanted."""

    first = "steal"

    def step(self, intervention, n):
        return Step(blocked=10, steal_cpus=1.0) if n > 1 else Step()


class Lock(World):
    """Members that hold one lock for most of a step."""

    first = "lock_contention"
    looks = seen(
        {"R": 30, "S": 30},
        ("flock", "/data/cache.lock", 28),
        locks=[SampledLock(path="/data/cache.lock", waiters_mean=0.5, samples=60)],
    )
    seen_alone = False

    def step(self, intervention, n):
        return Step(blocked=(n - 1) * 7)


class Semaphore(Lock):
    """The same lock in memory that processes share."""

    looks = seen({"R": 30, "S": 30}, ("futex", "/dev/shm/sem.mp-x1 (deleted)", 28))  # noqa: S108 (a name only)


class Server(Semaphore):
    """A service that answers one member after the other, as fast as it can."""

    first = "pauses"
    looks = seen({"R": 30, "S": 30}, ("recvfrom", "socket", 28))


class Paused(Server):
    """A script that sleeps in every step, alone as well, beside a loader that computes."""

    looks = seen({"R": 30, "S": 30}, ("clock_nanosleep", "", 28))
    seen_alone = True
    steps = {
        "cached_batches": Step(user=7, blocked=8, load=0.05),
        "reference": Step(blocked=8, load=3),
    }
    step = World.step


class Stopped(World):
    """Another program that stops the members for half of the time."""

    first = "stopped"
    looks = seen({"R": 30, "T": 30})
    steps = {"reference": Step(blocked=10)}


class Collector(World):
    """A garbage collection in every step."""

    first = "interpreter"
    steps = {"no_gc": Step(), "reference": Step(user=16, collect=6)}


class UntriedCollector(Collector):
    """The same, where no intervention of it has a result."""

    interventions = ("pinned", "openblas")


class Recompiling(World):
    """Recompilation for new shapes."""

    first = "compilation"
    steps = {"reference": Step(user=16, compile=6)}


class SlowExchange(World):
    """Two ranks of each member that exchange much, and sleep meanwhile."""

    first = "communication"
    axes = {"ranks": 2}
    cpus = 4
    interventions = (*ALL[2:], "one_element")
    looks = seen({"R": 40, "S": 20}, ("futex", "", 20))
    # Threads of the library that exchanges compute, and the training thread waits for them.
    steps = {
        "one_element": Step(blocked=0.3, backward=3.3, helper=0.3),
        "reference": Step(blocked=6, backward=9, helper=6),
    }


class SlowRank(SlowExchange):
    """Ranks of which one has more to do: whatever they exchange, the other one waits."""

    first = "imbalance"
    steps = {"reference": Step(blocked=6, backward=9, ranks_wait=6, helper=6)}


class LockedLoader(Lock):
    """The same inside the loader, so that cached batches bring the time back too."""

    def step(self, intervention, n):
        if intervention == "cached_batches":
            return Step()
        wait = (n - 1) * 7
        return Step(blocked=wait, load=1 + wait)


class UnknownLoader(World):
    """A loader that sleeps, and is none of torch's; the same with any number of members."""

    first = "data_loading"
    steps = {"cached_batches": Step(load=0.05), "reference": Step(blocked=8, load=8.3)}


class SlowLoader(UnknownLoader):
    """One of torch's that sleeps."""

    first = "loader_storage"
    loader = {"workers": 0}
    steps = UnknownLoader.steps | {
        "reference": Step(blocked=8, load=8.3, loader_made=8.2, loader_computed=0.2)
    }


class SlowDisk(SlowLoader):
    """The same, where it is found to read."""

    looks = seen({"R": 34, "D": 26}, ("pread64", "/data/rows", 26))


class SlowWorker(SlowLoader):
    """A worker that sleeps, and is waited for in a futex."""

    loader = {"workers": 1}
    interventions = (*ALL, "loader_beside", "more_workers")
    looks = seen({"R": 34, "S": 26}, ("futex", "", 26))
    steps = UnknownLoader.steps | {
        "more_workers": Step(load=0.1),
        "reference": Step(blocked=8, load=8.3, loader_made=18, loader_computed=1),
    }


class NoWorkers(World):
    """A loader that computes in the training thread, though there are CPUs for it."""

    first = "too_few_workers"
    cpus = 4
    loader = {"workers": 0}
    interventions = (*ALL, "more_workers")
    made = {"loader_made": 8.2, "loader_computed": 8.1}
    steps = {
        "cached_batches": Step(load=0.05),
        "more_workers": Step(load=0.5, helper=8.2, **made),
        "reference": Step(user=18, load=8.3, **made),
    }


class LongPreparation(NoWorkers):
    """The same where workers have no CPU of their own."""

    first = "loader_preparation"
    cpus = 2
    steps = NoWorkers.steps | {"more_workers": NoWorkers.steps["reference"]}


class RowByRow(NoWorkers):
    """The same, where most of it is in reading rows one by one."""

    first = "loader_rows"
    interventions = (*ALL, "more_workers", "whole_batches")
    steps = NoWorkers.steps | {
        "whole_batches": Step(user=11, load=1.1, loader_made=1, loader_computed=1)
    }


class LargeBatches(World):
    """A worker whose batches take long to get to the training process."""

    first = "loader_copies"
    loader = {"workers": 1}
    interventions = (*ALL, "loader_beside", "more_workers", "no_copies")
    made = {"loader_made": 3, "loader_computed": 3}
    steps = {
        "cached_batches": Step(load=0.05),
        "loader_beside": Step(user=10.5, blocked=5, load=5.05, helper=8, **made),
        "no_copies": Step(load=0.1, helper=3, **made),
        "reference": Step(user=11, blocked=5, load=6, helper=8, **made),
    }


class LoaderThreads(World):
    """Threads of a loader that keep training from the interpreter."""

    first = "loader_lock"
    loader = {"workers": None, "threads": True}
    interventions = (*ALL, "loader_beside", "quick_switches")
    looks = SlowWorker.looks
    steps = {
        "cached_batches": Step(load=0.05),
        "quick_switches": Step(load=0.1, blocked=0.8, helper=6),
        "reference": Step(load=0.1, blocked=8, helper=6),
    }


class UntriedThreads(LoaderThreads):
    """The same, where no intervention of it has a result."""

    interventions = ("pinned", "openblas")


class StartedWorkers(World):
    """A loader that starts its workers again and again, and sleeps meanwhile."""

    first = "loader_starts"
    interventions = (*ALL, "kept_workers")
    steps = {
        "cached_batches": Step(load=0.2),
        "kept_workers": Step(load=0.2),
        "reference": Step(blocked=7, load=7.2, loader_starts=7),
    }


class Snapshots(World):
    """A StatefulDataLoader with a large state."""

    first = "loader_snapshots"
    interventions = (*ALL, "loader_beside", "no_snapshots")
    steps = {
        "cached_batches": Step(load=0.05),
        "loader_beside": Step(load=5.05, blocked=5, helper=5),
        "no_snapshots": Step(load=1),
        "reference": Step(load=6, blocked=5, helper=5),
    }


class NoisyLoader(World):
    """A loader whose workers take the last-level cache from training, and let it wait a little."""

    first = "loader_interference"
    interventions = (*ALL, "loader_beside")
    steps = {
        "cached_batches": Step(load=0.05),
        "reference": Step(user=15, helper=4, blocked=2, load=2),
    }


class Denormals(World):
    """Arithmetic on denormals."""

    first = "denormals"
    steps = {"flush_denormals": Step(), "reference": Step(user=20)}


class OldBlas(World):
    """A slow kernel, until another library is preloaded."""

    first = "slow_blas"
    gflops = {"openblas": 240.0}
    steps = {"openblas": Step(user=6), "reference": Step()}


class Faults(World):
    """Pages that are mapped anew in every step."""

    first = "page_faults"
    steps = {
        "large_thresholds": Step(),
        "jemalloc": Step(),
        "reference": Step(system=5, user=11, faults=8000),
    }


class Bandwidth(World):
    """Streaming operators that share memory."""

    first = "memory_bandwidth"
    slowed = {"memory": 0.6, "pages": 0.3}
    inflated = {"memory": 1.8, "pages": 1.3}

    def step(self, intervention, n):
        return Step(user=10 * (1 + 0.5 * (n - 1)))


class Cache(Bandwidth):
    """Working sets that push each other out of the last-level cache."""

    first = "last_level_cache"
    slowed = {"memory": 0.62, "llc": 0.6}
    inflated = {"memory": 1.4, "llc": 1.5}


class Smt(World):
    """Two CPUs that are one core, at a clock that stays what it is."""

    first = "smt"
    mhz = 3000.0
    slowed = dict.fromkeys(KERNELS, 0.6)
    inflated = dict.fromkeys(KERNELS, 1.6)

    def step(self, intervention, n):
        return Step(user=10 * (1 + 0.6 * (n - 1)), frequency_mhz=self.mhz)

    def machine(self):
        found = World.machine(self)
        for cpu in found["topology"]["cpus"]:
            cpu["core"] = 0
        return found | {"smt": True}


class Swap(World):
    """Memory that does not suffice for all."""

    first = "swap"

    def step(self, intervention, n):
        swapped = Step(blocked=9, major_faults=3.0, memory_stall=9)
        return swapped if n > 1 else Step()


class Migrations(World):
    """Members that are moved about until they are pinned."""

    first = "migrations"

    def step(self, intervention, n):
        if intervention == "pinned" or n == 1:
            return Step(migrations=0.01)
        return Step(user=16, migrations=2.0)


INJECTED = tuple(
    found
    for found in list(globals().values())
    if isinstance(found, type) and issubclass(found, World) and found is not World
)
