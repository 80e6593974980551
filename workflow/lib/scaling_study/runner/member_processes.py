"""Starts the processes of a cohort's members, asks them questions, waits for them, ends them."""

import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from msgspec import convert

from scaling_study.common import printable
from scaling_study.host import kernel_counters, perf_events
from scaling_study.launch.axes import axis_table, threads
from scaling_study.launch.axes.launcher import LAUNCHERS
from scaling_study.launch.launchers.launcher import LaunchError, LaunchSpec, MemberSpec
from scaling_study.member import channel, files, iterations
from scaling_study.member.iterations import THREADS
from scaling_study.member.member import NO_STEP
from scaling_study.records.readback import Readback
from scaling_study.records.window import CHILDREN_HANG, NOT_COUNTED
from scaling_study.runner import hangs, headroom
from scaling_study.runner.members import Members

log = logging.getLogger("measure")

# A member that ends no step for this long counts as hung, unless its script has been seen to need
# longer: a validation may take minutes. The config's measure.timeout_s takes its place.
HANG_S = 300.0

# A member does not count as hung before this many times the longest step seen has passed.
HANG_TIMES = 10

# Interval of checks of free memory and members' ends while members start. Nothing is measured then.
START_LOOK_S = 0.25

# Members that report at once have this many CPUs for each of their threads.
CPUS_FOR_EACH = 8

# A script whose child processes have trained for this long, while it has finished no step itself,
# trains in them.
ELSEWHERE_S = 5.0

# So many of the members that start are looked at for child processes that hang: all hang alike.
LOOKED_AT = 4

ELSEWHERE = (
    "the script trains in processes that it starts itself: {steps:,} optimizer steps were seen in"
    " {processes} of them, none in its own. Write {{n}} for the number of its processes in"
    " workload.args, or measure whole runs (workload.step: run)"
)

AGAIN = (
    "the script becomes another program (os.exec) before it trains, whose steps cannot be counted:"
    " measure whole runs (workload.step: run)"
)

BESIDE = (
    "the script makes steps of its own and {steps:,} in {processes} processes that it starts, and"
    " neither are the model's alone: measure whole runs (workload.step: run)"
)

# A script without a step that has made this many backward passes has no optimizer. More are rarely
# accumulated into one step.
MANY_BACKWARDS = 50

NO_OPTIMIZER = (
    "; it made {:,} backward passes, and called step() of no torch optimizer. If it updates its"
    " parameters itself, set workload.step to backward: then each backward pass ends a step"
)

# While members start, the last one is ended whenever less than this part of the memory is left.
LEAST_FREE_SHARE = 0.03

# Members' logs above this size are cut to their end after each window: a script that prints without
# end must not fill the disk.
LONGEST_LOG_BYTES = 1_000_000

# All of a killed process is gone after this time, even if it had much memory.
DYING_S = 5.0

# Words of torch, Python and the kernel for a lack of memory.
SHORT_OF_MEMORY = ("MemoryError", "allocate memory", "bus error")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about the machine that the coordinator needs.

    Attributes:
        cpus: the CPUs that the study may use.
        memory_bytes: the memory that all members together may use.
        frequency: CPUs, each with the file that holds its current frequency (kHz).
    """

    cpus: frozenset[int]
    memory_bytes: int
    frequency: tuple[tuple[int, Path], ...]


class MemberEnd(NamedTuple):
    """The end of a member.

    Attributes:
        slot: The member's.
        what: ``not_started``, ``died``, ``hung``, ``out_of_memory``, or as in ``records.window``.
        reason: In words.
        log: The end of what it has printed.
    """

    slot: int
    what: str
    reason: str
    log: str


class FailedError(Exception):
    """Members cannot be measured, or their windows do not count; the text says why."""


class MemberEndedError(Exception):
    """A member died or hung; its event has the reason."""

    def __init__(self, slots: Sequence[int]) -> None:
        super().__init__(f"members {list(slots)} ended")


class ScriptEndedError(Exception):
    """The default launch's script makes no step, or none that counts: nothing can be measured."""

    def __init__(self, end: MemberEnd) -> None:
        super().__init__(end.reason)
        self.end = end


