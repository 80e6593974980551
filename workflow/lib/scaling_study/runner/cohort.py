"""One cohort: members started together for one launch, and the windows taken from it.

The coordinator sleeps while a window lasts. It reads the kernel's counters at the edges, before
members are released and after they have come to rest, so that a member's counters belong to whole
steps.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from scaling_study.common.axis_values import Axes
from scaling_study.config.config import Measure
from scaling_study.launch.axes import axis_table
from scaling_study.member import channel
from scaling_study.records.readback import Check, Readback
from scaling_study.records.window import Slot, Taken
from scaling_study.runner import counter_snapshots, windows
from scaling_study.runner.member_processes import FailedError, MemberEndedError, MemberProcesses

# OpenMP threads that spin after their last region, and loader workers that fill their queues,
# come to rest in this time. It passes before the counters of a window's second edge are read.
QUIET_S = 0.02

# After its longest time, a window is looked at each time its duration has grown by 1 / LATE_LOOKS.
LATE_LOOKS = 8

# The warm-up ends after this time even if steps are left, once each member has done one.
WARM_UP_LONGEST_S = 30.0

_MOMENT_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How long a window lasts (the config's ``measure`` section).

    Attributes:
        steps: it ends when each member has done this many, within the bounds below.
        shortest_s: it lasts at least this long.
        longest_s: it lasts longer only until each member has done ``windows.FEWEST_STEPS``.
        settle_s: steps that begin before this time do not count.
        bursts: number of stretches with this timing; the window is their sum.
        rest_s: rest before each of several bursts.
    """

    steps: int
    shortest_s: float
    longest_s: float
    settle_s: float
    bursts: int = 1
    rest_s: float = 0.0


