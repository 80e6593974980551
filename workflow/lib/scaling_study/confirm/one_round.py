"""One round: a queue of models that keeps every slot busy until the round is cut.

A race trains its first models in such rounds, too (measure/models.json).
"""

import logging
import math
import resource
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.host import probe
from scaling_study.host.machine_counters import read_machine
from scaling_study.launch.launchers.launcher import describe_exit
from scaling_study.member import iterations
from scaling_study.queues import model_queue
from scaling_study.records.codec import write_file
from scaling_study.records.confirmation import FirstModels, ModelRun, Round, Start, Status
from scaling_study.records.machine import Machine
from scaling_study.runner import counter_snapshots, hangs, jobs, non_step, resolve
from scaling_study.runner.free_run import ORPHANS_S, FreeRun, Program, at_once, program_of
from scaling_study.runner.member_processes import HostFacts

if TYPE_CHECKING:
    from scaling_study.search.rounds import Wanted

# How often a round looks for slots that have not trained enough, and at the CPUs' frequencies.
LOOK_EVERY_S = 1.0

# A slot has trained enough when its iterations took this share of the planned time. Where starts
# take longer than planned, a rate of the first two or three iterations would say little.
ENOUGH = 0.25

# If a slot has hardly trained at the planned end of a round, the round goes on up to this time: a
# step of the default launch may take a minute, one of a good launch 3 s.
MOST_S = 240.0

LONGEST = 2.0
"""First models of a race are not waited for longer than so many times the expected time."""

log = logging.getLogger("measure")


class RoundError(Exception):
    """A round has no result, for this reason."""


@dataclass(slots=True)
class RunningRound:
    """A round that runs.

    Attributes:
        free: its processes, of which none has been started yet.
        program: what runs in its slots.
        start: how models are started.
        host: facts about the machine.
    """

    free: FreeRun
    program: Program
    start: Start
    host: HostFacts
    _runs: list[ModelRun] = field(init=False, default_factory=list)
    _clocks: list[float] = field(init=False, default_factory=list)
    _origin_s: float = field(init=False, default=0.0)

    def run(self, turn: int, arm: str, limit_s: float, longest_s: float) -> Round:
        """Run the round and return its record.

        Args:
            turn: its turn.
            arm: the key of its arm.
            limit_s: time at which it is cut, or later if a slot has not trained enough.
            longest_s: time until which it waits for a first model in each slot.
        """
        before, used_s = read_machine(self.host.cpus), _own_s()
        self._origin_s = time.monotonic()
        status: Status = "ok"
        reason = None
        try:
            self._keep_busy(limit_s, longest_s)
        except RoundError as error:
            status, reason = "failed", str(error)
        finally:
            cut_s = time.monotonic() - self._origin_s
            runs = self._seen()
            self.free.end(ORPHANS_S)
        after = read_machine(self.host.cpus)
        foreign_s = after.busy_cpu_s - before.busy_cpu_s - (_own_s() - used_s)
        return Round(
            turn=turn,
            arm=arm,
            status=status,
            reason=reason,
            limit_s=limit_s,
            cut_s=cut_s,
            frequency_mhz=sum(self._clocks) / len(self._clocks) if self._clocks else None,
            foreign_cpu_s=max(0.0, foreign_s),
            runs=runs,
        )

    def _keep_busy(self, limit_s: float, longest_s: float) -> None:
        looks = hangs.Hangs()
        while True:
            passed_s = time.monotonic() - self._origin_s
            may_end = passed_s >= limit_s and self._over(limit_s, extended=passed_s < longest_s)
            if may_end or passed_s >= max(MOST_S, limit_s):
                _refuse_threads(chain.from_iterable(map(iterations.read_pages, self.free.pages)))
                return
            for slot in self.free.slots.free:
                self.free.start(slot)
            until_s = limit_s - passed_s if passed_s < limit_s else LOOK_EVERY_S
            clocks_mhz = counter_snapshots.read_frequencies_mhz(self.host.frequency).values()
            if clocks_mhz:
                until_s = min(until_s, LOOK_EVERY_S)
                self._clocks.append(sum(clocks_mhz) / len(clocks_mhz))
            all_ended = self.free.slots.wait(until_s)
            for ended in all_ended:
                self._end(ended)
            begun = [*self.free.slots.begun.values()][:1] if passed_s > limit_s else []
            if not all_ended and begun and (how := looks.of(begun[0].pid)):
                raise RoundError(how)

    def _end(self, ended: model_queue.Ended) -> None:
        """Keep the record of a model that has ended.

        Raises:
            RoundError: it failed, or made no iteration.
        """
        words = self.free.last_words(ended.slot)
        how = f"slot {ended.slot} {describe_exit(ended.status)}{f': {words}' if words else ''}"
        if ended.slot in self.free.slots.begun:
            self._runs.append(self._record(ended.slot, ended.ended_s))
        if ended.status:
            raise RoundError(how)
        pages = iterations.read_pages(self.free.pages[ended.slot])
        _refuse_threads(pages)
        if not self._runs[-1].iterations:
            raise RoundError(f"the script ended without an iteration: {how}")
        for page in pages:
            page.path.unlink()

    def _over(self, limit_s: float, *, extended: bool) -> bool:
        """Return whether a round that has reached its limit may be cut.

        It may if each slot has trained long enough, or to the end of a script. As long as it is
        extended, each slot must also have ended a model.
        """
        slots = range(len(self.free.pages))
        runs = self._seen()
        # Only an ended process shows the time after its last iteration.
        counted = [run for run in runs if run.ahead == (self.start == "forked")]
        ended = {run.slot for run in counted if run.ended_s is not None}
        if extended and len(ended) < len(slots):
            return False
        least_s = ENOUGH * limit_s
        trained = dict.fromkeys(slots, 0.0)
        for run in runs:
            if run.iterations > 1 or run.ended_s is not None:
                trained[run.slot] += run.span_s if run.ended_s is None else math.inf
        return all(seconds >= least_s and seconds > 0 for seconds in trained.values())

    def _seen(self) -> list[ModelRun]:
        """Return the records of all models that have begun so far."""
        begun = self.free.slots.begun.keys() - set(self.free.slots.free)
        return [*self._runs, *(self._record(slot, None) for slot in sorted(begun))]

    def _record(self, slot: int, ended_s: float | None) -> ModelRun:
        """Return the record of a slot's latest model; ``ended_s`` is None if it runs."""
        begun = self.free.slots.begun[slot]
        pages = self._pages(slot, begun.pid)
        firsts_ns, latest_ns = ([page.span_ns[at] for page in pages] for at in (0, 1))
        iterations = sum(page.iterations for page in pages)
        if self.program.runs and ended_s is not None:  # a run is its only iteration
            firsts_ns = latest_ns = [round(ended_s * 1e9)]
            iterations = 1
        return ModelRun(
            slot=slot,
            model=sum(run.slot == slot for run in self._runs),
            ahead=begun.ahead,
            began_s=max(0.0, begun.at_s - self._origin_s),
            first_s=min(firsts_ns) / 1e9 - self._origin_s if firsts_ns else None,
            latest_s=max(latest_ns) / 1e9 - self._origin_s if latest_ns else None,
            iterations=iterations,
            # Processes that train side by side have no mean iteration.
            ordinary_s=None if self.program.pool or not pages else ordinary_s(pages[0].ends_ns()),
            ended_s=None if ended_s is None else ended_s - self._origin_s,
        )

    def _pages(self, slot: int, pid: int) -> list[iterations.Page]:
        """Return the pages of the processes that make a model's iterations.

        A group of ranks has the iterations of its first rank; a program that trains in processes of
        its own has those of all of them.
        """
        pages = iterations.read_pages(self.free.pages[slot])
        if not self.program.pool:
            own_pages = [page for page in pages if page.pid == pid]
            pages = (own_pages or [page for page in pages if page.parent == pid])[:1]
        return [page for page in pages if page.iterations]


