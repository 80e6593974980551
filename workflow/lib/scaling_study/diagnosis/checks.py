"""Checks that a share must pass: of counts, of readbacks, of samples and of other experiments."""

import numpy as np

from scaling_study.common.quantities import format_number, format_percent, format_ratio
from scaling_study.diagnosis.case import REFERENCE
from scaling_study.diagnosis.evidence import Check, Evidence, Kind, Query, percent, rule
from scaling_study.diagnosis.stressors import CONTROL, inflations, reactions
from scaling_study.stats.interval import Interval
from scaling_study.stats.ratios import mean
from scaling_study.stats.thresholds import NOTICEABLE, SHARE, SHARE_AT_LEAST

FEWEST_LOOKS = 3
"""Fewer looks may be chance. A thread that waits for a tenth of its time is found so in six of
sixty looks."""
FASTER = 1.2
"""A multiply that is faster by less than this is the same kernel on a noisy machine."""


@rule
def falls(query: Query, column: str, title: str, floor: float = 0.0) -> Evidence:
    """Check that the intervention halves a count per step, of at least `floor`."""
    before = query.mean(column)
    after = query.mean(column, query.intervention)
    if np.isnan(before) or np.isnan(after):
        return Evidence(None, "account", f"{title} per step: not counted here.")
    text = f"{title} per step: {format_number(before)}, with the change {format_number(after)}."
    return Evidence(before >= floor and after <= before / 2, "account", text)


@rule
def present(query: Query, column: str, title: str, floor: float) -> Evidence:
    """Check that a count is large enough to matter."""
    value = query.mean(column)
    if np.isnan(value):
        return Evidence(None, "account", f"{title}: not counted here.")
    return Evidence(value >= floor, "account", f"{title}: {format_number(value)}.")


@rule
def read_back(query: Query, key: str, title: str) -> Evidence:
    """Check that the intervention raises a reported number, or changes a reported text."""
    before, after = (query.case.reported(key, name) for name in (REFERENCE, query.intervention))
    if not before or not after:
        return Evidence(None, "fact", f"{title}: not known.")
    if isinstance(before, int | float) and isinstance(after, int | float):
        text = f"{title}: {format_number(before)}, with the change {format_number(after)}."
        return Evidence(after >= FASTER * before, "fact", text)
    return Evidence(before != after, "fact", f"{title}: {before}, with the change {after}.")


@rule
def waiting(query: Query, *kinds: str, share: float = SHARE) -> Evidence:
    """Check that training threads were found often enough in waits of these kinds."""
    sampled = query.case.sampled[query.n]
    if not sampled.enough:
        text = f"Training threads were looked at {sampled.samples} times: too seldom to tell."
        return Evidence(None, "samples", text)
    total = sampled.share(*kinds)
    often = round(total * sampled.asleep) >= FEWEST_LOOKS
    calls = [
        f"{syscall}{' on ' + on if on else ''} ({count} of {sampled.samples} looks)"
        for (syscall, on), count in sorted(sampled.calls.items(), key=lambda item: -item[1])[:2]
    ]
    locks = [f"{format_number(mean)} waiters for {path}" for path, mean in sampled.locks.items()]
    places = ", ".join([*calls, *locks]) or "never"
    text = f"Training threads were found not running: {places}."
    return Evidence(often and total >= share, "samples", text)


@rule
def sensitive(query: Query, kernel: str) -> Evidence:
    """Check that the training member gets slower beside a load, beyond the control."""
    reaction = reactions(query.case).get(kernel)
    if reaction is None or reaction.effect is None:
        return Evidence(None, "aggravation", "No load of this kind was tried.")
    if not reaction.shown.verified:
        return Evidence(None, "aggravation", "The loads did not reach their rate.")
    beyond = "" if kernel == CONTROL else " beyond the control"
    text = f"Beside such a load a step takes {percent(reaction.effect)} longer{beyond}"
    return _above(reaction.effect, "aggravation", text)


@rule
def inflated(query: Query, kernel: str) -> Evidence:
    """Check that a microbenchmark's kernel slows down among many, beyond the control."""
    growth = inflations(query.case).get(kernel)
    if growth is None or growth.effect is None:
        text = "The machine itself was not measured by microbenchmarks."
        return Evidence(None, "microbenchmarks", text)
    text = (
        f"A kernel that is bound by this alone takes {format_ratio(growth.inflation.value)} as "
        f"long with {growth.n} processes as with one"
    )
    return _above(growth.effect, "microbenchmarks", text)


def _above(effect: Interval, kind: Kind, text: str) -> Evidence:
    """Return evidence whether an effect is surely above 0 and large enough, or surely too small."""
    if effect.value >= NOTICEABLE and effect.low is not None and effect.low > 0:
        return Evidence(True, kind, f"{text}.")
    if effect.high is not None and effect.high < NOTICEABLE:
        return Evidence(False, kind, f"{text}.")
    return Evidence(None, kind, f"{text}: its interval is too wide to tell.")


@rule
def saves_time(query: Query, *interventions: str) -> Evidence:
    """Check that one of these saves at least half the share, external times included."""
    case, n = query.case, query.n
    base = mean(case.step(n) - (case.step(1) if query.scope == "scaling_loss" else 0.0))
    saved = [
        (mean(case.step(n) - case.step(n, name)) / base, name)
        for name in interventions
        if case.measured(name, query.scope)
    ]
    if not saved:
        return Evidence(None, "intervention", "No change that removes it could be tried.")
    share, name = max(saved)
    title, part = case.titles.get(name, name), format_percent(round(share, 2))
    text = f"With one change ({title}) {part} is recovered."
    return Evidence(share >= query.share / 2, "intervention", text)


@rule
def takes(query: Query, column: str, title: str) -> Evidence:
    """Check that a part of a step is long enough to matter.

    Args:
        query: The question.
        column: Its time per step.
        title: The part in words, as inside a sentence.
    """
    share = query.mean(column) / query.mean("step_s")
    if np.isnan(share):  # a file of an older version
        return Evidence(None, "account", f"How long {title} takes was not counted.")
    text = f"{title[:1].upper()}{title[1:]} takes {format_percent(round(share, 2))} of a step."
    return Evidence(share >= SHARE_AT_LEAST, "account", text)


def other_threads_cpus(query: Query) -> float:
    """Return the CPUs that a member's other threads and processes keep busy."""
    ran = sum(
        query.mean(f"{kind}_s_per_step") - query.mean(f"trainer_{kind}_s_per_step")
        for kind in ("user", "system")
    )
    return ran / query.mean("step_s")


@rule
def any_of(query: Query, *checks: Check) -> Evidence:
    """Check that one of several agrees; otherwise the first that disagrees counts."""
    evidence = [option(query) for option in checks]
    return min(evidence, key=lambda piece: (True, False, None).index(piece.agrees))
