"""The data loader: training waits for it, or its work interferes with training.

The waiting is divided by what the makers of batches do: loader workers, or the training thread. For
torch's loaders, the time to make batches is known, and the part of it in which makers compute or
wait for a CPU. In the rest of it, they wait for a disk or another source. If the makers are not
always busy, something between them and the training thread takes the remainder, which stays apart.
"""

from typing import Literal

import numpy as np

from scaling_study.common.quantities import format_percent, format_seconds
from scaling_study.diagnosis import evidence
from scaling_study.diagnosis.case import BESIDE, CACHED
from scaling_study.diagnosis.cause import SINGLE_PROCESS_LOSS, Cause, Proof
from scaling_study.diagnosis.checks import takes, waiting
from scaling_study.diagnosis.shares import Counted, Recovered, residual

SPECIAL = ("kept_workers", "no_snapshots", "whole_batches", "no_copies")
"""Interventions on more specific causes than a loader that keeps training waiting."""
LOADS = takes("load_s_per_step", "the loader")
STARTING = Counted(
    ("loader_starts_s_per_step",),
    "starting and ending loader workers",
    untested=("kept_workers",),
    missing="it was not counted",
)
LOADING = Counted(("load_s_per_step",), "time in the loader", less=("loader_starts_s_per_step",))

Part = Literal["waits", "prepares", "rest"]
PARTS: dict[Part, str] = {
    "waits": "in which makers of batches neither compute nor wait for a CPU",
    "prepares": "in which they compute, or wait for a CPU",
    "rest": "in which none is made",
}


def _making(query: evidence.Query) -> tuple[float, dict[Part, float]] | None:
    """Return the time (s) that makers of batches take per step, and each part's share of the wait.

    The shares add up to 1. None where the making was not timed.
    """
    made_s = query.mean("loader_made_s_per_step")
    if not made_s > 0:
        return None
    step_s = query.mean("step_s")
    queued_s = query.mean("trainer_runqueue_s_per_step")
    workers = max((loader.workers or 0 for loader in query.case.loaders), default=0)
    if workers:
        there_s = workers * step_s
        queued_s = query.mean("runqueue_s_per_step") - queued_s
    else:
        there_s = query.mean("load_s_per_step")
        queued_s = queued_s * there_s / step_s
    computed_s = query.mean("loader_computed_s_per_step") + np.nan_to_num(queued_s)
    covered = min(1.0, made_s / there_s)
    waits = covered * max(0.0, 1 - computed_s / made_s)
    return made_s, {"waits": waits, "prepares": covered - waits, "rest": 1 - covered}


def _waiting(query: evidence.Query) -> evidence.Measured | evidence.Untested:
    """Return the time that training waits for its loader.

    Batches from memory remove the loader's interference, too. With the loader running beside them,
    which is preferred, only the wait is removed.
    """
    tried = [name for name in (BESIDE, CACHED) if query.case.measured(name, query.scope)]
    if not tried and query.scope == "single_process_loss":
        return LOADING(query)
    return Recovered(tried[:1] or (BESIDE,), SPECIAL)(query)


@evidence.rule
def _portion(
    query: evidence.Query, part: Part, share: evidence.Share = _waiting
) -> evidence.Measured | evidence.Untested:
    """Return the part of a share that is due to one activity of the makers of batches.

    If their batches were not timed, all of it is `rest`.
    """
    measured, making = share(query), _making(query)
    if isinstance(measured, evidence.Untested):
        return measured
    if making is None:
        if part == "rest":
            return measured
        return evidence.Untested("it was not timed how long this loader takes to make a batch")
    made_s, factor = making[0], making[1][part]
    estimate = measured.estimate.times(factor)
    text = (
        f"{measured.evidence.text} To make a batch takes {format_seconds(made_s)};"
        f" {format_percent(round(factor, 2))} of the waiting is time {PARTS[part]}:"
        f" {evidence.percent(estimate)} of {evidence.whole(query.scope)}."
    )
    return measured.of(estimate, measured.over * factor, text)


def _goes_on(query: evidence.Query) -> evidence.Evidence:
    """Check that the loader was observed to run while training used batches from memory."""
    if not query.case.measured(BESIDE, query.scope):
        text = "The loader has nothing that could go on beside batches from memory."
        return evidence.Evidence(None, "fact", text)
    text = "The loader did all that it does while training was on batches from memory."
    return evidence.Evidence(True, "fact", text)


def _has_threads(query: evidence.Query) -> evidence.Evidence:
    names = [loader.kind for loader in query.case.loaders if loader.threads]
    if not names:
        return evidence.Evidence(
            False, "fact", "No loader is known that has threads in this process."
        )
    if query.case.threads > 1:
        text = "Operators have several threads, which wait for each other in a futex too."
        return evidence.Evidence(False, "fact", text)
    return evidence.Evidence(
        True, "fact", f"{', '.join(names)} prepares batches in threads of this process."
    )


THREADS = (_has_threads,)
FUTEX = (waiting("futex", share=0.2),)