def prepare(
    job: jobs.Job,
    resolved: resolve.Resolved,
    n: int,
    start: Start,
    *,
    folder: Path,
    known: Path,
    machine: Machine,
) -> RunningRound:
    """Prepare a round.

    Args:
        job: its launch is the one that runs.
        resolved: this launch on the machine.
        n: number of processes.
        start: how models are started.
        folder: private to the round.
        known: file that lists the modules to import before models are forked.
        machine: machine.json.
    """
    workload = job.plan.workload
    members = at_once(workload, resolved.members, n)
    program = program_of(workload, job.launch.axes, folder)
    imports = None if start == "fresh" else known
    free = FreeRun(replace(resolved.launch, folder=folder), members, program, imports=imports)
    return RunningRound(free, program, start, resolve.host(machine))


def ordinary_s(ends_ns: Sequence[int], long: float = non_step.LONG) -> float | None:
    """Return the mean time (s) of ordinary iterations; None if there are none.

    Args:
        ends_ns: when iterations ended.
        long: an iteration of this many times the median or more is not ordinary.
    """
    times_ns = np.diff(ends_ns)
    ordinary_ns = times_ns[times_ns < long * np.median(times_ns)] if times_ns.size else times_ns
    return float(ordinary_ns.mean()) / 1e9 if ordinary_ns.size else None


def _refuse_threads(pages: Iterable[iterations.Page]) -> None:
    if any(page.several for page in pages):
        raise RoundError(iterations.THREADS)


def _own_s() -> float:
    """Return the CPU seconds of this process and of all descendants that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime + time.process_time()


def train_first_models(job: jobs.Job, wanted: "Wanted", path: Path, builds: Path) -> None:
    """Train the first models of a race, one after another; a file that is there stays.

    Windows show neither how long a process takes to start alone, nor its end, nor a forked start. A
    fresh model shows the first two. Before a model is forked, another one shows what it imports.

    Args:
        job: its launch is the one to train them with.
        wanted: how they start, and the time that this is expected to take.
        path: measure/models.json.
        builds: folder of built environments.
    """
    if path.exists():
        return
    began_s, machine = time.monotonic(), probe.read_machine()
    starts: tuple[Start, ...] = ("fresh", "forked") if wanted.start == "forked" else ("fresh",)
    rounds = []
    with private.folder() as folder:
        for start in starts:
            log.info("a whole model of %s: %s", job.launch.label, start)
            with private.part(folder, start) as part:
                try:
                    counts = [1, *resolve.counts(job.plan, machine)]
                    resolved = resolve.resolve(job.plan, job.launch.axes, machine, builds, counts)
                    running = prepare(
                        job, resolved, 1, start,
                        folder=part, known=folder / model_queue.IMPORTS, machine=machine,
                    )  # fmt: skip
                    record = running.run(0, f"models/{start}", 0.0, LONGEST * wanted.expected_s)
                except UnavailableError as error:
                    record = Round.failed(f"models/{start}", error.reason)
            if record.reason:
                log.warning("the %s model: %s", start, record.reason)
            rounds.append(record)
    wall_s = time.monotonic() - began_s
    models = FirstModels(
        schema_version=1, launch=job.launch.id, machine_hash=machine.hash, wall_s=wall_s,
        rounds=rounds,
    )  # fmt: skip
    write_file(path, models)
