"""Injected against named: judged runs go in, a table comes out. Pure."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING

from doc_tables import write_table
from fault_list import FAULTS, NOTHING
from fault_runs import WORKLOADS, clean_of
from ledger import describe_machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from fault_runs import Case, Named, Run

LEAST_SLOWDOWN = 1.10
"""A fault that slows the step down by less has injected nothing: the run does not count."""
ACCOUNTED_SHARE = 0.9
"""Of the added time; a smaller share is listed below the table."""
LONGEST_APART = timedelta(minutes=20)
"""From a clean run to the runs that are compared with it: the machine drifts."""

LOST_CPUS = 0.2
"""A hypervisor or a program that takes more than this is a cause of its own: the run is not kept,
whatever it names, and is done again."""

JUDGED = frozenset({"explained", "nothing_to_explain", "inconclusive"})
"""Statuses of a verdict that says something; all others are runs without a result."""


@dataclass
class Score:
    """The outcome of the runs of one fault with one workload.

    Attributes:
        runs: that count.
        right: whose first-named cause is the injected one; of A/A, that name none.
        named_s: what named causes hold of a step, for each run.
        added_s: what the fault adds to a step, for each run.
        slowdown: step time by that of the clean workload, for each run.
        others: further or wrong causes that were named, with how often.
        failures: runs that do not count, with the reason.
    """

    runs: int = 0
    right: int = 0
    named_s: list[float] = field(default_factory=list)
    added_s: list[float] = field(default_factory=list)
    slowdown: list[float] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def accounted(self) -> list[float]:
        """The share of the added time that named causes hold, for each run."""
        both = zip(self.named_s, self.added_s, strict=True)
        return [named_s / added_s for named_s, added_s in both]

    @property
    def share(self) -> float:
        """The same of all runs together."""
        return sum(self.named_s) / sum(self.added_s) if self.added_s else 0.0

    def count(self, named: Sequence[str], causes: Sequence[str]) -> None:
        """Count a run that names causes, the largest first, where some are right."""
        self.runs += 1
        self.right += named[0] in causes if named and causes else not named and not causes
        self.others.update(set(named) - set(causes))


def scores(runs: Sequence[Run]) -> dict[tuple[str, str], Score]:
    """Judge the runs of each fault with each workload; controls count as runs of NOTHING.

    Returns:
        By fault and workload, in the order of their lists.
    """
    outcome: defaultdict[tuple[str, str], Score] = defaultdict(Score)
    for run in runs:
        case = run.case
        clean = case.control or case.fault == NOTHING
        score = outcome[NOTHING if clean else case.fault, case.workload]
        if run.status not in JUDGED:
            score.failures.append(f"run {case.run}: {run.status}, {run.reason}")
        elif clean:
            allowed = allowed_causes(run)
            score.count([named.cause for named in run.named if named.cause not in allowed], ())
        else:
            _compare(run, runs, score)
    return {key: outcome[key] for key in product(FAULTS, WORKLOADS) if key in outcome}


def _compare(run: Run, runs: Sequence[Run], score: Score) -> None:
    """Judge a run under a fault, beside the runs without it."""
    clean_s = clean_step_s(run, runs)
    if clean_s is None:
        score.failures.append(f"run {run.case.run}: there is no clean run to compare it with")
        return
    slowdown = run.step_n_s / clean_s
    if slowdown < LEAST_SLOWDOWN:
        text = f"run {run.case.run}: the fault had no effect ({slowdown:.2f} times)"
        score.failures.append(text)
        return
    named = beyond_inherent(run, runs)
    score.count([cause.cause for cause in named], FAULTS[run.case.fault].causes)
    score.slowdown.append(slowdown)
    score.named_s.append(sum(cause.seconds for cause in named))
    score.added_s.append(run.step_n_s - clean_s)


def due(case: Case, runs: Iterable[Run], host: str, now: datetime) -> tuple[Case, ...]:
    """Return what is to be run for a case, in order; nothing if it is kept.

    Args:
        case: what is wanted.
        runs: all kept runs.
        host: hash of this machine.
        now: the time, which decides whether a new clean run comes before it.
    """
    known = {run.case: run for run in runs}
    clean = clean_of(case)
    if case in known:
        return ()
    near = (now - run.started < LONGEST_APART for run in clean_runs(case, known.values(), host))
    if case == clean or any(near):
        return (case,)
    while clean in known and not clean.control:
        clean = replace(clean, run=clean.run + 1)
    return clean, case


def clean_runs(case: Case, runs: Iterable[Run], host: str) -> list[Run]:
    """Return a machine's runs without the fault: the control of its dose, or the bare workload."""
    clean = clean_of(case)
    return [
        run
        for run in runs
        if run.host == host
        and run.status in JUDGED
        and clean == (run.case if clean.control else replace(run.case, run=clean.run))
    ]


def allowed_causes(run: Run) -> set[str]:
    """Return the causes that a run may name whatever fault is injected."""
    return {*run.inherent, *FAULTS[run.case.fault].inherent}


