"""Confirm the recommendation for a machine: from plan and analysis to confirm/rounds.jsonl.

The choice was made on one set of records; its gain is measured on another, these rounds. Nothing
here changes the choice. The arms and their rounds are fixed before the first round begins. A rerun
continues after the last whole round and repeats what failed. It does nothing if the same arms,
script, code and machine have been confirmed already.
"""

import logging
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from scaling_study.common import private
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config import work
from scaling_study.config.launches import Launch
from scaling_study.config.plan import Plan
from scaling_study.confirm import losses, one_round
from scaling_study.host import probe
from scaling_study.launch.axes import launcher, ranks
from scaling_study.queues import ahead, model_queue
from scaling_study.records import confirmation
from scaling_study.records.analysis import Machines, Recommendation, ReferencePoint
from scaling_study.runner import jobs, resolve
from scaling_study.runner.journal import Journal

MODULES = ("confirm/one_round", "queues/model_queue", "queues/model_server", "queues/ahead")
"""Modules that run from a round's start to its record, besides those that measure."""

EXTENDED = 4.0
"""A round may last this many times its limit, so that each slot ends a first model. Without one,
the end of a model is not confirmed."""

# Two rounds of an arm give a t interval (one degree of freedom) that says nothing.
FEWEST_TURNS = 3
# With less time, each launch runs at its own best process count only: the default launch at the
# recommended count may take as long as all other arms.
SAME_N_S = 120.0
# More turns hardly narrow an interval; longer rounds, with more whole models, do.
MOST_TURNS = 10
LONG_ROUND_S = 30.0

# Fields that must be equal for the rounds of an earlier run to be kept.
SAME = ("schema_version", "arms", "compared", "seed", "seconds", "measured_hash", "harness_hash",
        "machine_hash")  # fmt: skip

log = logging.getLogger("confirm")


