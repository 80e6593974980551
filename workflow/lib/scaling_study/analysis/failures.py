"""A list of all that was skipped, failed or lost."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import asdict

from scaling_study.analysis.record_rows import AGAINST
from scaling_study.records.analysis import Failure, Failures, Invalid, Lost, MemberEvent
from scaling_study.records.cohorts import CohortSummary, Replicate
from scaling_study.records.window import LostMember

NAMES = Replicate.__struct_fields__
AGAIN = "put right what its log says, and run the study again"


def list_failures(
    machine: str, cohorts: Sequence[CohortSummary], missing: Sequence[Replicate]
) -> Failures:
    """List all that is not a complete cohort of valid windows.

    Args:
        machine: Hash of the machine.
        cohorts: Its cohorts.
        missing: Launches and replicates of the plan without a record file.
    """
    writers: Counter[str] = Counter()
    for cohort in cohorts:
        writers |= Counter(cohort.shared_files)  # the larger number of each
    return Failures(
        machine=machine,
        launches=(
            *(_ending(cohort) for cohort in cohorts if _ended_badly(cohort, cohorts)),
            *(
                Failure(
                    **asdict(one),
                    status="missing",
                    reason="the plan has it, but there is no record file",
                    remedy="run the study again: it measures what is missing",
                )
                for one in missing
            ),
        ),
        windows=tuple(_invalid_windows(cohorts)),
        points=tuple(_lost_points(cohorts)),
        members=tuple(
            MemberEvent(
                **{name: getattr(cohort, name) for name in NAMES},
                **{name: getattr(event, name) for name in LostMember.__struct_fields__},
            )
            for cohort in cohorts
            for event in cohort.events
        ),
        shared_files=dict(writers),
    )


def _ended_badly(cohort: CohortSummary, cohorts: Sequence[CohortSummary]) -> bool:
    """Return whether a cohort lost something; one that a later cohort resumed did not."""
    if cohort.end is not None:
        return cohort.end.status != "complete"
    return not any(
        (other.file, other.machine) == (cohort.file, cohort.machine)
        and other.cohort > cohort.cohort
        for other in cohorts
    )


def _ending(cohort: CohortSummary) -> Failure:
    end = cohort.end
    if end is None:
        status = "interrupted"
        reason: str | None = "its records have no end: the measuring job was stopped"
        remedy = "run the study again: it goes on where it stopped"
    else:
        status, reason, remedy = end.status, end.reason, end.remedy or AGAIN
    log = cohort.events[-1].log if cohort.events else None
    return Failure(
        **{name: getattr(cohort, name) for name in NAMES},
        status=status,
        reason=reason,
        remedy=remedy,
        log=log,
    )


def _invalid_windows(cohorts: Sequence[CohortSummary]) -> Iterator[Invalid]:
    counts = Counter(
        (cohort.launch, cohort.label, window.n, flag)
        for cohort in cohorts
        for window in cohort.windows_invalid
        for flag in (AGAINST.intersection(window.flags) or window.flags)
    )
    for (launch, label, n, flag), count in sorted(counts.items()):
        yield Invalid(launch=launch, label=label, n=n, flag=flag, count=count)


def _lost_points(cohorts: Sequence[CohortSummary]) -> Iterator[Lost]:
    """Yield the process counts without a valid window, of launches that took any window."""
    valid = {(cohort.launch, n) for cohort in cohorts for n in cohort.ns_valid}
    asked = dict.fromkeys(
        (cohort.launch, cohort.label, n)
        for cohort in cohorts
        if cohort.measured
        for n in cohort.process_counts
    )
    for launch, label, n in asked:
        if (launch, n) not in valid:
            yield Lost(launch=launch, label=label, n=n)
