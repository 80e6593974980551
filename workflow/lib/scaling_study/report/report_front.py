"""The report's section on one model soon against many in an hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaling_study.common.quantities import format_count, format_number, format_time
from scaling_study.report.figure_front import draw_front
from scaling_study.report.figures import Figure
from scaling_study.report.headline_words import (
    NOUNS,
    THINGS,
    UNITS,
    amount,
    name_launch,
    processes,
)
from scaling_study.report.report_rows import Cell, number_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FrontView:
    """What the template shows.

    Attributes:
        heading: what is against what.
        text: how to read it.
        ends: both ends of the front, in words.
        heads: of the table's columns.
        rows: the front's points, soonest first: label and cells.
        figure: all points.
    """

    heading: str
    text: str
    ends: tuple[str, ...]
    heads: tuple[str, str]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    figure: Figure


def view_front(found: Json, *, suffix: str, raced: bool) -> FrontView | None:
    """Return the section of one machine; None without a point.

    Args:
        found: its entry of analysis/pareto.json.
        suffix: of its figures' names.
        raced: whether a race decided which points were measured.
    """
    points, front, rate = found["points"], found["front"], found["rate"]
    if not points:
        return None
    thing, noun = THINGS[rate], NOUNS[rate]
    ends = _ends(front, rate)
    left_out = sum(point["changes_training"] for point in points)
    text = (
        f"More processes give more {noun}, and {thing} takes longer. The front holds the "
        "points that no other one beats at both. Its values are predicted means: neighbours on it "
        "may differ by chance."
    )
    if left_out:
        what = format_count(left_out, "point is", "points are")
        text += f" {what} of launches that change training, which are not on the front."
    if raced:
        text += " The race measured only what may be best for the study's objective."
    title = UNITS[rate]
    figure = draw_front(
        points,
        front,
        name=f"front{suffix}",
        thing=f"time of {thing}",
        title=title,
        alt=f"{noun.capitalize()} against the time of {thing}. {' '.join(ends)}",
    )
    caption = (
        f"Each mark is a launch at a process count: to the left {thing} is done sooner, to the top "
        f"there are more {noun}. The line joins the front."
    )
    return FrontView(
        f"{thing.capitalize()} soon, or many {noun.split(maxsplit=1)[1]}",
        text,
        ends,
        (thing, title),
        tuple(
            (
                point["label"],
                (
                    number_cell(point["n"], text=str(point["n"])),
                    number_cell(point["time_s"], text=format_time(point["time_s"])),
                    number_cell(point["rate"]),
                ),
            )
            for point in front
        ),
        Figure(
            f"front{suffix}", f"{noun.capitalize()} against the time of {thing}", caption, figure
        ),
    )


def _ends(front: list[Json], rate: str) -> tuple[str, ...]:
    """The ends of the front in words; none where every launch changes training."""
    if not front:
        return ()
    thing, noun, (soonest, most) = THINGS[rate], NOUNS[rate], (front[0], front[-1])
    soon = f"{thing.capitalize()} soonest: {format_time(soonest['time_s'])}, with {_named(soonest)}"
    if soonest is most:
        return (f"{soon}. It gives most {noun}, too: {format_number(most['rate'])}.",)
    each, long = format_number(most["rate"]), format_time(most["time_s"])
    return (
        f"{soon} ({amount(soonest['rate'], rate)}).",
        f"Most {noun}: {each}, with {_named(most)} ({thing} takes {long}).",
    )


def _named(point: Json) -> str:
    return f"{processes(point)} of {name_launch(point)}"
