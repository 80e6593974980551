"""Why a launch stops scaling: remove one thing, add one thing, and look at what members do.

The launch itself (the reference) and launches with one change each (interventions) live side by
side, each as a cohort. In every block each of them takes a window with one member and one at the
reference's process count. Then the reference's first member trains beside kernels that load one
part of the machine at several doses. Last, outside of all windows, training threads are sampled for
what they do and wait for.
"""

import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path

from msgspec import convert, json, structs

from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.efforts import EDGE_S, EFFORTS, Effort
from scaling_study.experiments import interventions, kernel_cohort, sampling
from scaling_study.experiments.conditions import REFERENCE, Condition, Variant, irregular, window_of
from scaling_study.experiments.experiment import CohortPlan, Experiment, ImpossibleError, Outcome
from scaling_study.experiments.interventions import Intervention
from scaling_study.host import kernel_counters, limits
from scaling_study.launch.axes import axis_table, ranks
from scaling_study.launch.launchers.launcher import bind_command, split_preload
from scaling_study.member import channel
from scaling_study.records import experiment as records
from scaling_study.records.readback import Readback
from scaling_study.records.window import Slot, Status
from scaling_study.runner import cohort, foreign, headroom, resolve, windows
from scaling_study.runner.jobs import Job
from scaling_study.runner.member_processes import FailedError, MemberEndedError

# A window of this length holds many periods of what comes and goes: a quota throttles its cgroup in
# periods of 100 ms (cpu.max).
PERIODS_S = 1.0

# The reference lies past the knee by this factor, if the process counts reach that far.
PAST_KNEE = 1.5

# Cohorts that live side by side may take this part of the free memory.
MEMORY_SHARE = 0.8

# Number and interval of the looks at members, at each of the two counts.
LOOKS = 60
LOOK_EVERY_S = 0.02

PROFILED_STEPS = 3
PROFILED_LONGEST_S, WRITING_LONGEST_S, COSTS_LONGEST_S = 30.0, 120.0, 60.0
"""Longest times of the profiled steps, of working them up, and of measuring what a call costs."""


def reference_count(counts: Sequence[int], knee: float | None) -> int:
    """Return the count to explain: the first well past the knee, or the highest."""
    past = [n for n in counts if knee is not None and n >= PAST_KNEE * knee]
    return min(past, default=max(counts))


