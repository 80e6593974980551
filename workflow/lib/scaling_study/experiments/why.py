"""Experiments on one launch: remove one thing, add one thing, and look at what members do.

The launch itself (the reference) and launches with one change each (reliefs) live side by side as
cohorts of their own; in every randomised block each of them takes a window alone and one at the
reference's process count, so that a drift of the machine meets all alike. Then the reference's
first member trains beside kernels that load one part of the machine at several doses. What members
do while they sleep is looked at last, outside of all measuring.
"""

from __future__ import annotations

import logging
import random
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.efforts import EDGE_S, EFFORTS
from scaling_study.experiments import (
    conditions,
    interventions,
    kernel_cohort,
    quota_bursts,
    sampling,
    stressors,
)
from scaling_study.experiments.experiment import DONE_BEFORE, Experiment
from scaling_study.experiments.experiment_windows import (
    Taker,
    irregular,
    key,
    window_of,
)
from scaling_study.host import headroom, kernel_counters, limits, probe
from scaling_study.launch.axes import ranks
from scaling_study.launch.launchers.launcher_table import LAUNCHERS
from scaling_study.records.codec import plain
from scaling_study.runner import capacity, cohort, foreign, resolve, windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scaling_study.config.efforts import Effort
    from scaling_study.runner.measure import Job

SCHEMA_VERSION = 1

# Windows hold many of what comes and goes: a quota holds its cgroup back in periods of 100 ms
# (cpu.max).
PERIODS_S = 1.0

# The reference lies past the knee by this factor, where the ladder reaches that far.
PAST_KNEE = 1.5

# Cohorts that live side by side may take this part of the memory that is free.
MEMORY_SHARE = 0.8

# Members are looked at so often, at each of the two counts.
LOOKS = 60
LOOK_EVERY_S = 0.02

RELIEFS = {relief.name: relief for relief in interventions.RELIEFS}
RESTLESS = frozenset(name for name, relief in RELIEFS.items() if relief.restless)

log = logging.getLogger("why")

Json = dict[str, Any]
Tried = tuple[interventions.Relief, resolve.Resolved]


def reference_count(ladder: Sequence[int], knee: float | None) -> int:
    """Return the count to explain: the first well past the knee, or the highest."""
    past = [n for n in ladder if knee is not None and n >= PAST_KNEE * knee]
    return min(past, default=max(ladder))


