"""A loader that makes its batches row by row."""

from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.loading import LOADS
from scaling_study.diagnosis.recovered_share import ByRelief

AT_ONCE = Route(ByRelief(("whole_batches",)), (LOADS,))


def _row_by_row(seconds: float) -> None:
    """Have every loader read rows one by one, each at a cost that all of a batch have once."""
    from typing import Any

    import real_workload
    from torch.utils.data import default_collate

    from scaling_study.member.loader_arguments import change_arguments

    class Rows:
        def __init__(self, inner: Any, each_s: float) -> None:
            self.inner, self.each_s = inner, each_s

        def __len__(self) -> int:
            return len(self.inner)

        def __getitem__(self, index: Any) -> Any:
            real_workload.work(self.each_s)
            if not isinstance(index, list):
                return self.inner[index]
            try:
                return self.inner[index]
            except TypeError:
                return default_collate([self.inner[one] for one in index])

    def change(given: dict[str, Any]) -> None:
        if given.get("batch_size", 1) is None:  # its sampler gives whole batches, in lists
            given.pop("batch_size")
            given["batch_sampler"] = given.pop("sampler")
        rows = given["batch_sampler"].batch_size if "batch_sampler" in given else (
            given.get("batch_size", 1)
        )  # fmt: skip
        given["dataset"] = Rows(given["dataset"], seconds / rows)

    change_arguments(change)


CAUSE = Cause(
    "Batches that are made row by row",
    "the data is read one row at a time, though many could be read at once",
    "A step is faster when the data set is asked for all rows of a batch at once, which torch does "
    "where it has __getitems__.",
    "torch.utils.data.Dataset, __getitems__",
    Remedy(
        "Let the data set give all rows of a batch at once.",
        code="def __getitems__(self, indices): return ...  # with collate_fn=lambda batch: batch",
    ),
    growth=(AT_ONCE,),
    level=(AT_ONCE,),
    plants={
        "rows": Plant(
            "a loader that makes its batches row by row",
            ("loader_rows",),
            code=_row_by_row,
            level=True,
            promised=False,
            only=("plain", "images"),
        ),
    },
    order=163,
)
