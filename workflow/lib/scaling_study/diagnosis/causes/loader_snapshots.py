"""A loader that takes a snapshot of its state in every step."""

from typing import Any

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.recovered_share import ByRelief

TAKEN = Route(ByRelief(("no_snapshots",)))


def _take_snapshots(seconds: float) -> None:
    """Have every loader be a StatefulDataLoader whose data set has a large state."""
    import itertools

    from torch.utils import data
    from torchdata.stateful_dataloader import StatefulDataLoader

    # About as many numbers as are unpickled in so many seconds. What has not changed is not sent.
    numbers = round(seconds * 20e6)
    first = itertools.count()

    def state(_: object) -> dict[str, list[int]]:
        now = next(first)
        return {"state": list(range(now, now + numbers))}

    class Snapshots(StatefulDataLoader):  # type: ignore[misc]
        def __init__(self, dataset: object, *args: object, **options: object) -> None:
            kind: Any = type(dataset)
            kind.state_dict = state
            kind.load_state_dict = lambda *_: None
            super().__init__(dataset, *args, **{**options, "num_workers": 1})

    data.DataLoader = Snapshots


CAUSE = Cause(
    "A snapshot of the loader's state in every step",
    "the loader writes down where it stands, and what its data set holds, in every step",
    "A step is faster when torchdata's StatefulDataLoader takes no snapshots, which it does in "
    "every step unless it is told otherwise.",
    "meta-pytorch/data#1317; snapshot_every_n_steps of torchdata.stateful_dataloader",
    Remedy(
        "Let the loader take a snapshot as often as checkpoints are written.",
        code="StatefulDataLoader(..., snapshot_every_n_steps=1000)",
    ),
    growth=(TAKEN,),
    level=(TAKEN,),
    plants={
        "snapshots": Plant(
            "a loader that takes a large snapshot in every step",
            ("loader_snapshots",),
            most=1,
            clean_most=1,
            code=_take_snapshots,
            level=True,
            promised=False,
            only=("plain", "images"),
        )
    },
    order=162,
)
