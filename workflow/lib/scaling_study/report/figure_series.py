"""Which launches figures draw in colour, and what legends call them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARKERS = ("o", "X", "s", "^", "D", "v")
MOST_COLOURED = len(MARKERS)
"""Series drawn in colour: more lines than these cannot be told apart."""
LABEL_CHARACTERS = 46
"""Of a legend's line: what fits a figure's width in the widest font."""
WRAPPING_LOSS = 12
"""Characters that the first of two lines may lack because the next word is long."""


@dataclass(frozen=True, slots=True)
class Series:
    """A launch that figures draw in colour.

    Attributes:
        launch: its id.
        label: its text.
        roles: of ``recommended``, ``default``, ``today`` and ``baseline``, those that it has.
        colour: a name of ``svg.THEME``.
        marker: matplotlib's name.
    """

    launch: str
    label: str
    roles: tuple[str, ...]
    colour: str
    marker: str

    @property
    def title(self) -> str:
        """The label with the roles."""
        roles = ", ".join(role for role in self.roles if role != self.label)
        return f"{self.label} ({roles})" if roles else self.label

    @property
    def legend(self) -> str:
        """The title on at most two lines of a legend."""
        return "\n".join(
            textwrap.wrap(
                shorten(self.title, 2 * LABEL_CHARACTERS - WRAPPING_LOSS),
                LABEL_CHARACTERS,
                break_on_hyphens=False,
            )
        )

    @property
    def line(self) -> str:
        """The title on one line."""
        return shorten(self.title, LABEL_CHARACTERS)


def shorten(text: str, characters: int) -> str:
    """Cut a long text in its middle, and make what cannot be printed visible."""
    visible = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    if len(visible) <= characters:
        return visible
    half = (characters - 1) // 2
    return f"{visible[:half]}…{visible[-half:]}"


def choose_series(
    labels: Mapping[str, str], roles: Mapping[str, str | None], best_first: Sequence[str]
) -> tuple[Series, ...]:
    """Choose the launches to draw in colour.

    Args:
        labels: text of every launch that has points, by id.
        roles: the launch that has each role, the most important role first.
        best_first: launches by their throughput.

    Returns:
        At most ``MOST_COLOURED``: those with a role, and then the best of the others.
    """
    ordered = dict.fromkeys([*filter(None, roles.values()), *best_first])
    chosen = [launch for launch in ordered if launch in labels][:MOST_COLOURED]
    return tuple(
        Series(
            launch=launch,
            label=labels[launch],
            roles=tuple(role for role, its in roles.items() if its == launch),
            colour=f"series-{number}",
            marker=MARKERS[number - 1],
        )
        for number, launch in enumerate(chosen, start=1)
    )
