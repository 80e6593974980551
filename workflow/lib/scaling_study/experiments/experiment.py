"""An experiment on one launch: its cohorts, its record file, and how it resumes.

It measures a list of conditions. Each kind of experiment defines that list and the
first record.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from msgspec import structs

from scaling_study.common import private
from scaling_study.common.axis_values import Axes
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.efforts import Effort, LoaderEffort
from scaling_study.experiments.conditions import Condition, key, window_of
from scaling_study.host import probe
from scaling_study.records import experiment as records
from scaling_study.records.readback import Readback
from scaling_study.records.window import Status
from scaling_study.runner import cohort, headroom, member_processes, resolve, windows
from scaling_study.runner.blocks import Blocks, LostError
from scaling_study.runner.cohort_windows import MEMBER_RESTARTS
from scaling_study.runner.jobs import Job
from scaling_study.runner.journal import Journal
from scaling_study.runner.member_processes import FailedError

MODULES = (
    *("experiments/conditions", "experiments/kernel_cohort", "experiments/kernels"),
    *("experiments/sampling", "experiments/interventions", "experiments/loader_experiment"),
    *("member/changes", "member/loader_substitutes"),
)
"""Modules that decide what experiments measure, besides those that measure."""

# Retries of a job's windows. A machine that is never quiet must not make the study endless: its
# disturbed windows are evidence of that.
RETRIES = 10

# Fields that must be equal for an interrupted run to be resumed.
SAME = (
    *("schema_version", "launch", "replicate", "axes", "effort", "n", "seed", "measured_hash"),
    *("harness_hash", "machine_hash"),
)

Outcome = tuple["Status", str | None]
"""A status and its reason."""


Head = records.WhyHead | records.LoaderHead


class Impossible(str):
    """The reason why a change cannot be made in this script, which is no failure."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CohortPlan:
    """A cohort that is not started yet.

    Attributes:
        name: in records.
        changed: axes that differ from the launch's own.
        resolved: the launch on this machine, with the members that it starts.
    """

    name: str
    changed: Axes
    resolved: resolve.Resolved

    @property
    def size(self) -> int:
        """The number of members that it starts."""
        return len(self.resolved.members)


def groups(planned: Sequence[CohortPlan], cpus: int) -> list[list[CohortPlan]]:
    """Divide cohorts into groups that start together, with a CPU for each member."""
    parts: list[list[CohortPlan]] = []
    left = 0
    for plan in planned:
        if not parts or plan.size > left:
            parts.append([])
            left = cpus
        parts[-1].append(plan)
        left -= plan.size
    return parts


