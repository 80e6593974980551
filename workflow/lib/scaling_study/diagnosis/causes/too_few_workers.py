"""A loader that could use more worker processes."""

import dataclasses

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Dose, Options, Plant, one_cpu, slow_loader
from scaling_study.diagnosis.loading import LOADS, MORE, SPECIAL, Portion
from scaling_study.diagnosis.recovered_share import ByRelief

MORE_HELP = Route(Portion(ByRelief((MORE,), beyond=SPECIAL), "prepares"), (LOADS,))


def _half(dose: Dose) -> Options:
    """Half a dose: what one worker could make while training goes on."""
    return slow_loader(dataclasses.replace(dose, strength=dose.strength / 2), "--busy")


CAUSE = Cause(
    "Too few loader workers",
    "too few of the processes that prepare the data run at once",
    "Training waits for batches that take CPU time, and waits less with more loader workers.",
    "torch.utils.data, num_workers",
    Remedy("Let more processes prepare the data, where CPUs are free for them."),
    growth=(MORE_HELP,),
    level=(MORE_HELP,),
    plants={
        "busy_loader": Plant(
            "a loader that works",
            # Which of them comes first depends on how free the CPUs are that workers would have.
            ("too_few_workers", "loader_preparation"),
            most=1,
            clean_most=1,
            wrapper=_half,
            missing=one_cpu,
            level=True,
            promised=False,
        ),
    },
    order=174,
)
