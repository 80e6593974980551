"""The arms of a confirmation and their rounds, fixed before the first round begins."""

import random
from collections.abc import Sequence
from functools import partial

from scaling_study.config.launches import Launch
from scaling_study.launch.axes import ranks
from scaling_study.records.analysis import Recommendation, Reference
from scaling_study.records.confirmation import Arm, Role, Start

# Two rounds of an arm give a t interval (one degree of freedom) that says nothing.
FEWEST_TURNS = 3

# With less time, each launch runs at its own best process count only: the default launch at the
# recommended count may take as long as all other arms.
SAME_N_S = 120.0

# More turns hardly narrow an interval; longer rounds, with more whole models, do.
MOST_TURNS = 10
LONG_ROUND_S = 30.0


def choose_arms(
    found: Recommendation,
    default: Launch,
    today: Launch | None = None,
    *,
    seconds: float = SAME_N_S,
    forks: bool = True,
) -> tuple[Arm, ...]:
    """Return the arms to confirm on a machine; none if nothing is recommended.

    The recommended launch is compared with today's, or with the default one if that is today's.
    This launch runs at its own best process count and, if there is time or it has no such count, at
    the recommended one. Besides today's launch, the default one runs at its own best count only.

    Args:
        found: the machine's entry of analysis/recommendation.json.
        default: the default launch.
        today: today's launch; None if that is the default one.
        seconds: time for all rounds together.
        forks: whether a model may be forked from a process that has made its imports.
    """
    best = found.recommended
    if not found.ok or best is None:
        return ()
    # A group of ranks ends with its model.
    forks = forks and ranks.asked(best.axes) is None
    starts: tuple[Start, ...] = ("fresh", "forked") if forks else ("fresh",)
    arms = [Arm("recommended", best.launch, best.label, best.n, start) for start in starts]
    compared: list[tuple[Role, Role | None, Launch | None, Reference | None]] = [
        ("today", "today_same_n", today, found.today),
        ("default", "default_same_n" if today is None else None, default, found.default),
    ]
    for role, same_n, launch, own in compared:
        if launch is None or launch.id == best.launch:
            continue
        plain = partial(Arm, launch=launch.id, label=launch.label, start="fresh")
        if own is not None:
            arms.append(plain(role, n=own.n))
        if same_n is not None and (own is None or (own.n != best.n and seconds >= SAME_N_S)):
            arms.append(plain(same_n, n=best.n))
    return tuple(arms)


def schedule(arms: Sequence[Arm], seconds: float, seed: int) -> tuple[list[tuple[int, Arm]], float]:
    """Divide the time among the arms, in turns.

    The rounds of a turn follow each other, so drift affects all arms equally.

    Args:
        arms: at least one.
        seconds: the time of all rounds together.
        seed: decides the order of the arms, the same in every turn.

    Returns:
        The turn and the arm of each round, in order, and the time (s) from the start of a round's
        processes to its cut.
    """
    turns = min(max(int(seconds / (len(arms) * LONG_ROUND_S)), FEWEST_TURNS), MOST_TURNS)
    round_s = seconds / (turns * len(arms))
    order = random.Random(seed).sample(list(arms), len(arms))  # noqa: S311 (an order, no secret)
    return [(turn, arm) for turn in range(turns) for arm in order], round_s
