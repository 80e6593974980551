"""A loader that waits for what it reads from."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, slow_loader
from scaling_study.diagnosis.loading import LOADS, waiting

BY_RELIEF, FROM_CACHE, COUNTED = (Route(way, (LOADS,)) for way in waiting("waits"))

CAUSE = Cause(
    "A loader that waits for its storage",
    "the model waits for data that comes slowly from a disk or over a network",
    "Training waits for its loader, and while a batch is made its maker neither computes nor waits "
    "for a processor.",
    "The making of batches in tables/points, against its CPU time; Mohan et al. 2021, Data Stalls",
    Remedy(
        "Keep the data nearer or in memory, read larger pieces at once, or read more of them at "
        "the same time: workers that wait need no CPU. feed: quick tells files in memory from "
        "those that are not.",
        others={"more_workers": "Let more processes wait for the data at the same time."},
    ),
    growth=(BY_RELIEF, FROM_CACHE),
    level=(BY_RELIEF, FROM_CACHE, COUNTED),
    plants={
        "slow_loader": Plant(
            "a slow loader",
            # Older records do not time the making of batches.
            ("loader_storage", "data_loading"),
            wrapper=slow_loader,
            level=True,
        ),
    },
    order=172,
)
