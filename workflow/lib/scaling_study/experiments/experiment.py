"""An experiment on one launch: its cohorts, its record file, and how it resumes.

It measures a list of conditions. Each kind of experiment defines that list and the
first record.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from msgspec import structs

from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.efforts import Windows
from scaling_study.experiments.conditions import Condition, Variant, key, window_of
from scaling_study.host import probe
from scaling_study.launch.axes.launcher import LAUNCHERS
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
    *("experiments/loader_model", "member/changes", "member/loader_substitutes"),
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

Outcome = tuple[Status, str | None]
"""A status and its reason."""
Head = records.WhyHead | records.LoaderHead


class ImpossibleError(FailedError):
    """A change cannot be made in this script, for the reason in the text."""


@dataclass(frozen=True, slots=True)
class CohortPlan:
    """A variant on this machine, whose cohort is not started yet.

    Attributes:
        variant: the variant.
        resolved: its launch on this machine, with the members that it starts.
        frozen: whether its members are stopped between their windows.
    """

    variant: Variant
    resolved: resolve.Resolved
    frozen: bool = False

    @property
    def name(self) -> str:
        """The name of the variant."""
        return self.variant.name

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
        job: the launch that it experiments on, with its plan.
        target: name that is part of its seed.
        path: its record file.
        builds: folder of the environments that were made from requirements.
        effort: the name of the effort, and the effort.
    """

    kind: str
    """Kind of its first record; also the name of its log."""

    def __init__(
        self, job: Job, target: str, path: Path, *, builds: Path, effort: tuple[str, Windows]
    ) -> None:
        self._log = logging.getLogger(self.kind)
        self._job, self._axes = job, job.launch.axes
        self._builds = builds
        self._effort_name, self._effort = effort
        self._journal = Journal(path, records.DECODER, self.kind, SAME)
        self._machine = probe.read_machine()
        self._topology = self._machine.usable
        self._seed = job.seed_of(target)
        self._n = 1
        # Records that wait for the first one; None once that is written.
        self._waiting: list[records.Record] | None = []
        self._left: list[records.VariantLeftOut] = []
        self._cohorts: dict[str, cohort.Cohort] = {}

    # ---- what each kind of experiment defines

    def _first(self, heading: records.Heading, resolved: resolve.Resolved | None) -> Head:
        """Return the first record; ``resolved`` is None if the launch cannot run here."""
        raise NotImplementedError

    def _measure(
        self, planned: CohortPlan, before: list[records.Record], stack: ExitStack
    ) -> Outcome:
        """Measure what is missing; return the outcome.

        Args:
            planned: the launch itself.
            before: the records of an interrupted run.
            stack: ends cohorts.

        Raises:
            FailedError: it cannot begin.
            MemberEndedError: a member died or hung.
        """
        raise NotImplementedError

    # ---- running it

    def _run(self, variant: Variant, *, beside: int = 0) -> None:
        """Measure what is missing, and complete the record file.

        Args:
            variant: the launch itself.
            beside: number of cohorts of this size that must fit at once.
        """
        began = time.perf_counter()
        try:
            planned = self._plan(variant, self._n)
            headroom.check([planned.resolved.need] * beside)
            outcome = self._attempts(planned)
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

    def _attempts(self, planned: CohortPlan) -> Outcome | None:
        """Measure everything, resuming after a member ends; return None if it was done before."""
        for _ in range(MEMBER_RESTARTS + 1):
            try:
                with private.folder() as self._folder, ExitStack() as stack:
                    self._cohorts.clear()
                    self._head = self._first(self._heading(planned.resolved), planned.resolved)
                    before = self._journal.resume(self._head)
                    if before and isinstance(before[-1], records.ExperimentEnd):
                        return None
                    self._waiting = None if before else self._waiting or []
                    if before:
                        self._log.info("%d records of an interrupted run stay", len(before))
                    done = {
                        key(record)
                        for record in before
                        if isinstance(record, records.ExperimentWindow)
                    }
                    self._blocks = Blocks(self._attempt, RETRIES, RETRIES, done)
                    return self._measure(planned, before, stack)
            except FailedError as error:
                return "failed", str(error)
            except member_processes.MemberEndedError:
                for name, members in self._cohorts.items():
                    self._write_events(name, members)
                self._log.info("a member ended: starting again from there")
        return "partial", "members ended again and again"

    def _plan(self, variant: Variant, n: int) -> CohortPlan:
        """Return a variant's cohort of n members.

        Raises:
            UnavailableError: this machine cannot run it.
        """
        plan, axes = self._job.plan, {**self._axes, **variant.axes}
        resolved = resolve.resolve(plan, axes, self._machine, self._builds, [self._n])
        few = replace(
            resolved,
            launch=replace(resolved.launch, change=variant.change),
            members=resolved.members[:n],
            need=resolved.need.of(n),
        )
        rests = LAUNCHERS[str(self._axes["launcher"])].rests
        return CohortPlan(variant, few, frozen=variant.asked is not None or not rests)

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
            record = condition.attempt(window, number, window_of(self._effort))
        except member_processes.MemberEndedError:
            if not condition.optional:
                raise
            raise LostError("a member ended") from None
        self._write(record)
        return record

    def _start(
        self, planned: Sequence[CohortPlan], stack: ExitStack
    ) -> dict[str, cohort.Cohort | FailedError]:
        """Start cohorts, as many at the same time as leave a CPU for each member.

        Args:
            planned: what to start.
            stack: ends the cohorts.

        Returns:
            By the variant's name, the cohort or, if it failed to start or a check, the reason.
        """
        started: dict[str, cohort.Cohort | FailedError] = {}
        beside = sum(plan.size for plan in planned)
        for group in groups(planned, len(self._topology.cpus)):
            launched = [(plan, self._launch(plan, stack, beside)) for plan in group]
            for plan, members in launched:
                started[plan.name] = members
                try:
                    self._prove(plan, members)
                except FailedError as error:
                    started[plan.name] = error
        return started

    def _start_alone(self, planned: CohortPlan, stack: ExitStack) -> tuple[cohort.Cohort, Readback]:
        """Start a cohort; return it and what its first member reports.

        Raises:
            FailedError: it failed to start or a check.
        """
        members = self._launch(planned, stack, planned.size)
        return members, self._prove(planned, members)

    def _launch(self, plan: CohortPlan, stack: ExitStack, beside: int) -> cohort.Cohort:
        """Begin to start a cohort; ``beside`` is how many members may live beside it."""
        self._log.info("starting %s", plan.name)
        part = stack.enter_context(private.part(self._folder, plan.name))
        running = replace(plan.resolved.launch, folder=part)
        members, host = plan.resolved.members, resolve.host(self._machine)
        launched = stack.enter_context(cohort.Cohort(running, members, host, beside=beside))
        launched.launch([member.slot for member in members])
        return launched

    def _prove(self, plan: CohortPlan, members: cohort.Cohort) -> Readback:
        """Wait for a cohort, check it and warm it up; return what its first member reports.

        Raises:
            FailedError: it failed to start or a check.
        """
        axes, measure = {**self._axes, **plan.variant.axes}, self._job.plan.measure
        try:
            checks, reports = members.prove(axes, plan.resolved.slots, measure)
            check_changes(plan.variant.change, reports)
        except FailedError:
            self._write_events(plan.name, members)
            raise
        self._cohorts[plan.name] = members
        self._write(records.ExperimentReadbacks(cohort=plan.name, checks=checks, members=reports))
        if plan.frozen:
            members.freeze()
        return reports[0]

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


def check_changes(change: Sequence[str], reports: Sequence[Readback]) -> None:
    """Check that changes inside members hold.

    Raises:
        ImpossibleError: one of them cannot be made.
        FailedError: one of them did not take effect.
    """
    reasons = [report.impossible.get(name) for name in change for report in reports]
    if impossible := next(filter(None, reasons), None):
        raise ImpossibleError(impossible)
    failed = [name for name in change if not all(report.changes[name] for report in reports)]
    if failed:
        raise FailedError(f"{', '.join(failed)} did not take effect")
