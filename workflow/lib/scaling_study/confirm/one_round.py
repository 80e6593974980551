"""One round: a queue of models that keeps every slot busy until the round is cut."""

import json
import resource
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from scaling_study.confirm.round_plan import Planned
from scaling_study.host.machine_counters import read_machine
from scaling_study.launch.launchers.launcher import Launch, Member, describe_exit
from scaling_study.member import iterations, model_queue
from scaling_study.records.confirmation import Round, Run, Start, Status
from scaling_study.runner import counter_snapshots, non_step
from scaling_study.runner.free_run import FreeRun, Program
from scaling_study.runner.member_processes import Host

# How often a round looks for slots that have not trained enough, and at the CPUs' frequencies.
LOOK_EVERY_S = 1.0

# A slot has trained enough when its iterations took this share of the planned time. Where starts
# take longer than planned, a rate of the first two or three iterations would say little.
ENOUGH = 0.25

MOST_MODELS = 10_000

# Processes that a script left behind have this long to end with its round.
ORPHANS_S = 1.0

# A round may last this many times its limit, so that each slot ends a first model. Without one, the
# end of a model is not confirmed.
EXTENDED = 4.0


class RoundError(Exception):
    """A round has no result, for this reason."""


@dataclass(frozen=True, slots=True)
class _Process:
    """A process in a slot; ``began_s`` is monotonic."""

    slot: int
    number: int
    pid: int
    pages: Path
    began_s: float
    start: Start
    pool: bool

    def seen(self) -> list[tuple[iterations.Counted, float | None]]:
        """Return the starts of the script in this process, each with its mean ordinary step (ns).

        For a group of ranks, these are the first rank's. A program that trains in processes of its
        own has one start, with the iterations of all of them.
        """
        pages = iterations.read_pages(self.pages)
        children = [page for page in pages if page.parent == self.pid]
        if not self.pool:
            own = [page for page in pages if page.pid == self.pid] or children
            own = own if self.start == "forked" else own[:1]
            return [(page.counted, page.ordinary_ns(non_step.LONG)) for page in own]
        starts = [page.counted for page in pages]
        if not starts:
            return []
        first_ns = min(start.first_ns for start in starts)
        latest_ns = max(start.latest_ns for start in starts)
        both = iterations.Counted(first_ns, latest_ns, sum(one.iterations for one in starts), 0)
        return [(both, None)]

    def runs(self, origin_s: float, ended_s: float | None) -> list[Run]:
        """Return the records of these starts.

        Args:
            origin_s: monotonic time from which the records count.
            ended_s: when the process ended, with its last start; None if it runs.
        """

        def since(ns: int) -> float | None:
            return ns / 1e9 - origin_s if ns else None

        seen = self.seen()
        # A start without an iteration has no numbers yet.
        if not seen or seen[-1][0].ended_ns:
            seen.append((iterations.Counted(0, 0, 0, 0), None))
        began = [self.began_s - origin_s, *(one.ended_ns / 1e9 - origin_s for one, _ in seen)]
        last, first = len(seen) - 1, 0
        # A server writes this file once it has imported what its models need.
        ready = self.pages / f"{iterations.READY}{self.pid}"
        ready_s = since(int(ready.read_text(encoding="ascii")) if ready.exists() else 0)
        if ready_s is not None:
            # Imports are made once for many models, so they belong to no model's time.
            before = sum(ended < ready_s for ended in began[1:-1])
            began[before], first = ready_s, int(before == 0)
        return [
            Run(
                slot=self.slot,
                process=self.number,
                again=number + first,
                began_s=max(0.0, began[number]),
                first_s=since(one.first_ns),
                latest_s=since(one.latest_ns),
                iterations=one.iterations,
                ordinary_s=ordinary_ns / 1e9 if ordinary_ns else None,
                ended_s=since(one.ended_ns)
                if number < last or ended_s is None
                else ended_s - origin_s,
            )
            for number, (one, ordinary_ns) in enumerate(seen)
        ]


