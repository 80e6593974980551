"""The arms of an experiment: cohorts that start, show what they got, and warm up."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scaling_study.common import private
from scaling_study.host import probe
from scaling_study.launch.axes import axis_table
from scaling_study.runner import cohort, resolve
from scaling_study.runner.cohort_windows import WARM_UP_LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

KERNEL_AXES = {"blas", "isa"}
"""What decides which kernels the BLAS chooses: they are found out anew where it changes."""

log = logging.getLogger("why")


class Impossible(str):
    """The reason why a change cannot be made in this script, which is no failure."""

    __slots__ = ()


Started = tuple[cohort.Cohort, "dict[str, Any] | str"]
"""A cohort with its attestation or, where it is not what it should be, the reason."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A launch of the experiment.

    Attributes:
        name: ``reference``, or the relief's.
        reference: axes of the reference.
        changed: axes that differ from those.
        resolved: the launch on this machine, with the members that it starts.
    """

    name: str
    reference: Mapping[str, Any]
    changed: Mapping[str, Any]
    resolved: resolve.Resolved

    @property
    def axes(self) -> dict[str, Any]:
        """Its own axes."""
        return {**self.reference, **self.changed}

    @property
    def size(self) -> int:
        """How many members it starts."""
        return len(self.resolved.members)

    @property
    def with_kernel(self) -> bool:
        """Whether its BLAS may have chosen another kernel than the reference's."""
        return not self.changed or not KERNEL_AXES.isdisjoint(self.changed)


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts arms on one machine.

    Attributes:
        measure: the plan's section.
        machine: what the probe found.
    """

    measure: Mapping[str, Any]
    machine: Mapping[str, Any]

    def groups(self, arms: Sequence[Arm]) -> list[list[Arm]]:
        """Divide arms into those that start together: a CPU for each member."""
        groups: list[list[Arm]] = []
        left = 0
        for arm in arms:
            if not groups or arm.size > left:
                groups.append([])
                left = len(probe.usable_topology(self.machine).cpus)
            groups[-1].append(arm)
            left -= arm.size
        return groups

    def start(
        self, arms: Sequence[Arm], folder: Path, stack: ExitStack, beside: int
    ) -> list[Started]:
        """Start arms at the same time; return the cohort of each, and what it showed.

        Args:
            arms: what to start.
            folder: private; each gets a part of it.
            stack: ends the cohorts.
            beside: how many members may start while these live.
        """
        cohorts = [self._launch(arm, folder, stack, beside) for arm in arms]
        return [(one, self._prove(arm, one)) for arm, one in zip(arms, cohorts, strict=True)]

    def _launch(self, arm: Arm, folder: Path, stack: ExitStack, beside: int) -> cohort.Cohort:
        part = stack.enter_context(private.part(folder, arm.name))
        running = replace(arm.resolved.launch, folder=part)
        host = resolve.host(self.machine)
        log.info("starting %s", arm.name)
        one = stack.enter_context(cohort.Cohort(running, arm.resolved.members, host, beside=beside))
        one.launch([member.slot for member in arm.resolved.members])
        return one

    def _prove(self, arm: Arm, one: cohort.Cohort) -> dict[str, Any] | str:
        slots = [member.slot for member in arm.resolved.members]
        timeout_s = self.measure["start_timeout_s"]
        one.wait_started(slots, timeout_s)
        reports = one.attest(timeout_s, with_kernel=arm.with_kernel)
        if len(reports) < len(slots):
            return str(one.events[-1]["reason"]) if one.events else "a member did not start"
        checks = axis_table.checks(arm.axes, arm.resolved.slots, reports)
        change = arm.resolved.launch.change
        wrong = (
            axis_table.failed(checks) or _impossible(change, reports) or _unchanged(change, reports)
        )
        if wrong:
            return wrong
        one.warm_up(self.measure["warmup_steps"], WARM_UP_LONGEST_S)
        return {"kind": "attestation", "cohort": arm.name, "checks": checks, "members": reports}


def _impossible(change: Sequence[str], reports: Sequence[Mapping[str, Any]]) -> Impossible:
    """Say why a change inside members cannot be made there; empty if all can."""
    reasons = [report["impossible"].get(name) for name in change for report in reports]
    return Impossible(next(filter(None, reasons), ""))


def _unchanged(change: Sequence[str], reports: Sequence[Mapping[str, Any]]) -> str:
    """Say which of the changes inside members did not take effect; empty if all did."""
    failed = [name for name in change if not all(report["changes"][name] for report in reports)]
    return f"{', '.join(failed)} did not take effect" if failed else ""
