"""Injected against found: entries of runs go in, a table comes out. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pandas as pd
from fault_list import FAULTS, NOTHING
from fault_runs import WORKLOADS, Case, case_of, clean_of, own_causes, rules

from scaling_study.common.doc_tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ledger import Entry

LEAST_SLOWDOWN = 1.10
"""A fault that slows the step down by less has injected nothing: the run does not count."""
ACCOUNTED_SHARE = 0.9
FEWEST_RUNS = 5
"""What is promised of each case."""
LONGEST_APART = timedelta(minutes=30)
"""Between a run and the clean one that it is compared with: the machine drifts."""

STOLEN_CPUS = 0.1
"""A hypervisor that takes more than this is a cause of its own: the run does not count, whatever it
names, and is done again."""

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
        return [one / other for one, other in zip(self.named_s, self.added_s, strict=True)]

    @property
    def share(self) -> float:
        """The same of all runs together."""
        return sum(self.named_s) / sum(self.added_s) if self.added_s else 0.0

    def count(self, named: Sequence[str], causes: Sequence[str]) -> None:
        """Count a run that names causes, the largest first, where some are right."""
        self.runs += 1
        self.right += named[0] in causes if named and causes else not named and not causes
        self.others.update(set(named) - set(causes))


def score(workload: str, fault: str, entries: Iterable[Entry]) -> Score:
    """Judge the runs of a fault with a workload; of NOTHING, the controls of all faults too."""
    own = [entry for entry in entries if entry["workload"] == workload]
    found = Score()
    for entry in own:
        clean_run = entry["fault"] == NOTHING or entry["control"]
        if clean_run != (fault == NOTHING) or fault not in {NOTHING, entry["fault"]}:
            continue
        if reason := unusable(entry):
            found.failures.append(reason)
        elif clean_run:
            allowed = allowed_causes(entry)
            found.count([one["cause"] for one in entry["named"] if one["cause"] not in allowed], ())
        else:
            _compare(entry, own, found)
    return found


def _compare(entry: Entry, own: Sequence[Entry], found: Score) -> None:
    """Judge a run under a fault, beside the runs without it."""
    clean_s = clean_step_s(entry, own)
    if clean_s is None:
        found.failures.append(f"run {entry['run']}: there is no clean run to compare it with")
        return
    slowdown = entry["step_n_s"] / clean_s
    if slowdown < LEAST_SLOWDOWN:
        found.failures.append(f"run {entry['run']}: the fault had no effect ({slowdown:.2f} times)")
        return
    named = beyond_own(entry, own)
    found.count([one["cause"] for one in named], FAULTS[entry["fault"]].causes)
    found.slowdown.append(slowdown)
    found.named_s.append(sum(one["seconds"] for one in named))
    found.added_s.append(entry["step_n_s"] - clean_s)


def unusable(entry: Entry) -> str | None:
    """Say why a run does not count, by itself; None if it does."""
    if entry["status"] not in JUDGED:
        return f"run {entry['run']}: {entry['status']}, {entry['reason']}"
    if disturbed(entry):
        taken = f"{entry['stolen_cpus']:.2f} CPUs"
        return f"run {entry['run']}: the hypervisor took {taken} meanwhile"
    return None


def disturbed(entry: Entry) -> bool:
    """Whether the machine was not a quiet one during a run that has a verdict."""
    return entry["status"] in JUDGED and entry["stolen_cpus"] > STOLEN_CPUS


def to_run(case: Case, entries: Iterable[Entry], now: datetime) -> tuple[Case, ...]:
    """Return what is to be run for a case, in order; nothing if it has a run that counts.

    A run that was disturbed, or that has no clean one of its half hour, is done again, after a new
    clean run where the last is too long ago. A clean run stays, since others are compared with it.
    """
    known = {case_of(one): one for one in entries}
    own = [one for one in known.values() if one["workload"] == case.workload]
    entry, paired = known.get(case), _paired(case)
    if entry and not disturbed(entry) and (mates(entry, own) or not paired):
        return ()
    if not paired:
        return (case,)
    clean = clean_of(case)
    if not clean.control:
        ago = (now - _started(one) for one in clean_runs(case, own))
        if min(ago, default=LONGEST_APART) < LONGEST_APART / 2:
            return (case,)
        while clean in known and not disturbed(known[clean]):
            clean = replace(clean, run=clean.run + 1)
    return clean, case


def beyond_own(entry: Entry, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return what a run names beyond what the workload has of itself, the largest first.

    Of the causes of a workload or of what is around a fault only what is more than without the
    fault (the median of those runs) counts.
    """
    clean = clean_runs(case_of(entry), entries)
    allowed = allowed_causes(entry)
    named = []
    for one in entry["named"]:
        usual = [
            sum(
                each["seconds"]
                for each in run["named"]
                if (each["cause"], each["part"]) == (one["cause"], one["part"])
            )
            for run in (clean if one["cause"] in allowed else ())
        ]
        seconds = one["seconds"] - statistics.median(usual or [0.0])
        if seconds > 0:
            named.append({**one, "seconds": seconds})
    return sorted(named, key=lambda one: -one["seconds"])


