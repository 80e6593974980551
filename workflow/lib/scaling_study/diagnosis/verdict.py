"""The verdict on each cause of a case: named, ruled out, inconclusive or not tested.

The rules are the same for all causes: each entry of `causes` has a share, and checks that must
agree with it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

from scaling_study.diagnosis import shares
from scaling_study.diagnosis.case import REFERENCE, Case, Scope
from scaling_study.diagnosis.cause import Cause, Way
from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.diagnosis.evidence import Evidence, Measured, Query, Untested
from scaling_study.diagnosis.remedies import remedy
from scaling_study.records import verdict as records
from scaling_study.stats.interval import Interval
from scaling_study.stats.thresholds import SHARE, SHARE_AT_LEAST

SURELY = 0.5
"""A share is known well if the lower end of its interval is at least this part of it."""

Status = Literal["named", "inconclusive", "ruled_out", "not_tested"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""In order of preference, if there are several ways to show a cause."""


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
    by_status: dict[Status, list[records.Cause]] = {status: [] for status in STATUSES}
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


def _follow(query: Query, way: Way) -> Outcome:
    """Return the outcome of one way to show a cause."""
    needed = tuple(check(query) for check in way.needs)
    missing = next((one for one in needed if not one.agrees), None)
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
    notes = (one for note in way.notes if (one := note(query)).agrees is not None)
    return Outcome(status, measured, (measured.evidence, *measured.also, *evidence, *notes))


def _decide(measured: Measured, evidence: Sequence[Evidence]) -> Status:
    """Return the status that follows from a share and the checks that must agree with it.

    Only a share that is surely small rules a cause out. If a check disagrees with any other share,
    the question stays open.
    """
    share = measured.estimate
    lower = share.low if measured.exact else share.corrected_low
    large = share.value >= SHARE and lower is not None and lower > SHARE_AT_LEAST
    if large and all(one.agrees for one in evidence):
        return "named"
    if measured.uncounted:
        return "inconclusive"
    return "ruled_out" if share.high is not None and share.high < SHARE else "inconclusive"


def _best(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the preferred outcome: one way that shows the cause is enough."""
    return min(outcomes, key=lambda one: (STATUSES.index(one.status), -one.share))


def _record(case: Case, cause: Cause, outcome: Outcome) -> records.Cause:
    """Return a cause with the evidence for and against it, or the reason why it was not tested."""
    measured = outcome.measured
    if measured is None:
        return records.Cause(cause=cause.id, title=cause.title, reason=outcome.reason)
    evidence: dict[bool | None, list[records.Evidence]] = {True: [], False: [], None: []}
    for one in outcome.evidence:
        evidence[one.agrees].append(records.Evidence(kind=one.kind, text=one.text))
    return records.Cause(
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
    kinds = {one.kind for one in evidence if one.agrees}
    against = any(one.agrees is False for one in evidence)
    known_well = share.low is not None and share.low >= SURELY * share.value
    sure = known_well and not against
    if sure and (len(kinds) > 1 or measured.exact):
        return "high"
    return "medium" if sure or len(kinds) > 1 else "low"
