"""Which figures the search for causes has, with captions and texts for those who cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from scaling_study.common.quantities import format_count, format_percent, format_seconds, known
from scaling_study.report.figure_causes import (
    Dot,
    ReliefRow,
    choose_accounts,
    draw_accounts,
    draw_reliefs,
)
from scaling_study.report.figure_inflation import format_added
from scaling_study.report.figure_multiples import Curve, describe_largest, draw_multiples
from scaling_study.report.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTROL = "register"
"""The kernel that needs nothing but a core and its clock."""
PREFERRED_PLACEMENT = "cores"
FEWEST_BLOCKS = 2
"""Fewer blocks show no spread."""


def draw_accounts_figure(target: Mapping[str, Any], name: str) -> Figure | None:
    """Draw a target's time accounts; None where they are not known."""
    accounts = choose_accounts(target["accounts"])
    if not accounts or target["n"] is None:
        return None
    largest = max(accounts, key=lambda account: abs(account.added_s))
    low_s = sum(account.low_s for account in accounts)
    high_s = sum(account.high_s for account in accounts)
    title = "What more processes add to a step"
    drawn = draw_accounts(
        accounts,
        target["n"],
        name=name,
        title=title,
        alt=f"A step of the training thread takes {format_seconds(low_s)} with one process and "
        f"{format_seconds(high_s)} with {target['n']}. Largest change: {largest.title}, "
        f"{format_added(largest.added_s)}.",
    )
    caption = (
        "Mean time of a step of the training thread, divided by what the kernel counts: top, one "
        f"process; bottom, {target['n']}. Between them each bar begins where the one above ended. "
        "“Not accounted for” is what the counts leave of the step's wall time."
    )
    return Figure(name, title, caption, drawn)


