"""The result of one round: models per hour, and the parts of a model's time.

Each slot trains models without a pause from 0 to the round's cut. A round ends in the middle of
models, and its result must not depend on where. There are two ways to read a round. All rounds of
an arm are read in the same way, so a single slot never decides:

Whole models
    if every slot of every round has ended one. Counting only the models that ended, until the last
    end, would favour short ones, because the cut mostly falls into a long one. So the cut model
    counts too, with the part of a typical model that it has done. N whole models took S seconds, so
    a model takes W = S / N. A typical model gets as far as the cut one in p seconds, so the slot
    did N + p / W models in all of its time T. If the cut model is typical, p is T - S and the rate
    is exactly 1 / W, wherever the cut is. If it is slower, p is smaller, and the rate is lower.

Put together
    if a model is longer than a round, or the script ends after another number of iterations than a
    model has: start + iterations of a model x iteration time + end + time between two processes.
    The iteration time is measured between a slot's first and latest iteration end, over all starts
    of the script in it, so it includes the time between iterations. A start that the cut interrupts
    does not count. That favours short starts, but only if a start is about as long as a round. The
    last, open iteration does not count either, an error of at most one of those that were seen.

A launch that is 20 times slower needs no rule of its own: two iterations of each slot are enough.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaling_study.records.confirmation import ModelRun, Round
from scaling_study.records.model_length import SAME_LENGTH, is_model

SECONDS_PER_HOUR = 3600

CLOCK_S = 1e-9  # what the clock resolves: no iteration takes less


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round.

    Attributes:
        value: models/hour; iterations/s if the length of a model is unknown. None if some slot has
            not done two iterations.
        start_s: from a start's beginning to its first iteration's end, less one iteration.
        iteration_s: time of an iteration, as a mean of the slots.
        ordinary_s: the same of ordinary iterations, without the time between them.
        end_s: from a start's last iteration to its end.
        gap_s: from the end of a process to the beginning of the next one in its slot.
        whole_models: models that were trained from beginning to end.
    """

    value: float | None
    start_s: float | None
    iteration_s: float | None
    ordinary_s: float | None
    end_s: float | None
    gap_s: float
    whole_models: int


@dataclass(frozen=True, slots=True)
class Basis:
    """The way in which all rounds of an arm are read.

    Attributes:
        ahead: whether only models whose imports were made ahead count: the others occur once for
            many models. False if in some slot of some round no such model made two iterations.
        whole: whether whole models count; otherwise a model's time is put together.
        same: largest share by which the iterations of a model may differ.
    """

    ahead: bool
    whole: bool
    same: float = SAME_LENGTH


def basis(
    records: Sequence[Round], steps_per_model: float | None, *, any_end: bool = False
) -> Basis:
    """Return how the rounds of an arm are read.

    Args:
        records: lines of confirm/rounds.jsonl.
        steps_per_model: iterations of a model, None if unknown.
        any_end: whether models differ in length, so that each start that has ended is one.
    """
    same = math.inf if any_end else SAME_LENGTH
    ahead = bool(records) and all(
        any(run.ahead and (run.iterations > 1 or run.ended_s is not None) for run in runs)
        for record in records
        for runs in slots(record, ahead=False).values()
    )
    whole = bool(records) and steps_per_model is not None
    for record in records if whole else ():
        for runs in slots(record, ahead=ahead).values():
            ended = [run for run in runs if run.ended_s is not None]
            whole &= bool(ended) and all(is_whole(run, steps_per_model or 0, same) for run in ended)
    return Basis(ahead, whole, same)


def slots(record: Round, *, ahead: bool) -> dict[int, list[ModelRun]]:
    """Return a round's starts by slot, in order.

    Args:
        record: a line of confirm/rounds.jsonl.
        ahead: whether to leave out models whose imports were not made ahead (see ``Basis``).
    """
    by_slot: dict[int, list[ModelRun]] = {}
    for run in sorted(record.runs, key=lambda run: (run.slot, run.model)):
        by_slot.setdefault(run.slot, []).append(run)
    if not ahead:
        return by_slot
    return {slot: [run for run in runs if run.ahead] for slot, runs in by_slot.items()}


def is_whole(run: ModelRun, steps_per_model: float, same: float = SAME_LENGTH) -> bool:
    """Return whether a start of the script trained one model, from beginning to end."""
    return run.ended_s is not None and is_model(run.iterations, steps_per_model, same)


