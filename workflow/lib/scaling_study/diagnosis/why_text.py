"""The verdict on a target in plain words, for somebody who has never heard of a run queue."""

from collections.abc import Mapping, Sequence
from typing import Any

from scaling_study.common.quantities import (
    format_count,
    format_percent,
    format_ratio,
    format_seconds,
)
from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.stats.thresholds import GROWS

PLAIN = {cause.id: cause.plain for cause in CAUSES}
NAMED = 3
"""Causes that the paragraph names; the lists have all of them."""
NOTHING_LEFT = 0.05
"""A remainder below this is within the uncertainty of what was found."""


def describe_why(target: Mapping[str, Any]) -> str:
    """Put a verdict, a target of causes.json with results, into a paragraph."""
    sentences = [_question(target)]
    growth, level = target["scaling_loss"]["named"], target["single_process_loss"]["named"]
    if growth:
        sentences += _because(growth, "of the added time")
        sentences.append(_rest(target["scaling_loss"]["unexplained_share"]))
    elif target["status"] == "inconclusive":
        sentences.append(
            "The experiments do not show why: no single change recovers a clear part of the added "
            "time, and nothing that the system counts accounts for it."
        )
    if level:
        also = "also " if growth else ""
        sentences.append(f"One process alone is {also}slower than it must be.")
        sentences += _because(level, "of the step of a single process")
    first = next(iter([*growth, *level]), None)
    if first:
        sentences.append(
            f"First step: {first['remedy']['text'][:1].lower()}{first['remedy']['text'][1:]}"
        )
    return " ".join(sentence for sentence in sentences if sentence)


def _question(target: Mapping[str, Any]) -> str:
    ratio = target["growth_ratio"]
    processes = format_count(target["n"], "process", "processes")
    alone = format_seconds(target["step_1_s"]["value"])
    if target["n"] == 1 or ratio is None:
        return f"One process needs {alone} for each training step."
    together = format_seconds(target["step_n_s"]["value"])
    if target["scaling_loss"]["explained_share"] is None:
        same = (
            "nothing grows that would need an explanation"
            if ratio["value"] < GROWS
            else "the difference is no larger than what such measurements differ by"
        )
        return (
            f"With {processes} at once each training step takes {together}, with a single one "
            f"{alone}: {same}."
        )
    return (
        f"With {processes} at once each training step takes {together}, "
        f"{format_ratio(ratio['value'])} as long as the {alone} of a single process."
    )


def _because(named: Sequence[Mapping[str, Any]], of: str) -> list[str]:
    sentences = []
    for index, entry in enumerate(named[:NAMED]):
        share = format_percent(round(entry["share"]["value"], 2) + 0.0)
        begin = "Some" if index else "About"
        doubt = " probably" if entry["confidence"] == "low" else ""
        sentences.append(f"{begin} {share} {of} is{doubt} due to this: {PLAIN[entry['cause']]}.")
    more = len(named) - NAMED
    if more > 0:
        sentences.append(
            f"{format_count(more, 'smaller cause')} more {'was' if more == 1 else 'were'} found."
        )
    return sentences


def _rest(share: Mapping[str, float] | None) -> str:
    if share is None or share["value"] < NOTHING_LEFT:
        return ""
    return f"{format_percent(round(share['value'], 2))} of the added time stays unexplained."