def clean_step_s(run: Run, runs: Iterable[Run]) -> float | None:
    """Return what a step would take without the fault (s); None where no clean run tells.

    The machine's speed drifts from run to run. Where one process alone is as fast under the fault
    as without it, the run itself says how fast that is, and the clean runs by how much n processes
    are slower than one. Where it is not, the clean run that is nearest in time is compared.
    """
    clean = clean_runs(run.case, runs, run.host)
    if not clean:
        return None
    if FAULTS[run.case.fault].single_process:
        return min(clean, key=lambda other: abs(other.started - run.started)).step_n_s
    return run.step_1_s * statistics.median(other.step_n_s / other.step_1_s for other in clean)


def beyond_inherent(run: Run, runs: Iterable[Run]) -> list[Named]:
    """Return what a run names beyond what the workload has of itself, the largest first.

    Of the causes of a workload or of what is around a fault only what is more than without the
    fault (the median of those runs) counts.
    """
    clean, allowed = clean_runs(run.case, runs, run.host), allowed_causes(run)
    named = []
    for cause in run.named:
        usual = [
            sum(
                other.seconds
                for other in clean_run.named
                if (other.cause, other.part) == (cause.cause, cause.part)
            )
            for clean_run in (clean if cause.cause in allowed else ())
        ]
        seconds = cause.seconds - statistics.median(usual or [0.0])
        if seconds > 0:
            named.append(replace(cause, seconds=seconds))
    return sorted(named, key=lambda cause: -cause.seconds)


def markdown(runs: Sequence[Run]) -> str:
    """Return the table fault x workload, and the notes on it: promised faults, then others."""
    outcome = scores(runs)
    measured = {fault for fault, _ in outcome}
    faults = [name for name, fault in FAULTS.items() if fault.promised] + [
        name for name, fault in FAULTS.items() if name in measured and not fault.promised
    ]
    rows = [
        [
            FAULTS[fault].title,
            *(cell(fault, workload, outcome.get((fault, workload))) for workload in WORKLOADS),
        ]
        for fault in faults
    ]
    head = ["injected fault", *(workload.title for workload in WORKLOADS.values())]
    notes = inherent_notes(runs) + remarks(outcome)
    parts = [write_table(head, rows).rstrip("\n")]
    parts += ["\n".join(lines) for lines in (summary(outcome), notes, where(runs))]
    return "\n\n".join(parts) + "\n"


def inherent_notes(runs: Iterable[Run]) -> list[str]:
    """Say which causes may be named without being injected."""
    lines = [
        f"- {title} has a cause of its own, which may be named without a fault: {cause} ({reason})"
        for run in runs
        for title, causes in (
            (WORKLOADS[run.case.workload].title, run.inherent),
            (FAULTS[run.case.fault].title, FAULTS[run.case.fault].inherent),
        )
        for cause, reason in causes.items()
    ]
    return sorted(set(lines))


def where(runs: Iterable[Run]) -> list[str]:
    """Say where and when runs were done."""
    days = defaultdict(set)
    for run in runs:
        if run.case.fault == NOTHING:  # another may change what a process may use
            days[describe_machine(run.machine)].add(run.started.date().isoformat())
    return [
        f"- Measured on {machine}; {' to '.join(sorted({min(dates), max(dates)}))}."
        for machine, dates in days.items()
    ]


def cell(fault: str, workload: str, score: Score | None) -> str:
    """Return what stands in the table for a fault and a workload."""
    if score is None:
        return "not run" if FAULTS[fault].suits(workload) else ""
    if not score.runs:
        return "no effect" if any("no effect" in text for text in score.failures) else "no result"
    if fault == NOTHING:
        return f"{score.runs - score.right} of {score.runs} named a cause"
    accounted = score.accounted
    range_ = f" ({min(accounted):.0%} to {max(accounted):.0%})" if score.runs > 1 else ""
    return (
        f"{score.right} of {score.runs} right; {score.share:.0%} accounted for{range_}; "
        f"{statistics.median(score.slowdown):.2f} times slower"
    )


def summary(outcome: Mapping[tuple[str, str], Score]) -> list[str]:
    """Return what holds for all cases."""
    injected = {key: score for key, score in outcome.items() if key[0] != NOTHING and score.runs}
    clean = [score for key, score in outcome.items() if key[0] == NOTHING]
    runs = sum(score.runs for score in injected.values())
    right = sum(score.right for score in injected.values())
    quiet, all_clean = sum(score.right for score in clean), sum(score.runs for score in clean)
    below = [
        f"{FAULTS[fault].title} with {WORKLOADS[workload].title}"
        for (fault, workload), score in injected.items()
        if score.share < ACCOUNTED_SHARE
    ]
    share = f" ({right / runs:.0%})" if runs else ""
    less = ", ".join(below) or "nowhere"
    return [
        f"- The injected cause is named first in {right} of {runs} runs{share}.",
        f"- A/A runs and controls that name a cause: {all_clean - quiet} of {all_clean}.",
        f"- Less than {ACCOUNTED_SHARE:.0%} of the added time accounted for: {less}.",
    ]


def remarks(outcome: Mapping[tuple[str, str], Score]) -> list[str]:
    """Return what else was named, and the runs that do not count."""
    lines = []
    for (fault, workload), score in outcome.items():
        case = f"{FAULTS[fault].title}, {WORKLOADS[workload].title}"
        if score.others:
            named = ", ".join(f"{cause} ({count})" for cause, count in sorted(score.others.items()))
            lines.append(f"- {case}: {'also' if fault != NOTHING else 'falsely'} named: {named}")
        lines += [f"- {case}, {text}" for text in score.failures]
    return lines
