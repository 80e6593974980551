"""The verdict on each cause of a case: named, ruled out, inconclusive or not tested; its remedy.

The rules are the same for all causes: each entry of `causes` has a share, and checks that must
agree with it.
"""

import dataclasses
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import yaml

from scaling_study.common import entries
from scaling_study.common.axis_values import Axes
from scaling_study.common.unavailable import UnavailableError
from scaling_study.diagnosis import shares
from scaling_study.diagnosis.case import REFERENCE, Case, Scope
from scaling_study.diagnosis.cause import Cause, Proof
from scaling_study.diagnosis.causes import cpu, loader, machine, program
from scaling_study.diagnosis.evidence import Evidence, Measured, Query, Untested
from scaling_study.launch.axes import axis_table, shell
from scaling_study.launch.axes.axis import Where
from scaling_study.records import verdict as records
from scaling_study.stats.interval import Interval
from scaling_study.stats.ratios import mean
from scaling_study.stats.thresholds import SHARE, SHARE_AT_LEAST

ORDER = (
    *("cpu_quota", "stopped", "affinity_pileup", "foreign_load", "steal", "communication"),
    *("imbalance", "lock_contention", "file_io", "pauses", "spinning", "too_many_threads"),
    *("cpuset", "cpu_oversubscription", "loader_starts", "slow_blas", "loader_lock"),
    *("loader_snapshots", "loader_rows", "loader_copies", "loader_interference"),
    *("helper_threads", "denormals", "loader_storage", "too_few_workers", "loader_preparation"),
    *("data_loading", "compilation", "interpreter", "swap", "page_faults", "thp"),
    *("numa_balancing", "remote_memory", "slower_cores", "frequency", "smt", "migrations"),
    *("last_level_cache", "memory_bandwidth", "shell", "operator_calls"),
)
"""The causes of `OWN` as they are judged, in steps of 10. Specific causes come before general ones,
and counted shares before compared ones: a cause can depend on those named before it."""
OWN = {**cpu.CAUSES, **machine.CAUSES, **loader.CAUSES, **program.CAUSES}

SURELY = 0.5
"""A share is known well if the lower end of its interval is at least this part of it."""
UNMEASURED = "This itself was not measured here."
"""Added to a remedy that no measured launch tests: only the cause has been shown."""
CLEARLY_FASTER = 0.98
"""Step times whose ratio is above this count as equal, as throughputs do in the recommendation."""

