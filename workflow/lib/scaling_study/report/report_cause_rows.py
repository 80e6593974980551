"""From analysis/causes.json to the rows of the report's tables about causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import format_number, format_percent, format_seconds
from scaling_study.report.figure_causes import ACCOUNT_COLOURS, FALLBACK_COLOUR
from scaling_study.report.figure_inflation import format_added
from scaling_study.report.headline_causes import share_interval, value_of
from scaling_study.report.report_rows import Cell, Row, number_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def ruled_out(growth: Sequence[Mapping[str, Any]], level: Sequence[Mapping[str, Any]]) -> list[Row]:
    """What was ruled out, with its largest possible share of the growth and of a step alone."""
    rows: dict[str, Row] = {}
    for side, entries in (("growth", growth), ("level", level)):
        for entry in entries:
            row = rows.setdefault(
                entry["cause"],
                {"title": entry["title"], "growth": _blank(), "level": _blank(), "why": []},
            )
            row[side] = _share_cell(entry["share"])
            # A share that is too small is evidence for the cause, as far as it goes.
            seen = [one["text"] for one in (*entry["against"], *entry["for"], *entry["open"])]
            row["why"] += [text for text in dict.fromkeys(seen) if text not in row["why"]]
    return list(rows.values())


def _blank() -> Cell:
    return number_cell(None)


def _share_cell(share: Mapping[str, Any] | None) -> Cell:
    cell = number_cell(share["value"] if share else None, text=value_of(share))
    return replace(cell, interval=share_interval(share))


def not_tested(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Causes that were not tested: those of growth and level are often the same."""
    return list(dict.fromkeys((entry["title"], entry["reason"] or "") for entry in entries))


def account_row(entry: Mapping[str, Any]) -> Row:
    """An account with one process and with n, and its share of what is added."""
    return {
        "title": entry["title"],
        "colour": ACCOUNT_COLOURS.get(entry["account"], FALLBACK_COLOUR),
        "low": number_cell(entry["low_s"], text=format_seconds(entry["low_s"])),
        "high": number_cell(entry["high_s"], text=format_seconds(entry["high_s"])),
        "difference": replace(
            number_cell(entry["difference_s"], text=format_added(entry["difference_s"])),
            interval=format_percent(entry["share"]),
        ),
    }


def count_row(entry: Mapping[str, Any]) -> Row:
    """A count with one process and with n."""
    return {
        "title": entry["title"],
        "low": number_cell(entry["low"], text=format_number(entry["low"])),
        "high": number_cell(entry["high"], text=format_number(entry["high"])),
    }


def relief_row(entry: Mapping[str, Any]) -> Row:
    """What one relief changed: the three shares with their intervals."""
    return {
        "title": entry["title"],
        "comes_back": _share_cell(entry["comes_back"]),
        "growth": _share_cell(entry["growth"]),
        "level": _share_cell(entry["level"]),
    }


def lost_reason(entry: Mapping[str, Any]) -> str:
    """Why a relief has no result."""
    what = {"failed": "failed", "not_applicable": "does not apply"}
    status = what.get(entry["status"], entry["status"])
    return f"{status}: {entry['reason']}" if entry["reason"] else status


def wait_row(entry: Mapping[str, Any]) -> Row:
    """A system call in which training threads were found."""
    share = entry.get("share")
    return {
        "n": str(entry.get("n", "")),
        "call": entry.get("syscall") or "",
        "on": entry.get("on") or "",
        "share": number_cell(share, text=format_percent(share)),
    }


def foreign_row(entry: Mapping[str, Any]) -> Row:
    """A program that took CPU time beside the study."""
    return {
        "name": entry["name"],
        "pid": str(entry["pid"]),
        "cpu": number_cell(entry["cpu_s"], text=format_seconds(entry["cpu_s"])),
        "share": number_cell(entry["share"], text=format_percent(entry["share"])),
    }
