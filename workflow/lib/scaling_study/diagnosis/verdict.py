"""The verdict on one target: which causes are named, ruled out, undecided or were not tested.

Nothing is decided here that is special to a cause: entries of `causes` give a share and what must
agree with it, and the rules below say what follows.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scaling_study.analysis.experiment_runs import WhyRun, read_run
from scaling_study.diagnosis.case import REFERENCE, Case, Scope, make_case
from scaling_study.diagnosis.cause import Cause, Way
from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.diagnosis.evidence import Evidence, Measured, Query, Untested
from scaling_study.diagnosis.remedies import remedy
from scaling_study.diagnosis.stressors import inflations, sensitivities
from scaling_study.diagnosis.target_tables import (
    accounts,
    counts,
    foreign_rows,
    intervention_rows,
    microbenchmark_rows,
    sensitivity_rows,
    wait_rows,
)
from scaling_study.diagnosis.why_text import describe_why
from scaling_study.stats import ratios
from scaling_study.stats.interval import Interval
from scaling_study.stats.thresholds import SHARE, SHARE_AT_LEAST, grows

SURELY = 0.5
"""An interval whose lower end is above this part of the share leaves no doubt of its size."""

Status = Literal["named", "ruled_out", "inconclusive", "not_tested"]
Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came out for one cause in one scope."""

    cause: Cause
    status: Status
    measured: Measured | None = None
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""


def diagnose(
    paths: Sequence[Path],
    microbenchmarks: Mapping[str, Any] | None,
    knee: Mapping[str, Any] | None,
) -> Json:
    """Say why one target is as slow as it is.

    Args:
        paths: Its files of experiments, one per replicate.
        microbenchmarks: microbenchmarks.json of the machine, if there is one.
        knee: Where its throughput bends, with the boundary of the machine there; None without one.

    Returns:
        A target of analysis/causes.json.

    Raises:
        RecordError: A file cannot be read.
        ValueError: There is no file.
    """
    return judge([read_run(path) for path in paths], microbenchmarks, knee)


def judge(
    runs: Sequence[WhyRun],
    microbenchmarks: Mapping[str, Any] | None,
    knee: Mapping[str, Any] | None,
) -> Json:
    """As `diagnose`, of runs that are read already.

    Raises:
        ValueError: There is no run.
    """
    if not runs:
        raise ValueError("no run to judge")
    target = _empty(runs) | {"knee": knee}
    usable = [run for run in runs if not run.windows.empty]
    case = make_case(usable, microbenchmarks) if usable else None
    if case is None:
        return target | _unusable(runs)
    target |= _judged(case, runs)
    return target | {"summary": describe_why(target)}


def _empty(runs: Sequence[WhyRun]) -> Json:
    """A target without results."""
    head = runs[0].head
    nothing: Json = {"explained_share": None, "unexplained_share": None}
    lists: Json = {name: [] for name in ("named", "ruled_out", "inconclusive", "not_tested")}
    return {
        **{key: head[key] for key in ("target", "launch", "label", "role", "n", "effort")},
        "status": "failed",
        "reason": None,
        "same_as": head["same_as"],
        "units": None,
        "unit_count": None,
        "start_sd": None,
        **dict.fromkeys(("step_1_s", "step_n_s", "growth_ratio", "summary")),
        "scaling_loss": lists | nothing,
        "single_process_loss": {name: [] for name in lists} | nothing,
        **{
            name: []
            for name in ("accounts", "counts", "interventions", "sensitivities", "microbenchmarks")
        },
        "knee": None,
        "foreign": foreign_rows(runs),
        "waits": [],
    }


def _unusable(runs: Sequence[WhyRun]) -> Json:
    """Why there is no verdict."""
    same = next((run.head["same_as"] for run in runs if run.head["same_as"]), None)
    if same is not None:
        return {"status": "skipped", "reason": f"the same launch as {same}", "same_as": same}
    ends = [run.end for run in runs if run.end is not None]
    reason = next((end["reason"] for end in ends if end["reason"]), None)
    skipped = bool(ends) and all(end["status"] == "skipped" for end in ends)
    missing = "no usable window of the launch itself, alone and together"
    return {"status": "skipped" if skipped else "failed", "reason": reason or missing}


