"""The windows of a cohort: their order, their records, and when one is invalid.

Pure: times and counts go in, records come out. Times are ns of the monotonic clock, which all
processes of a machine share.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from scaling_study.common.counter import TIMED
from scaling_study.member.channel import CAPACITY, Step
from scaling_study.records.window import Life, MemberSteps, WindowMachine
from scaling_study.stats.thresholds import FOREIGN_CPUS

# A foreign program that takes this share of the study's CPUs can move a step time by as much.
FOREIGN_SHARE = 0.02

# /proc/stat counts whole ticks, of 10 ms at most. A quota stops every CPU once in each period,
# mostly of 100 ms, and in the middle of a tick: half a tick too much is counted on each CPU.
THROTTLED_ERROR = 0.05

# CPUs that all sleeping members together may keep busy: idle helper threads wake now and then.
SLEEPING_SHARE = 0.005
SLEEPING_FLOOR_CPUS = 0.02

# The least share of a window in which all n members must train.
SHORTEST_OVERLAP = 0.99

# The same for bursts, which hold few steps and end with the last step of the slowest member.
SHORTEST_BURST_OVERLAP = 0.75

# Each member does at least this many whole steps in a window, however long they take: no launch is
# left out for being slow.
FEWEST_STEPS = 1

# Measuring takes some 10 to 20 us of a step (benchmarks/attached.py): about 1% or more of a step
# that is shorter than this.
SHORT_STEP_S = 1.5e-3

# A window gets a flag if a member spends more than this part of its time on restarts of its script.
RESTART_SHARE = 0.05

NONE_NS = (0,) * len(TIMED)

# Flags that make a window invalid; any other flag is only a remark.
INVALID = frozenset(
    {
        "foreign_cpu",
        "stolen_cpu",
        "sleeping_member_ran",
        "short_overlap",
        "throttled_burst",
        "few_steps",
    }
)


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """One window to take: the first ``n`` members train."""

    window: int
    block: int
    n: int


@dataclass(frozen=True, slots=True)
class Activity:
    """The steps of one active member around a window, from its page.

    Attributes:
        slot: the member's.
        released_ns: when it was released.
        parked_ns: when it rested again.
        steps_active: number of steps in between.
        restarts: how often its script was started anew.
        steps: the steps that are kept.
        earlier: number of steps that it did before.
        others: steps of its other ranks, if it is a group.
        apart: how often another rank went on because rank 0 did not come to rest (see ``member``).
        samples: samples that its script has marked in all of its steps, in all ranks.
    """

    slot: int
    released_ns: int
    parked_ns: int
    steps_active: int
    restarts: int
    steps: Sequence[Step]
    earlier: int = 0
    others: Sequence[Sequence[Step]] = ()
    apart: int = 0
    samples: int = 0

    @property
    def starts_ns(self) -> list[int]:
        """When each step began: a step begins where the one before it ended."""
        return [self.released_ns, *(step.end_ns for step in self.steps[:-1])][: len(self.steps)]

    @property
    def durations_ns(self) -> list[int]:
        """How long each step took."""
        return [step.end_ns - start for step, start in zip(self.steps, self.starts_ns, strict=True)]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Training without a rest. A window is one stretch, or a series of short ones (bursts).

    Attributes:
        opened_ns: when its settle time was over.
        closed_ns: steps that begin after this time do not count.
        activities: what members did.
        frequencies_mhz: frequency of each CPU when the stretch closed, as far as readable.
        saved: whether batches that were saved up before it may have shortened counted steps.
    """

    opened_ns: int
    closed_ns: int
    activities: Sequence[Activity]
    frequencies_mhz: Mapping[int, float]
    saved: bool = False

    @property
    def counted_ns(self) -> int:
        """The end of the last counted step: until then all members trained."""
        ends = [
            step.end_ns
            for activity in self.activities
            for step in counted_steps(activity, self.opened_ns, self.closed_ns)[1][-1:]
        ]
        return max(ends, default=self.closed_ns)

    @property
    def start_skew_s(self) -> float:
        """The time between the first and the last member's start."""
        released = [activity.released_ns for activity in self.activities]
        return (max(released) - min(released)) / 1e9

    @property
    def overlap(self) -> float:
        """The share of the counted time in which all members were active."""
        opened_ns, counted_ns = self.opened_ns, self.counted_ns
        first = max(opened_ns, *(activity.released_ns for activity in self.activities))
        last = min(counted_ns, *(activity.parked_ns for activity in self.activities))
        return max(0, last - first) / max(1, counted_ns - opened_ns)


