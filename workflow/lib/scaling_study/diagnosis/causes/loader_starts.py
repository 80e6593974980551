"""Loader workers that are started anew in each epoch."""

from scaling_study.diagnosis.agreement import takes
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.measures import Account, Instead
from scaling_study.diagnosis.recovered_share import ByRelief

KEPT = "kept_workers"
STARTS = takes("loader_starts_s_per_step", "the start and the end of loader workers")
STARTING = Instead(
    Account(
        ("loader_starts_s_per_step",),
        "starting and ending loader workers",
        missing="it was not counted",
    ),
    (KEPT,),
)


def _start_workers(seconds: float) -> None:
    """Have a loader of four rows start its worker so often that it takes this much of a step."""
    import itertools
    import time

    import real_workload
    import torch
    from torch.utils.data import DataLoader

    loader = DataLoader(torch.zeros(4), num_workers=1)
    steps = itertools.count(1)
    every = 0

    def start() -> float:
        began = time.perf_counter()
        for _row in loader:
            pass
        return time.perf_counter() - began

    def again(*_: object) -> None:
        nonlocal every
        if not every:
            # How often is settled by what the first ones take: workers that live on take less.
            every = max(1, round(min(start() for _ in range(5)) / seconds))
        elif next(steps) % every == 0:
            start()

    real_workload.before_each_step(again)


CAUSE = Cause(
    "Loader workers that are started anew in each epoch",
    "the processes that prepare the data are started again in every pass over it",
    "A part of a step is in starting and ending a loader's workers, and comes back when these live "
    "on.",
    "torch.utils.data, persistent_workers; the loader's starts in tables/points",
    Remedy(
        "Let the workers live on between epochs, or make epochs longer.",
        axes={"persistent_workers": "keep"},
    ),
    growth=(Route(ByRelief((KEPT,)), (STARTS,)),),
    level=(Route(ByRelief((KEPT,)), (STARTS,)), Route(STARTING)),
    plants={
        "loader_starts": Plant(
            "loader workers that are started again and again",
            ("loader_starts",),
            code=_start_workers,
            level=True,
            promised=False,
        )
    },
    order=160,
)