class Experiment:
    """One job of experiments.

    Args:
        kind: kind of its first record; also the name of its log.
        job: the launch that it experiments on, with its plan.
        target: name that is part of its seed.
        path: its record file.
        builds: folder of the environments that were made from requirements.
        effort: the name of the effort, and the effort.
    """

    def __init__(
        self,
        kind: str,
        job: Job,
        target: str,
        path: Path,
        *,
        builds: Path,
        effort: tuple[str, Effort | LoaderEffort],
    ) -> None:
        self._log = logging.getLogger(kind)
        self._job, self._axes = job, job.launch.axes
        self._builds = builds
        self._effort_name, self._effort = effort
        self._timing = window_of(self._effort)
        self._journal = Journal(path, records.DECODER, kind, SAME)
        self._machine = probe.read_machine()
        self._topology = self._machine.usable
        self._seed = job.seed_of(target)
        self._n = 1
        # Records that wait for the first one; None once that is written.
        self._waiting: list[records.Record] | None = []
        self._left: list[records.VariantLeftOut] = []
        self._cohorts: dict[str, cohort.Cohort] = {}
        self._reports: dict[str, Readback] = {}  # of each cohort's first member

    # ---- what each kind of experiment defines

    def _first(self, heading: records.Heading, resolved: resolve.Resolved | None) -> Head:
        """Return the first record; ``resolved`` is None if the launch cannot run here."""
        raise NotImplementedError

    def _measure(
        self, resolved: resolve.Resolved, before: list[records.Record], stack: ExitStack
    ) -> Outcome:
        """Measure what is missing; return the outcome.

        Args:
            resolved: the launch.
            before: the records of an interrupted run.
            stack: ends cohorts.

        Raises:
            FailedError: it cannot begin.
            MemberEndedError: a member died or hung.
        """
        raise NotImplementedError

    # ---- running it

    def _run(self, *changes: str, beside: int = 0) -> None:
        """Measure what is missing, and complete the record file.

        Args:
            changes: changes inside the launch's members.
            beside: number of cohorts of this size that must fit at once.
        """
        began = time.perf_counter()
        try:
            resolved = self._resolve({}, *changes)
            headroom.check([resolved.need] * beside)
            outcome = self._attempts(resolved)
        except UnavailableError as error:
            self.leave_out(error.reason, error.remedy)
            return
        if outcome is None:
            self._log.info("all of it was done by an interrupted run")
            self._journal.finish()
        else:
            self._close(*outcome, wall_s=time.perf_counter() - began)

    def leave_out(self, reason: str, remedy: str | None = None) -> None:
        """Write a record file with the reason why nothing was measured."""
        self._journal.restart()
        self._waiting = []
        self._head = self._first(self._heading(None), None)
        self._close("skipped", reason, remedy)

    def _attempts(self, resolved: resolve.Resolved) -> Outcome | None:
        """Measure everything, resuming after a member ends; return None if it was done before."""
        for _ in range(MEMBER_RESTARTS + 1):
            try:
                with private.folder() as self._folder, ExitStack() as stack:
                    self._cohorts.clear()
                    self._blocks = Blocks(self._attempt, RETRIES, RETRIES)
                    self._head = self._first(self._heading(resolved), resolved)
                    before = self._journal.resume(self._head)
                    if before and isinstance(before[-1], records.ExperimentEnd):
                        return None
                    self._waiting = None if before else self._waiting or []
                    if before:
                        self._log.info("%d records of an interrupted run stay", len(before))
                    self._blocks.done = {
                        key(record)
                        for record in before
                        if isinstance(record, records.ExperimentWindow)
                    }
                    return self._measure(resolved, before, stack)
            except FailedError as error:
                return "failed", str(error)
            except member_processes.MemberEndedError:
                for name, members in self._cohorts.items():
                    self._write_events(name, members)
                self._log.info("a member ended: starting again from there")
        return "partial", "members ended again and again"

    def _resolve(self, changed: Axes, *changes: str) -> resolve.Resolved:
        """Return the launch on this machine, with axes changed and changes inside members."""
        plan, axes = self._job.plan, {**self._axes, **changed}
        resolved = resolve.resolve(plan, axes, self._machine, self._builds, [self._n])
        return replace(resolved, launch=replace(resolved.launch, change=changes))

    # ---- windows and cohorts

    def _attempt(
        self, condition: Condition, window: windows.WindowPlan, number: int
    ) -> records.ExperimentWindow:
        """Take a window once and write it down.

        Raises:
            LostError: a member of a condition that is optional has ended.
            MemberEndedError: a member of another condition died or hung.
        """
        try:
            record = condition.attempt(window, number, self._timing)
        except member_processes.MemberEndedError:
            if not condition.optional:
                raise
            raise LostError("a member ended") from None
        self._write(record)
        return record

    def _start(
        self, planned: Sequence[CohortPlan], stack: ExitStack
    ) -> Iterator[tuple[CohortPlan, cohort.Cohort | str]]:
        """Start cohorts, as many at the same time as leave a CPU for each member.

        Args:
            planned: what to start.
            stack: ends the cohorts.

        Yields:
            Each with its cohort or, if it failed to start or a check, the reason.
        """
        beside = sum(each.size for each in planned)
        for group in groups(planned, len(self._topology.cpus)):
            started = [(each, self._launch(each, stack, beside)) for each in group]
            for each, members in started:
                shown = self._prove(each, members)
                if isinstance(shown, str):
                    self._write_events(each.name, members)
                    yield each, shown
                else:
                    self._cohorts[each.name], self._reports[each.name] = members, shown.members[0]
                    self._write(shown)
                    yield each, members

    def _reference(
        self, name: str, resolved: resolve.Resolved, stack: ExitStack
    ) -> tuple[cohort.Cohort, Readback]:
        """Start the launch itself; return its cohort and what its first member reports.

        Raises:
            FailedError: it failed to start or a check.
        """
        ((_, members),) = self._start([CohortPlan(name, {}, resolved)], stack)
        if isinstance(members, str):
            raise FailedError(members)
        return members, self._reports[name]

    def _launch(self, each: CohortPlan, stack: ExitStack, beside: int) -> cohort.Cohort:
        """Begin to start a cohort; ``beside`` is how many members may live beside it."""
        self._log.info("starting %s", each.name)
        part = stack.enter_context(private.part(self._folder, each.name))
        running = replace(each.resolved.launch, folder=part)
        members, host = each.resolved.members, resolve.host(self._machine)
        launched = stack.enter_context(cohort.Cohort(running, members, host, beside=beside))
        launched.launch([member.slot for member in members])
        return launched

    def _prove(self, each: CohortPlan, members: cohort.Cohort) -> records.ExperimentReadbacks | str:
        """Wait for a cohort, check it and warm it up; return its readbacks, or what is wrong."""
        axes, measure = {**self._axes, **each.changed}, self._job.plan.measure
        try:
            checks, reports = members.prove(axes, each.resolved.slots, measure)
        except FailedError as error:
            return str(error)
        return unchanged(each.resolved.launch.change, reports) or records.ExperimentReadbacks(
            cohort=each.name, checks=checks, members=reports
        )

    # ---- records

    def _heading(self, resolved: resolve.Resolved | None) -> records.Heading:
        """Return the fields that the first records of all kinds share."""
        python = resolved.launch.python if resolved else None
        return records.Heading(
            **structs.asdict(self._job.measured(self._seed, python, *MODULES)),
            study=self._job.plan.study,
            # An experiment that is off has no job.
            effort=cast("records.EffortName", self._effort_name),
            n=self._n,
            machine_hash=self._machine.hash,
            machine=self._machine,
        )

    def _begin(self) -> None:
        """Write the first record, and those that had to wait for it, if it is not there yet."""
        if self._waiting is not None:
            for record in (self._head, *self._waiting):
                self._journal.write(record)
            self._waiting = None

    def _write(self, record: records.Record) -> None:
        """Append a record, or keep it until the first one is written."""
        if self._waiting is None:
            self._journal.write(record)
        else:
            self._waiting.append(record)

    def _write_events(self, name: str, members: cohort.Cohort) -> None:
        """Write down what happened to a cohort's members."""
        for event in members.events:
            self._log.warning("%s, member %s: %s", name, event.slot, event.reason)
            self._write(records.ExperimentEvent(cohort=name, **event._asdict()))
        members.events.clear()

    def _close(
        self, status: Status, reason: str | None, remedy: str | None = None, wall_s: float = 0.0
    ) -> None:
        """Write the last record, and give the file its name."""
        self._begin()
        level = logging.WARNING if reason else logging.INFO
        self._log.log(level, "%s%s", status, f": {reason}" if reason else "")
        end = records.ExperimentEnd(
            status=status, reason=reason, remedy=remedy, wall_s=wall_s, left_out=self._left
        )
        self._journal.write(end)
        self._journal.finish()


def unchanged(change: Sequence[str], reports: Sequence[Readback]) -> str:
    """Return why changes inside members do not hold; empty if all of them do."""
    reasons = [report.impossible.get(name) for name in change for report in reports]
    if impossible := next(filter(None, reasons), ""):
        return Impossible(impossible)
    failed = [name for name in change if not all(report.changes[name] for report in reports)]
    return f"{', '.join(failed)} did not take effect" if failed else ""
