"""The report's part about causes: what the experiments on each launch found, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import known
from scaling_study.report.headline_causes import (
    Because,
    explain_target,
    format_share,
    name_target,
)
from scaling_study.report.report_cause_figures import (
    draw_accounts_figure,
    draw_fingerprint_figure,
    draw_reliefs_figure,
    draw_sensitivities_figure,
    order_reliefs,
)
from scaling_study.report.report_cause_rows import (
    account_row,
    count_row,
    foreign_row,
    lost_reason,
    not_tested,
    relief_row,
    ruled_out,
    wait_row,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.report.figures import Figure
    from scaling_study.report.report_rows import Row

EVIDENCE = {
    "account": "the kernel's count",
    "relief": "taken away",
    "aggravation": "added",
    "fact": "known",
    "samples": "seen in samples",
    "fingerprint": "this machine alone",
}
"""What a kind of evidence is called."""
SIDES = ("for", "against", "open")
"""What a piece of evidence says of a cause; "open" is one that cannot tell."""
REMEDY = ("text", "config", "command", "code")
OF_WHAT = {"growth": "of the added time", "level": "of a step of one process"}


@dataclass(frozen=True, slots=True)
class CaseView:
    """One cause, with what speaks for and against it.

    Attributes:
        title: of the cause.
        share: its share with the interval, and of what.
        confidence: ``high``, ``medium`` or ``low``.
        evidence: rows ``side`` (for, against, open), ``kind`` and ``text``.
        looks: how such a cause looks.
        source: where that is described.
        remedy: ``text``, ``config``, ``command`` and ``code``, each None where there is none.
    """

    title: str
    share: str
    confidence: str
    evidence: list[Row]
    looks: str
    source: str
    remedy: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TargetView:
    """What the templates show of the experiments on one launch.

    Attributes:
        launch: as a title.
        same_as: title of the target that is the same launch; None for one of its own.
        because: the answer in a few words.
        summary: the answer as a paragraph.
        boundary: of the machine, that the knee coincides with, as a sentence; empty without one.
        cases: the named causes of growth, the largest first.
        level_cases: the named causes of a slow step of one process.
        undecided: what was tested without a result.
        ruled_out: rows of what was tested and is no cause.
        not_tested: causes that could not be tested, with reasons.
        accounts: rows of the time accounts.
        counts: rows of what the kernel counted.
        reliefs: rows of measured reliefs.
        lost_reliefs: reliefs that failed or do not apply, with reasons.
        waits: rows of what members waited for.
        foreign: rows of foreign programs that took CPU time.
        n: the high count; None where nothing was measured.
        figures: of accounts, reliefs and sensitivities, by these names; None for one that cannot
            be drawn.
    """

    launch: str
    same_as: str | None
    because: Because
    summary: str
    boundary: str
    cases: list[CaseView]
    level_cases: list[CaseView]
    undecided: list[CaseView]
    ruled_out: list[Row]
    not_tested: list[tuple[str, str]]
    accounts: list[Row]
    counts: list[Row]
    reliefs: list[Row]
    lost_reliefs: list[tuple[str, str]]
    waits: list[Row]
    foreign: list[Row]
    n: int | None
    figures: Mapping[str, Figure | None]

    @property
    def measured(self) -> bool:
        """Whether there are measurements to show."""
        drawn = any(figure is not None for figure in self.figures.values())
        return drawn or bool(self.lost_reliefs or self.waits or self.foreign)


@dataclass(frozen=True, slots=True)
class CausesView:
    """What the templates show of a machine's experiments; its own ladder of kernels is one for all.

    Attributes:
        targets: in the order of the file.
        fingerprint: figure of the kernels alone; None where they were not measured.
    """

    targets: tuple[TargetView, ...]
    fingerprint: Figure | None

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures in it, to be written as files too."""
        drawn = [figure for target in self.targets for figure in target.figures.values()]
        return tuple(figure for figure in (*drawn, self.fingerprint) if figure is not None)

    @property
    def because(self) -> tuple[Because, ...]:
        """The answers for the top of the page: one for each launch."""
        return tuple(target.because for target in self.targets if target.same_as is None)