def look(record: Round, steps_per_model: float | None, how: Basis) -> RoundResult:
    """Return the result of a round.

    Args:
        record: a line of confirm/rounds.jsonl.
        steps_per_model: iterations of a model, None if unknown.
        how: the arm's basis.
    """
    by_slot = slots(record, ahead=how.ahead)
    times = {slot: iteration_time(runs) for slot, runs in by_slot.items()}
    known = [time_s for time_s in times.values() if time_s is not None]
    all_runs = [run for runs in by_slot.values() for run in runs]
    starts = [
        max(0.0, run.first_s - run.began_s - (times[run.slot] or 0.0))
        for run in all_runs
        # Only models that import, or only the others.
        if run.first_s is not None and (how.ahead or not run.ahead)
    ]
    ends = [
        run.ended_s - run.latest_s
        for run in all_runs
        if run.ended_s is not None and run.latest_s is not None
    ]
    gaps = [
        max(0.0, after.began_s - before.ended_s)
        for before, after in pairwise(all_runs)
        if before.slot == after.slot and before.ended_s is not None
    ]
    start_s, end_s, gap_s = _mean(starts), _mean(ends), _mean(gaps) or 0.0
    if not times or (len(known) < len(times) and not how.whole):
        value = None
    elif steps_per_model is None:
        value = sum(1 / time_s for time_s in known)
    elif how.whole:
        rates = [whole_rate(runs, record.cut_s) for runs in by_slot.values()]
        value = SECONDS_PER_HOUR * sum(rates)
    else:
        # A slot with a known iteration time has a known start.
        beside_s = (start_s or 0.0) + (end_s or 0.0) + gap_s
        rates = [1 / (beside_s + steps_per_model * time_s) for time_s in known]
        value = SECONDS_PER_HOUR * sum(rates)
    return RoundResult(
        value=value,
        start_s=start_s,
        iteration_s=_together(known),
        ordinary_s=_together([_ordinary(runs) for runs in by_slot.values()]),
        end_s=end_s,
        gap_s=gap_s,
        whole_models=0
        if steps_per_model is None
        else sum(is_whole(run, steps_per_model, how.same) for run in all_runs),
    )


def iteration_time(runs: Iterable[ModelRun]) -> float | None:
    """Return a slot's mean time (s) between iteration ends; None without two of them."""
    spans = [(run.span_s, run.iterations - 1) for run in runs if run.iterations > 1]
    if not spans:
        return None
    mean_s = sum(span for span, _ in spans) / sum(count for _, count in spans)
    return max(float(mean_s), CLOCK_S)


def whole_rate(runs: Sequence[ModelRun], cut_s: float) -> float:
    """Return a slot's models per second: the whole ones, and the part done of the cut one.

    Args:
        runs: the slot's starts, in order; at least one has ended, and all that have are whole
            models.
        cut_s: when the round was cut.
    """
    ended = [run for run in runs if run.ended_s is not None]
    began_s, last_s = runs[0].began_s, ended[-1].ended_s or 0.0
    part_s = sum(_progress(run, ended, cut_s - run.began_s) for run in runs if run.ended_s is None)
    whole_s = last_s - began_s
    return float((whole_s + part_s) / (whole_s / len(ended)) / (cut_s - began_s))


def _progress(run: ModelRun, ended: Sequence[ModelRun], age_s: float) -> float:
    """Return how long (s) a typical model takes to get as far as this one, which was cut.

    Args:
        run: the cut model.
        ended: whole models of its slot.
        age_s: time from its beginning to the cut.
    """
    iteration_s = iteration_time(ended) or 0.0
    first_s = sum((model.first_s or 0.0) - model.began_s for model in ended) / len(ended)
    if not run.iterations:
        return float(min(age_s, first_s))
    done_s = first_s + (run.iterations - 1) * iteration_s
    open_s = age_s - ((run.latest_s or 0.0) - run.began_s)
    # The open part, the next iteration or the script's end, counts up to its usual length.
    if run.iterations < sum(model.iterations for model in ended) / len(ended):
        return float(done_s + min(open_s, iteration_s))
    end_s = sum((model.ended_s or 0.0) - (model.latest_s or 0.0) for model in ended) / len(ended)
    return float(done_s + min(open_s, end_s))


def _ordinary(runs: Sequence[ModelRun]) -> float | None:
    """Return a slot's mean ordinary iteration (s), weighted by the iterations of each start."""
    known = [run for run in runs if run.ordinary_s is not None and run.iterations > 1]
    times, counts = [run.ordinary_s or 0.0 for run in known], [run.iterations - 1 for run in known]
    return statistics.fmean(times, counts) if known else None


def _together(times: Iterable[float | None]) -> float | None:
    """Return the time at the mean of the slots' rates: the harmonic mean of their times."""
    known = [time_s for time_s in times if time_s]
    return statistics.harmonic_mean(known) if known else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