class Experiments(Experiment):
    """The running of one job."""

    def __init__(self, job: Job, target: str, path: Path, builds: Path) -> None:
        effort = job.plan["why"]["effort"]
        super().__init__("why", job, target, path, builds=builds, effort=effort)
        self._target = target
        self._effort = EFFORTS[self._effort_name]
        self._taker = Taker(self._journal, window_of(self._effort))
        self._shuffle = random.Random(self._seed)  # noqa: S311 (an experiment's order)
        self._begun = False
        self._timings: dict[str, cohort.WindowSettings] = {}
        self._fewer: list[int] = []
        self._looks: dict[int, Json] = {}
        self._failed: list[str] = []

    def _use(self, effort: Effort) -> None:
        """Take windows of this effort from now on."""
        self._effort = effort
        self._taker.timing = window_of(effort)

    def leave_out(self, same_as: str | None, reason: str) -> None:
        """Leave a file that says why there are no experiments on this target."""
        self._journal.restart()
        self._journal.write(self._head(None) | {"same_as": same_as})
        self._close("skipped", reason)

    def run(self, knee: float | None) -> None:
        """Do all experiments and leave a whole record file.

        Args:
            knee: where the launch's scaling law has its knee, None if it has none.
        """
        began = time.perf_counter()
        before = foreign.cpu_times()
        self._n = reference_count(resolve.counts(self._job.plan, self._machine), knee)
        try:
            resolved = self._resolve({})
            status, reason = self._attempt(
                lambda folder, stack: self._experiment(resolved, folder, stack), " of the reference"
            )
        except UnavailableError as error:
            self._journal.restart()
            self._journal.write(self._head(None))
            self._close("skipped", error.reason, error.remedy)
            return
        if status == DONE_BEFORE:
            log.info("all of it was done by an interrupted run")
            self._journal.finish()
            return
        span_s = time.perf_counter() - began
        self._journal.write(foreign.record(before, foreign.cpu_times(), span_s))
        self._close(status, reason, None, span_s)

    def _head(self, resolved: resolve.Resolved | None) -> Json:
        """Return the first record, without the reliefs, which are chosen later."""
        return self._heading(SCHEMA_VERSION, resolved) | {
            "target": self._target,
            "same_as": None,
            "slots": list(resolved.slots) if resolved else [],
            "shortest_s": self._effort.shortest_s,
            "blocks": self._effort.blocks,
            "reliefs": [],
            "not_applicable": [],
        }

    def _entry(self, relief: interventions.Relief) -> Json:
        """Return a relief as the first record holds it."""
        timing = self._timings.get(relief.name)
        own: Json = {} if timing is None else {"timing": asdict(timing)}
        own |= {"of": relief.of} if relief.of else {}
        return {
            "relief": relief.name,
            "title": relief.title,
            "axes": dict(relief.axes),
            "options": relief.options() | own,
        }

    def _begin(self, head: Json) -> None:
        """Write the first record, if it is not there yet."""
        if not self._begun:
            self._journal.write(head)
        self._begun = True

    def _experiment(
        self, resolved: resolve.Resolved, folder: Path, stack: ExitStack
    ) -> tuple[str, str | None]:
        """Do all experiments; return the status and its reason.

        Raises:
            MemberEndedError: a member of the reference died or hung.
        """
        self._failed.clear()
        self._taker = Taker(self._journal, window_of(self._effort))
        head = self._head(resolved)
        records = self._journal.resume(head)
        if records and records[-1]["kind"] == "end":
            return DONE_BEFORE, None
        self._begun = bool(records)
        reference = conditions.Arm("reference", self._job.launch["axes"], {}, resolved)
        # As many members again: each relief fits beside it, if need be one at a time.
        started = self._starter.start([reference], folder, stack, beside=self._n)
        ((one, attestation),) = started
        if isinstance(attestation, str):
            self._begin(head)
            self._write_events("reference", one.events)
            return "failed", attestation
        # Members that outnumber the CPUs: as many as fit show what the others' turns cost.
        threads = attestation["members"][0]["intra_op"] * ranks.processes(self._job.launch["axes"])
        fit = len(probe.usable_topology(self._machine).cpus) // threads
        self._fewer = [fit] if 1 < fit < self._n else []
        try:
            tried, left = self._tried(one, attestation, records)
            head |= {
                "reliefs": [self._entry(relief) for relief, _ in tried],
                "not_applicable": left,
                "shortest_s": self._effort.shortest_s,
                "blocks": self._effort.blocks,
            }
            self._begin(head)
            self._journal.write(attestation)
            shared = {relief.name: relief.of for relief, _ in tried if relief.of}
            for wave in self._waves(one, tried):
                self._wave(one, wave, shared, folder)
            self._beside(one, resolved, threads, folder)
            self._look(one)
        except cohort.MemberEndedError:
            self._begin(head)
            self._write_events("reference", one.events)
            raise
        if self._failed:
            return "partial", f"reliefs that failed: {', '.join(self._failed)}"
        return "complete", None

    def _tried(
        self, one: cohort.Cohort, attestation: Json, records: Sequence[Json]
    ) -> tuple[list[Tried], list[dict[str, str]]]:
        """Return the reliefs to try, and those left out: as an interrupted run chose them."""
        if records:
            log.info("goes on after %d records of an interrupted run", len(records))
            effort = self._effort.over_periods(records[0]["shortest_s"])
            self._use(replace(effort, blocks=records[0]["blocks"]))
            self._taker.done = {key(record) for record in records if record["kind"] == "window"}
            self._looks = {record["n"]: record for record in records if record["kind"] == "samples"}
            entries = {entry["relief"]: entry for entry in records[0]["reliefs"]}
            options = {name: entry["options"] for name, entry in entries.items()}
            self._timings = {
                name: cohort.WindowSettings(**each["timing"])
                for name, each in options.items()
                if "timing" in each
            }
            chosen = [
                replace(relief, axes=entries[relief.name]["axes"])
                for relief in interventions.RELIEFS
                if relief.name in entries
            ]
            return self._launches(chosen)[0], records[0]["not_applicable"]
        chosen, left = self._choose(one, attestation)
        tried, impossible = self._launches(chosen)
        return tried, [*left, *impossible]

    def _choose(
        self, one: cohort.Cohort, attestation: Mapping[str, Any]
    ) -> tuple[list[interventions.Relief], list[dict[str, str]]]:
        """Choose reliefs, and windows' length and number, by what one at each count shows."""
        quota = limits.read_quota()
        effort = self._effort if quota is None else self._effort.over_periods(PERIODS_S)
        shown = [plain(one.take(windows.Window(0, 0, n), window_of(effort))) for n in self._counts]
        reference = interventions.Reference(
            self._job.launch["axes"],
            self._machine,
            attestation["members"][0],
            self._n,
            shown,
            quota,
        )
        bursts = quota_bursts.timing(reference)
        if not isinstance(bursts, str):
            self._timings[quota_bursts.NAME] = bursts
        chosen, left = interventions.choose(reference, self._job.plan["why"]["effort"])
        # Threads that spin make steps irregular for seconds on end: many windows tell more of that
        # than long ones.
        spins = any(relief.name == "passive" for relief in chosen)
        held_back = any(window["machine"]["throttled_s"] for window in shown)
        if held_back or (not spins and any(map(irregular, shown))):
            self._use(self._effort.over_periods(PERIODS_S))
        takes_s = {
            n: window["window_s"] + EDGE_S for n, window in zip(self._counts, shown, strict=True)
        }
        counts = [self._counts, *(self._relief_counts(relief) for relief in chosen)]
        self._use(self._effort.of_blocks(sum(takes_s[n] for each in counts for n in each)))
        return chosen, left

    @property
    def _counts(self) -> list[int]:
        return sorted({1, self._n})

    def _launches(
        self, chosen: Sequence[interventions.Relief]
    ) -> tuple[list[Tried], list[dict[str, str]]]:
        """Resolve the launches of reliefs; also return those that this machine cannot do."""
        tried, impossible = [], []
        for relief in chosen:
            try:
                tried.append((relief, self._resolve(relief.axes, *relief.options())))
            except UnavailableError as error:
                reason = f"{error.reason} ({error.remedy})"
                impossible.append({"relief": relief.name, "title": relief.title, "reason": reason})
        return tried, impossible

    def _waves(self, one: cohort.Cohort, tried: Sequence[Tried]) -> list[Sequence[Tried]]:
        """Divide the reliefs into groups that can live beside the reference.

        All cohorts of a group live at once: their members, threads and memory add up.
        """
        used_bytes = sum(
            process.rss_bytes
            for pid in one.members.pids.values()
            for process in kernel_counters.read_tree(pid).values()
        )
        most = max(1, int(MEMORY_SHARE * headroom.read_free_memory().free / used_bytes))
        own = [each for each in tried if not each[0].of]
        needs = [self._arm(*each).resolved.need for each in own]
        rest = iter(own)
        return [list(islice(rest, size)) for size in capacity.together(needs, most)] or [[]]

    def _wave(
        self,
        one: cohort.Cohort,
        wave: Sequence[Tried],
        shared: Mapping[str, str],
        folder: Path,
    ) -> None:
        """Take all blocks of the reference and a group of reliefs.

        Args:
            one: the reference.
            wave: the reliefs that have members of their own.
            shared: of all those that have none: whose they share.
            folder: gets a part for each.
        """
        with ExitStack() as stack:
            cohorts = {"reference": one, **{each.name: one for each, _ in wave if each.bursts}}
            arms_of_wave = [self._arm(*each) for each in wave if not each[0].bursts]
            members = sum(arm.size for arm in arms_of_wave)
            for group in self._starter.groups(arms_of_wave):
                for arm, (beside, shown) in zip(
                    group, self._starter.start(group, folder, stack, beside=members), strict=True
                ):
                    if isinstance(shown, str):
                        self._write_events(arm.name, beside.events)
                        lost = [name for name, of in shared.items() if of == arm.name]
                        for name in (arm.name, *lost):
                            self._give_up(name, shown)
                    else:
                        cohorts[arm.name] = beside
                        self._journal.write(shown)
                        self._rest(beside, arm.name)
            cohorts |= {name: cohorts[of] for name, of in shared.items() if of in cohorts}
            self._rest(one)
            for at in range(self._effort.blocks):
                log.info("block %d of %d, %d launches", at + 1, self._effort.blocks, len(cohorts))
                todo = [(name, n) for name in cohorts for n in sorted({1, cohorts[name].size})]
                todo += [("reference", n) for n in self._fewer]
                for name, n in self._shuffle.sample(todo, len(todo)):
                    self._take(cohorts, name, n)
                self._taker.block += 1
            one.thaw()

    def _arm(self, relief: interventions.Relief, resolved: resolve.Resolved) -> conditions.Arm:
        n = max(self._relief_counts(relief))
        few = replace(resolved, members=resolved.members[:n], need=resolved.need.of(n))
        return conditions.Arm(relief.name, self._job.launch["axes"], relief.axes, few)

    def _relief_counts(self, relief: interventions.Relief) -> list[int]:
        return relief.counts(self._n, self._job.plan["why"]["effort"])

    def _rest(self, one: cohort.Cohort, name: str = "reference") -> None:
        if name in RESTLESS or not LAUNCHERS[self._job.launch["axes"]["launcher"]].rests:
            one.freeze()

    def _give_up(self, name: str, reason: str) -> None:
        """Write down that a relief has no result: because it failed, or cannot be made here."""
        if not isinstance(reason, conditions.Impossible):
            self._fail(name, reason)
            return
        log.info("%s is left out: %s", name, reason)
        self._journal.write({"kind": "relief_left_out", "relief": name, "reason": reason})

    def _fail(self, name: str, reason: str) -> None:
        log.warning("%s failed: %s", name, reason)
        self._failed.append(name)
        self._journal.write({"kind": "relief_failed", "relief": name, "reason": reason})

    def _take(self, cohorts: dict[str, cohort.Cohort], name: str, n: int) -> None:
        """Take a window of one cohort; a relief whose members end is given up."""
        one = cohorts.get(name)
        if one is None:  # it failed earlier in this block
            return
        one.thaw()
        code = RELIEFS[name].asked if name in RELIEFS else None
        if code is not None:
            one.tell(one.alive, code)
        labels = {
            "experiment": "reference" if name == "reference" else "relief", "name": name,
            "dose": None, "count": None, "rate_share": None,
        }  # fmt: skip
        # Members take turns where not all train: one start may be luckier than another.
        turn = self._taker.block * max(1, one.size // self._effort.blocks)
        try:
            self._taker.take(one, n, labels, first=turn, timing=self._timings.get(name))
        except cohort.MemberEndedError:
            if one is cohorts["reference"]:
                raise
            self._write_events(name, one.events)
            for lost in [each for each, other in cohorts.items() if other is one]:
                del cohorts[lost]
                self._fail(lost, "a member ended")
            return
        self._rest(one, name)

    def _beside(
        self, one: cohort.Cohort, resolved: resolve.Resolved, threads: int, folder: Path
    ) -> None:
        """Let the reference's first member train beside kernels, at several doses."""
        usable_cpus = len(probe.usable_topology(self._machine).cpus)
        count = stressors.count(self._machine, usable_cpus, self._n, threads)
        if not count:
            log.info("no bystanders: the training member needs all CPUs itself")
            return
        try:
            capacity.check([capacity.Need(count, count, "exec")])
        except UnavailableError as error:
            self._fail("kernels", error.reason)
            return
        slots = self._slots(resolved, count + 1)[1:]
        where = [(slot["cpus"], slot["policy"]) for slot in slots]
        host = resolve.host(self._machine)
        with (
            private.part(folder, "kernels") as own,
            kernel_cohort.make(own, where, self._machine, host) as beside,
        ):
            if kernel_cohort.start(beside):
                stressors.Bystanders(one, beside, self._taker, self._effort).run(self._shuffle)
            else:
                self._write_events("kernels", beside.events)
                self._fail("kernels", "the kernels did not start")

    def _slots(self, resolved: resolve.Resolved, count: int) -> Sequence[Mapping[str, Any]]:
        """Return the launch's first slots, perhaps more than the reference has members."""
        if count <= len(resolved.slots):
            return resolved.slots[:count]
        plan, axes = self._job.plan, self._job.launch["axes"]
        return resolve.resolve(plan, axes, self._machine, self._builds, [count]).slots

    def _look(self, one: cohort.Cohort) -> None:
        """Look at what the reference's training threads do, with one member and with all."""
        for n in self._counts:
            if n in self._looks:
                continue
            sampler = sampling.Sampler()
            done = one.watch(n, LOOKS, LOOK_EVERY_S, sampler.look)
            active_s = sum(each.parked_ns - each.released_ns for each in done) / 1e9
            step_s = active_s / max(1, sum(each.steps_active for each in done))
            self._looks[n] = sampler.record(n, LOOK_EVERY_S, step_s, self._looks.get(1))
            self._journal.write(self._looks[n])