def view_causes(
    targets: Sequence[Mapping[str, Any]],
    fingerprint: Mapping[str, Any] | None = None,
    *,
    suffix: str = "",
) -> CausesView | None:
    """Make the view of one machine's experiments.

    Args:
        targets: its entry of analysis/causes.json.
        fingerprint: fingerprint.json of this machine; None where it was not measured.
        suffix: of the figures' names, ``""`` for the first machine.

    Returns:
        None where no experiment was made.
    """
    if not targets:
        return None
    titles = {target["target"]: name_target(target) for target in targets}
    return CausesView(
        tuple(
            _view_target(target, titles, f"{'' if at == 1 else f'-{at}'}{suffix}")
            for at, target in enumerate(targets, 1)
        ),
        draw_fingerprint_figure(fingerprint, suffix) if fingerprint else None,
    )


def _boundary(knee: Mapping[str, Any] | None) -> str:
    at = knee and knee["boundary"]
    if not at:
        return ""
    n = f"{at['n']:g} {'process' if at['n'] == 1 else 'processes'}"
    return f"The knee coincides with a boundary of the machine: {at['name']} ({n})."


def _view_target(target: Mapping[str, Any], titles: Mapping[str, str], end: str) -> TargetView:
    growth, level = target["growth"], target["level"]
    same_as = target["same_as"]
    figures = {
        "accounts": draw_accounts_figure(target, f"causes-accounts{end}"),
        "reliefs": draw_reliefs_figure(target, f"causes-reliefs{end}"),
        "sensitivities": draw_sensitivities_figure(target, f"causes-doses{end}"),
    }
    measured = order_reliefs(target["reliefs"])
    lost = [entry for entry in target["reliefs"] if entry["status"] != "measured"]
    return TargetView(
        launch=name_target(target),
        same_as=titles.get(same_as, same_as) if same_as else None,
        because=explain_target(target),
        summary=target["summary"] or "",
        boundary=_boundary(target["knee"]),
        cases=[_case(entry, "growth") for entry in growth["named"]],
        level_cases=[_case(entry, "level") for entry in level["named"]],
        undecided=[
            *(_case(entry, "growth") for entry in growth["inconclusive"]),
            *(_case(entry, "level") for entry in level["inconclusive"]),
        ],
        ruled_out=ruled_out(growth["ruled_out"], level["ruled_out"]),
        not_tested=not_tested([*growth["not_tested"], *level["not_tested"]]),
        accounts=[account_row(entry) for entry in target["accounts"]],
        counts=[count_row(entry) for entry in target["counts"]],
        reliefs=[relief_row(entry) for entry in measured],
        lost_reliefs=[(entry["title"], lost_reason(entry)) for entry in lost],
        waits=[wait_row(entry) for entry in target["waits"]],
        foreign=[foreign_row(entry) for entry in target["foreign"]],
        n=target["n"],
        figures=figures,
    )


def _case(entry: Mapping[str, Any], side: str) -> CaseView:
    return CaseView(
        title=entry["title"],
        share=_share_text(entry["share"], side),
        confidence=entry["confidence"],
        evidence=[row for side in SIDES for row in _evidence(entry[side], side)],
        looks=entry["looks"] or "",
        source=(entry["source"] or "").rstrip("."),
        remedy=dict.fromkeys(REMEDY) | dict(entry["remedy"] or {}),
    )


def _share_text(share: Mapping[str, Any] | None, side: str) -> str:
    if share is None or not known(share["value"]):
        return f"Its share {OF_WHAT[side]} is not known"
    return f"{format_share(share)} {OF_WHAT[side]}"


def _evidence(entries: Sequence[Mapping[str, Any]], side: str) -> list[Row]:
    return [
        {"side": side, "kind": EVIDENCE.get(entry["kind"], entry["kind"]), "text": entry["text"]}
        for entry in entries
    ]
