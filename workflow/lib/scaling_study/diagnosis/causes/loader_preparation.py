"""A loader whose batches take long to prepare."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, slow_loader
from scaling_study.diagnosis.loading import LOADS, waiting
from scaling_study.diagnosis.measures import Beyond

# Where too_few_workers is named, it has the part that more workers bring back.
BY_RELIEF, FROM_CACHE, COUNTED = (
    Route(Beyond(way, ("too_few_workers",)), (LOADS,)) for way in waiting("prepares")
)

CAUSE = Cause(
    "A loader that takes long to prepare its batches",
    "the model waits for data that takes long to prepare",
    "Training waits for its loader, which computes meanwhile; what more loader workers surely save "
    "is not in it.",
    "The CPU time of the making of batches in tables/points",
    Remedy(
        "Do less work for each sample, make the rows of a batch together (__getitems__), or keep "
        "what was prepared.",
        others={
            "loader_apart": "Give the loader's workers CPUs of their own.",
            "more_workers": "Let more processes prepare the data; or do less work for each sample.",
        },
    ),
    growth=(BY_RELIEF, FROM_CACHE),
    level=(BY_RELIEF, FROM_CACHE, COUNTED),
    plants={
        "bound_loader": Plant(
            "a loader that works, on its trainer's CPU",
            ("loader_preparation",),
            axes={"intra_op": 1, "placement": "cores"},
            control_axes={"intra_op": 1, "placement": "cores"},
            wrapper=lambda dose: slow_loader(dose, "--busy"),
            level=True,
            promised=False,
        ),
    },
    order=176,
)