@dataclass(slots=True)
class RunningRound:
    """A round that runs.

    Attributes:
        launch: the launch; its folder is private to this round.
        members: one for each slot.
        program: what runs in the slots.
        start: how models are started.
        imports: file that lists the modules to import before models are forked.
        host: facts about the machine.
    """

    launch: Launch
    members: Sequence[Member]
    program: Program
    start: Start
    imports: Path
    host: Host
    _free: FreeRun = field(init=False)
    _now: dict[int, _Process] = field(init=False, default_factory=dict)
    _runs: list[Run] = field(init=False, default_factory=list)
    _clocks: list[float] = field(init=False, default_factory=list)
    _origin_s: float = field(init=False, default=0.0)
    _longest_s: float = field(init=False, default=0.0)

    def run(self, one: Planned, limit_s: float, most_s: float, *, extended: bool = True) -> Round:
        """Run the round and return its record.

        Args:
            one: the round.
            limit_s: time at which it is cut.
            most_s: the latest time at which it is cut, if a slot has not trained enough.
            extended: whether it waits for a first model in each slot, up to ``EXTENDED``.
        """
        self._longest_s = (EXTENDED if extended else 1.0) * limit_s
        self._free = FreeRun(self.launch, self.members, self.program)
        before, used_s = read_machine(self.host.cpus), _own_s()
        self._origin_s = time.monotonic()
        status: Status = "ok"
        reason = None
        try:
            self._keep_busy(limit_s, most_s)
        except RoundError as error:
            status, reason = "failed", str(error)
        finally:
            cut_s = time.monotonic() - self._origin_s
            runs = self._seen()
            self._free.end(ORPHANS_S)
        after = read_machine(self.host.cpus)
        foreign_s = after.busy_cpu_s - before.busy_cpu_s - (_own_s() - used_s)
        return Round(
            turn=one.turn,
            arm=one.arm.key,
            status=status,
            reason=reason,
            limit_s=limit_s,
            cut_s=cut_s,
            frequency_mhz=sum(self._clocks) / len(self._clocks) if self._clocks else None,
            foreign_cpu_s=max(0.0, foreign_s),
            runs=runs,
        )

    def _keep_busy(self, limit_s: float, most_s: float) -> None:
        numbers = dict.fromkeys(range(len(self.members)), 0)
        while True:
            for slot in self._free.slots.free:
                self._start(slot, numbers[slot])
                numbers[slot] += 1
            passed_s = time.monotonic() - self._origin_s
            if passed_s >= most_s or (passed_s >= limit_s and self._over(passed_s, limit_s)):
                return
            until_s = limit_s - passed_s if passed_s < limit_s else LOOK_EVERY_S
            clocks_mhz = counter_snapshots.read_frequencies_mhz(self.host.frequency).values()
            if clocks_mhz:
                until_s = min(until_s, LOOK_EVERY_S)
                self._clocks.append(sum(clocks_mhz) / len(clocks_mhz))
            for ended in self._free.slots.wait(until_s):
                self._end(ended)

    def _start(self, slot: int, number: int) -> None:
        pages = self.launch.folder / "memory" / f"pages-{slot}-{number}"
        if self.start == "fresh":
            began_s = self._free.start(slot, pages)
        else:
            served = ["--imports", str(self.imports)]
            began_s = self._free.start(slot, pages, served=served, orders=self._orders(slot))
        pid = self._free.slots.pid(slot)
        self._now[slot] = _Process(slot, number, pid, pages, began_s, self.start, self.program.pool)

    def _orders(self, slot: int) -> Path:
        """Write a server's orders, for more models than a round has time for."""
        arguments = self.members[slot].command[len(self.program.words) :]
        order = {
            "arguments": arguments,
            "log": str(self.launch.log(slot)),
            "errors": str(self.launch.errors(slot)),
        }
        path = self.launch.folder / f"orders-{slot}"
        path.write_text(f"{json.dumps(order)}\n" * MOST_MODELS, encoding="utf-8")
        return path

    def _end(self, ended: model_queue.Ended) -> None:
        process = self._now.pop(ended.slot)
        runs = process.runs(self._origin_s, ended.ended_s)
        self._runs += runs
        shutil.rmtree(process.pages)
        words = self._free.last_words(ended.slot)
        how = f"slot {ended.slot} {describe_exit(ended.status)}{f': {words}' if words else ''}"
        if ended.status:
            raise RoundError(how)
        if not runs[0].iterations:
            raise RoundError(f"the script ended without an iteration: {how}")

    def _over(self, passed_s: float, limit_s: float) -> bool:
        """Return whether a round that has reached its limit may be cut.

        It may if each slot has trained long enough, or to the end of a script. Until
        ``_longest_s``, each slot must also have ended a model.
        """
        runs = self._seen()
        # Only an ended process shows the time after its last iteration. A forked one counts if the
        # server had done the imports before.
        fresh = self.start == "fresh"
        ended = {run.slot for run in runs if run.ended_s is not None and (fresh or run.again)}
        if len(ended) < len(self.members) and passed_s < self._longest_s:
            return False
        least_s = ENOUGH * limit_s
        trained = dict.fromkeys(range(len(self.members)), 0.0)
        for run in runs:
            if run.iterations > 1:
                trained[run.slot] += run.span_s if run.ended_s is None else least_s
        return all(seconds >= least_s and seconds > 0 for seconds in trained.values())

    def _seen(self) -> list[Run]:
        """Return the starts of all processes so far."""
        now = [process.runs(self._origin_s, None) for process in self._now.values()]
        return [*self._runs, *chain.from_iterable(now)]


def _own_s() -> float:
    """Return the CPU seconds of this process and of all descendants that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + time.process_time()