CAUSES = {
    "loader_starts": Cause(
        "Loader workers that are started anew in each epoch",
        "torch.utils.data, persistent_workers; the loader's starts in tables/points",
        "Let the workers live on between epochs, or make epochs longer.",
        axes={"persistent_workers": "keep"},
        interventions=("kept_workers",),
        requires=(takes("loader_starts_s_per_step", "the start and the end of loader workers"),),
        others=(Proof(STARTING, scopes=SINGLE_PROCESS_LOSS),),
    ),
    "loader_lock": Cause(
        "Loader threads that keep training from the interpreter",
        "SPDL, Parallelism and Performance; sys.setswitchinterval in Python's documentation",
        "Prepare the data in another process (with SPDL: run_pipeline_in_subprocess), or in code "
        "that releases the interpreter lock. A shorter switch interval (sys.setswitchinterval) "
        "helps some scripts and harms others.",
        remedies={
            "pipeline_elsewhere": "Prepare the data in another process "
            "(run_pipeline_in_subprocess)."
        },
        # Time in the loader is subtracted: the thread waits for a batch there, in a futex too. A
        # woken thread waits for a CPU next, even if some are idle.
        counted=Counted(
            ("blocked_futex_s_per_step", "wait_pileup_s_per_step"),
            "waiting for another thread (futex) outside of the loader, and being woken",
            less=("load_s_per_step",),
        ),
        requires=FUTEX,
        needs=THREADS,
        others=(Proof(Recovered(("quick_switches",)), FUTEX, THREADS),),
    ),
    "loader_snapshots": Cause(
        "A snapshot of the loader's state in every step",
        "meta-pytorch/data#1317; snapshot_every_n_steps of torchdata.stateful_dataloader",
        "Let the loader take a snapshot as often as checkpoints are written.",
        code="StatefulDataLoader(..., snapshot_every_n_steps=1000)",
        interventions=("no_snapshots",),
    ),
    "loader_rows": Cause(
        "Batches that are made row by row",
        "torch.utils.data.Dataset, __getitems__",
        "Let the data set give all rows of a batch at once.",
        code="def __getitems__(self, indices): return ...  # with collate_fn=lambda batch: batch",
        interventions=("whole_batches",),
        requires=(LOADS,),
    ),
    "loader_copies": Cause(
        "Batches that are copied between processes at a high cost",
        "Multiprocessing best practices in torch's documentation; torch.multiprocessing.reductions",
        "Send less: tensors that are no views of larger ones (clone), small types, converted "
        "in the training process; or make batches in threads, which send nothing.",
        code="batch = batch.clone()  # before a worker returns a view of a larger tensor",
        interventions=("no_copies",),
    ),
    "loader_interference": Cause(
        "A loader whose own work gets in the way of training",
        "SPDL, Parallelism and Performance: the noisy neighbour",
        "Prepare less, or elsewhere: use fewer workers or threads, workers on CPUs of their own "
        "(loader_cpus), or prepared data on a disk. data_loader: quick measures other numbers of "
        "workers.",
        remedies={
            "loader_apart": "Give the loader's workers CPUs of their own.",
            "pipeline_elsewhere": "Prepare the data in a process of its own "
            "(run_pipeline_in_subprocess).",
        },
        # Others may be idle while training waits for a CPU that a worker has. This pile-up is part
        # of the interference, so it is not subtracted.
        share=residual(
            Recovered((CACHED,), (BESIDE, *SPECIAL), "wait_pileup_s_per_step"), "loader_lock"
        ),
        needs=(_goes_on,),
    ),
    "loader_storage": Cause(
        "A loader that waits for its storage",
        "The making of batches in tables/points, against its CPU time; Mohan et al. 2021, "
        "Data Stalls",
        "Keep the data nearer or in memory, read larger pieces, or read more of them at the same "
        "time: workers that wait need no CPU. data_loader: quick compares files in memory with "
        "files on the disk.",
        remedies={"more_workers": "Let more processes wait for the data at the same time."},
        share=_portion("waits"),
        requires=(LOADS,),
    ),
    "too_few_workers": Cause(
        "Too few loader workers",
        "torch.utils.data, num_workers",
        "Let more processes prepare the data, if CPUs are free.",
        share=_portion("prepares", Recovered(("more_workers",), SPECIAL)),
        requires=(LOADS,),
    ),
    "loader_preparation": Cause(
        "A loader that takes long to prepare its batches",
        "The CPU time of the making of batches in tables/points",
        "Do less work for each sample, make the rows of a batch together (__getitems__), or keep "
        "prepared data.",
        remedies={
            "loader_apart": "Give the loader's workers CPUs of their own.",
            "more_workers": "Let more processes prepare the data; or do less work for each sample.",
        },
        # If too_few_workers is named, it has the part that more workers recover.
        share=residual(_portion("prepares"), "too_few_workers"),
        requires=(LOADS,),
    ),
    "data_loading": Cause(
        "A loader that keeps training waiting",
        "torch.utils.data, num_workers; the loader's time in tables/points",
        "Make the rows of a batch together (__getitems__), do less work for each sample, or keep "
        "the batches. Loader workers help only if CPUs are free; the axes loader_workers and "
        "prefetch measure this.",
        remedies={
            "loader_apart": "Give the loader's workers CPUs of their own.",
            "more_workers": "Let more processes load the data.",
        },
        share=_portion("rest"),
        requires=(LOADS,),
    ),
}