def counted_steps(
    activity: Activity, opened_ns: int, closed_ns: int
) -> tuple[list[int], list[Step]]:
    """Return the durations (ns) and the steps that begin in [opened, closed).

    Whether a step counts depends on when it begins, never on how long it takes. Otherwise a window
    would leave out the longest steps, and the mean over counted steps would be too small. This way
    the mean is consistent (Wald's equation: the number of counted steps is a stopping time). A step
    in which the script was started anew is no training step and does not count.
    """
    inside = [
        (step.end_ns - start, step)
        for start, step in zip(activity.starts_ns, activity.steps, strict=True)
        if opened_ns <= start < closed_ns and not step.fresh
    ]
    return [duration for duration, _ in inside], [step for _, step in inside]


def ranks_wait_ns(activity: Activity, opened_ns: int, closed_ns: int) -> float:
    """Return the time of the slowest rank beyond the mean of all, summed over the counted steps.

    Ranks wait for each other in backward, so only the time outside of it shows their own work.
    """
    if not activity.others:
        return 0.0
    # A rank that did not rest with the others still has steps from before the release.
    others = [
        [step for step in rank if step.end_ns > activity.released_ns] for rank in activity.others
    ]
    ranks = [activity.steps, *others]
    wait_ns = 0.0
    # In no rank is the end of another step known before the first one.
    for at in range(1, min(map(len, ranks))):
        begins = activity.steps[at - 1].end_ns
        if not opened_ns <= begins < closed_ns or any(rank[at].fresh for rank in ranks):
            continue
        times_ns = [rank[at].end_ns - rank[at - 1].end_ns - rank[at].backward_ns for rank in ranks]
        wait_ns += max(times_ns) - statistics.fmean(times_ns)
    return wait_ns


def member_record(activity: Activity, opened_ns: int, closed_ns: int) -> MemberSteps:
    """Return the record of a member's counted steps in a window.

    Args:
        activity: the member's steps since its release.
        opened_ns: when the settle time was over.
        closed_ns: when the window was closed.
    """
    durations, steps = counted_steps(activity, opened_ns, closed_ns)
    load = sum(step.load_ns for step in steps) / 1e9
    backward = sum(step.backward_ns for step in steps) / 1e9
    optimizer = sum(step.optimizer_ns for step in steps) / 1e9
    timed_ns = [sum(each) for each in zip(*(step.timed_ns for step in steps), strict=True)]
    record = MemberSteps(
        slot=activity.slot,
        steps=len(steps),
        step_us=[round(duration / 1e3) for duration in durations],
        load_s=load,
        forward_s=max(0.0, sum(durations) / 1e9 - load - backward - optimizer),
        backward_s=backward,
        optimizer_s=optimizer,
        ranks_wait_s=ranks_wait_ns(activity, opened_ns, closed_ns) / 1e9,
        active_s=(activity.parked_ns - activity.released_ns) / 1e9,
        steps_active=activity.steps_active,
        samples_active=activity.samples,
        restarts=activity.restarts,
    )
    counters = {timer.field: ns / 1e9 for timer, ns in zip(TIMED, timed_ns or NONE_NS, strict=True)}
    return structs.replace(record, **counters)


