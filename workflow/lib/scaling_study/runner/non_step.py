"""Non-step phases, which recur between a script's steps: validation, checkpoints, ends of epochs.

A phase makes one step long: the step that ends after it. The script decides how many steps lie
between two phases, and this number is the same for any number of processes. The machine decides how
long a phase lasts. So the number of steps is taken from all windows of a launch, and the duration
from the windows of one process count. A few phases of each count then give the time that phases
take per step. The few phases that short windows happen to contain may be one too many or too few,
so their own share would be far off. (This is stratified sampling with known weights; Cochran,
Sampling Techniques, 1977, ch. 5.)

Long steps at no regular distance stay among the ordinary steps: a mean over enough of them is
right, and the machine may be what makes them long.

Pure: arrays go in, labels come out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scaling_study.records.window import Life, Taken
from scaling_study.stats.interval import Floats, Integers

LONG = 4.0
"""A step is long if it takes this many times the median step of its process count."""

WORTH_SHARE = 0.005
"""Long steps that together take a smaller share of all time are not looked at."""

SAME_KIND = 3.0
"""Long steps of one kind, in units of the median step, differ by less than this factor."""

MOST_KINDS = 4
"""At most this many kinds are distinguished, the longest first."""

FEWEST_DISTANCES = 2
"""This many equal distances between phases show that they recur."""

REGULAR_SHARE = 0.05
"""The distances of one kind differ by at most this part, or by one step."""

FOUND_SHARE = 0.5
"""A distance counts if at least this part of the phases that it predicts was seen."""

SUSPECT_SHARE = 0.03
"""Phases with a larger share of the time are worth further windows."""

SUSPECT = 20.0
SUSPECT_US = 200_000
"""Long steps that may be such phases are worth further windows, too, if they take this many times
the median and at least this long. Disturbances on a shared machine are shorter. So are phases with
as large a share that recur every few seconds, and windows show these anyway."""


@dataclass(frozen=True)
class LaunchSteps:
    """Steps of one launch, in any order; one array element each.

    Attributes:
        member: the number of the member, which is one start of a slot.
        n: members that trained.
        at: the step's place among that member's steps.
        us: how long the step took.
        fresh: whether the script was started anew in it.
    """

    member: Integers
    n: Integers
    at: Integers
    us: Integers
    fresh: NDArray[np.bool_]

    @cached_property
    def order(self) -> Integers:
        """The steps' indices, member by member, in each member's own order."""
        return np.lexsort((self.at, self.member))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Concatenate parts; no part gives no steps."""
        none = np.empty(0, dtype=np.int64)
        empty = cls(none, none, none, none, none.astype(np.bool_))
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(p, name) for p in (empty, *parts)]) for name in names))


@dataclass(frozen=True, slots=True)
class PhaseKind:
    """A kind of phase that recurs.

    Attributes:
        every: steps from one phase to the next.
        per_step: phases per step, without those that coincide with a longer phase.
        seen: how many phases were seen.
    """

    every: float
    per_step: float
    seen: int


@dataclass(frozen=True, slots=True)
class Found:
    """The phases that recur in some steps.

    Attributes:
        kinds: the longest first.
        labels: of each step: 0 for an ordinary one, k for the k-th of ``kinds``.
        suspect: process counts with long steps that take much time and are too few to tell
            whether they recur.
    """

    kinds: tuple[PhaseKind, ...]
    labels: Integers
    suspect: frozenset[int]


def member_steps(
    member: int, n: int, life: Life, step_us: Iterable[int]
) -> tuple[LaunchSteps, "slice[int, int]"]:
    """Return all steps in a member's window record, and which of them lie inside the window.

    The last step may have run beside fewer members than n: its place counts, its time does not.

    Args:
        member: the number to give to this start of this slot.
        n: members that trained.
        life: the window's place among the member's steps.
        step_us: the durations of its counted steps.
    """
    fresh = dict(life.fresh or ())
    settled_us, after_us = life.settled_us or (), life.after_us or ()
    # step_us lacks the steps in which the script was started anew.
    counted = iter(step_us)
    inside = slice(len(settled_us), len(settled_us) + (life.inside or 0))
    inside_us = [
        fresh[at] if at in fresh else next(counted) for at in range(inside.start, inside.stop)
    ]
    us = [*settled_us, *inside_us, *after_us]
    places = np.arange(len(us), dtype=np.int64)
    steps = LaunchSteps(
        np.full(len(us), member, dtype=np.int64),
        np.full(len(us), n, dtype=np.int64),
        places + (life.first_step or 0),
        np.array(us, dtype=np.int64),
        np.isin(places, [*fresh]),
    )
    return steps, inside


def window_steps(record: Taken) -> LaunchSteps:
    """Return all steps in a window record; the number of a member is its slot."""
    parts = [
        member_steps(member.slot, record.n, member, member.step_us)[0] for member in record.members
    ]
    return LaunchSteps.concat(parts)


def usual_us(steps: LaunchSteps) -> dict[int, float]:
    """Return the median step (us) of each process count."""
    n, us = steps.n[~steps.fresh], steps.us[~steps.fresh]
    return {int(count): float(np.median(us[n == count])) for count in np.unique(n)}


