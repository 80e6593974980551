"""Tests that a share must agree with: what is counted, attested, sampled, or seen elsewhere."""

import dataclasses
from collections.abc import Callable

import numpy as np

from scaling_study.common.quantities import (
    format_count,
    format_number,
    format_percent,
    format_ratio,
)
from scaling_study.diagnosis.aggravation import CONTROL, inflations, sensitivities
from scaling_study.diagnosis.case import REFERENCE
from scaling_study.diagnosis.query import Asked, Kind, Test, Weight, percent
from scaling_study.stats.intervals import Interval
from scaling_study.stats.ratios import mean
from scaling_study.stats.thresholds import NOTICEABLE, SHARE_AT_LEAST

FEWEST_LOOKS = 3
"""What was seen less often may be chance. A thread that waits for a tenth of its time is found so
six times in sixty looks."""
FASTER = 1.2
"""A multiply that is faster by less than this is the same kernel on a noisy machine."""


@dataclasses.dataclass(frozen=True, slots=True)
class Falls:
    """A count per step that the relief must lower.

    Attributes:
        column: Of tables/experiments.
        title: In words.
        by: By this part of it at least.
        floor: Below this there is nothing to lower.
    """

    column: str
    title: str
    by: float = 0.5
    floor: float = 0.0

    def weigh(self, asked: Asked) -> Weight:
        """Whether it falls."""
        case = asked.case
        n = asked.n
        before = case.mean(self.column, n)
        after = case.mean(self.column, n, asked.relief)
        if np.isnan(before) or np.isnan(after):
            return Weight(None, "account", f"{self.title} per step: not counted here.")
        agrees = before >= self.floor and after <= (1 - self.by) * before
        counts = f"{format_number(before)}, with the relief {format_number(after)}"
        text = f"{self.title} per step: {counts}."
        return Weight(agrees, "account", text)


@dataclasses.dataclass(frozen=True, slots=True)
class Present:
    """A count that must be there."""

    column: str
    title: str
    floor: float

    def weigh(self, asked: Asked) -> Weight:
        """Whether there is enough of it."""
        case = asked.case
        value = case.mean(self.column, asked.n)
        if np.isnan(value):
            return Weight(None, "account", f"{self.title}: not counted here.")
        return Weight(value >= self.floor, "account", f"{self.title}: {format_number(value)}.")


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """Something that is known of the launch or the machine."""

    tell: Callable[[Asked], tuple[bool | None, str]]
    kind: Kind = "fact"

    def weigh(self, asked: Asked) -> Weight:
        """Whether it is so."""
        agrees, text = self.tell(asked)
        return Weight(agrees, self.kind, text)


@dataclasses.dataclass(frozen=True, slots=True)
class Attested:
    """A probe inside the members that the relief must improve, or a setting that it changes."""

    key: str
    title: str
    factor: float | None = FASTER

    def weigh(self, asked: Asked) -> Weight:
        """Whether it is better with the relief."""
        case = asked.case
        before = case.attested.get(REFERENCE, {}).get(self.key)
        after = case.attested.get(asked.relief, {}).get(self.key)
        if before is None or after is None:
            return Weight(None, "fact", f"{self.title}: not known.")
        if self.factor is None:
            return Weight(
                before != after, "fact", f"{self.title}: {before}, with the relief {after}."
            )
        text = f"{self.title}: {format_number(before)}, with the relief {format_number(after)}."
        return Weight(after >= self.factor * before, "fact", text)


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """What the training threads were found waiting for."""

    kinds: tuple[str, ...]
    share: float = 0.2

    def weigh(self, asked: Asked) -> Weight:
        """Whether a part of their sleep is of these kinds."""
        case = asked.case
        one = case.sampled[asked.n]
        if not one.enough:
            text = f"Training threads were looked at {one.samples} times: too seldom to tell."
            return Weight(None, "samples", text)
        share = sum(one.shares.get(kind, 0.0) for kind in self.kinds)
        often = round(share * one.asleep) >= FEWEST_LOOKS
        calls = [
            f"{syscall}{' on ' + on if on else ''} ({count} of {one.samples} looks)"
            for (syscall, on), count in sorted(one.calls.items(), key=lambda item: -item[1])[:2]
        ]
        locks = [f"{format_number(mean)} waiters for {path}" for path, mean in one.locks.items()]
        found = ", ".join([*calls, *locks]) or "never"
        text = f"Training threads were found not running: {found}."
        return Weight(often and share >= self.share, "samples", text)


@dataclasses.dataclass(frozen=True, slots=True)
class Sensitive:
    """The training member must get slower beside a load, beyond the control."""

    kernel: str

    def weigh(self, asked: Asked) -> Weight:
        """Whether it surely does, or surely not."""
        one = sensitivities(asked.case).get(self.kernel)
        effect = None if one is None else (one.effect if self.kernel == CONTROL else one.beyond)
        if one is None or effect is None:
            return Weight(None, "aggravation", "No bystander of this kind was tried.")
        if not one.verified:
            return Weight(None, "aggravation", "The bystanders did not take what they should.")
        beyond = "" if self.kernel == CONTROL else " beyond the control"
        text = f"Beside such a load a step takes {percent(effect)} longer{beyond}"
        return _above(effect, NOTICEABLE, "aggravation", text)