class Cohort(MemberProcesses):
    """Takes windows from its members."""

    def prove(
        self, axes: Axes, slots: Sequence[Slot], measure: Measure
    ) -> tuple[list[Check], list[Readback]]:
        """Wait until launched members have started, check what they got, and warm them up.

        Args:
            axes: of their launch.
            slots: its slots, of which the first ones are theirs.
            measure: the config's section.

        Returns:
            The checks, and the report of each member.

        Raises:
            FailedError: a member did not start, or a setting of the launch does not hold.
        """
        self.wait_started([slot.slot for slot in slots[: self.size]], measure.timeout_s)
        reports = self.read_back(measure.timeout_s)
        if len(reports) < self.size:
            reasons = [event.reason for event in self.events]
            raise FailedError(reasons[-1] if reasons else "a member did not come to its gate")
        checks = axis_table.checks(axes, slots, reports)
        if wrong := axis_table.failed(checks):
            raise FailedError(wrong)
        self.warm_up(measure.warmup_steps)
        return checks, reports

    def warm_up(self, steps: int) -> None:
        """Let all members train together until each has done ``steps`` steps, or time is up."""
        slots = self.alive
        if not slots:
            return
        release_ns = self.members.order(slots, channel.RUN)
        self._run(slots, release_ns, WindowSettings(steps, 0.0, WARM_UP_LONGEST_S, 0.0))
        self.members.tell(slots, channel.CLOSED)
        self._rest(slots)
        for slot in self.alive:
            compiling_ns = sum(step.ns("compile") for step in self.members.steps(slot))
            self._warm_up_compile_s[slot] = compiling_ns / 1e9

    def take(self, window: windows.WindowPlan, settings: WindowSettings, first: int = 0) -> Taken:
        """Take one window from n living members and return its record.

        Args:
            window: the window to take.
            settings: its timing.
            first: the living member to begin with, counted around; by default the first n train.

        Raises:
            MemberEndedError: a member died or hung; the record cannot be made.
        """
        at = first % max(1, len(self.alive))
        slots = sorted((self.alive[at:] + self.alive[:at])[: window.n])
        try:
            with self._quiet(slots):
                before = self._snapshot(slots)
                stretches = [self._stretch(slots, settings) for _ in range(settings.bursts)]
                time.sleep(QUIET_S)
                after = self._snapshot(slots)
            if beside := self._end_beside(slots):
                raise MemberEndedError(sorted(beside))
            return counter_snapshots.taken(
                window,
                stretches,
                before,
                after,
                usable_cpus=len(self._host.cpus),
                asked_steps=settings.steps,
            )
        except (FileNotFoundError, ProcessLookupError) as error:
            # A member's /proc folder is gone: it ended outside the watched part of the window.
            ended = self._bury_dying()
            if not ended:
                raise
            raise MemberEndedError(sorted(ended)) from error
        finally:
            self._shorten_logs()

    def profile(
        self, n: int, order: int, steps: int, longest_s: float
    ) -> tuple[windows.Activity, ...]:
        """Let n members train, the first of them under its own profiler for ``steps`` steps.

        Returns:
            The activity of each member, the profiled one first.

        Raises:
            MemberEndedError: a member died or hung.
        """
        slots = self.alive[:n]
        first = slots[0]
        self.members.words(first)[channel.ASKED] = steps
        release_ns = self.members.order(slots, channel.RUN, but={first: order})
        ended = self.members.wait_resting([first], release_ns + round(longest_s * 1e9))
        return self._all_rest(slots, ended)

    @contextmanager
    def training(self, n: int) -> Iterator[list[windows.Activity]]:
        """Let n members train for as long as the context lasts.

        Args:
            n: number of living members to train.

        Yields:
            A list that gets the members' activities when the context ends.

        Raises:
            MemberEndedError: a member died or hung.
        """
        slots = self.alive[:n]
        done: list[windows.Activity] = []
        self.members.order(slots, channel.RUN)
        try:
            yield done
        finally:
            ended = self.members.sleep_until(time.perf_counter_ns() + _MOMENT_NS)
            done += self._all_rest(slots, ended)

    def watch(
        self,
        n: int,
        looks: int,
        every_s: float,
        look: Callable[[Mapping[int, tuple[int, int]]], None],
    ) -> Sequence[windows.Activity]:
        """Let n members train, and look at them now and then. This disturbs them: do not measure.

        Args:
            n: number of living members to train.
            looks: number of looks.
            every_s: mean time between two looks.
            look: takes the process and the training thread of each member, by slot.

        Returns:
            The activity of each member.

        Raises:
            MemberEndedError: a member died or hung.
        """
        threads = {slot: self.trainer(slot) for slot in self.alive[:n]}
        with self.training(n) as done:
            at_ns = time.perf_counter_ns()
            for _ in range(looks):
                # Steps are regular: looks at regular times would always meet the same part of one.
                at_ns += round(random.uniform(0.5, 1.5) * every_s * 1e9)  # noqa: S311 (no secret)
                if self.members.sleep_until(at_ns):
                    break
                look(threads)
        return done

    def _all_rest(self, slots: Sequence[int], ended: set[int]) -> tuple[windows.Activity, ...]:
        """Close the members' gates, wait until they rest, and return what they did."""
        self._bury(ended)
        self.members.tell(slots, channel.CLOSED)
        ended = ended | self._rest(slots)
        if ended:
            raise MemberEndedError(sorted(ended))
        return tuple(self._activity(slot, 0) for slot in slots)

    def _snapshot(self, slots: Sequence[int]) -> counter_snapshots.CounterSnapshot:
        trainers = {slot: self.members.words(slot)[channel.TRAINER_TID] for slot in slots}
        return counter_snapshots.read(self.members.pids, trainers, self._host.cpus, self._hardware)

    def _stretch(self, slots: Sequence[int], settings: WindowSettings) -> windows.Stretch:
        """Let members train once, and return what they did when they rest again."""
        time.sleep(settings.rest_s)
        restarts = {slot: self.members.words(slot)[channel.RESTARTS] for slot in slots}
        bursts = settings.bursts > 1
        release_ns = self.members.order(slots, channel.RUN)
        opened_ns = release_ns + round(settings.settle_s * 1e9)
        ended, saved = set[int](), False
        if not bursts:
            ended, opened_ns, saved = self._settle(slots, opened_ns, settings.longest_s)
        ended = ended or self._run(slots, opened_ns, settings)
        # A burst has so few steps that all of them count: no member trains on after its end.
        closed_ns = time.perf_counter_ns()
        if not bursts and not ended:
            closed_ns = self.members.tell(slots, channel.CLOSING)
            ended = self._wait(slots, self.members.passed)
        frequencies_mhz = counter_snapshots.read_frequencies_mhz(self._host.frequency)
        self.members.tell(slots, channel.CLOSED)
        ended |= self._rest(slots)
        if ended:
            raise MemberEndedError(sorted(ended))
        activities = [self._activity(slot, restarts[slot]) for slot in slots]
        return windows.Stretch(opened_ns, closed_ns, activities, frequencies_mhz, saved)

    def _settle(
        self, slots: Sequence[int], opened_ns: int, longest_s: float
    ) -> tuple[set[int], int, bool]:
        """Sleep until members have used up their saved batches, or for a window's longest time.

        Args:
            slots: the members.
            opened_ns: when the settle time is over.
            longest_s: longest time of a window.

        Returns:
            Who ended, when the window opens (ns), and whether batches may still be saved up.
        """
        began_ns, last_ns = time.perf_counter_ns(), opened_ns + round(longest_s * 1e9)
        until_ns = opened_ns
        while True:
            ended = self.members.sleep_until(until_ns)
            self._bury(ended)
            left = max(self.members.saved(slot) for slot in slots)
            now_ns = time.perf_counter_ns()
            if ended or not left or now_ns >= last_ns:
                return ended, until_ns if until_ns == opened_ns else now_ns, bool(left)
            done = max(self.members.words(slot)[channel.STEPS] for slot in slots)
            left_ns = (now_ns - began_ns) * left // max(1, done)
            until_ns = min(last_ns, now_ns + max(_MOMENT_NS, left_ns))

    def _run(self, slots: Sequence[int], opened_ns: int, settings: WindowSettings) -> set[int]:
        """Sleep through a window; return the members that ended in it.

        The coordinator wakes after the shortest time, looks how far the slowest member is, and
        sleeps for as long as the missing steps should take. It repeats this a few times in each
        window. After the longest time, the window goes on only until every member has done its
        fewest steps.
        """
        until_ns = opened_ns + round(settings.shortest_s * 1e9)
        last_ns = opened_ns + round(settings.longest_s * 1e9)
        fewest = min(settings.steps, windows.FEWEST_STEPS)
        while True:
            ended = self.members.sleep_until(until_ns)
            now_ns = time.perf_counter_ns()
            if ended:
                self._bury(ended)
                return ended
            done = min(self.members.done(slot, opened_ns) for slot in slots)
            if done >= settings.steps or (done >= fewest and now_ns >= last_ns):
                return set()
            if hung := self._hung(slots, now_ns):
                return hung
            left_ns = (now_ns - opened_ns) * (settings.steps - done) // max(1, done)
            if now_ns < last_ns:
                until_ns = min(last_ns, now_ns + max(_MOMENT_NS, left_ns))
            else:
                until_ns = now_ns + max(_MOMENT_NS, (now_ns - opened_ns) // LATE_LOOKS)

    def _activity(self, slot: int, restarts: int) -> windows.Activity:
        first, *others = self.members.pages(slot)
        words = first.words
        activity = windows.Activity(
            slot=slot,
            released_ns=words[channel.RELEASED_NS],
            parked_ns=words[channel.PARKED_NS],
            steps_active=words[channel.STEPS],
            restarts=words[channel.RESTARTS] - restarts,
            steps=first.steps(),
            earlier=words[channel.EARLIER],
            others=[page.steps() for page in others],
            apart=words[channel.REOPENED],
            samples=sum(page.words[channel.SAMPLES] for page in (first, *others)),
        )
        words[channel.REOPENED] = 0
        self._longest_step_s = max(
            self._longest_step_s, *(ns / 1e9 for ns in activity.durations_ns)
        )
        return activity