Status = Literal["named", "inconclusive", "ruled_out", "not_tested"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""In order of preference, if there are several ways to show a cause."""


def _all() -> tuple[Cause, ...]:
    ordered = {
        name: dataclasses.replace(OWN[name], order=10 * place)
        for place, name in enumerate(ORDER, start=1)
    }
    known = entries.found("diagnosis.causes", "CAUSE", Cause, ordered)
    named = [dataclasses.replace(cause, id=name) for name, cause in known.items()]
    return tuple(sorted(named, key=lambda cause: (cause.order, cause.id)))


CAUSES = _all()


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one way to show a cause."""

    status: Status
    measured: Measured | None = None
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""

    @property
    def share(self) -> float:
        """The share; 0 where none was measured."""
        return self.measured.estimate.value if self.measured else 0.0


def judge_scope(case: Case, scope: Scope) -> records.Judged:
    """Judge all causes in their order; a named one is known to those after it.

    Returns:
        Causes by status, largest first, and the share that the named ones explain.
    """
    known: dict[str, Measured] = {}
    by_status: dict[Status, list[records.CauseResult]] = {status: [] for status in STATUSES}
    for cause in CAUSES:
        if not (ways := cause.ways(scope)):
            continue
        outcome = _best([_follow(Query(case, scope, known), way) for way in ways])
        if outcome.status == "named" and outcome.measured:
            known[cause.id] = outcome.measured
        by_status[outcome.status].append(_record(case, cause, outcome))
    for causes in by_status.values():
        causes.sort(key=lambda cause: -(cause.value or 0.0))
    nothing = Interval(0.0, 0.0, 0.0) if scope == "scaling_loss" else None
    explained = shares.explained(case, scope, known.values()) or nothing
    return records.Judged(
        explained_share=explained,
        unexplained_share=explained.times(-1.0, 1.0) if explained else None,
        **{status: tuple(causes) for status, causes in by_status.items()},
    )


def _follow(query: Query, way: Proof) -> Outcome:
    """Return the outcome of one way to show a cause."""
    needed = tuple(check(query) for check in way.needs)
    missing = next((piece for piece in needed if not piece.agrees), None)
    if missing is not None:
        return Outcome("not_tested", reason=missing.text)
    measured = way.share(query)
    if isinstance(measured, Untested):
        return Outcome("not_tested", reason=measured.reason)
    query = dataclasses.replace(
        query, intervention=measured.intervention or REFERENCE, share=measured.estimate.value
    )
    evidence = (*needed, *(check(query) for check in way.requires))
    status = _decide(measured, evidence)
    if status == "ruled_out" and measured.unknown:
        return Outcome("not_tested", reason=measured.unknown)
    if status == "inconclusive" and measured.uncounted:
        evidence = (*evidence, Evidence(None, "account", measured.uncounted))
    notes = (remark for note in way.notes if (remark := note(query)).agrees is not None)
    return Outcome(status, measured, (measured.evidence, *measured.also, *evidence, *notes))


def _decide(measured: Measured, evidence: Sequence[Evidence]) -> Status:
    """Return the status that follows from a share and the checks that must agree with it.

    Only a share that is surely small rules a cause out. If a check disagrees with any other share,
    the question stays open.
    """
    share = measured.estimate
    lower = share.low if measured.exact else share.corrected_low
    large = share.value >= SHARE and lower is not None and lower > SHARE_AT_LEAST
    if large and all(piece.agrees for piece in evidence):
        return "named"
    if measured.uncounted:
        return "inconclusive"
    return "ruled_out" if share.high is not None and share.high < SHARE else "inconclusive"


def _best(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the preferred outcome: one way that shows the cause is enough."""
    return min(outcomes, key=lambda outcome: (STATUSES.index(outcome.status), -outcome.share))


def _record(case: Case, cause: Cause, outcome: Outcome) -> records.CauseResult:
    """Return a cause with the evidence for and against it, or the reason why it was not tested."""
    measured = outcome.measured
    if measured is None:
        return records.CauseResult(cause=cause.id, title=cause.title, reason=outcome.reason)
    evidence: dict[bool | None, list[records.EvidenceText]] = {True: [], False: [], None: []}
    for piece in outcome.evidence:
        evidence[piece.agrees].append(records.EvidenceText(kind=piece.kind, text=piece.text))
    return records.CauseResult(
        cause=cause.id,
        title=cause.title,
        share=measured.estimate,
        confidence=_confidence(outcome.status, measured, outcome.evidence),
        speaks_for=tuple(evidence[True]),
        against=tuple(evidence[False]),
        open=tuple(evidence[None]),
        source=cause.source,
        remedy=remedy(case, cause, measured.intervention),
    )


def _confidence(
    status: Status, measured: Measured, evidence: Sequence[Evidence]
) -> Literal["high", "medium", "low"]:
    """Return how sure a verdict is, by the kinds of agreeing evidence and the share's interval."""
    if status != "named":
        return "high" if status == "ruled_out" else "low"
    share = measured.estimate
    kinds = {piece.kind for piece in evidence if piece.agrees}
    known_well = share.low is not None and share.low >= SURELY * share.value
    sure = known_well and not any(piece.agrees is False for piece in evidence)
    if sure and (len(kinds) > 1 or measured.exact):
        return "high"
    return "medium" if sure or len(kinds) > 1 else "low"


def remedy(case: Case, cause: Cause, intervention: str | None) -> records.Remedy:
    """Return what to do about a cause: words, a piece of a config, a command, a line of the script.

    Args:
        case: The case whose launch is changed.
        cause: The cause.
        intervention: The intervention that showed the cause, if any: its change helps here.
    """
    axes = {change.intervention: change.axes for change in case.head.interventions if change.axes}
    best = _fastest(case, intervention, cause.remedies, axes)
    shown = axes.get(best or "")
    changed = shown or (dict(cause.axes) if cause.axes else None)
    usual = cause.remedy if shown else f"{cause.remedy} {cause.gain(case) or UNMEASURED}"
    text = cause.remedies.get(best or "") or usual
    command = cause.command or _command(case, changed)
    if unset := _exported(case, changed or {}):
        text = f"{text} Today's launch has {shell.tell(unset)}: unset it."
        command = f"unset {' '.join(shell.variables(unset))}"
    include = {"launches": {"include": [changed]}}
    config = yaml.safe_dump(include, sort_keys=False) if changed else None
    return records.Remedy(text=text, axes=changed, config=config, command=command, code=cause.code)


def _exported(case: Case, changed: Mapping[str, object]) -> tuple[str, ...]:
    """Return the shell's settings of variables that belong to changed axes."""
    exported = shell.variables(case.head.axes.get("shell", shell.NONE))
    # Both axes decide where threads run: each undoes what the other one's variables do.
    axes = {*changed, *({"openmp_affinity"} if "placement" in changed else ())}
    owned = {name for axis in axes for name in axis_table.AXES[axis].variables}
    owned |= exported.keys() if "shell" in changed else set()
    return tuple(f"{name}={text}" for name, text in exported.items() if name in owned)


def _fastest(
    case: Case, shown: str | None, others: Iterable[str], axes: Mapping[str, object]
) -> str | None:
    """Return the intervention that showed the cause, or another that was clearly faster at n.

    An intervention that no launch can make (batches from memory, say) shows a cause but is no
    remedy: the others are then compared with the reference itself.
    """
    fastest = shown if shown and shown in axes else REFERENCE
    for other in others if shown else ():
        if case.measured(other, "scaling_loss"):
            steps = case.step(case.n, other) / case.step(case.n, fastest)
            if mean(steps) < CLEARLY_FASTER:
                shown = fastest = other
    return shown


def _command(case: Case, changed: Axes | None) -> str | None:
    """Return the command that makes a change by variables; None if none makes it."""
    if not changed:
        return None
    where, axes = Where(case.machine), case.head.axes
    try:
        before = axis_table.prepare(axes, where).environment()
        after = axis_table.prepare({**axes, **changed}, where).environment()
    except UnavailableError:
        return None
    return None if before == after else start_command(after)


def start_command(environment: Mapping[str, str]) -> str:
    """Return the shell command that sets these variables for what is started after it."""
    words = (f"{name}={shlex.quote(value)}" for name, value in environment.items())
    return " ".join(["export", *words])