class ConfirmationJob:
    """One confirmation job.

    Args:
        job: from ``jobs.read_job``; its launch is the default one.
        plan: plan.json, or searched.json after a race.
        recommendation: analysis/recommendation.json.
        path: confirm/rounds.jsonl.
        builds: folder of built environments.
    """

    def __init__(
        self,
        job: jobs.Job,
        plan: Plan,
        recommendation: Machines[Recommendation],
        path: Path,
        builds: Path,
    ) -> None:
        self._job = job
        self._launches = launches = plan.by_id
        self._journal = Journal(path, confirmation.DECODER, "confirmation", SAME)
        self._builds = builds
        self._machine = probe.read_machine()
        self._baseline = plan.baseline
        self._seconds = job.plan.confirm.seconds or 0.0
        self._arms: tuple[confirmation.Arm, ...] = ()
        self._compared: list[str] = []
        entry = recommendation.of(self._machine.hash)
        self._recommended = entry.recommended if entry else None
        workload = job.plan.workload
        if entry is not None:
            today = launches.get(plan.today or "")
            self._arms = choose_arms(
                entry, job.launch, today, seconds=self._seconds, forks=workload.forks
            )
            if self._arms and not workload.runs:
                self._compared = losses.to_compare(entry, launches[plan.baseline].axes, launches)
        self._resolved: dict[str, resolve.Resolved] = {}

    def run(self) -> None:
        """Run the rounds that are missing, and complete the record file."""
        began_s = time.monotonic()
        head = self._head()
        records = self._journal.resume(head)
        if any(map(_failed, records)):
            log.info("what failed before is run again")
            kept: list[confirmation.Record] = [
                record
                for record in records
                if not (_failed(record) or isinstance(record, confirmation.ConfirmationEnd))
            ]
            records = self._journal.keep(kept)
        if not records:
            self._journal.write(head)
        if not any(isinstance(record, confirmation.ConfirmationEnd) for record in records):
            self._run(records)
            self._compare_losses(
                {record.launch for record in records if isinstance(record, confirmation.Losses)}
            )
            self._journal.write(confirmation.ConfirmationEnd(wall_s=time.monotonic() - began_s))
        self._journal.finish("failed" if any(map(_failed, self._journal.read())) else "")

    def _head(self) -> confirmation.Head:
        plan = self._job.plan
        launch = self._arms[0].launch if self._arms else self._job.launch.id
        interpreter = launcher.interpreter(str(self._launches[launch].axes["build"]), self._builds)
        python = interpreter or work.interpreter(plan.workload)
        return confirmation.Head(
            schema_version=5,
            study=plan.study,
            machine_hash=self._machine.hash,
            arms=list(self._arms),
            compared=self._compared,
            seed=self._job.seed,
            seconds=self._seconds,
            measured_hash=jobs.measured_digest(plan.workload, python),
            harness_hash=jobs.harness_digest(*MODULES),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _run(self, records: list[confirmation.Record]) -> None:
        if not self._arms:
            log.info("nothing is recommended on this machine: there is nothing to confirm")
            return
        planned, round_s = schedule(self._arms, self._seconds, self._job.seed)
        rounds = [entry for entry in records if isinstance(entry, confirmation.Round)]
        done = {(entry.turn, entry.arm) for entry in rounds}
        given_up: set[str] = set()
        if done:
            log.info("goes on after %d rounds of an interrupted run", len(done))
        # An arm whose model does not end within an extended round is not waited for again.
        endless = {entry.arm for entry in rounds if not _ended(entry)}
        with private.folder() as folder:
            known = folder / model_queue.IMPORTS
            for number, (turn, arm) in enumerate(planned):
                key = arm.key
                if (turn, key) in done or key in given_up:
                    continue
                log.info(
                    "round %d of %d: %s, %d at once, %s", number + 1, len(planned), arm.label,
                    arm.n, arm.start,
                )  # fmt: skip
                with private.part(folder, f"round-{number}") as part:
                    record: confirmation.Round | confirmation.ArmLeftOut
                    try:
                        job = replace(self._job, launch=self._launches[arm.launch])
                        resolved = self._resolve(arm.launch, arm.n)
                        running = one_round.prepare(
                            job, resolved, arm.n, arm.start,
                            folder=part, known=known, machine=self._machine,
                        )  # fmt: skip
                        longest_s = round_s * (1.0 if key in endless else EXTENDED)
                        record = running.run(turn, key, round_s, longest_s)
                    except UnavailableError as error:
                        record = confirmation.ArmLeftOut(arm=key, reason=error.reason)
                self._journal.write(record)
                if isinstance(record, confirmation.Round) and not _ended(record):
                    endless.add(key)
                if _failed(record):
                    log.warning("%s: %s", arm.label, record.reason)
                    given_up.add(key)
            imports = ahead.ImportsFile.read(str(known)) if known.exists() else None
            if imports and imports.seconds is not None:  # otherwise no server has been through them
                self._journal.write(confirmation.Imports(**imports._asdict()))

    def _compare_losses(self, done: set[str]) -> None:
        """Compare the loss of each finalist that has other numerics with the baseline's."""
        best = self._recommended
        for launch in self._compared:
            if launch in done or best is None:
                continue
            log.info("comparing the loss of %s with the baseline's", self._launches[launch].label)
            with private.folder() as parent, private.part(parent, "losses") as folder:
                try:
                    record = losses.compare(
                        launch,
                        self._resolve(self._baseline, 1),
                        self._resolve(launch, 1),
                        losses.steps_for(best.step_s),
                        folder,
                        at_once=best.n,
                    )
                except (UnavailableError, losses.RunError) as error:
                    record = losses.failed(launch, str(error))
            self._journal.write(record)

    def _resolve(self, launch: str, n: int) -> resolve.Resolved:
        """Resolve a launch as its cohorts were: slots depend on all its process counts."""
        if launch not in self._resolved:
            process_counts = resolve.counts(self._job.plan, self._machine)
            axes = self._launches[launch].axes
            self._resolved[launch] = resolve.resolve(
                self._job.plan, axes, self._machine, self._builds, [n, *process_counts]
            )
        return self._resolved[launch]


def _ended(record: confirmation.Round) -> bool:
    """Return whether a model has ended in each slot of a round."""
    slots = {run.slot for run in record.runs}
    return slots == {run.slot for run in record.runs if run.ended_s is not None}


def _failed(record: confirmation.Record) -> bool:
    return isinstance(record, confirmation.ArmLeftOut) or (
        isinstance(record, confirmation.Round | confirmation.Losses) and record.status == "failed"
    )


def choose_arms(
    entry: Recommendation,
    default: Launch,
    today: Launch | None = None,
    *,
    seconds: float = SAME_N_S,
    forks: bool = True,
) -> tuple[confirmation.Arm, ...]:
    """Return the arms to confirm on a machine; none if nothing is recommended.

    The recommended launch is compared with today's, or with the default one if that is today's.
    This launch runs at its own best process count and, if there is time or it has no such count, at
    the recommended one. Besides today's launch, the default one runs at its own best count only.

    Args:
        entry: the machine's entry of analysis/recommendation.json.
        default: the default launch.
        today: today's launch; None if that is the default one.
        seconds: time for all rounds together.
        forks: whether a model may be forked from a process that has made its imports.
    """
    best = entry.recommended
    if not entry.ok or best is None:
        return ()
    # A group of ranks ends with its model.
    forks = forks and ranks.asked(best.axes) is None
    starts: tuple[confirmation.Start, ...] = ("fresh", "forked") if forks else ("fresh",)
    arms = [
        confirmation.Arm("recommended", best.launch, best.label, best.n, start) for start in starts
    ]
    compared: list[
        tuple[confirmation.Role, confirmation.Role | None, Launch | None, ReferencePoint | None]
    ] = [
        ("today", "today_same_n", today, entry.today),
        ("default", "default_same_n" if today is None else None, default, entry.default),
    ]
    for role, same_n, launch, reference in compared:
        if launch is None or launch.id == best.launch:
            continue
        plain = partial(confirmation.Arm, launch=launch.id, label=launch.label, start="fresh")
        if reference is not None:
            arms.append(plain(role, n=reference.n))
        if same_n is not None and (
            reference is None or (reference.n != best.n and seconds >= SAME_N_S)
        ):
            arms.append(plain(same_n, n=best.n))
    return tuple(arms)


def schedule(
    arms: Sequence[confirmation.Arm], seconds: float, seed: int
) -> tuple[list[tuple[int, confirmation.Arm]], float]:
    """Divide the time among the arms, in turns.

    The rounds of a turn follow each other, so drift affects all arms equally.

    Args:
        arms: at least one.
        seconds: the time of all rounds together.
        seed: decides the order of the arms, the same in every turn.

    Returns:
        The turn and the arm of each round, in order, and the time (s) from the start of a round's
        processes to its cut.
    """
    turns = min(max(int(seconds / (len(arms) * LONG_ROUND_S)), FEWEST_TURNS), MOST_TURNS)
    round_s = seconds / (turns * len(arms))
    order = random.Random(seed).sample(list(arms), len(arms))  # noqa: S311 (an order, no secret)
    return [(turn, arm) for turn in range(turns) for arm in order], round_s
