"""Threads of a loader that keep the training thread from the interpreter."""

from scaling_study.diagnosis.agreement import Fact, Waiting
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, one_cpu
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief
from scaling_study.diagnosis.sampled import UNSEEN


def _threads(asked: Asked) -> tuple[bool | None, str]:
    names = [loader["kind"] for loader in asked.case.loaders if loader.get("threads")]
    if not names:
        return False, "No loader is known that has threads in this process."
    return asked.case.threads == 1, (
        f"{', '.join(names)} prepares batches in threads of this process."
        if asked.case.threads == 1
        else "Operators have several threads, which wait for each other in a futex too."
    )


NEEDS = (Fact(_threads),)
FUTEX = (Waiting(("futex",)),)
SOON = Route(ByRelief(("quick_switches",)), FUTEX, needs=NEEDS)
# In the loader itself the thread waits for a batch, in a futex too. Whoever is woken waits for a
# CPU next, though some are idle.
WAITS = Route(
    Account(
        ("blocked_futex_s_per_step", "wait_pileup_s_per_step"),
        "waiting for another thread (futex) outside of the loader, and being woken",
        less=("load_s_per_step",),
        missing=UNSEEN,
    ),
    FUTEX,
    needs=NEEDS,
)


def _in_a_thread(seconds: float) -> None:
    """Have every loader's batches go through a thread that computes in Python."""
    from collections.abc import Iterator
    from typing import Any

    import real_workload
    from spdl.pipeline import PipelineBuilder
    from torch.utils import data

    loader_kind = data.DataLoader

    def works(batch: Any) -> Any:
        real_workload.work(seconds)
        return batch

    class Threaded:
        def __init__(self, *args: Any, **options: Any) -> None:
            self.inner: Any = loader_kind(*args, **options)

        def __iter__(self) -> Iterator[Any]:
            builder: Any = PipelineBuilder().add_source(self.inner).pipe(works).add_sink(2)
            pipeline = builder.build(num_threads=1)
            with pipeline.auto_stop():
                yield from pipeline.get_iterator()

    data.DataLoader = Threaded


CAUSE = Cause(
    "Loader threads that keep training from the interpreter",
    "the script's own language, Python, lets only one of its threads work at a time, and those "
    "that prepare the data keep the training waiting",
    "The training thread is found in a futex outside of the loader, whose threads run in the same "
    "process; a step is faster when threads give the interpreter to others sooner.",
    "SPDL, Parallelism and Performance; sys.setswitchinterval in Python's documentation",
    Remedy(
        "Prepare the data in another process (with SPDL: run_pipeline_in_subprocess), or by code "
        "that lets go of the interpreter. Threads that take turns sooner "
        "(sys.setswitchinterval) help some scripts and harm others: the experiments tell.",
        others={
            "pipeline_elsewhere": "Prepare the data in another process "
            "(run_pipeline_in_subprocess).",
        },
    ),
    growth=(SOON, WAITS),
    level=(SOON, WAITS),
    plants={
        "loader_thread": Plant(
            "a loader's thread that computes in Python",
            ("loader_lock",),
            most=1,
            clean_most=1,
            code=_in_a_thread,
            missing=one_cpu,
            level=True,
            promised=False,
            only=("plain", "images"),
        ),
    },
    order=161,
)