def order_reliefs(reliefs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The reliefs that were measured; first the one that brings most of the added time back."""
    measured = [entry for entry in reliefs if entry["status"] == "measured"]
    return sorted(measured, key=lambda entry: -_value(entry["comes_back"] or entry["growth"]))


def draw_reliefs_figure(target: Mapping[str, Any], name: str) -> Figure | None:
    """Draw what each relief of a target changes; None where none was measured."""
    measured = order_reliefs(target["reliefs"])
    entries = [entry for entry in measured if entry["growth"] or entry["level"]]
    if not entries:
        return None
    best = max(entries, key=lambda entry: _value(entry["growth"]))
    title = "One change at a time: what it takes away"
    rows = [
        ReliefRow(entry["title"], dot(entry["growth"]), dot(entry["level"])) for entry in entries
    ]
    drawn = draw_reliefs(
        rows,
        name=name,
        title=title,
        alt=f"Share of the growth and of a step alone that each of "
        f"{format_count(len(entries), 'relief')} takes away. Most growth: {best['title']}, "
        f"{format_percent(_value(best['growth']))}.",
    )  # fmt: skip
    caption = (
        "The same launch with one thing changed, in the same blocks. Left: the share of the growth "
        "with n that is gone; right: the share of a step of one process alone. At 0% the change "
        "does nothing; left of it, it makes things worse. Shaded: 95% intervals."
    )
    return Figure(name, title, caption, drawn)


def draw_sensitivities_figure(target: Mapping[str, Any], name: str) -> Figure | None:
    """Draw a target's dose-response curves; None where no bystander was measured."""
    curves = {entry["kernel"]: __dose_curve(entry) for entry in target["sensitivities"]}
    curves = {kernel: curve for kernel, curve in curves.items() if curve.x}
    if not curves:
        return None
    control = curves.get(CONTROL)
    shown = [curve for kernel, curve in curves.items() if kernel != CONTROL]
    title = "One thing added: step time beside other work"
    drawn = draw_multiples(
        shown,
        control,
        name=name,
        title=title,
        alt="Step time of one member beside kernels at growing doses, against no dose. "
        + describe_largest(shown),
        counts=False,
    )
    caption = (
        "One member trains beside others that run one kernel each for a share of their time (the "
        "dose). Step time against that beside nobody. What rises above the control, which only "
        "takes cores, shows what the training is sensitive to. Dashed: the others did not reach "
        "the work that was asked of them. Shaded: 95% intervals."
    )
    return Figure(name, title, caption, drawn)


def draw_fingerprint_figure(fingerprint: Mapping[str, Any], suffix: str) -> Figure | None:
    """Draw how much slower each kernel gets with n; None where nothing valid was measured."""
    curves = _inflation_curves(fingerprint)
    if not curves:
        return None
    name, title = f"fingerprint{suffix}", "This machine: kernels side by side"
    control = curves.get(CONTROL)
    shown = [curve for kernel, curve in curves.items() if kernel != CONTROL]
    drawn = draw_multiples(
        shown,
        control,
        name=name,
        title=title,
        alt="How many times slower each kernel gets with the number of processes that run it. "
        + describe_largest(shown),
        counts=True,
    )
    caption = (
        "Small kernels, each bound by one thing, as members in place of the training: the rate of "
        "one alone over the mean rate of n together. A flat line at 1: enough for all. No training "
        "is in it: it belongs to the machine. Shaded: from the lowest block to the highest."
    )
    return Figure(name, title, caption, drawn)


def _value(share: Mapping[str, Any] | None) -> float:
    return float(share["value"]) if share and known(share["value"]) else 0.0


def dot(share: Mapping[str, Any] | None) -> Dot | None:
    """Return a share as a figure draws it; None where it is not known."""
    if share is None or not known(share["value"]):
        return None
    sure = known(share["low"]) and known(share["high"])
    return Dot(share["value"], share["low"] if sure else None, share["high"] if sure else None)


def __dose_curve(entry: Mapping[str, Any]) -> Curve:
    doses = sorted(entry["doses"], key=lambda dose: float(dose["dose"]))
    dots = [(float(dose["dose"]), dot(dose["ratio"])) for dose in doses]
    return curve(entry["title"], dots, sure=bool(entry["verified"]))


def curve(title: str, dots: Sequence[tuple[float, Dot | None]], *, sure: bool = True) -> Curve:
    """Return the curve of those values that are known, by x."""
    there = [(x, dot) for x, dot in dots if dot]
    return Curve(
        title,
        tuple(x for x, _ in there),
        tuple(dot.value for _, dot in there),
        tuple(dot.low for _, dot in there),
        tuple(dot.high for _, dot in there),
        sure,
    )


def _inflation_curves(fingerprint: Mapping[str, Any]) -> dict[str, Curve]:
    """Inflation of each kernel with n, in the order of the kernels.

    A block's inflation is its rate of one member alone over the mean rate of a member of n.
    """
    rows = pd.DataFrame(
        [
            {**{key: row[key] for key in ("kernel", "placement", "n", "block")},
             "rate": sum(row["rates"]) / len(row["rates"])}
            for row in fingerprint["rows"]
            if row["valid"] and row["rates"] and min(row["rates"]) > 0
        ]
    )  # fmt: skip
    if rows.empty:
        return {}
    placements = set(rows["placement"])
    chosen = PREFERRED_PLACEMENT if PREFERRED_PLACEMENT in placements else min(placements)
    rates = rows[rows["placement"] == chosen].pivot_table(
        index=["kernel", "block"], columns="n", values="rate"
    )
    if 1 not in rates:
        return {}
    inflation = rates.rdiv(rates[1], axis=0)
    curves = {}
    for kernel in fingerprint["kernels"]:
        if kernel["kernel"] in inflation.index.get_level_values("kernel"):
            blocks = inflation.loc[kernel["kernel"]]
            dots = [(float(n), _spread(blocks[n].dropna())) for n in blocks]
            curves[kernel["kernel"]] = curve(kernel["title"], dots)
    return curves


def _spread(blocks: pd.Series[float]) -> Dot | None:
    """The mean over blocks, with the lowest and the highest."""
    if blocks.empty:
        return None
    if len(blocks) < FEWEST_BLOCKS:
        return Dot(float(blocks.mean()), None, None)
    return Dot(float(blocks.mean()), float(blocks.min()), float(blocks.max()))