def clean_runs(case: Case, entries: Sequence[Entry]) -> list[Entry]:
    """Return the runs without the fault: of its control, or of the workload with no fault.

    Args:
        case: a run under the fault.
        entries: of its workload.
    """
    wanted = clean_of(case)
    return [
        one
        for one in entries
        if (one["fault"], one["control"]) == (wanted.fault, wanted.control) and not unusable(one)
    ]


def allowed_causes(entry: Entry) -> set[str]:
    """Return the causes that a run may name whatever fault is injected."""
    of_workload = own_causes(entry["workload"], entry["machine"])
    return {*of_workload, *FAULTS[entry["fault"]].own}


def clean_step_s(entry: Entry, entries: Sequence[Entry]) -> float | None:
    """Return what a step would take without the fault (s); None where no clean run tells.

    The machine's speed drifts from run to run. Where one process alone is as fast under the fault
    as without it, the run itself says how fast that is, and the clean runs by how much n processes
    are slower than one. Where it is not, the clean run that is nearest in time is compared.
    """
    case = case_of(entry)
    clean = mates(entry, entries) if _paired(case) else clean_runs(case, entries)
    if not clean:
        return None
    if FAULTS[entry["fault"]].single_process:
        return float(clean[0]["step_n_s"])
    ratio = statistics.median(one["step_n_s"] / one["step_1_s"] for one in clean)
    return float(entry["step_1_s"] * ratio)


def mates(entry: Entry, entries: Sequence[Entry]) -> list[Entry]:
    """Return the clean runs of the same half hour, the nearest first; a control has a dose."""

    def apart(one: Entry) -> timedelta:
        return abs(_started(one) - _started(entry))

    near = [
        one
        for one in clean_runs(case_of(entry), entries)
        if apart(one) < LONGEST_APART
        and (one["run"] == entry["run"] or not FAULTS[entry["fault"]].controlled)
    ]
    return sorted(near, key=lambda one: (apart(one), one["run"] != entry["run"]))


def _paired(case: Case) -> bool:
    """Whether a run is compared with a clean one of the same half hour only."""
    fault = FAULTS[case.fault]
    return case != clean_of(case) and (fault.single_process or fault.controlled)


def _started(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry["started"])


def markdown(entries: Sequence[Entry], missing: Mapping[str, str]) -> str:
    """Return the table fault x workload, and the notes on it.

    Args:
        entries: of all runs.
        missing: faults that cannot be injected here, with the reason.
    """
    workloads = [name for name in WORKLOADS if any(one["workload"] == name for one in entries)]
    run = {one["fault"] for one in entries}
    faults = [name for name in FAULTS if name in run or name in missing]
    scores = {
        (fault, workload): score(workload, fault, entries)
        for fault in faults
        for workload in workloads
    }
    rows = []
    for fault in faults:
        cells = [cell(fault, scores[fault, name]) for name in workloads]
        if fault not in run:
            cells = [f"not run: {missing[fault]}"] * len(workloads)
        rows.append([FAULTS[fault].title, *cells])
    head = ["injected fault", *(WORKLOADS[name].title for name in workloads)]
    notes = own_notes(faults, entries) + remarks(scores)
    parts = [write_table(head, rows).rstrip("\n")]
    parts += ["\n".join(lines) for lines in (summary(scores), notes, where(entries))]
    return "\n\n".join(parts) + "\n"


