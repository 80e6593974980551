"""The third answer of a report: why a launch does not scale further, in a few words.

Everything here is wording. What is a cause, and how sure that is, ``verdict`` has decided; a share
is never shown without what stays unexplained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import (
    MINUS,
    MISSING,
    format_count,
    format_percent,
    format_ratio,
    known,
)
from scaling_study.report.headline_words import Note
from scaling_study.stats import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMED_IN_VERDICT = 2
"""Causes named in the few words on top."""
NAMED_IN_A_LIST = 6
"""Causes named in a sentence that says which ones were ruled out."""
ALL = 0.995
UNKNOWN = "We do not know why"
NOISY = "The windows differ too much to tell whether more processes make it slower"
SCALES = "Nothing to explain: it scales"
NO_SHARE: Mapping[str, None] = {"value": None, "low": None, "high": None}
OVERLAP = (
    "Each share comes from an experiment of its own, so that together they can exceed the whole."
)


@dataclass(frozen=True, slots=True)
class Share:
    """One bar of an answer: how much of the added time, or of a step alone, something explains.

    Attributes:
        kind: ``growth``, ``level`` or ``unexplained``.
        text: what explains it.
        value: the share.
        interval: its 95% interval in words; empty where there is none.
        width: of the bar, 0 to 1.
        low: where the interval begins, 0 to 1; None without one.
        high: where it ends.
        confidence: ``high``, ``medium`` or ``low``; empty for what is unexplained.
    """

    kind: str
    text: str
    value: str
    interval: str
    width: float
    low: float | None = None
    high: float | None = None
    confidence: str = ""


@dataclass(frozen=True, slots=True)
class Because:
    """Why one launch does not scale further.

    Attributes:
        launch: which launch.
        question: what there is to explain.
        verdict: the answer in a few words.
        growth: shares of the time that more processes add to a step, with what is unexplained.
        level: shares of a step of one process alone.
        notes: what else a careful reader wants to know.
        remedy: of the first cause, as a sentence; empty where there is none.
    """

    launch: str
    question: str
    verdict: str
    growth: tuple[Share, ...] = ()
    level: tuple[Share, ...] = ()
    notes: tuple[Note, ...] = ()
    remedy: str = ""


def explain_target(target: Mapping[str, Any]) -> Because:
    """Word the answer for one launch.

    Args:
        target: of analysis/causes.json.
    """
    launch = name_target(target)
    if target["status"] in {"skipped", "failed"}:
        what = "were not made" if target["status"] == "skipped" else "failed"
        reason = f": {target['reason']}" if target["reason"] else ""
        return Because(
            launch, "", "Not known", notes=(Note(f"The experiments {what}{reason}.", warning=True),)
        )
    growth = _growth_shares(target) if _is_open(target) else ()
    level = tuple(_share(entry, "level") for entry in target["level"]["named"])
    first = next(iter([*target["growth"]["named"], *target["level"]["named"]]), None)
    return Because(
        launch,
        _question(target),
        _verdict(target),
        growth,
        level,
        tuple(_notes(target)),
        first["remedy"]["text"] if first and first.get("remedy") else "",
    )


def summarise(targets: Sequence[Mapping[str, Any]]) -> tuple[Because, ...]:
    """Word the answers of a machine; a launch that two targets mean is answered once."""
    return tuple(explain_target(target) for target in targets if not target["same_as"])


def name_target(target: Mapping[str, Any]) -> str:
    """A target as a title: the launch, and why it is looked at."""
    if target["target"] == "recommended":
        return f"{target['label']} (recommended)"
    if target["arm"] == "default" and target["label"] != "default":
        return f"{target['label']} (default)"
    return str(target["label"])


def grows(target: Mapping[str, Any]) -> bool:
    """Whether a step takes longer with more processes, by more than noise."""
    ratio = target["growth_ratio"]
    if ratio is None or not known(ratio["value"]):
        return False
    return thresholds.grows(ratio["value"], ratio["low"])


def format_share(share: Mapping[str, Any] | None) -> str:
    """A share as ``94% (89% to 99%)``; a dash for one that is not known."""
    interval = share_interval(share)
    return f"{value_of(share)} ({interval})" if interval else value_of(share)


def value_of(share: Mapping[str, Any] | None) -> str:
    """The value of a share alone."""
    return _whole_percent(share["value"]) if share else MISSING


def share_interval(share: Mapping[str, Any] | None) -> str:
    """The interval of a share as ``89% to 99%``; empty without one."""
    if share is None or not known(share["low"]) or not known(share["high"]):
        return ""
    return f"{_whole_percent(share['low'])} to {_whole_percent(share['high'])}"


def _whole_percent(share: float | None) -> str:
    """A share in whole percent: intervals of these experiments are some percent wide."""
    if share is None or not known(share):
        return MISSING
    return f"{round(share, 2) + 0.0:.0%}".replace("-", MINUS)


def _is_open(target: Mapping[str, Any]) -> bool:
    """Whether growth was there to be explained."""
    return target["status"] != "nothing_to_explain" and (
        grows(target) or bool(target["growth"]["named"])
    )


def _is_noisy(target: Mapping[str, Any]) -> bool:
    """Whether a step got longer, but not by more than the windows differ among themselves."""
    ratio = target["growth_ratio"]
    return ratio is not None and ratio["value"] >= thresholds.GROWS and not grows(target)


def _question(target: Mapping[str, Any]) -> str:
    ratio = target["growth_ratio"]
    if ratio is None or target["n"] == 1:
        return "" if ratio is None else "Only one process was tried"
    interval = ""
    if known(ratio["low"]) and known(ratio["high"]):
        low = max(0.0, ratio["low"])  # Student's t knows nothing of what times can be
        interval = f" ({format_ratio(low)} to {format_ratio(ratio['high'])})"
    return (
        f"With {_processes(target['n'])} a step takes {format_ratio(ratio['value'])} as long as "
        f"with one{interval}"
    )


def _verdict(target: Mapping[str, Any]) -> str:
    """The answer in a few words."""
    named, level = target["growth"]["named"], target["level"]["named"]
    if named:
        return _count_up(named, target["growth"]["explained_share"], "of the added time")
    if level and not _is_open(target):
        return _count_up(level, None, "of a step, with one process already")
    if target["status"] == "inconclusive" or _is_open(target):
        return UNKNOWN
    return NOISY if _is_noisy(target) else SCALES


def _count_up(named: Sequence[Mapping[str, Any]], whole: Mapping[str, Any] | None, of: str) -> str:
    """Causes with their shares, the first ones by name."""
    if len(named) == 1 and not known((named[0]["share"] or NO_SHARE)["value"]):
        return f"An unknown share {of}: {_doubt(named[0])}"
    if len(named) == 1:
        return f"{_amount(named[0]['share'])} {of}: {_doubt(named[0])}"
    shown = [f"{_doubt(entry)} ({value_of(entry['share'])})" for entry in named]
    shown = shown[:NAMED_IN_VERDICT]
    further = len(named) - len(shown)
    text = ", ".join(shown) + (f", and {further} more" if further else "")
    return f"{_amount(whole)} {of}: {text}" if whole else f"{text} {of}"


def _amount(share: Mapping[str, Any] | None) -> str:
    """A share that begins a sentence; experiments may find a little more than all."""
    return "All" if share and share["value"] >= ALL else value_of(share)


def _doubt(entry: Mapping[str, Any]) -> str:
    """A cause's title inside a sentence, with a word where it is not sure."""
    return f"{'probably ' if entry['confidence'] == 'low' else ''}{_inside(entry['title'])}"


