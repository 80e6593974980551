"""A loader whose own work gets in the way of training."""

from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.case import BESIDE, CACHED
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, one_cpu
from scaling_study.diagnosis.loading import SPECIAL
from scaling_study.diagnosis.measures import Beyond
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief


def _beside(asked: Asked) -> tuple[bool | None, str]:
    """Whether the loader was seen to go on while training was on batches from memory."""
    if not asked.case.measured(BESIDE, asked.scope):
        return None, "The loader has nothing that could go on beside batches from memory."
    return True, "The loader did all that it does while training was on batches from memory."


# What its workers have a CPU for while training waits for one is theirs, wherever others are idle.
INTERFERES = Route(
    Beyond(
        ByRelief((CACHED,), beyond=(BESIDE, *SPECIAL), own="wait_pileup_s_per_step"),
        ("loader_lock",),
    ),
    needs=(Fact(_beside),),
)


def _copy_beside(seconds: float) -> None:
    """Have two workers of every loader copy more than caches hold for each batch."""
    import real_workload
    import torch

    from scaling_study.member.loader_arguments import change_arguments

    # About what a CPU copies in so many seconds.
    numbers = round(1e9 * seconds)

    def copies(fetcher: object) -> None:
        if "_copied" not in fetcher.__dict__:
            fetcher.__dict__["_copied"] = torch.zeros(numbers), torch.zeros(numbers)
        target, source = fetcher.__dict__["_copied"]
        target.copy_(source)

    change_arguments(lambda given: given.update(num_workers=2))
    real_workload.before_each_batch(copies)


def _work_beside(seconds: float) -> None:
    """Have workers of every loader want more CPUs than training leaves, and a fair part of its own.

    A scheduler that is fair serves whoever wants least first: so there are many of them, of whom
    each wants less than training does.
    """
    import os

    import real_workload

    from scaling_study.member.loader_arguments import change_arguments

    cpus = os.cpu_count() or 1  # not this member's, which some launches bind to one
    change = {"num_workers": 4 * cpus, "persistent_workers": True}
    change_arguments(lambda given: given.update(change))
    real_workload.before_each_batch(lambda _: real_workload.work(2 * (cpus - 1) * seconds))


CAUSE = Cause(
    "A loader whose own work gets in the way of training",
    "preparing the data takes processors, caches or the interpreter from the training itself",
    "With batches from memory a step is faster when the loader stands still than when it goes on "
    "beside them.",
    "SPDL, Parallelism and Performance: the noisy neighbour",
    Remedy(
        "Prepare less, or elsewhere: fewer workers or threads, workers on CPUs of their own "
        "(loader_cpus), or what was prepared kept on a disk. What other numbers of workers give, "
        "feed: quick measures.",
        others={
            "loader_apart": "Give the loader's workers CPUs of their own.",
            "pipeline_elsewhere": "Prepare the data in a process of its own "
            "(run_pipeline_in_subprocess).",
        },
    ),
    growth=(INTERFERES,),
    level=(INTERFERES,),
    plants={
        "copying_workers": Plant(
            "loader workers that copy more than caches hold",
            ("loader_interference",),
            most=1,
            clean_most=1,
            code=_copy_beside,
            missing=one_cpu,
            level=True,
            promised=False,
            only=("ncf",),  # whose step is small enough to be in caches
        ),
        "working_workers": Plant(
            "loader workers that want more CPUs than there are",
            ("loader_interference",),
            most=1,
            clean_most=1,
            code=_work_beside,
            missing=one_cpu,
            level=True,
            promised=False,
            only=("plain", "images"),
        ),
    },
    order=165,
)