class MemberProcesses:
    """Starts members, asks them questions, and ends them all when its context ends."""

    def __init__(
        self,
        launch: LaunchSpec,
        members: Sequence[MemberSpec],
        host: HostFacts,
        *,
        hang_s: float | None = None,
        beside: int = 0,
    ) -> None:
        """Prepare processes, of which none is started yet.

        Args:
            launch: the specification that all members share.
            members: the specification of each member.
            host: facts about the machine.
            hang_s: a member that ends no step for this long is hung; by default HANG_S.
            beside: members of other cohorts that will live beside this one.
        """
        self._launch = launch
        self._hang_s = HANG_S if hang_s is None else hang_s
        self._longest_step_s = 0.0
        self._specs = {member.slot: member for member in members}
        self._host = host
        self.events: list[MemberEnd] = []
        self.members = Members(launch.folder, len(members), launch.ranks or 1)
        how = LAUNCHERS[launch.launcher]
        self._launcher = how.starter(launch, len(members))
        self._restless = not how.rests or threads.spins_long(launch.env)
        self._hardware = perf_events.PerfEvents(len(members), beside=beside)
        self._ended: Counter[int] = Counter()
        self._hangs = hangs.Hangs()
        self._launched: dict[int, int] = {}  # the processes
        self._launched_ns: dict[int, int] = {}
        self._start_s: dict[int, float] = {}
        self._warm_up_compile_s: dict[int, float] = {}

    def __enter__(self) -> Self:
        """Return itself; leaving it ends every member."""
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
        """The number of this cohort's slots."""
        return len(self._specs)

    @property
    def launch_spec(self) -> LaunchSpec:
        """The launch of all members."""
        return self._launch

    def spec(self, slot: int) -> MemberSpec:
        """Return the specification of a member."""
        return self._specs[slot]

    def restartable(self, most: int) -> list[int]:
        """Return the slots whose members ended, but no more often than ``most`` times."""
        alive = self.alive
        return [slot for slot, ends in self._ended.items() if slot not in alive and ends <= most]

    def start(self, slots: Sequence[int], timeout_s: float, *, first_decides: bool = False) -> None:
        """Start members and wait for them, as ``launch`` and ``wait_started`` do."""
        self.launch(slots)
        self.wait_started(slots, timeout_s, first_decides=first_decides)

    def launch(self, slots: Sequence[int]) -> None:
        """Start the processes of members; events name those that did not start."""
        for slot in slots:
            self.members.clear(slot)
            for path in (self._launch.log(slot), self._launch.errors(slot)):
                path.unlink(missing_ok=True)  # of an earlier process, whose event has the end
            self._launched_ns[slot] = time.perf_counter_ns()
            try:
                pid = self._launcher.start(self._specs[slot])
                self._launched[slot] = pid
                self._hardware.add(slot, pid)
                self.members.add(slot, pid)
            except (LaunchError, ProcessLookupError) as error:
                self._event(slot, "not_started", str(error))

    def wait_started(
        self, slots: Sequence[int], timeout_s: float, *, first_decides: bool = False
    ) -> None:
        """Wait until each of some members has finished its first step.

        Members that end, are late or run out of memory are no longer alive afterwards; events have
        the reasons.

        Args:
            slots: the members.
            timeout_s: time for all of them.
            first_decides: whether the study stops if the first member's script ends before its
                first step.

        Raises:
            ScriptEndedError: that script ended, and ``first_decides``.
        """
        deadline_ns = time.perf_counter_ns() + round(timeout_s * 1e9)
        waiting = set(slots) & set(self.alive)
        hint = ""
        while waiting - self.members.resting and time.perf_counter_ns() < deadline_ns:
            look_ns = time.perf_counter_ns() + round(START_LOOK_S * 1e9)
            self._bury(self.members.wait_resting(waiting, min(look_ns, deadline_ns)))
            self._guard_memory()
            self._end_elsewhere(waiting - self.members.resting)
            self._end_hanging(sorted(waiting - self.members.resting)[:LOOKED_AT])
            late = min(waiting - self.members.resting, default=0)
            if not hint and (hint := self._without_optimizer(late)):
                log.warning("no step yet%s", hint)
            if first_decides and (ended := self._script_ended()):
                raise ScriptEndedError(ended)
            waiting &= set(self.alive)
        for slot in sorted(waiting - self.members.resting):
            limit = f"{timeout_s:g} s of its start (measure.timeout_s)"
            self._end(slot, "hung", f"no step within {limit}")
        if first_decides and (ended := self._script_ended()):
            raise ScriptEndedError(ended)
        for slot in set(slots) & set(self.alive):
            first = self.members.steps(slot)[0]  # a group rests one step later
            self._start_s[slot] = (first.end_ns - self._launched_ns[slot]) / 1e9

    def _end_elsewhere(self, slots: set[int]) -> None:
        """End members without a step of their own whose child processes train instead."""
        for slot in slots & set(self.alive):
            spans = [page.span_ns for page in self._pages(slot)]
            if any(latest_ns - first_ns > ELSEWHERE_S * 1e9 for first_ns, latest_ns in spans):
                self._end(slot, "not_started", "it has no step of its own")

    def _end_beside(self, slots: Iterable[int]) -> set[int]:
        """End members whose child processes make steps, too; return them."""
        members = {slot for slot in slots if slot in self.alive and self._pages(slot)}
        for slot in sorted(members):
            self._end(slot, NOT_COUNTED, "it makes steps, and so do its child processes")
        return members

    def _end_hanging(self, slots: Iterable[int]) -> set[int]:
        """End members whose child processes hang; return them."""
        living = set(slots) & set(self.alive)
        reasons = {slot: self._hangs.of(self.members.pids[slot]) for slot in living}
        for slot, how in reasons.items():
            if how:
                self._end(slot, CHILDREN_HANG, how)
        return {slot for slot, how in reasons.items() if how}

    def _pages(self, slot: int) -> list[iterations.Page]:
        """Return the pages of the processes that a member's script has started."""
        folder = self._launch.folder / f"{iterations.ELSEWHERE}{slot}"
        return iterations.read_pages(folder) if folder.exists() else []

    def _script_ended(self) -> MemberEnd | None:
        """Return the first member's end; None if it lives, or if all may have run out of memory."""
        for event in self.events:
            hung = event.what == "hung" and self._without_optimizer(0)
            if event.slot == 0 and (event.what in {"died", NOT_COUNTED} or hung):
                short = any(text in event.reason for text in SHORT_OF_MEMORY)
                # If memory runs out, the kernel kills some members, and the others live.
                some = "SIGKILL" in event.reason and self.alive
                return None if (short and self.size > 1) or some else event
        return None

    def _stepped(self, slot: int) -> bool:
        words = self.members.words(slot)
        return bool(words[channel.STEPS] or words[channel.EARLIER])

    def _without_optimizer(self, slot: int) -> str:
        """Return that a script trains without an optimizer, in words; empty if it does not."""
        passes = self.members.words(slot)[channel.BACKWARDS]
        if self._stepped(slot) or passes < MANY_BACKWARDS:
            return ""
        return NO_OPTIMIZER.format(passes)

    def _guard_memory(self) -> None:
        """End the last member if too little memory is left for all."""
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

    def read_back(self, timeout_s: float) -> list[Readback]:
        """Have each member report the settings that it really got.

        The first member reports alone. The others report in groups, so small that each has its
        cores, their memory and their clock nearly to itself while it multiplies matrices.

        Args:
            timeout_s: Time for each report. It may take as long as a start: it loads libraries.
        """
        reports: list[Readback] = []
        while not reports and self.alive:
            reports = self._reports(self.alive[:1], timeout_s)
        if reports:
            rest = [slot for slot in self.alive if slot != reports[0].slot]
            together = max(1, len(self._host.cpus) // (CPUS_FOR_EACH * reports[0].intra_op))
            groups = -(-len(rest) // together)
            for group in range(groups):  # neighbours may share a core: they are never in one group
                reports += self._reports(rest[group::groups], timeout_s)
        return sorted(reports, key=lambda report: report.slot)

    def _reports(self, slots: Sequence[int], timeout_s: float) -> list[Readback]:
        """Have some members report at once; those that end instead report nothing."""
        living = [slot for slot in slots if slot in self.alive]
        self.members.order(living, channel.READ_BACK)
        ended = self._rest(living, timeout_s)
        reports = []
        for slot in set(living) - ended:
            report = json.loads((self._launch.folder / f"readback-{slot}.json").read_text())
            for name in report["env"].keys() & self._launch.passed:
                del report["env"][name]
            # From the member's launch to the end of its first step, while all members started.
            report["start_s"] = self._start_s[slot]
            report["warm_up_compile_s"] = self._warm_up_compile_s.get(slot, 0.0)
            reports.append(convert(report, Readback))
        return reports

    def script_sets(self, report: Readback) -> dict[str, str]:
        """Return the variables of axes that the script has set itself, by a member's report."""
        axes = {name for axis in axis_table.AXES.values() for name in axis.variables}
        before = self._launch.env
        return {
            name: value
            for name, value in report.env.items()
            if name in axes and before.get(name) != value
        }

    def shared_files(self) -> dict[str, int]:
        """Return the files that several members wrote, and how many of them did."""
        return files.shared(self._launch.folder)

    def ask(self, slot: int, question: int, patience_s: float | None = None) -> bool:
        """Put a question to a resting member; return whether it lived to answer."""
        if slot not in self.alive:  # it ended while another one answered
            return False
        self.members.order([slot], question)
        return slot not in self._rest([slot], patience_s)

    def tell(self, number: int) -> None:
        """Put a number beside all members' orders; it stays there until it is changed."""
        for slot in self.alive:
            self.members.ask(slot, number)

    def trainer(self, slot: int) -> tuple[int, int]:
        """Return the process and the thread that train in a member; in a group, those of rank 0.

        Raises:
            MemberEndedError: it has ended.
        """
        tid = self.members.words(slot)[channel.TRAINER_TID]
        try:
            return kernel_counters.process_of(tid), tid
        except (FileNotFoundError, ProcessLookupError) as error:
            self._bury_dying()
            raise MemberEndedError([slot]) from error

    def freeze(self) -> None:
        """Stop every process of this cohort; its members must rest."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the processes of this cohort go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        host = self._launcher.host
        for root in self.members.pids.values() if host is None else [host]:
            kernel_counters.signal_all(kernel_counters.descendants(root), number)

    @contextmanager
    def _quiet(self, active: Sequence[int]) -> Iterator[None]:
        """Stop the processes of members outside a window if resting does not keep them still.

        A loader's workers, for example, fill their queue while their member rests.
        """
        out = [self.members.pids[slot] for slot in self.alive if slot not in active]
        trees = [kernel_counters.descendants(pid) for pid in out]
        stopped = [pid for tree in trees if self._restless or len(tree) > 1 for pid in tree]
        kernel_counters.signal_all(stopped, signal.SIGSTOP)
        try:
            yield
        finally:
            kernel_counters.signal_all(stopped, signal.SIGCONT)

    @property
    def _patience_s(self) -> float:
        """The time that a member may take for a step; it grows with the longest step seen."""
        return max(self._hang_s, HANG_TIMES * self._longest_step_s)

    def _hung(self, slots: Sequence[int], now_ns: int) -> set[int]:
        """End the members that have ended no step for too long; return them."""
        patience_ns = self._patience_s * 1e9
        still = {slot: now_ns - self.members.latest(slot) for slot in slots}
        late = {slot for slot, ns in still.items() if ns > ELSEWHERE_S * 1e9}
        if ended := self._end_beside(late) | self._end_hanging(late):
            return ended
        hung = {slot for slot, ns in still.items() if ns > patience_ns}
        for slot in sorted(hung):
            self._end(slot, "hung", f"no step for {self._patience_s:g} s")
        return hung

    def _rest(self, slots: Sequence[int], patience_s: float | None = None) -> set[int]:
        """Wait until members rest; end those that do not in time; return who ended."""
        return self._wait(slots, self.members.resting, patience_s)

    def _wait(
        self, slots: Sequence[int], reported: set[int], patience_s: float | None = None
    ) -> set[int]:
        """Wait until members have reported to the coordinator; end those that do not in time.

        Args:
            slots: the members.
            reported: the set that their reports fill: ``resting`` or ``passed`` of all members.
            patience_s: time to wait; by default as long as a step may take.

        Returns:
            Who ended.
        """
        patience_s = self._patience_s if patience_s is None else patience_s
        deadline_ns = time.perf_counter_ns() + round(patience_s * 1e9)
        waiting = set(slots) & set(self.alive)
        gone: set[int] = set()
        while late := waiting - reported:
            look_ns = min(deadline_ns, time.perf_counter_ns() + round(ELSEWHERE_S * 1e9))
            ended = self.members.wait_told(reported, waiting, look_ns)
            self._bury(ended)
            if not ended and look_ns < deadline_ns:
                ended = self._end_beside(waiting - reported) | self._end_hanging(waiting - reported)
            elif not ended and not reported.issuperset(waiting):
                ended = late - reported
                for slot in sorted(ended):
                    self._end(slot, "hung", f"no answer for {patience_s:g} s")
            gone |= ended
            waiting -= ended
        return gone

    def _bury(self, slots: set[int]) -> None:
        for slot in sorted(slots):
            self._end(slot, "died")

    def _bury_dying(self) -> set[int]:
        """Wait for members whose end has just begun, and record it; return them."""
        ended = self.members.sleep_until(time.perf_counter_ns() + round(DYING_S * 1e9))
        self._bury(ended)
        return ended

    def _end(self, slot: int, kind: str, reason: str = "") -> None:
        """End a member, if it still lives, and record the given reason or else its launcher's."""
        pid = self.members.pids[slot]
        self._kill(slot)
        self._event(slot, kind, reason or self._launcher.exit_reason(pid))

    def _kill(self, slot: int) -> None:
        """Kill a member and everything below it."""
        kernel_counters.signal_all(
            kernel_counters.descendants(self.members.pids[slot])[1:], signal.SIGKILL
        )
        self.members.kill(slot)

    def _event(self, slot: int, kind: str, reason: str) -> None:
        self._ended[slot] += 1
        files = self._launch.errors(slot), self._launch.log(slot)
        if kind == "died":  # the last lines of a killed program say nothing about its end
            said = printable.words_of(*(files[:1] if "killed" in reason else files))
            reason += f": {said}" if said else ""
        text = b"".join(map(printable.tail, reversed(files))).decode(errors="replace")
        reason += headroom.why_bus_error(text, reason)
        if kind == "hung" or NO_STEP in reason:
            reason += self._without_optimizer(slot)
        stepped = self._stepped(slot)
        if THREADS in reason:
            kind, reason = NOT_COUNTED, THREADS
        elif (pages := self._pages(slot)) and (not stepped or kind in {"hung", NOT_COUNTED}):
            kind = NOT_COUNTED if stepped else kind
            again = any(page.pid == self._launched.get(slot) for page in pages)
            reason = (BESIDE if stepped else AGAIN if again else ELSEWHERE).format(
                steps=sum(page.iterations for page in pages), processes=len(pages)
            )
        self.events.append(MemberEnd(slot, kind, reason, text))

    def _shorten_logs(self) -> None:
        """Cut long logs to their end. Members have opened them for appending, so they print on."""
        for slot in self.alive:
            for path in (self._launch.log(slot), self._launch.errors(slot)):
                if path.exists() and path.stat().st_size > LONGEST_LOG_BYTES:
                    end = printable.tail(path)
                    with path.open("ab") as file:
                        file.truncate(0)
                        file.write(end)