def _growth_shares(target: Mapping[str, Any]) -> tuple[Share, ...]:
    """The named causes, and what is unexplained: always there, also where nothing is named."""
    growth = target["growth"]
    rest = growth["unexplained_share"]
    if rest is None and not growth["named"]:
        rest = {"value": 1.0, "low": None, "high": None}
    unexplained = {"title": "Unexplained", "share": rest, "confidence": ""}
    named = [_share(entry, "growth") for entry in growth["named"]]
    return (*named, _share(unexplained, "unexplained"))


def _share(entry: Mapping[str, Any], kind: str) -> Share:
    share = entry["share"]
    value, low, high = ((share or NO_SHARE)[end] for end in ("value", "low", "high"))
    return Share(
        kind,
        str(entry["title"]),
        value_of(share),
        share_interval(share),
        _within(value) if known(value) else 0.0,
        _within(low) if known(low) and known(high) else None,
        _within(high) if known(low) and known(high) else None,
        entry["confidence"],
    )


def _within(share: float | None) -> float:
    return min(1.0, max(0.0, share or 0.0))


def _notes(target: Mapping[str, Any]) -> list[Note]:
    growth, level = target["growth"], target["level"]
    notes = []
    if growth["named"] and level["named"]:
        first = level["named"][0]
        text = (
            f"Slow with one process already: {_inside(first['title'])}, "
            f"{value_of(first['share'])} of a step."
        )
        notes.append(Note(text))
    if level["named"] and not growth["named"] and _is_noisy(target):
        notes.append(Note(f"{NOISY}.", warning=True))
    ruled_out = [entry["title"] for entry in growth["ruled_out"]]
    if ruled_out and _is_open(target):
        notes.append(Note(f"Tested and ruled out: {_list_titles(ruled_out)}."))
    undecided = [entry["title"] for entry in growth["inconclusive"]]
    if undecided and _is_open(target):
        notes.append(Note(f"Tested, and not decided: {_list_titles(undecided)}."))
    rest = growth["unexplained_share"]
    if growth["named"] and rest is not None and rest["value"] < 0:
        notes.append(Note(OVERLAP))
    if target["unit_count"]:
        notes.append(Note(_units(target)))
    if target["reason"]:
        notes.append(Note(f"{target['reason'][:1].upper()}{target['reason'][1:]}.", warning=True))
    return notes


def _units(target: Mapping[str, Any]) -> str:
    """What the intervals are over, and what they therefore do not contain."""
    count = target["unit_count"]
    if target["units"] == "replicates":
        return f"Intervals: 95%, over {format_count(count, 'fresh start', 'fresh starts')}."
    text = f"Intervals: 95%, over {format_count(count, 'block')} of windows of one start"
    if known(target["start_sd"]):
        text += f"; they allow for starts that differ by {format_percent(target['start_sd'])}"
    return f"{text}; “why: full” starts three times." if target["effort"] == "quick" else f"{text}."


def _list_titles(titles: Sequence[str]) -> str:
    shown = [_inside(title) for title in titles]
    if len(shown) > NAMED_IN_A_LIST:
        shown = [*shown[: NAMED_IN_A_LIST - 1], f"{len(shown) - NAMED_IN_A_LIST + 1} more"]
    return "; ".join(shown)


def _inside(title: str) -> str:
    """A title inside a sentence: ``A slow kernel`` begins small there, ``CPU quota`` does not."""
    first, _, _ = title.partition(" ")
    return title[:1].lower() + title[1:] if first[1:] == first[1:].lower() else title


def _processes(count: int) -> str:
    return format_count(count, "process", "processes")
