"""The form of a cause. A file outside the package with a ``CAUSE`` adds one, named after it."""

import dataclasses
from collections.abc import Callable, Mapping

from scaling_study.common.axis_values import Axes
from scaling_study.diagnosis.case import Case, Scope
from scaling_study.diagnosis.checks import inflated, sensitive
from scaling_study.diagnosis.evidence import Check, Share
from scaling_study.diagnosis.shares import Counted, Recovered
from scaling_study.diagnosis.stressors import stressor_share

LAST = 1000
"""The order of a cause that has none of its own: after all others."""
BOTH: tuple[Scope, ...] = ("scaling_loss", "single_process_loss")
SCALING_LOSS: tuple[Scope, ...] = ("scaling_loss",)
SINGLE_PROCESS_LOSS: tuple[Scope, ...] = ("single_process_loss",)


@dataclasses.dataclass(frozen=True, slots=True)
class Proof:
    """One way to show a cause; its attributes are those of `Cause`."""

    share: Share
    requires: tuple[Check, ...] = ()
    needs: tuple[Check, ...] = ()
    notes: tuple[Check, ...] = ()
    scopes: tuple[Scope, ...] = BOTH


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One reason why steps are slow.

    Its share is the time that interventions recover, with the counted time as its lower bound. If
    it has only one of the two, that one is the share.

    Attributes:
        title: The name that reports show.
        source: Documentation or literature on the cause and its counters.
        remedy: What to do, in words.
        axes: The change of the launch that helps, if no intervention with a change of its own
            showed the cause.
        command: A shell command that helps; None derives it from the change.
        code: The line that the script needs, if no launch helps.
        gain: Returns what the remedy would give here, where that was measured; empty otherwise.
        remedies: Other words, by name, for interventions that remove the cause in another way.
        counted: Time that the kernel or a hook counts as this cause's.
        interventions: Changes that remove the cause; the one with the highest lower bound counts.
        minus: Interventions and stressors of more specific causes, whose effect is subtracted.
        stressor: A load that shows the cause in another way: the added user time, as far as one
            member alone reacts to the load. That reaction is required whichever share is taken.
        share: A function in place of `counted` and `interventions`.
        requires: Checks that must agree with the share.
        needs: Checks without which the cause cannot occur, or cannot be told from another one. If
            one of them does not agree, the cause is not tested.
        notes: Checks that are only shown, if they can tell.
        scopes: The losses that it can explain: `scaling_loss`, `single_process_loss`.
        others: Further ways to show it; one that does is enough.
        order: Lower ones are judged first.
        id: The name in causes.json; `verdict` sets it.
    """

    title: str
    source: str
    remedy: str
    axes: Axes | None = None
    command: str | None = None
    code: str | None = None
    gain: Callable[[Case], str] = lambda _case: ""
    remedies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counted: Counted | None = None
    interventions: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()
    stressor: str | None = None
    share: Share | None = None
    requires: tuple[Check, ...] = ()
    needs: tuple[Check, ...] = ()
    notes: tuple[Check, ...] = ()
    scopes: tuple[Scope, ...] = BOTH
    others: tuple[Proof, ...] = ()
    order: int = LAST
    id: str = ""

    def ways(self, scope: Scope) -> list[Proof]:
        """Return the ways to show the cause in a scope; empty if it cannot explain that loss."""
        reacts = (sensitive(self.stressor),) if self.stressor else ()
        ways = []
        if share := self._share():
            checks = (*reacts, *self.requires)
            ways.append(Proof(share, checks, self.needs, self.notes, self.scopes))
        if self.stressor:  # which can only be added to one process
            share = stressor_share(self.stressor, self.minus)
            checks = (*reacts, inflated(self.stressor), *self.requires)
            ways.append(Proof(share, checks, self.needs, self.notes, SCALING_LOSS))
        return [way for way in (*ways, *self.others) if scope in way.scopes]

    def _share(self) -> Share | None:
        if self.share or not self.interventions:
            return self.share or self.counted
        own_column = self.counted.columns[0] if self.counted else ""
        return Recovered(self.interventions, self.minus, own_column, self.counted)