def find(steps: LaunchSteps) -> Found:
    """Find the phases that recur."""
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
    kinds: list[PhaseKind] = []
    left = long.copy()
    loose, doubtful = np.zeros((2, len(long)), dtype=np.bool_)
    for _ in range(MOST_KINDS):
        if not left.any():
            break
        kind = left & (times > times[left].max() / SAME_KIND)
        left &= ~kind
        # The first checkpoints may take much longer than later ones, but are regular with them.
        last = labels == max(1, len(kinds))
        if kinds and _is_every(steps, kind | last, kinds[-1].every):
            labels[kind] = len(kinds)
            kinds[-1] = replace(kinds[-1], seen=int((kind | last).sum()))
            continue
        longer = labels > 0, sum(phase.per_step for phase in kinds)
        regular = _regular(steps, kind, *longer)
        # Long steps without a regular distance of their own may have one together with these.
        if regular is None and loose.any():
            regular = _regular(steps, kind | loose, *longer)
        if regular is not None:
            if _is_every(steps, kind | loose, regular.every):
                kind |= loose
                loose = np.zeros_like(loose)
            kinds.append(replace(regular, seen=int(kind.sum())))
            labels[kind] = len(kinds)
            continue
        loose |= kind
        if _may_come_back(steps, kind, times, whole_us):
            doubtful |= kind
    return Found(tuple(kinds), labels, frozenset(steps.n[doubtful & loose].tolist()))


def _is_every(steps: LaunchSteps, kind: NDArray[np.bool_], every: float) -> bool:
    """Return whether phases recur at this distance."""
    distance = _every(steps, kind)
    return distance is not None and abs(distance - every) <= max(1.0, REGULAR_SHARE * every)


def _may_come_back(
    steps: LaunchSteps, kind: NDArray[np.bool_], times: Floats, whole_us: float
) -> bool:
    """Return whether long steps take much of the time and are too few to tell if they recur.

    A script that is started again after each of them never shows a distance.
    """
    us = steps.us[kind]
    return bool(
        times[kind].max() >= SUSPECT
        and us.max() >= SUSPECT_US
        and us.sum() > SUSPECT_SHARE * whole_us
        and len(_distances(steps, kind)) < FEWEST_DISTANCES
        and kind.sum() > steps.fresh.sum()
    )


def _regular(
    steps: LaunchSteps, kind: NDArray[np.bool_], longer: NDArray[np.bool_], longer_per_step: float
) -> PhaseKind | None:
    """Return a kind whose phases come at a regular distance; None if they do not.

    Every fifth checkpoint may coincide with a validation: then the step is one of that longer kind.

    Args:
        steps: all steps.
        kind: which of them may be of this kind.
        longer: which are of a longer kind.
        longer_per_step: phases of longer kinds per step.
    """
    count = int(kind.sum())
    every = _every(steps, kind)
    if every is not None:
        return PhaseKind(every, 1 / every, count)
    every = _every(steps, kind | longer)
    if every is not None and 1 / every > longer_per_step:
        return PhaseKind(every, 1 / every - longer_per_step, count)
    return None


def _distances(steps: LaunchSteps, kind: NDArray[np.bool_]) -> Integers:
    """Return the steps from one phase of a kind to the next, if all steps between are known."""
    place = np.flatnonzero(kind[steps.order])
    picked = steps.order[place]
    restarts = np.cumsum(steps.fresh[steps.order])[place]
    distance = np.diff(steps.at[picked])
    whole = (
        (np.diff(steps.member[picked]) == 0)
        & (distance == np.diff(place))
        & (np.diff(restarts) == 0)
    )
    return np.asarray(distance[whole], dtype=np.int64)


def _every(steps: LaunchSteps, kind: NDArray[np.bool_]) -> float | None:
    """Return the regular distance of phases; None if distances differ or too few are seen to tell.

    Long steps that come in bursts have equal short distances, and then a long time without any. So
    phases must be seen about as often as their distance predicts, over the process counts that show
    any.
    """
    known = sorted(_distances(steps, kind))
    if len(known) < FEWEST_DISTANCES:
        return None
    if known[-1] - known[0] > max(1.0, REGULAR_SHARE * known[0]):
        return None
    every = float(np.mean(known))
    looked_at = np.isin(steps.n, steps.n[kind]) & ~steps.fresh
    return every if kind.sum() * every >= FOUND_SHARE * looked_at.sum() else None


def lacking(steps: LaunchSteps, phases: Found, counts: Iterable[int]) -> list[int]:
    """Return the process counts that need further windows to show non-step phases.

    Args:
        steps: the steps of one cohort, so far.
        phases: the phases that recur in them.
        counts: the process counts.

    Returns:
        Counts at which a kind that takes much time was not seen yet, and counts with long steps
        that may or may not recur; fewest processes first.
    """
    whole_us = max(1, int(steps.us[~steps.fresh].sum()))
    short = {
        n
        for number in range(1, len(phases.kinds) + 1)
        if steps.us[phases.labels == number].sum() > SUSPECT_SHARE * whole_us
        for n in counts
        if not ((phases.labels == number) & (steps.n == n)).any()
    }
    return sorted(short | phases.suspect.intersection(counts))