def life_record(activity: Activity, opened_ns: int, closed_ns: int) -> Life:
    """Return the place of a member's window among all steps that it has ever done.

    With it, ``non_step`` finds the phases that recur.

    Args:
        activity: the member's steps since its release.
        opened_ns: when the settle time was over.
        closed_ns: when the window was closed.
    """
    starts = activity.starts_ns
    us = [round(duration / 1e3) for duration in activity.durations_ns]
    settled_us = [duration for duration, start in zip(us, starts, strict=True) if start < opened_ns]
    after_us = [duration for duration, start in zip(us, starts, strict=True) if start >= closed_ns]
    return Life(
        first_step=activity.earlier,
        settled_us=settled_us,
        inside=len(us) - len(settled_us) - len(after_us),
        after_us=after_us,
        fresh=[(at, us[at]) for at, step in enumerate(activity.steps) if step.fresh],
    )


def window_record(stretches: Sequence[Stretch], at: int) -> MemberSteps:
    """Return the record of a member's counted steps in all stretches of a window.

    Args:
        stretches: the stretches of the window, at least one.
        at: the member's place among the activities.
    """
    first, *others = (
        member_record(stretch.activities[at], stretch.opened_ns, stretch.closed_ns)
        for stretch in stretches
    )
    for other in others:
        parts = structs.asdict(first), structs.asdict(other)
        sums = {name: parts[0][name] + parts[1][name] for name in parts[0]}
        first = structs.replace(first, **sums | {"slot": first.slot})
    return first


def restart_share(activity: Activity) -> float:
    """Return the part of a member's active time that it spent on starting its script anew."""
    fresh = sum(
        duration
        for duration, step in zip(activity.durations_ns, activity.steps, strict=True)
        if step.fresh
    )
    return fresh / max(1, activity.parked_ns - activity.released_ns)


def foreign_limit_cpus(usable_cpus: int) -> float:
    """Return how many CPUs others may keep busy before a window is invalid."""
    return max(FOREIGN_CPUS, FOREIGN_SHARE * usable_cpus)


def flags(
    stretches: Sequence[Stretch],
    records: Sequence[MemberSteps],
    machine: WindowMachine,
    *,
    overlap: float,
    edges_s: float,
    usable_cpus: int,
    asked_steps: int,
) -> list[str]:
    """Return the flags of a window; it is invalid if any of them is in INVALID.

    Args:
        stretches: the stretches of the window; several are bursts, which no quota may hold back.
        records: the records of the active members, in the same order.
        machine: what happened on the machine between the readings of the counters.
        overlap: the share of the window in which all members were active.
        edges_s: wall time between the two readings.
        usable_cpus: CPUs that the study may use.
        asked_steps: the steps that the config asks of each member.
    """
    activities = [activity for stretch in stretches for activity in stretch.activities]
    bursts = len(stretches) > 1
    limit_s = edges_s * foreign_limit_cpus(usable_cpus)
    throttled_s = machine.throttled_s or 0.0
    error_s = edges_s * THROTTLED_ERROR * usable_cpus if throttled_s else 0.0
    steps = min(record.steps for record in records)
    tests = {
        "foreign_cpu": machine.foreign_cpu_s > limit_s + error_s,
        "stolen_cpu": (machine.steal_s or 0.0) > limit_s,
        "sleeping_member_ran": machine.sleeping_cpu_s
        > edges_s * max(SLEEPING_FLOOR_CPUS, SLEEPING_SHARE * usable_cpus),
        "short_overlap": overlap < (SHORTEST_BURST_OVERLAP if bursts else SHORTEST_OVERLAP),
        "throttled_burst": bursts and throttled_s > 0,
        "few_steps": steps < FEWEST_STEPS,
        "longest_time": FEWEST_STEPS <= steps < asked_steps,
        "saved_batches": any(stretch.saved for stretch in stretches),
        "ranks_apart": any(activity.apart for activity in activities),
        "steps_not_kept": any(activity.steps_active > CAPACITY for activity in activities),
        "short_steps": any(
            record.steps and statistics.fmean(record.step_us) < SHORT_STEP_S * 1e6
            for record in records
        ),
        "script_restarts": any(restart_share(activity) > RESTART_SHARE for activity in activities),
    }
    return [flag for flag, raised in tests.items() if raised]
