"""A loader whose own work gets in the way of training."""

from scaling_study.causes.cause import Cause, Remedy, Route
from scaling_study.causes.plant import CPUS, FOLDER, Dose, Options, Plant, one_cpu
from scaling_study.evidence.agreement import Fact
from scaling_study.evidence.asking import Asked
from scaling_study.evidence.case import BESIDE, CACHED
from scaling_study.evidence.relief_share import ByRelief


def _beside(asked: Asked) -> tuple[bool | None, str]:
    """Whether the loader was seen to go on beside batches from memory."""
    if not asked.case.measured(BESIDE, asked.scope):
        return None, "The loader has nothing that could go on beside batches from memory."
    return True, "The loader went on at its own rate beside batches from memory."


INTERFERES = Route(ByRelief((CACHED,), beyond=(BESIDE,)), needs=(Fact(_beside),))


def _busy_workers(dose: Dose, workers: int) -> Options:
    busy = f"{1.5 * dose.strength * dose.step_s:.5f}"
    loader = (str(FOLDER / "slow_loader.py"), "--seconds", busy, "--busy")
    return ("loader_workers.py", "--workers", str(workers), "--", *loader)


CAUSE = Cause(
    "A loader whose own work gets in the way of training",
    "preparing the data takes processors, caches or the interpreter from the training itself",
    "With batches from memory a step is faster when the loader stands still than when it goes on "
    "beside them.",
    "SPDL, Parallelism and Performance: the noisy neighbour",
    Remedy(
        "Prepare less, or elsewhere: fewer workers or threads, workers on CPUs of their own, or "
        "what was prepared kept on a disk. What other numbers of workers give, feed: quick "
        "measures.",
    ),
    growth=(INTERFERES,),
    level=(INTERFERES,),
    plants={
        "busy_workers": Plant(
            "loader workers that keep all CPUs busy",
            ("loader_interference",),
            most=1,
            clean_most=1,
            wrapper=lambda dose: _busy_workers(dose, len(CPUS)),
            control=lambda dose: _busy_workers(dose, 0),
            missing=one_cpu,
            own={
                "data_loading": "every batch takes CPU time, so that workers have something to do"
            },
            level=True,
            promised=False,
        )
    },
    order=165,
)