@dataclasses.dataclass(frozen=True, slots=True)
class Inflated:
    """The kernel alone must get slower among many, beyond the control."""

    kernel: str

    def weigh(self, asked: Asked) -> Weight:
        """Whether it surely does, or surely not."""
        one = inflations(asked.case).get(self.kernel)
        if one is None:
            return Weight(None, "fingerprint", "The machine's own ladder was not measured.")
        beyond = one.inflation.plus(-1.0) if self.kernel == CONTROL else one.beyond
        if beyond is None:
            return Weight(None, "fingerprint", "The machine's own ladder has no control.")
        text = (
            f"A kernel that is bound by this alone takes {format_ratio(one.inflation.value)} as "
            f"long with {one.n} processes as with one"
        )
        return _above(beyond, NOTICEABLE, "fingerprint", text)


def _above(effect: Interval, limit: float, kind: Kind, text: str) -> Weight:
    """Whether an effect is there (surely above 0) and large enough, or surely too small."""
    if effect.value >= limit and effect.low is not None and effect.low > 0:
        return Weight(True, kind, f"{text}.")
    if effect.high is not None and effect.high < limit:
        return Weight(False, kind, f"{text}.")
    return Weight(None, kind, f"{text}: its interval is too wide to tell.")


@dataclasses.dataclass(frozen=True, slots=True)
class AnyOf:
    """One of several tests must agree."""

    tests: tuple[Test, ...]

    def weigh(self, asked: Asked) -> Weight:
        """The first that agrees; otherwise the first that disagrees; otherwise the first."""
        weights = [test.weigh(asked) for test in self.tests]
        for wanted in (True, False):
            for weight in weights:
                if weight.agrees is wanted:
                    return weight
        return weights[0]


@dataclasses.dataclass(frozen=True, slots=True)
class FirstKnown:
    """The first of several tests that can tell anything."""

    tests: tuple[Test, ...]

    def weigh(self, asked: Asked) -> Weight:
        """What that one says; the first where none can tell."""
        weights = [test.weigh(asked) for test in self.tests]
        return next((weight for weight in weights if weight.agrees is not None), weights[0])


@dataclasses.dataclass(frozen=True, slots=True)
class BringsBack:
    """Some relief that should take the cause away must bring time back."""

    reliefs: tuple[str, ...]
    share: float = 0.5

    def weigh(self, asked: Asked) -> Weight:
        """Whether one brings back this part of the share, external times included."""
        case, scope = asked.case, asked.scope
        n = asked.n
        base = case.step(n) - (case.step(1) if scope == "growth" else 0.0)
        best: tuple[float, str] | None = None
        for name in self.reliefs:
            if case.measured(name, scope):
                back = case.step(n) - case.step(n, name)
                share = mean(back) / mean(base)
                best = max(best or (share, name), (share, name))
        if best is None:
            return Weight(None, "relief", "No relief of it could be tried.")
        agrees = best[0] >= self.share * asked.share
        title, part = case.titles.get(best[1], best[1]), format_percent(round(best[0], 2))
        text = f"With one change ({title}) {part} comes back."
        return Weight(agrees, "relief", text)


def takes(column: str, title: str) -> Fact:
    """That a part of a step is long enough to matter.

    Args:
        column: Its time per step.
        title: In words, as they stand in a sentence.
    """

    def tell(asked: Asked) -> tuple[bool | None, str]:
        share = asked.case.mean(column, asked.n) / asked.case.mean("step_s", asked.n)
        if np.isnan(share):  # a file of an older version
            return None, f"How long {title} takes was not counted."
        part = format_percent(round(share, 2))
        return share >= SHARE_AT_LEAST, f"{title[:1].upper()}{title[1:]} takes {part} of a step."

    return Fact(tell, "account")


def _operator_threads(asked: Asked) -> tuple[bool | None, str]:
    case, scope = asked.case, asked.scope
    used = case.threads * (case.n if scope == "growth" else 1)
    text = (
        f"An operator uses {format_count(case.threads, 'thread')}: {used} in all, on "
        f"{format_count(case.machine.allowed_cpus, 'CPU')}."
    )
    return case.threads > 1, text


SEVERAL_THREADS = Fact(_operator_threads)
"""That an operator divides its work among threads."""


def other_threads_cpus(asked: Asked) -> float:
    """CPUs that a member's other threads and processes keep busy beside its training thread."""
    case, n = asked.case, asked.n
    ran = sum(
        case.mean(f"{kind}_s_per_step", n) - case.mean(f"trainer_{kind}_s_per_step", n)
        for kind in ("user", "system")
    )
    return ran / case.mean("step_s", n)
