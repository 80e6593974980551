"""What a machine was used for while a script trained: a figure, and rules of thumb with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure as Canvas

from scaling_study.common.quantities import (
    format_bytes,
    format_cpus,
    format_percent,
)
from scaling_study.report import svg
from scaling_study.report.figure_style import WIDTH_IN, drawing
from scaling_study.report.figures import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.report.report_rows import Row

    Json = Mapping[str, Any]

KINDS = {
    "trainers": ("training threads", "part-1"),
    "threads": ("other threads of theirs", "part-2"),
    "workers": ("processes of theirs", "part-3"),
    "others": ("other programs", "rest"),
}
MAXED = 0.9
"""What is used to this part has nothing left to give."""
STALLED = 0.1
PLOT_IN = 3.4


def draw_use(found: Json | None, suffix: str) -> Figure | None:
    """Draw the CPUs that each kind of thread used over time; None where it was not looked at."""
    if found is None:
        return None
    spans, cpus = found["spans"], found["cpus"]
    means = {kind: _mean(spans, kind) for kind in KINDS}
    name, title = f"use{suffix}", "CPUs in use while it trains as it is"
    told = ", ".join(f"{KINDS[kind][0]} {format_cpus(mean)}" for kind, mean in means.items())
    with drawing():
        canvas = Canvas(figsize=(WIDTH_IN, PLOT_IN), layout="constrained")
        axes = canvas.subplots()
        axes.stackplot(
            [span["at_s"] for span in spans],
            [[span[kind] for span in spans] for kind in KINDS],
            labels=[label for label, _ in KINDS.values()],
            colors=[svg.colour(colour) for _, colour in KINDS.values()],
            linewidth=0,
        )
        axes.axhline(cpus, color=svg.colour("muted"), linewidth=1.2)
        axes.set_ylim(0, 1.15 * cpus)
        axes.set_xlim(spans[0]["at_s"], spans[-1]["at_s"])
        axes.set_xlabel("seconds")
        axes.set_ylabel("CPUs")
        axes.set_title(title)
        canvas.legend(loc="outside lower left", ncols=2, handlelength=1)
        drawn = svg.themed(canvas, name=name, alt=f"CPUs in use on average: {told}.")
    caption = (
        f"Looked at {len(spans) + 1} times while nothing was measured. The line: the"
        f" {format_cpus(cpus)} CPUs that the study may use."
    )
    return Figure(name, title, caption, drawn)


def rules_of_thumb(found: Json | None, memory_bytes: int | None) -> list[Row]:
    """Answer rules of thumb for feeding training, each with its number; none without looks.

    Args:
        found: `use` of analysis/feed.json.
        memory_bytes: of the machine.
    """
    if found is None:
        return []
    spans, cpus = found["spans"], found["cpus"]
    used = sum(_mean(spans, kind) for kind in KINDS)
    rows = [
        _row(
            "CPUs are not used up", used < MAXED * cpus,
            f"{format_cpus(used)} of {format_cpus(cpus)} CPUs in use",
        ),
    ]  # fmt: skip
    for kind, what in (("stalled_cpu", "a CPU"), ("stalled_io", "a disk")):
        if (share := _mean(spans, kind)) is not None:
            text = f"in {format_percent(round(share, 2))} of the time something waited for {what}"
            rows.append(_row(f"Nobody waits for {what}", share < STALLED, text))
    for left, whole, what, place in (
        ("memory_left", memory_bytes, "Memory", ""),
        ("shared_left", found["shared_bytes"], "Shared memory", " of /dev/shm"),
    ):
        if whole:
            least = min(span[left] for span in spans)
            text = f"{format_bytes(least)}{place} were left at least"
            rows.append(_row(f"{what} is not used up", least > (1 - MAXED) * whole, text))
    for kind, what in (("disk", "read from disks"), ("network", "received from the network")):
        text = f"{format_bytes(_mean(spans, kind))} a second {what}"
        rows.append({"label": "for comparison", "answer": "", "text": text})
    return rows


def _row(rule: str, holds: bool, text: str) -> Row:
    return {"label": rule, "answer": "yes" if holds else "no", "text": text}


def _mean(spans: Sequence[Json], kind: str) -> Any:
    known = [span[kind] for span in spans if span[kind] is not None]
    return sum(known) / len(known) if known else None
