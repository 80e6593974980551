"""Phases between a script's steps that come back: validation, checkpoints, the ends of epochs.

Such a phase makes one step long: the one that ends after it. It comes every so many steps, which is
the script's doing and the same for any number of processes; how long it lasts is the machine's. So
the number of steps between two of them is taken from all windows of a launch, and the duration from
those of one process count: a few phases of each count give the time they take per step, where the
share of phases that short windows happen to hold would be off by one of the few there are (this is
stratified sampling with known weights; Cochran, Sampling Techniques, 1977, ch. 5).

Long steps that come at no regular distance are left where they are, in the steps: a mean over
enough of them is right, and what makes them may be the machine.

Pure: arrays go in, labels come out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from scaling_study.records.window import Life, Taken

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

LONG = 4.0
"""A step is long that takes this many times the median step of its process count."""

WORTH_SHARE = 0.005
"""Long steps that take a smaller share of all time together are not looked at."""

SAME_KIND = 3.0
"""Long steps of one kind differ by less than this factor, counted in usual steps."""

MOST_KINDS = 4
"""At most so many kinds are distinguished, the longest first."""

FEWEST_DISTANCES = 2
"""Two equal distances between phases show that these come back."""

REGULAR_SHARE = 0.05
"""The distances of one kind differ by at most this part, or by one step."""

FOUND_SHARE = 0.5
"""A distance counts if at least this part of the phases that it predicts was seen."""

SUSPECT_SHARE = 0.03
"""Phases with a larger share of the time are worth further windows …"""

SUSPECT = 20.0
SUSPECT_US = 200_000
"""… and long steps that may be such phases are, where they take this many times the median and this
long. What disturbs on a shared machine is shorter; so are phases that take as much of the time and
come back every few seconds, which windows see without that."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one launch, in any order; one array element each.

    Attributes:
        member: which start of which slot did it, as a number.
        n: members that trained.
        at: which of that member's steps it is.
        us: how long it took.
        fresh: whether the script was started anew in it.
    """

    member: Integers
    n: Integers
    at: Integers
    us: Integers
    fresh: NDArray[np.bool_]

    @classmethod
    def concat(cls, parts: Sequence[Steps]) -> Steps:
        """Put several together; none gives none."""
        none = np.empty(0, dtype=np.int64)
        empty = cls(none, none, none, none, none.astype(np.bool_))
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(p, name) for p in (empty, *parts)]) for name in names))


@dataclass(frozen=True, slots=True)
class Kind:
    """A phase that comes back.

    Attributes:
        every: steps from one to the next.
        per_step: how many there are in a step, without those that a longer phase goes with.
        seen: how many of these were seen.
    """

    every: float
    per_step: float
    seen: int


@dataclass(frozen=True, slots=True)
class Found:
    """The phases that come back in some steps.

    Attributes:
        kinds: the longest first.
        labels: of each step: 0 for an ordinary one, k for the k-th of ``kinds``.
        suspect: process counts with long steps that take much time and are too few to tell
            whether they come back.
    """

    kinds: tuple[Kind, ...]
    labels: Integers
    suspect: frozenset[int]


def member_steps(
    member: int, n: int, life: Life, step_us: Iterable[int]
) -> tuple[Steps, slice[int, int]]:
    """Return all steps that a member's window record tells of, and which of them lie inside.

    The very last one may have run beside fewer members than n: its place counts, its time does not.

    Args:
        member: the number to give to this start of this slot.
        n: members that trained.
        life: the window's place among the member's steps.
        step_us: its counted steps.
    """
    fresh = dict(life.fresh or ())
    settled_us, after_us = life.settled_us or (), life.after_us or ()
    # What step_us lacks are the steps in which the script was started anew.
    counted = iter(step_us)
    inside = slice(len(settled_us), len(settled_us) + (life.inside or 0))
    inside_us = [
        fresh[at] if at in fresh else next(counted) for at in range(inside.start, inside.stop)
    ]
    us = [*settled_us, *inside_us, *after_us]
    places = np.arange(len(us), dtype=np.int64)
    steps = Steps(
        np.full(len(us), member, dtype=np.int64),
        np.full(len(us), n, dtype=np.int64),
        places + (life.first_step or 0),
        np.array(us, dtype=np.int64),
        np.isin(places, [*fresh]),
    )
    return steps, inside


def window_steps(record: Taken) -> Steps:
    """Return all steps that a window record tells of; each member is named by its slot."""
    parts = [member_steps(one.slot, record.n, one, one.step_us)[0] for one in record.members]
    return Steps.concat(parts)


def usual_us(steps: Steps) -> dict[int, float]:
    """Return the median step of each process count."""
    n, us = steps.n[~steps.fresh], steps.us[~steps.fresh]
    return {int(count): float(np.median(us[n == count])) for count in np.unique(n)}


def find(steps: Steps) -> Found:
    """Find what comes back."""
    labels = np.zeros(len(steps.us), dtype=np.int64)
    usual = usual_us(steps)
    if not usual:
        return Found((), labels, frozenset())
    counts, at = np.unique(steps.n, return_inverse=True)
    medians = np.array([usual.get(int(n), np.inf) for n in counts])[at]
    times = np.where(steps.fresh, 0.0, steps.us / np.maximum(medians, 1.0))
    long = times >= LONG
    whole_us = float(steps.us[~steps.fresh].sum())
    if steps.us[long].sum() < WORTH_SHARE * whole_us:
        return Found((), labels, frozenset())
    order = np.lexsort((steps.at, steps.member))
    kinds: list[Kind] = []
    left = long.copy()
    loose, doubtful = np.zeros((2, len(long)), dtype=np.bool_)
    for _ in range(MOST_KINDS):
        if not left.any():
            break
        kind = left & (times > times[left].max() / SAME_KIND)
        left &= ~kind
        # The first checkpoints may take much longer than later ones: together they come back.
        last = labels == max(1, len(kinds))
        if kinds and _is_every(steps, order, kind | last, kinds[-1].every):
            labels[kind] = len(kinds)
            kinds[-1] = replace(kinds[-1], seen=int((kind | last).sum()))
            continue
        longer = labels > 0, sum(one.per_step for one in kinds)
        found = _regular(steps, order, kind, *longer)
        # Those that came at no regular distance by themselves may do so together with these.
        if found is None and loose.any():
            found = _regular(steps, order, kind | loose, *longer)
        if found is not None:
            if _is_every(steps, order, kind | loose, found.every):
                kind |= loose
                loose = np.zeros_like(loose)
            kinds.append(replace(found, seen=int(kind.sum())))
            labels[kind] = len(kinds)
            continue
        loose |= kind
        if _may_come_back(steps, order, kind, times, whole_us):
            doubtful |= kind
    return Found(tuple(kinds), labels, frozenset(steps.n[doubtful & loose].tolist()))


def _is_every(steps: Steps, order: Integers, kind: NDArray[np.bool_], every: float) -> bool:
    """Whether phases come back at this distance."""
    found = _every(steps, order, kind)
    return found is not None and abs(found - every) <= max(1.0, REGULAR_SHARE * every)


def _may_come_back(
    steps: Steps, order: Integers, kind: NDArray[np.bool_], times: Floats, whole_us: float
) -> bool:
    """Whether long steps that take much of the time are too few to tell.

    A script that is started again after each of them never shows a distance.
    """
    us = steps.us[kind]
    return bool(
        times[kind].max() >= SUSPECT
        and us.max() >= SUSPECT_US
        and us.sum() > SUSPECT_SHARE * whole_us
        and len(_distances(steps, order, kind)) < FEWEST_DISTANCES
        and kind.sum() > steps.fresh.sum()
    )


def _regular(
    steps: Steps,
    order: Integers,
    kind: NDArray[np.bool_],
    longer: NDArray[np.bool_],
    longer_per_step: float,
) -> Kind | None:
    """Return a kind whose phases come at a regular distance; None where they do not.

    Every fifth checkpoint may go with a validation: then the step is one of that longer kind.

    Args:
        steps: all steps.
        order: their order by member.
        kind: which of them may be of this kind.
        longer: which are of a longer kind.
        longer_per_step: how many of these there are in a step.
    """
    seen = int(kind.sum())
    every = _every(steps, order, kind)
    if every is not None:
        return Kind(every, 1 / every, seen)
    every = _every(steps, order, kind | longer)
    if every is not None and 1 / every > longer_per_step:
        return Kind(every, 1 / every - longer_per_step, seen)
    return None


def _distances(steps: Steps, order: Integers, kind: NDArray[np.bool_]) -> Integers:
    """Return the steps from one phase of a kind to the next, where all between are known."""
    place = np.flatnonzero(kind[order])
    picked = order[place]
    restarts = np.cumsum(steps.fresh[order])[place]
    distance = np.diff(steps.at[picked])
    whole = (
        (np.diff(steps.member[picked]) == 0)
        & (distance == np.diff(place))
        & (np.diff(restarts) == 0)
    )
    return np.asarray(distance[whole], dtype=np.int64)


def _every(steps: Steps, order: Integers, kind: NDArray[np.bool_]) -> float | None:
    """Return the regular distance of phases; None where it differs, or too few are seen to tell.

    Long steps that come in bursts are next to each other time and again, and then for long nowhere:
    what comes back is there about as often as its distance promises, with each process count that
    shows it at all.
    """
    known = sorted(_distances(steps, order, kind))
    if len(known) < FEWEST_DISTANCES:
        return None
    if known[-1] - known[0] > max(1.0, REGULAR_SHARE * known[0]):
        return None
    every = float(np.mean(known))
    looked_at = np.isin(steps.n, steps.n[kind]) & ~steps.fresh
    return every if kind.sum() * every >= FOUND_SHARE * looked_at.sum() else None


def lacking(steps: Steps, found: Found, counts: Iterable[int]) -> list[int]:
    """Return the process counts that should see more of what lies between steps.

    Args:
        steps: of one cohort, so far.
        found: what comes back in them.
        counts: the process counts.

    Returns:
        Those with which some kind that takes much time was not seen yet, and those whose long
        steps cannot be told to come back or not; fewest processes first.
    """
    whole_us = max(1, int(steps.us[~steps.fresh].sum()))
    short = {
        n
        for number in range(1, len(found.kinds) + 1)
        if steps.us[found.labels == number].sum() > SUSPECT_SHARE * whole_us
        for n in counts
        if not ((found.labels == number) & (steps.n == n)).any()
    }
    return sorted(short | found.suspect.intersection(counts))
