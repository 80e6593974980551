"""Aggravation: one training member beside kernels that load one part of the machine on purpose.

How its step time answers to the dose is its sensitivity to that part. That the bystanders really
took what they should is known from their own rate, against what they reach without it.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scaling_study.experiments import kernel_cohort
from scaling_study.member import kernels
from scaling_study.records.codec import plain
from scaling_study.runner import windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from scaling_study.config.efforts import Effort
    from scaling_study.experiments.experiment_windows import Taker
    from scaling_study.runner.cohort import Cohort

NONE = "none"
"""The name of the dose 0."""

log = logging.getLogger("why")


def count(machine: Mapping[str, Any], usable_cpus: int, n: int, threads: int) -> int:
    """Return how many bystanders there is room for; none where they would only take turns.

    Args:
        machine: machine.json.
        usable_cpus: CPUs that the study may use.
        n: members of the reference: as many others as a member has there.
        threads: of one operator of the training member, which need CPUs of their own.
    """
    cpus = min(usable_cpus, machine["quota_cpus"] or usable_cpus)
    return max(0, min(max(1, n - 1), int(cpus) - threads))


@dataclass(frozen=True, slots=True)
class Bystanders:
    """A cohort of kernels beside a reference.

    Attributes:
        trainer: the reference's cohort, of which the first member trains.
        kernels: the cohort of kernels.
        taker: takes the trainer's windows.
        effort: which kernels, at which doses.
    """

    trainer: Cohort
    kernels: Cohort
    taker: Taker
    effort: Effort

    def run(self, shuffle: Random) -> None:
        """Take all doses of all kernels in shuffled blocks.

        Raises:
            MemberEndedError: a member died or hung.
        """
        alone = {kernel: self._alone(kernel) for kernel in self.effort.kernels}
        doses = [(kernel, dose) for kernel in self.effort.kernels for dose in self.effort.doses]
        todo = [(NONE, 0.0), *doses]
        for at in range(self.effort.dose_blocks):
            log.info("bystanders, block %d of %d", at + 1, self.effort.dose_blocks)
            for kernel, dose in shuffle.sample(todo, len(todo)):
                self._take(kernel, dose, alone)
            self.taker.block += 1

    def _alone(self, kernel: str) -> float:
        """Return the batches per second of all bystanders without a training member."""
        self.kernels.tell(self.kernels.alive, kernels.encode(kernel))
        settings = replace(self.taker.timing, settle_s=0.02)
        record = plain(self.kernels.take(windows.Window(0, 0, self.kernels.size), settings))
        return sum(kernel_cohort.rates(record))

    def _take(self, kernel: str, dose: float, alone: Mapping[str, float]) -> None:
        labels = {
            "experiment": "bystander", "name": kernel, "dose": dose, "count": self.kernels.size,
        }  # fmt: skip

        @contextmanager
        def given() -> Iterator[dict[str, Any]]:
            added: dict[str, Any] = {}
            asked = kernels.encode(kernel, dose)
            with self.kernels.training(self.kernels.size, asked) as done:
                yield added
            rate = sum(each.steps_active / (each.parked_ns - each.released_ns) for each in done)
            added["rate_share"] = rate * 1e9 / (dose * alone[kernel])

        if kernel == NONE:
            self.taker.take(self.trainer, 1, labels | {"rate_share": None})
        else:
            self.taker.take(self.trainer, 1, labels, given)
