"""The verdict on each cause of a case: named, ruled out, inconclusive or not tested.

The rules are the same for all causes: entries of `causes` give a share and the checks that must
agree with it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

from scaling_study.diagnosis.case import REFERENCE, Case, Scope
from scaling_study.diagnosis.cause import Cause, Way
from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.diagnosis.evidence import Evidence, Measured, Query, Untested
from scaling_study.stats.thresholds import SHARE, SHARE_AT_LEAST

SURELY = 0.5
"""An interval whose lower end is above this part of the share leaves no doubt of its size."""

Status = Literal["named", "inconclusive", "ruled_out", "not_tested"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""The most telling one first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one cause in one scope."""

    cause: Cause
    status: Status
    measured: Measured | None = None
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""

    @property
    def share(self) -> float:
        """The share; 0 where none was measured."""
        return self.measured.estimate.value if self.measured else 0.0

    @property
    def all_evidence(self) -> tuple[Evidence, ...]:
        """The share itself, what it rests on, and the checks."""
        own = (self.measured.evidence, *self.measured.also) if self.measured else ()
        return own + self.evidence

    @property
    def confidence(self) -> Literal["high", "medium", "low"]:
        """Confidence, by how many kinds of evidence agree and how well the share is known."""
        if self.status == "ruled_out":
            return "high"
        if self.status != "named" or not self.measured:
            return "low"
        share = self.measured.estimate
        kinds = {one.kind for one in self.all_evidence if one.agrees}
        against = any(one.agrees is False for one in self.all_evidence)
        known_well = share.low is not None and share.low >= SURELY * share.value
        sure = known_well and not against
        if sure and (len(kinds) > 1 or self.measured.exact):
            return "high"
        return "medium" if sure or len(kinds) > 1 else "low"


def judge_scope(case: Case, scope: Scope) -> list[Outcome]:
    """Judge all causes in their order; a named one is known to those after it."""
    known: dict[str, Measured] = {}
    outcomes = []
    for cause in CAUSES:
        if not (ways := cause.ways(scope)):
            continue
        outcome = _best([_follow(Query(case, scope, known), cause, way) for way in ways])
        if outcome.status == "named" and outcome.measured:
            known[cause.id] = outcome.measured
        outcomes.append(outcome)
    return outcomes


def _follow(query: Query, cause: Cause, way: Way) -> Outcome:
    """Follow one way to show a cause."""
    needed = tuple(check(query) for check in way.needs)
    missing = next((one for one in needed if not one.agrees), None)
    if missing is not None:
        return Outcome(cause, "not_tested", reason=missing.text)
    measured = way.share(query)
    if isinstance(measured, Untested):
        return Outcome(cause, "not_tested", reason=measured.reason)
    query = dataclasses.replace(
        query,
        intervention=measured.intervention or REFERENCE,
        share=measured.estimate.value,
    )
    evidence = (*needed, *(check(query) for check in way.requires))
    status = _decide(measured, evidence)
    if status == "ruled_out" and measured.unknown:
        return Outcome(cause, "not_tested", reason=measured.unknown)
    if status == "inconclusive" and measured.uncounted:
        evidence = (*evidence, Evidence(None, "account", measured.uncounted))
    notes = (one for note in way.notes if (one := note(query)).agrees is not None)
    return Outcome(cause, status, measured, (*evidence, *notes))


def _decide(measured: Measured, evidence: Sequence[Evidence]) -> Status:
    """Say what a share and the checks that must agree with it amount to.

    Only a share that is surely small rules a cause out. A check that disagrees with a share of
    which little is known leaves the question open.
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
    """Return the most telling outcome: one way that shows the cause is enough."""
    return min(outcomes, key=lambda one: (STATUSES.index(one.status), -one.share))