def own_notes(faults: Iterable[str], entries: Iterable[Entry]) -> list[str]:
    """Say which causes may be named without being injected."""
    machines = sorted({(one["workload"], one["machine"]) for one in entries})
    lines = [
        f"- {WORKLOADS[workload].title} has a cause of its own, which may be named without a "
        f"fault: {cause} ({reason})"
        for workload, machine in machines
        for cause, reason in own_causes(workload, machine).items()
    ]
    lines += [
        f"- {FAULTS[name].title} comes with a cause that is not injected, in its control too: "
        f"{cause} ({reason})"
        for name in faults
        for cause, reason in FAULTS[name].own.items()
    ]
    return list(dict.fromkeys(lines))


def where(entries: Sequence[Entry]) -> list[str]:
    """Say where and when runs were done, and which verdicts are not of the rules of today."""
    days = pd.DataFrame(entries).groupby("machine")["started"].agg(["min", "max"])
    lines = [
        f"- Measured on {machine}; {' to '.join(sorted({first[:10], last[:10]}))}."
        for machine, first, last in days.itertuples()
    ]
    old = sum(entry.get("rules", rules()) != rules() for entry in entries)
    if old:
        lines.append(f"- The verdicts of {old} runs are of earlier rules.")
    return lines


def cell(fault: str, one: Score) -> str:
    """Return what stands in the table for a fault and a workload."""
    if not one.runs and not one.failures:
        return "not run"
    if not one.runs:
        return "no effect" if any("no effect" in text for text in one.failures) else "no result"
    if fault == NOTHING:
        return f"{one.runs - one.right} of {one.runs} named a cause"
    slower = statistics.median(one.slowdown)
    range_ = f" ({min(one.accounted):.0%} to {max(one.accounted):.0%})" if one.runs > 1 else ""
    return (
        f"{one.right} of {one.runs} right; {one.share:.0%} accounted for{range_}; "
        f"{slower:.2f} times slower"
    )


def summary(scores: Mapping[tuple[str, str], Score]) -> list[str]:
    """Return the promises, each with what was found."""
    injected = {key: one for key, one in scores.items() if key[0] != NOTHING and one.runs}
    clean = [one for key, one in scores.items() if key[0] == NOTHING]
    runs = sum(one.runs for one in injected.values())
    right = sum(one.right for one in injected.values())
    quiet, all_clean = sum(one.right for one in clean), sum(one.runs for one in clean)
    below = [
        f"{FAULTS[fault].title} with {WORKLOADS[workload].title}"
        for (fault, workload), one in injected.items()
        if one.share < ACCOUNTED_SHARE
    ]
    few = sum(one.runs < FEWEST_RUNS for one in injected.values())
    share = f" ({right / runs:.0%})" if runs else ""
    less = ", ".join(below) or "nowhere"
    return [
        f"- The injected cause is named first in {right} of {runs} runs{share}.",
        f"- A/A runs and controls that name a cause: {all_clean - quiet} of {all_clean}.",
        f"- Less than {ACCOUNTED_SHARE:.0%} of the added time accounted for: {less}.",
        f"- Fewer than {FEWEST_RUNS} runs that count: {few} of {len(injected)} cases.",
    ]


def remarks(scores: Mapping[tuple[str, str], Score]) -> list[str]:
    """Return what else was named, and the runs that do not count."""
    lines = []
    for (fault, workload), one in scores.items():
        where = f"{FAULTS[fault].title}, {WORKLOADS[workload].title}"
        if one.others:
            named = ", ".join(f"{cause} ({count})" for cause, count in sorted(one.others.items()))
            lines.append(f"- {where}: {'also' if fault != NOTHING else 'falsely'} named: {named}")
        lines += [f"- {where}, {text}" for text in one.failures]
    return lines
