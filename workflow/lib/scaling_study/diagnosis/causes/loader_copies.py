"""Batches that are copied from one process to another at a high cost."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, one_cpu
from scaling_study.diagnosis.recovered_share import ByRelief

NOT_SENT = Route(ByRelief(("no_copies",)))


def _send_more(seconds: float) -> None:
    """Have one worker of every loader send views of larger tensors, which are sent whole."""
    from typing import Any

    import torch
    from torch.utils.data import default_collate, default_convert

    from scaling_study.member.loader_arguments import change_arguments

    # About what is copied to another process in so many seconds.
    numbers = round(seconds * 250e6)

    def enlarge(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            large = torch.empty(numbers + value.numel(), dtype=value.dtype)
            return large[: value.numel()].view(value.shape).copy_(value)
        return type(value)(map(enlarge, value))

    def change(given: dict[str, Any]) -> None:
        single = given.get("batch_size", 1) is None
        collate = given.get("collate_fn") or (default_convert if single else default_collate)
        given["collate_fn"] = lambda rows: enlarge(collate(rows))
        given["num_workers"] = 1

    change_arguments(change)


CAUSE = Cause(
    "Batches that are copied between processes at a high cost",
    "moving the data from the processes that prepare it to the training takes long",
    "A step is faster when loader workers make their batches and do not send them.",
    "Multiprocessing best practices in torch's documentation; torch.multiprocessing.reductions",
    Remedy(
        "Send less: tensors that are no views of larger ones (clone), small types, converted in "
        "the training process; or make batches in threads, which send nothing.",
        code="batch = batch.clone()  # before a worker returns a view of a larger tensor",
    ),
    growth=(NOT_SENT,),
    level=(NOT_SENT,),
    plants={
        "copies": Plant(
            "a worker that sends views of larger tensors",
            ("loader_copies",),
            most=1,
            clean_most=1,
            code=_send_more,
            missing=one_cpu,
            level=True,
            promised=False,
            only=("plain", "images"),
        ),
    },
    order=164,
)