class WhyExperiment(Experiment):
    """The experiments on one target."""

    kind = "why"
    _effort: Effort
    _head: records.WhyHead

    def __init__(self, job: Job, target: str, path: Path, builds: Path) -> None:
        name = job.plan.why.effort
        super().__init__(job, target, path, builds=builds, effort=(name, EFFORTS[name]))
        self._target = target
        self._same_as: str | None = None
        self._shuffle = random.Random(self._seed)  # noqa: S311 (an experiment's order)
        self._failed: list[str] = []
        self._cpu_times = foreign.cpu_times()

    def leave_to(self, target: str) -> None:
        """Write a record file that names another target, whose experiments explain this one."""
        self._same_as = target
        self.leave_out("it is explained under its own name")

    def run(self, knee: float | None) -> None:
        """Run all experiments and complete the record file.

        Args:
            knee: process count of the knee of the launch's scaling law, None if it has none.
        """
        self._n = reference_count(resolve.counts(self._job.plan, self._machine), knee)
        self._run(Variant(REFERENCE))

    def _first(
        self, heading: records.Heading, resolved: resolve.Resolved | None
    ) -> records.WhyHead:
        """Return the first record; its interventions are chosen later."""
        return records.WhyHead(
            **structs.asdict(heading),
            schema_version=2,
            target=self._target,
            same_as=self._same_as,
            slots=convert(resolved.slots if resolved else [], list[Slot]),
            shortest_s=self._effort.shortest_s,
            blocks=self._effort.blocks,
            interventions=[],
            not_applicable=[],
        )

    def _close(
        self, status: Status, reason: str | None, remedy: str | None = None, wall_s: float = 0.0
    ) -> None:
        if wall_s:
            self._write(foreign.record(self._cpu_times, foreign.cpu_times(), wall_s))
        super()._close(status, reason, remedy, wall_s)

    def _measure(
        self, planned: CohortPlan, before: list[records.Record], stack: ExitStack
    ) -> Outcome:
        self._failed.clear()
        reference, report = self._start_alone(planned, stack)
        reference.thaw()  # it is stopped between windows of blocks only
        threads = report.intra_op * ranks.processes(self._axes)
        if before and isinstance(before[0], records.WhyHead):
            tried = self._chosen_before(before[0])
        else:
            tried, left = self._choose(reference, report)
            self._head = structs.replace(
                self._head,
                interventions=[interventions.record(plan.variant) for plan in tried],
                not_applicable=left,
                shortest_s=self._effort.shortest_s,
                blocks=self._effort.blocks,
            )
            self._begin()
        # If members outnumber the CPUs, a count that fits shows what taking turns costs.
        fit = len(self._topology.cpus) // threads
        counts = {1, self._n, *([fit] if 1 < fit < self._n else [])}
        launch = self._conditions(planned, reference, counts)
        for wave in self._waves(reference, [plan for plan in tried if not plan.variant.of]):
            self._wave(launch, [*wave, *(plan for plan in tried if plan.variant.of)])
        self._stress(reference, threads)
        self._look(reference, before)
        if self._failed:
            return "partial", f"interventions that failed: {', '.join(self._failed)}"
        return "complete", None

    # ---- what is tried

    def _chosen_before(self, head: records.WhyHead) -> list[CohortPlan]:
        """Return the interventions of an interrupted run, and take windows like its own."""
        effort = self._effort.over_periods(head.shortest_s or 0.0)
        self._effort = replace(effort, blocks=head.blocks or effort.blocks)
        return self._plan_all(map(interventions.recorded, head.interventions))[0]

    def _choose(
        self, members: cohort.Cohort, report: Readback
    ) -> tuple[list[CohortPlan], list[records.UntriedChange]]:
        """Choose interventions, and windows' length and number, from one window at each count.

        Returns:
            The interventions to try, and the records of those that are left out.
        """
        quota = limits.read_quota()
        first = self._effort if quota is None else self._effort.over_periods(PERIODS_S)
        counts = sorted({1, self._n})
        shown = [members.take(windows.WindowPlan(0, 0, n), window_of(first)) for n in counts]
        reference = interventions.Reference(
            self._axes, self._machine, report, self._n, shown, quota
        )
        chosen, left = interventions.choose(reference, self._effort_name)
        # Threads that spin make steps irregular for seconds on end: many windows show more of that
        # than long ones.
        spins = any(intervention.name == "passive" for intervention in chosen)
        held_back = any(window.machine.throttled_s for window in shown)
        if held_back or (not spins and any(map(irregular, shown))):
            self._effort = self._effort.over_periods(PERIODS_S)
        takes_s = {window.n: window.window_s + EDGE_S for window in shown}
        trials = [trial.counts(self._n, self._effort_name) for trial in chosen]
        block_s = sum(takes_s[n] for block in (counts, *trials) for n in block)
        self._effort = self._effort.of_blocks(block_s)
        tried, impossible = self._plan_all(chosen)
        return tried, [*left, *impossible]

    def _plan_all(
        self, chosen: Iterable[Intervention]
    ) -> tuple[list[CohortPlan], list[records.UntriedChange]]:
        """Return the cohorts to start, and the records of interventions that cannot run here."""
        tried, impossible = [], []
        for intervention in chosen:
            most = max(intervention.counts(self._n, self._effort_name))
            try:
                tried.append(self._plan(intervention, most))
            except UnavailableError as error:
                impossible.append(intervention.left_out(f"{error.reason} ({error.remedy})"))
        return tried, impossible

    # ---- interventions

    def _waves(
        self, reference: cohort.Cohort, tried: Sequence[CohortPlan]
    ) -> Iterator[Sequence[CohortPlan]]:
        """Divide interventions into groups that can live beside the reference.

        All cohorts of a group live at once: their members, threads and memory add up.
        """
        used_bytes = sum(
            process.rss_bytes
            for pid in reference.members.pids.values()
            for process in kernel_counters.read_tree(pid).values()
        )
        most = max(1, int(MEMORY_SHARE * headroom.read_free_memory().free / used_bytes))
        sizes = headroom.together([plan.resolved.need for plan in tried], most)
        rest = iter(tried)
        return (list(islice(rest, size)) for size in sizes or [0])

    def _wave(self, launch: Sequence[Condition], tried: Sequence[CohortPlan]) -> None:
        """Take all blocks of the reference and a group of interventions.

        Args:
            launch: the conditions of the reference.
            tried: the group, and all that use the members of another intervention.
        """
        reference = launch[0].cohort
        with ExitStack() as stack:
            starting = [plan for plan in tried if plan.variant.members_of == plan.name]
            cohorts = {REFERENCE: reference, **self._start(starting, stack)}
            conditions = [*launch]
            for plan in tried:
                members = cohorts.get(plan.variant.members_of)
                if isinstance(members, FailedError):
                    self._give_up(plan.name, members)
                elif members is not None:
                    conditions += self._conditions(plan, members, {1, members.size})
            if launch[0].frozen:
                reference.freeze()
            self._blocks.run(conditions, self._effort.blocks, self._shuffle)
            reference.thaw()
            lost = [condition for condition in conditions if condition.group in self._blocks.lost]
            for name, members in {each.variant.name: each.cohort for each in lost}.items():
                self._write_events(name, members)
                self._give_up(name, "a member ended")

    def _conditions(
        self, plan: CohortPlan, members: cohort.Cohort, counts: set[int]
    ) -> list[Condition]:
        """Return a variant at some counts, as the blocks take it."""
        # With cores of several kinds, one process has a fast core, and always trains.
        several_kinds = len(self._topology.kinds) > 1
        first = Condition(
            "reference" if plan.name == REFERENCE else "intervention",
            plan.variant,
            members,
            1,
            frozen=plan.frozen,
            rotates=0 if several_kinds else max(1, members.size // self._effort.blocks),
            optional=plan.variant.members_of != REFERENCE,
        )
        return [replace(first, n=n) for n in sorted(counts)]

    def _give_up(self, name: str, reason: FailedError | str) -> None:
        """Record that a condition has no result: it failed, or cannot be made here."""
        if isinstance(reason, ImpossibleError):
            self._log.info("%s is left out: %s", name, reason)
            self._write(records.ChangeLeftOut(intervention=name, reason=str(reason)))
        else:
            self._failed.append(name)
            self._log.warning("%s failed: %s", name, reason)
            self._write(records.ChangeFailed(intervention=name, reason=str(reason)))

    # ---- stressors and looks

    def _stress(self, reference: cohort.Cohort, threads: int) -> None:
        """Let the reference's first member train beside kernels, at several doses."""
        count = kernel_cohort.count(self._machine, self._n, threads)
        if not count:
            self._log.info("no stressors: the training member needs all CPUs itself")
            return
        try:
            headroom.check([headroom.Need(count, count, "exec")])
        except UnavailableError as error:
            self._give_up("kernels", error.reason)
            return
        # A reference of one member has no slot for a kernel.
        placed = axis_table.place(self._axes, self._topology, max(self._n, count + 1))
        where = [(at.cpus, at.policy) for at in map(axis_table.recorded, placed[1 : count + 1])]
        with (
            private.part(self._folder, "kernels") as folder,
            kernel_cohort.make(folder, where, self._machine) as beside,
        ):
            if kernel_cohort.start(beside):
                conditions = kernel_cohort.stressors(reference, beside, self._effort)
                self._blocks.run(conditions, self._effort.dose_blocks, self._shuffle)
            else:
                self._write_events("kernels", beside)
                self._give_up("kernels", "the kernels did not start")

    def _look(self, reference: cohort.Cohort, before: Sequence[records.Record]) -> None:
        """Sample what the reference's training threads do, and measure what its calls cost.

        Args:
            reference: the reference; one of its members trains, and then all of them.
            before: the records of an interrupted run.
        """
        done = {record.n: record for record in before if isinstance(record, records.Samples)}
        for n in sorted({1, self._n} - done.keys()):
            sampler = sampling.Sampler()
            activities = reference.watch(n, LOOKS, LOOK_EVERY_S, sampler.look)
            active_s = sum(each.parked_ns - each.released_ns for each in activities) / 1e9
            step_s = active_s / max(1, sum(each.steps_active for each in activities))
            done[n] = sampler.record(n, LOOK_EVERY_S, step_s, done.get(1))
            self._write(done[n])
        if any(isinstance(record, records.OperatorCalls) for record in before):
            return
        calls = measure_calls(reference)
        if isinstance(calls, str):
            self._log.info("the cost of calls is not known: %s", calls)
        else:
            self._write(calls)


def measure_calls(members: cohort.Cohort) -> records.OperatorCalls | str:
    """Measure what the calls of a step's operators cost, whatever they compute.

    Profile some steps of the first member, and measure a call with its torch and its CPUs.

    Args:
        members: a cohort that rests, outside of all windows.

    Returns:
        The record, or why there is none.
    """
    launch, slot = members.launch_spec, members.alive[0]
    try:
        members.profile(1, channel.PROFILE_OPERATORS, PROFILED_STEPS, PROFILED_LONGEST_S)
    except MemberEndedError:
        return "the member ended under the profiler"
    operators = launch.folder / "operators.json"
    if not members.ask(slot, channel.WRITE_PROFILE, WRITING_LONGEST_S) or not operators.exists():
        return f"no whole step within {PROFILED_LONGEST_S:g} s"
    member = members.spec(slot)
    env, preload = split_preload(launch.env)
    command = [
        *bind_command(member.cpus, member.mempolicy, preload),
        *(launch.python, "-m", "scaling_study.member.stacked", str(operators)),
    ]
    try:
        done = subprocess.run(
            command, env=env, check=True, capture_output=True, text=True, timeout=COSTS_LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return f"not done after {COSTS_LONGEST_S:g} s"
    except subprocess.CalledProcessError as error:
        return (error.stderr.strip() or str(error)).splitlines()[-1]
    return json.decode(done.stdout.splitlines()[-1], type=records.OperatorCalls)