def _judged(case: Case, runs: Sequence[WhyRun]) -> Json:
    """Everything that is known of a target with windows."""
    pairs = case.pair(case.step(case.n), case.step(1))
    ratio = ratios.geometric_ratio(pairs)
    growth = _scope(case, "scaling_loss") if _grows(ratio) and case.n > 1 else []
    level = _scope(case, "single_process_loss")
    named = [one for one in (*growth, *level) if one.status == "named"]
    return {
        "status": _status(case, ratio, named),
        "reason": _remark(runs),
        "units": case.units,
        "unit_count": len(pairs),
        "start_sd": case.start_sd if case.units == "blocks" else None,
        "step_1_s": _mean(case, 1),
        "step_n_s": _mean(case, case.n),
        "growth_ratio": ratio.to_dict() if ratio else None,
        "scaling_loss": _side(case, growth, "scaling_loss"),
        "single_process_loss": _side(case, level, "single_process_loss"),
        "accounts": accounts(case),
        "counts": counts(case),
        "interventions": intervention_rows(case, grows=_grows(ratio)),
        "sensitivities": sensitivity_rows(case, sensitivities(case)),
        "microbenchmarks": microbenchmark_rows(case, inflations(case)),
        "waits": wait_rows(case),
    }


def _grows(ratio: Interval | None) -> bool:
    """Whether there is growth to explain."""
    return ratio is not None and grows(ratio.value, ratio.low)


def _status(case: Case, ratio: Interval | None, named: Sequence[Outcome]) -> str:
    if named:
        return "explained"
    if case.n > 1 and (ratio is None or ratio.low is None):
        return "inconclusive"
    return "inconclusive" if _grows(ratio) and case.n > 1 else "nothing_to_explain"


def _remark(runs: Sequence[WhyRun]) -> str | None:
    """Why a run is not whole, if one is not."""
    ends = [run.end for run in runs]
    if any(end is None for end in ends):
        return "a job was cut off; what it had measured is used"
    return next((end["reason"] for end in ends if end and end["status"] != "complete"), None)


def _mean(case: Case, n: int) -> Json | None:
    """A step's mean over the blocks that hold both counts: the two divide to the growth."""
    both = ~np.isnan(case.step(1) + case.step(case.n))
    step = np.where(both | ~both.any(), case.step(n), np.nan)
    estimate = ratios.geometric_ratio(case.pair(step, step / step))
    return estimate.to_dict() if estimate else None


def _scope(case: Case, scope: Scope) -> list[Outcome]:
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
    """The outcome that says most: of several ways, one that shows the cause is enough."""
    order: tuple[Status, ...] = ("named", "inconclusive", "ruled_out", "not_tested")
    return min(
        outcomes,
        key=lambda one: (
            order.index(one.status),
            -one.measured.estimate.value if one.measured else 0.0,
        ),
    )


def _side(case: Case, outcomes: Sequence[Outcome], scope: Scope) -> Json:
    """One scope as causes.json holds it."""

    def findings(status: Status) -> list[Json]:
        chosen = [one for one in outcomes if one.status == status]
        chosen.sort(key=lambda one: -(one.measured.estimate.value if one.measured else 0.0))
        return [_finding(case, one) for one in chosen]

    shares = [one.measured.estimate for one in outcomes if one.status == "named" and one.measured]
    explained = ratios.together(shares)
    if explained is None and outcomes and scope == "scaling_loss":
        explained = Interval(0.0, 0.0, 0.0)
    return {
        **{name: findings(name) for name in ("named", "ruled_out", "inconclusive")},
        "not_tested": [
            {"cause": one.cause.id, "title": one.cause.title, "reason": one.reason}
            for one in outcomes
            if one.status == "not_tested"
        ],
        "explained_share": explained.to_dict() if explained else None,
        "unexplained_share": explained.times(-1.0, 1.0).to_dict() if explained else None,
    }


def _finding(case: Case, outcome: Outcome) -> Json:
    """A cause as causes.json holds it."""
    measured = outcome.measured
    evidence = ((measured.evidence, *measured.also) if measured else ()) + outcome.evidence
    agreeing = [one for one in evidence if one.agrees]
    against = [one for one in evidence if one.agrees is False]
    open_ = [one for one in evidence if one.agrees is None]
    return {
        "cause": outcome.cause.id,
        "title": outcome.cause.title,
        "share": measured.estimate.to_dict() if measured else None,
        "confidence": _confidence(outcome, agreeing, against),
        **{
            side: [{"kind": one.kind, "text": one.text} for one in found]
            for side, found in (("for", agreeing), ("against", against), ("open", open_))
        },
        "looks": outcome.cause.looks,
        "source": outcome.cause.source,
        "remedy": remedy(case, outcome.cause, measured.intervention if measured else None),
    }


def _confidence(
    outcome: Outcome, agreeing: Sequence[Evidence], against: Sequence[Evidence]
) -> Literal["high", "medium", "low"]:
    """How sure: by how many kinds of evidence agree, and how well the share is known."""
    share = outcome.measured.estimate if outcome.measured else None
    if outcome.status == "ruled_out":
        return "high"
    if outcome.status != "named" or share is None or share.low is None:
        return "low"
    sure = share.low >= SURELY * share.value and not against
    kinds = {one.kind for one in agreeing}
    if sure and (len(kinds) > 1 or (outcome.measured and outcome.measured.exact)):
        return "high"
    return "medium" if sure or len(kinds) > 1 else "low"
