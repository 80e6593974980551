"""One cohort: members started together for one launch, and the windows taken from it.

The coordinator sleeps while a window lasts. What it reads of the kernel it reads at the edges,
before members are released and after they have come to rest, so that a member's counters belong
to whole steps.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from scaling_study.common import last_words
from scaling_study.host import kernel_counters, perf_events
from scaling_study.launch.axes import openmp
from scaling_study.launch.launchers.launcher import LaunchError, Member
from scaling_study.launch.launchers.launcher_table import LAUNCHERS
from scaling_study.member import channel, iterations, written
from scaling_study.records.window import Taken
from scaling_study.runner import counter_snapshots, headroom, windows
from scaling_study.runner.members import Members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scaling_study.launch.launchers.launcher import Launch

# A member that ends no step for this long counts as hung, unless its script has been seen to need
# longer: a validation may take minutes. The config's measure.hang_timeout_s.
HANG_S = 300.0

# … and so many times as long as the longest step seen.
HANG_TIMES = 10

# OpenMP threads that spin after their last region, and loader workers that fill their queues,
# come to rest in this time; it passes at both edges.
QUIET_S = 0.02

# While members start, memory and deaths are looked at this often. Nothing is measured then.
START_LOOK_S = 0.25

# Members that report at once have so many CPUs for each of their threads.
CPUS_FOR_EACH = 8

# A script whose child processes have trained for this long, while it has finished no step itself,
# trains there.
ELSEWHERE_S = 5.0

ELSEWHERE = (
    "the script trains in processes that it starts itself: {steps:,} optimizer steps were seen in"
    " {processes} of them, none in its own. Such a program is measured as a whole: set"
    " workload.pool to true, and write {{n}} for the number of its processes in workload.args"
)

# Starting members stop when this part of the machine's memory is left.
LEAST_FREE_SHARE = 0.03

# What a member prints is kept up to this size, looked at after each window: a script that prints
# without end must not fill the disk.
LONGEST_LOG_BYTES = 1_000_000

# All of a killed process is gone after this time, even if it had much memory.
DYING_S = 5.0

# After its longest time a window is looked at so often in each doubling of its time.
LATE_LOOKS = 8

# So torch, Python and the kernel say that memory is not there.
SHORT_OF_MEMORY = ("MemoryError", "allocate memory", "bus error")

_MOMENT_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """How long a window lasts (the config's ``measure`` section).

    Attributes:
        steps: it lasts until each member has done so many, within the next bounds.
        shortest_s: at least so long.
        longest_s: at most so long.
        settle_s: steps that begin before this time do not count.
        bursts: how often all this happens; the window is the sum.
        rest_s: rest before each of several bursts.
    """

    steps: int
    shortest_s: float
    longest_s: float
    settle_s: float
    bursts: int = 1
    rest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Host:
    """What the coordinator must know of the machine.

    Attributes:
        cpus: the CPUs that the study may use.
        memory_bytes: what all members together may use.
        frequency: CPUs, each with the file that holds its current frequency (kHz).
    """

    cpus: frozenset[int]
    memory_bytes: int
    frequency: tuple[tuple[int, Path], ...]


class MemberEndedError(Exception):
    """A member died or hung; its event tells how."""

    def __init__(self, slots: Sequence[int]) -> None:
        super().__init__(f"members {list(slots)} ended")
        self.slots = slots


class ScriptEndedError(Exception):
    """The default launch's script ended before its first step: no launch can be measured."""


class Cohort:
    """Starts members and takes windows from them; ends them all when closed."""

    def __init__(
        self,
        launch: Launch,
        members: Sequence[Member],
        host: Host,
        *,
        hang_s: float | None = None,
        beside: int = 0,
    ) -> None:
        """Make a cohort, of which nothing is started yet.

        Args:
            launch: what all members share.
            members: what each is to be.
            host: of the machine.
            hang_s: a member that ends no step for so long is hung; by default HANG_S.
            beside: members of other cohorts that will live beside this one.
        """
        self._launch = launch
        self._hang_s = HANG_S if hang_s is None else hang_s
        self._longest_step_s = 0.0
        self._specs = {member.slot: member for member in members}
        self._host = host
        self.events: list[dict[str, Any]] = []
        self.members = Members(launch.folder, len(members), launch.ranks or 1)
        how = LAUNCHERS[launch.launcher]
        self._launcher = how.starter(launch, len(members))
        self._restless = not how.rests or openmp.spins_long(launch.env)
        self._hardware = perf_events.PerfEvents(len(members), beside=beside)
        # The event of a first member whose script ended by itself before its first step.
        self.script_ended: dict[str, Any] | None = None
        self._ended: Counter[int] = Counter()
        self._launched_ns: dict[int, int] = {}
        self._start_s: dict[int, float] = {}
        self._warm_up_compile_s: dict[int, float] = {}

    def __enter__(self) -> Self:
        """Return the cohort; leaving it ends every member."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the members and whatever they started, and wait for their end."""
        self.thaw()  # a stopped process does not notice that its parent is gone
        for slot in list(self.members.pids):
            self._kill(slot)
        self._hardware.close()
        self.members.close()
        self._launcher.close()

    @property
    def alive(self) -> tuple[int, ...]:
        """The slots whose members live, in order."""
        return tuple(sorted(self.members.pids))

    @property
    def size(self) -> int:
        """How many slots this cohort has."""
        return len(self._specs)

    def restartable(self, most: int) -> list[int]:
        """Return the slots whose members ended, but no more often than ``most`` times."""
        alive = self.alive
        return [slot for slot, ends in self._ended.items() if slot not in alive and ends <= most]

    def start(self, slots: Sequence[int], timeout_s: float, *, first_decides: bool = False) -> None:
        """Start members and wait for them, as ``launch`` and ``wait_started`` do."""
        self.launch(slots)
        self.wait_started(slots, timeout_s, first_decides=first_decides)

    def launch(self, slots: Sequence[int]) -> None:
        """Start the processes of members; events tell which did not start."""
        for slot in slots:
            self.members.clear(slot)
            for path in (self._launch.log(slot), self._launch.errors(slot)):
                path.unlink(missing_ok=True)  # an earlier process's: its event has the end
            self._launched_ns[slot] = time.perf_counter_ns()
            try:
                pid = self._launcher.start(self._specs[slot])
                self._hardware.add(slot, pid)
                self.members.add(slot, pid)
            except (LaunchError, ProcessLookupError) as error:
                self._ended[slot] += 1
                self._event(slot, "not_started", str(error))

    def wait_started(
        self, slots: Sequence[int], timeout_s: float, *, first_decides: bool = False
    ) -> None:
        """Wait until each of some members has finished its first step.

        Members that end, do not get there in time or for which memory runs out are no longer
        alive afterwards; events tell why.

        Args:
            slots: the members.
            timeout_s: for all of them.
            first_decides: where the first member's script ends before its first step, the others
                are ended too.
        """
        deadline_ns = time.perf_counter_ns() + round(timeout_s * 1e9)
        waiting = set(slots) & set(self.alive)
        while waiting - self.members.resting and time.perf_counter_ns() < deadline_ns:
            look_ns = time.perf_counter_ns() + round(START_LOOK_S * 1e9)
            self._bury(self.members.wait_resting(waiting, min(look_ns, deadline_ns)))
            self._guard_memory()
            self._end_elsewhere(waiting - self.members.resting)
            if first_decides and (ended := self._script_ended()):
                self.script_ended = ended
                for slot in self.alive:
                    self._kill(slot)
            waiting &= set(self.alive)
        for slot in sorted(waiting - self.members.resting):
            self._end(slot, "hung", f"no step within {timeout_s:g} s of its start")
        for slot in set(slots) & set(self.alive):
            first = self.members.steps(slot)[0]  # a group rests one step later
            self._start_s[slot] = (first.end_ns - self._launched_ns[slot]) / 1e9

    def _end_elsewhere(self, slots: set[int]) -> None:
        """End the members, of those without a step, whose child processes train instead."""
        for slot in slots & set(self.alive):
            seen = [one for page in self._pages(slot) for one in page.starts()]
            if seen and max(one.latest_ns - one.first_ns for one in seen) > ELSEWHERE_S * 1e9:
                self._end(slot, "not_started", "it has no step of its own")

    def _pages(self, slot: int) -> list[iterations.Page]:
        """Return what processes have counted that a member's script has started."""
        folder = self._launch.folder / f"{iterations.ELSEWHERE}{slot}"
        return iterations.read_pages(folder) if folder.exists() else []

    def _script_ended(self) -> dict[str, Any] | None:
        """The first member's end, unless memory may have run out for all of them together."""
        for event in self.events:
            if event["slot"] == 0 and event["what"] == "died":
                short = any(text in event["reason"] for text in SHORT_OF_MEMORY)
                # The kernel kills some, and the others live.
                some = "SIGKILL" in event["reason"] and self.alive
                return None if (short and self.size > 1) or some else event
        return None

    def _guard_memory(self) -> None:
        """End the last member while too little memory is left for all."""
        left = headroom.read_free_memory()
        if left.free >= LEAST_FREE_SHARE * self._host.memory_bytes or not self.alive:
            return
        self._end(
            self.alive[-1],
            "out_of_memory",
            f"memory for {len(self.alive)} members is not there:"
            f" {left.free / 1024**3:.1f} GiB left of {self._host.memory_bytes / 1024**3:.1f}"
            f" ({left.limit})",
        )

    def read_back(self, timeout_s: float, *, with_kernel: bool = True) -> list[dict[str, Any]]:
        """Have each member report what it really got.

        The first has the machine to itself, the others report some at a time: so few that each of
        them has cores, their memory and their clock nearly to itself while it multiplies.

        Args:
            timeout_s: For each of them. A report belongs to its start: libraries are loaded for it.
            with_kernel: which kernel its BLAS chose too. That costs a second to find out and is the
                same for all: only the first member tells.
        """
        reports: list[dict[str, Any]] = []
        while not reports and self.alive:
            question = channel.READ_BACK_KERNEL if with_kernel else channel.READ_BACK
            reports = self._reports(self.alive[:1], question, timeout_s)
        if reports:
            rest = [slot for slot in self.alive if slot != reports[0]["slot"]]
            together = max(1, len(self._host.cpus) // (CPUS_FOR_EACH * reports[0]["intra_op"]))
            groups = -(-len(rest) // together)
            for group in range(groups):  # neighbours may share a core: they are never in one group
                reports += self._reports(rest[group::groups], channel.READ_BACK, timeout_s)
        return sorted(reports, key=lambda report: int(report["slot"]))

    def _reports(self, slots: Sequence[int], question: int, timeout_s: float) -> list[Any]:
        """Have some members report at once; those that end instead report nothing."""
        living = [slot for slot in slots if slot in self.alive]
        self.members.order(living, question)
        ended = self._rest(living, timeout_s)
        reports = []
        for slot in set(living) - ended:
            path = self._launch.folder / f"readback-{slot}.json"
            report = json.loads(path.read_text())
            for name in report["env"].keys() & self._launch.passed:
                del report["env"][name]
            # From its launch to the end of its first step, while all of them started.
            report["start_s"] = self._start_s[slot]
            report["warm_up_compile_s"] = self._warm_up_compile_s.get(slot, 0.0)
            reports.append(report)
        return reports

    def shared_files(self) -> dict[str, int]:
        """Return the files that several members wrote, and how many of them did."""
        return written.shared(self._launch.folder)

    def ask(self, slot: int, question: int, patience_s: float | None = None) -> bool:
        """Put a question to a resting member; return whether it lived to answer."""
        if slot not in self.alive:  # it ended while another one answered
            return False
        self.members.order([slot], question)
        return slot not in self._rest([slot], patience_s)

    def warm_up(self, steps: int, longest_s: float) -> None:
        """Let all members train together until each has done so many steps, or time is up."""
        slots = self.alive
        if not slots:
            return
        release_ns = self.members.order(slots, channel.RUN)
        self._run(slots, release_ns, WindowSettings(steps, 0.0, longest_s, 0.0))
        self.members.close_gates(slots)
        self._rest(slots)
        for slot in self.alive:
            compiling_ns = sum(step.ns("compile") for step in self.members.steps(slot))
            self._warm_up_compile_s[slot] = compiling_ns / 1e9

    def take(self, window: windows.Window, settings: WindowSettings, first: int = 0) -> Taken:
        """Take one window from n living members and return its record.

        Args:
            window: which.
            settings: its timing.
            first: the members are those from this one on, counted around; else the first n.

        Raises:
            MemberEndedError: a member died or hung; the record cannot be made.
        """
        at = first % max(1, len(self.alive))
        slots = sorted((self.alive[at:] + self.alive[:at])[: window.n])
        try:
            with self._quiet(slots):
                return self._take(window, slots, settings)
        except (FileNotFoundError, ProcessLookupError) as error:
            # A member's /proc folder is gone: it ended outside the watched part of the window.
            ended = self.members.sleep_until(time.perf_counter_ns() + round(DYING_S * 1e9))
            if not ended:
                raise
            self._bury(ended)
            raise MemberEndedError(sorted(ended)) from error
        finally:
            self._shorten_logs()

    def profile(
        self, n: int, order: int, steps: int, longest_s: float
    ) -> tuple[windows.Activity, ...]:
        """Let n members train, the first of them under its own profiler for so many steps.

        Returns:
            What they did, the profiled member first.

        Raises:
            MemberEndedError: a member died or hung.
        """
        slots = self.alive[:n]
        first = slots[0]
        self.members.words(first)[channel.ASKED] = steps
        release_ns = self.members.order(slots, channel.RUN, but={first: order})
        ended = self.members.wait_resting([first], release_ns + round(longest_s * 1e9))
        return self._all_rest(slots, ended)

    def run_beside(
        self, n: int, command: Sequence[str], longest_s: float
    ) -> tuple[subprocess.CompletedProcess[str], int, tuple[windows.Activity, ...]]:
        """Let n members train for as long as a command runs, which is killed when that is too long.

        Returns:
            The finished command, the time (ns) of its end, and what the members did.

        Raises:
            MemberEndedError: a member died or hung.
        """
        slots = self.alive[:n]
        self.members.order(slots, channel.RUN)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=longest_s
            )
        except subprocess.TimeoutExpired:
            done = subprocess.CompletedProcess(command, 1, "", f"not done after {longest_s:g} s")
        ended_ns = time.perf_counter_ns()
        return done, ended_ns, self._all_rest(slots, self.members.sleep_until(ended_ns))

    def freeze(self) -> None:
        """Stop every process of this cohort; its members must rest."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the processes of this cohort go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        host = self._launcher.host
        for root in self.members.pids.values() if host is None else [host]:
            _signal_all(kernel_counters.descendants(root), number)

    @contextmanager
    def _quiet(self, active: Sequence[int]) -> Iterator[None]:
        """Keep the members outside a window from running, where resting is not enough.

        A loader's workers fill their queue while their member rests.
        """
        out = [self.members.pids[slot] for slot in self.alive if slot not in active]
        trees = [kernel_counters.descendants(pid) for pid in out]
        stopped = [pid for tree in trees if self._restless or len(tree) > 1 for pid in tree]
        _signal_all(stopped, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal_all(stopped, signal.SIGCONT)

    def tell(self, slots: Sequence[int], asked: int) -> None:
        """Put a number beside the members' orders; it stays there until it is changed."""
        for slot in slots:
            self.members.ask(slot, asked)

    @contextmanager
    def training(self, n: int, asked: int) -> Iterator[list[windows.Activity]]:
        """Let n members train for as long as the context lasts.

        Args:
            n: how many of the living members.
            asked: the number that stands beside their order (see ``kernels.encode``).

        Yields:
            A list that holds, once the context is over, what the members did.

        Raises:
            MemberEndedError: a member died or hung.
        """
        slots = self.alive[:n]
        self.tell(slots, asked)
        done: list[windows.Activity] = []
        self.members.order(slots, channel.RUN)
        try:
            yield done
        finally:
            ended = self.members.sleep_until(time.perf_counter_ns() + _MOMENT_NS)
            done += self._all_rest(slots, ended)

    def trainer(self, slot: int) -> tuple[int, int]:
        """Return the process and the thread that train in a member; of a group rank 0's.

        Raises:
            MemberEndedError: it has ended.
        """
        tid = self.members.words(slot)[channel.TRAINER_TID]
        try:
            return kernel_counters.process_of(tid), tid
        except (FileNotFoundError, ProcessLookupError) as error:
            self._bury(self.members.sleep_until(time.perf_counter_ns() + round(DYING_S * 1e9)))
            raise MemberEndedError([slot]) from error

    def watch(
        self,
        n: int,
        looks: int,
        every_s: float,
        look: Callable[[Mapping[int, tuple[int, int]]], None],
    ) -> tuple[windows.Activity, ...]:
        """Let n members train and look at them now and then, which disturbs: not for measuring.

        Args:
            n: how many of the living members.
            looks: how often.
            every_s: mean time between two looks.
            look: takes the process and the training thread of each member, by slot.

        Returns:
            What each of them did.

        Raises:
            MemberEndedError: a member died or hung.
        """
        slots = self.alive[:n]
        threads = {slot: self.trainer(slot) for slot in slots}
        at_ns = self.members.order(slots, channel.RUN)
        ended: set[int] = set()
        for _ in range(looks):
            # At irregular times: steps are regular, and would always be met at the same place.
            at_ns += round(random.uniform(0.5, 1.5) * every_s * 1e9)  # noqa: S311 (no secret)
            ended = self.members.sleep_until(at_ns)
            if ended:
                break
            look(threads)
        return self._all_rest(slots, ended)

    def _all_rest(self, slots: Sequence[int], ended: set[int]) -> tuple[windows.Activity, ...]:
        """Close the members' gates, wait until they rest, and return what they did."""
        self._bury(ended)
        self.members.close_gates(slots)
        ended = ended | self._rest(slots)
        if ended:
            raise MemberEndedError(sorted(ended))
        return tuple(self._activity(slot, 0) for slot in slots)

    def _take(
        self, window: windows.Window, slots: Sequence[int], settings: WindowSettings
    ) -> Taken:
        before = counter_snapshots.read(self.members, slots, self._host.cpus, self._hardware)
        stretches = [self._stretch(slots, settings) for _ in range(settings.bursts)]
        time.sleep(QUIET_S)
        after = counter_snapshots.read(self.members, slots, self._host.cpus, self._hardware)
        members = [
            counter_snapshots.member_record(stretches, at, before, after)
            for at in range(len(slots))
        ]
        machine = counter_snapshots.machine_record(before, after, stretches[-1].frequencies_mhz)
        overlap = statistics.fmean(
            windows.overlap(one.activities, one.opened_ns, one.counted_ns) for one in stretches
        )
        activities = [activity for one in stretches for activity in one.activities]
        found = windows.flags(
            activities,
            members,
            overlap_share=overlap,
            edges_s=(after.wall_ns - before.wall_ns) / 1e9,
            usable_cpus=len(self._host.cpus),
            machine=machine,
            asked_steps=settings.steps,
            bursts=settings.bursts > 1,
            saved=any(one.saved for one in stretches),
        )
        first_ns = min(one.released_ns for one in stretches[0].activities)
        return Taken(
            **asdict(window),
            valid=not windows.INVALID.intersection(found),
            flags=found,
            window_s=(stretches[-1].closed_ns - first_ns) / 1e9,
            start_skew_s=max(windows.start_skew_s(one.activities) for one in stretches),
            overlap=overlap,
            machine=machine,
            members=members,
        )

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
        # In bursts there are so few steps that all of them count: nobody trains on.
        closed_ns = time.perf_counter_ns()
        if not bursts and not ended:
            closed_ns = self.members.close_window(slots)
            ended = self._wait(slots, self.members.wait_passed, self.members.passed)
        frequencies_mhz = counter_snapshots.read_frequencies_mhz(self._host.frequency)
        self.members.close_gates(slots)
        ended |= self._rest(slots)
        if ended:
            raise MemberEndedError(sorted(ended))
        activities = [self._activity(slot, restarts[slot]) for slot in slots]
        return windows.Stretch(opened_ns, closed_ns, activities, frequencies_mhz, saved)

    def _settle(
        self, slots: Sequence[int], opened_ns: int, longest_s: float
    ) -> tuple[set[int], int, bool]:
        """Sleep until what members have saved up is used up, but not longer than a window lasts.

        Args:
            slots: the members.
            opened_ns: when the settle time is over.
            longest_s: what a window lasts at most.

        Returns:
            Who ended, when the window opens, and whether something may be saved up still.
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

        The coordinator wakes after the shortest time, looks at how far the slowest member is,
        sleeps for as long as the rest should take, and so on: a few times for each window. After
        the longest time it goes on only until every member has done its fewest steps.
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

    @property
    def _patience_s(self) -> float:
        """For how long a member may end no step: what its script has been seen to do counts."""
        return max(self._hang_s, HANG_TIMES * self._longest_step_s)

    def _hung(self, slots: Sequence[int], now_ns: int) -> set[int]:
        """End the members that have ended no step for too long; return them."""
        patience_ns = self._patience_s * 1e9
        hung = {slot for slot in slots if now_ns - self.members.latest(slot) > patience_ns}
        for slot in sorted(hung):
            self._end(slot, "hung", f"no step for {self._patience_s:g} s")
        return hung

    def _rest(self, slots: Sequence[int], patience_s: float | None = None) -> set[int]:
        """Wait until members rest; end those that do not in time; return who ended."""
        return self._wait(slots, self.members.wait_resting, self.members.resting, patience_s)

    def _wait(
        self,
        slots: Sequence[int],
        wait: Callable[[set[int], int], set[int]],
        told: set[int],
        patience_s: float | None = None,
    ) -> set[int]:
        """Wait until members have told what is waited for; end those that do not in time.

        Args:
            slots: the members.
            wait: waits for them until a time, and returns who ended.
            told: the members that have told it.
            patience_s: how long; by default for as long as a step may take.

        Returns:
            Who ended.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        deadline_ns = time.perf_counter_ns() + round(patience_s * 1e9)
        waiting = set(slots) & set(self.alive)
        gone: set[int] = set()
        while late := waiting - told:
            ended = wait(waiting, deadline_ns)
            self._bury(ended)
            if not ended and not told.issuperset(waiting):
                ended = late - told
                for slot in sorted(ended):
                    self._end(slot, "hung", f"no answer for {patience_s:g} s")
            gone |= ended
            waiting -= ended
        return gone

    def _activity(self, slot: int, restarts: int) -> windows.Activity:
        words = self.members.words(slot)
        found = windows.Activity(
            slot=slot,
            released_ns=words[channel.RELEASED_NS],
            parked_ns=words[channel.PARKED_NS],
            steps_active=words[channel.STEPS],
            restarts=words[channel.RESTARTS] - restarts,
            steps=self.members.steps(slot),
            earlier=words[channel.EARLIER],
            others=self.members.others(slot),
            apart=words[channel.REOPENED],
            samples=self.members.samples(slot),
        )
        words[channel.REOPENED] = 0
        self._longest_step_s = max(self._longest_step_s, found.longest_step_ns / 1e9)
        return found

    def _bury(self, slots: set[int]) -> None:
        for slot in sorted(slots):
            pid = self.members.pids[slot]
            self._kill(slot)
            self._ended[slot] += 1
            self._event(slot, "died", self._launcher.exit_reason(pid))

    def _end(self, slot: int, what: str, reason: str) -> None:
        self._kill(slot)
        self._ended[slot] += 1
        self._event(slot, what, reason)

    def _kill(self, slot: int) -> None:
        """Kill a member and everything below it."""
        for pid in kernel_counters.descendants(self.members.pids[slot])[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.members.kill(slot)

    def _event(self, slot: int, what: str, reason: str) -> None:
        files = self._launch.errors(slot), self._launch.log(slot)
        if what == "died":  # what a killed program has printed last says nothing of its end
            words = last_words.words_of(*(files[:1] if "killed" in reason else files))
            reason += f": {words}" if words else ""
        text = b"".join(map(last_words.tail, reversed(files))).decode(errors="replace")
        reason += headroom.why_bus_error(text, reason)
        if not self._has_stepped(slot) and (pages := self._pages(slot)):
            reason = ELSEWHERE.format(
                steps=sum(page.iterations for page in pages), processes=len(pages)
            )
        self.events.append({"slot": slot, "what": what, "reason": reason, "log": text})

    def _has_stepped(self, slot: int) -> bool:
        words = self.members.words(slot)
        return bool(words[channel.STEPS] or words[channel.EARLIER])

    def _shorten_logs(self) -> None:
        """Keep the end of what members have printed; they print at the end of the file."""
        for slot in self.alive:
            for path in (self._launch.log(slot), self._launch.errors(slot)):
                if path.exists() and path.stat().st_size > LONGEST_LOG_BYTES:
                    end = last_words.tail(path)
                    with path.open("ab") as file:
                        file.truncate(0)
                        file.write(end)


def _signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
