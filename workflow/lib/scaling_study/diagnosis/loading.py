"""How the time that training waits for its loader is divided: by what making a batch takes.

Where torch's loaders make the batches, each one's making is timed, and how much of that it computed
or was ready to. What is left it waited, for a disk or whatever else it reads from. Makers that are
busy all the time are what training waits for; where they are not, something between them and the
training thread is, which stays apart.
"""

import dataclasses
from typing import Literal

import numpy as np

from scaling_study.common.quantities import format_percent, format_seconds
from scaling_study.diagnosis.agreement import takes
from scaling_study.diagnosis.case import BESIDE, CACHED
from scaling_study.diagnosis.measures import Account, Instead
from scaling_study.diagnosis.query import Asked, Measure, Measured, Untested, percent, whole
from scaling_study.diagnosis.recovered_share import ByRelief

SPECIAL = ("kept_workers", "no_snapshots", "whole_batches", "no_copies")
"""Reliefs of what has a more special cause than that a loader keeps training waiting."""
MORE = "more_workers"
LOADS = takes("load_s_per_step", "the loader")

Part = Literal["waits", "prepares", "rest"]
SAID: dict[Part, str] = {
    "waits": "in which makers of batches neither compute nor wait for a CPU",
    "prepares": "in which they compute, or wait for a CPU",
    "rest": "in which none is made",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Making:
    """What a loader's makers of batches do with their time.

    Attributes:
        made_s: What a batch takes one of them.
        parts: What of the waiting for them is due to each; they add up to 1.
    """

    made_s: float
    parts: dict[Part, float]


def making(asked: Asked) -> Making | None:
    """What making a batch takes; None where that was not timed."""
    case, n = asked.case, asked.n
    made_s = case.mean("loader_made_s_per_step", n)
    if np.isnan(made_s) or made_s <= 0:
        return None
    step_s = case.mean("step_s", n)
    queued_s = case.mean("trainer_runqueue_s_per_step", n)
    workers = max((loader["workers"] or 0 for loader in case.loaders), default=0)
    if workers:
        there_s = workers * step_s
        queued_s = case.mean("runqueue_s_per_step", n) - queued_s
    else:
        there_s = case.mean("load_s_per_step", n)
        queued_s = queued_s * there_s / step_s
    computed_s = case.mean("loader_computed_s_per_step", n) + np.nan_to_num(queued_s)
    covered = min(1.0, made_s / there_s)
    waits = covered * max(0.0, 1 - computed_s / made_s)
    return Making(made_s, {"waits": waits, "prepares": covered - waits, "rest": 1 - covered})


@dataclasses.dataclass(frozen=True, slots=True)
class Portion:
    """The part of a share that is due to one thing that a loader's makers of batches do.

    Attributes:
        of: The share.
        part: Which.
    """

    of: Measure
    part: Part

    def measure(self, asked: Asked) -> Measured | Untested:
        """That part of it; all of it is the rest where nothing is known of them."""
        measured = self.of.measure(asked)
        found = making(asked)
        if isinstance(measured, Untested):
            return measured
        if found is None:
            if self.part == "rest":
                return measured
            return Untested("it was not timed how long this loader takes to make a batch")
        factor = found.parts[self.part]
        estimate = measured.estimate.times(factor)
        text = (
            f"{measured.weight.text} To make a batch takes {format_seconds(found.made_s)};"
            f" {format_percent(round(factor, 2))} of the waiting is time {SAID[self.part]}:"
            f" {percent(estimate)} of {whole(asked.scope)}."
        )
        weight = dataclasses.replace(measured.weight, text=text)
        return dataclasses.replace(
            measured, estimate=estimate, over=measured.over * factor, weight=weight
        )


def waiting(part: Part) -> tuple[Measure, ...]:
    """Ways to measure a part of what training waits for its loader."""
    loading = Account(
        ("load_s_per_step",), "time in the loader", less=("loader_starts_s_per_step",)
    )
    ways = (
        # Where the loader went on beside batches from memory, what it takes from training is known.
        ByRelief((BESIDE,), beyond=SPECIAL),
        Instead(ByRelief((CACHED,), beyond=SPECIAL), (BESIDE,)),
        Instead(loading, (CACHED, BESIDE)),
    )
    return tuple(Portion(way, part) for way in ways)
