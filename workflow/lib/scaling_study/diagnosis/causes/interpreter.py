"""The interpreter: its collector and its lock."""

import numpy as np

from scaling_study.common.quantities import format_cpus
from scaling_study.diagnosis.agreement import Fact, Waiting, other_threads_cpus, takes
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, step_thread
from scaling_study.diagnosis.measures import Account, Instead
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief
from scaling_study.diagnosis.sampled import UNSEEN
from scaling_study.stats.thresholds import SHARE_AT_LEAST


def _alone(asked: Asked) -> tuple[bool | None, str]:
    """Whether a futex can only be the interpreter's lock."""
    case = asked.case
    if case.demand > case.threads:
        return False, "The ranks of a group wait for what they exchange in a futex, too."
    return case.threads == 1, (
        "An operator has one thread, so that a futex is not the end of a parallel region."
        if case.threads == 1
        else "Operators have several threads, which wait for each other in a futex too."
    )


def _not_the_loader(asked: Asked) -> tuple[bool | None, str]:
    if "loader_lock" in asked.named:
        return False, "The threads that keep it waiting are the loader's."
    return True, "No thread of a loader was found to keep it waiting."


def _other_threads(asked: Asked) -> tuple[bool | None, str]:
    share = other_threads_cpus(asked)
    return bool(share >= SHARE_AT_LEAST) and not np.isnan(share), (
        f"Other threads of the member use {format_cpus(share)} CPUs."
    )


FUTEX = Route(
    Account(("blocked_futex_s_per_step",), "waiting for another thread (futex)", missing=UNSEEN),
    (Fact(_alone), Fact(_other_threads, "account"), Waiting(("futex",))),
    needs=(Fact(_not_the_loader),),
)
COLLECTS = takes("collect_s_per_step", "the garbage collector")
COLLECTING = Instead(
    Account(("collect_s_per_step",), "time in Python's garbage collector"), ("no_collector",)
)

PLANTS = {
    "gil": Plant(
        "a thread that holds the interpreter's lock",
        ("interpreter",),
        wrapper=step_thread,
        level=True,
        promised=False,
    ),
    "collector": Plant(
        "a garbage collection in every step",
        ("interpreter",),
        wrapper=lambda _: ("collector.py",),
        level=True,
        promised=False,
    ),
}

CAUSE = Cause(
    "The interpreter: its collector and its lock",
    "the script's own language, Python, is busy tidying up or lets only one of its threads "
    "work at a time",
    "A large part of a step is in the garbage collector, and comes back without it; or the "
    "training thread waits in a futex while other threads of the member use CPU time.",
    "gc and threading in Python's documentation (global interpreter lock)",
    Remedy(
        "Collect less often, and keep other threads of the process from running Python.",
        code="gc.freeze(); gc.set_threshold(100_000, 50, 50)",
    ),
    growth=(
        FUTEX,
        Route(ByRelief(("no_collector",)), (COLLECTS,)),
    ),
    level=(
        FUTEX,
        Route(ByRelief(("no_collector",)), (COLLECTS,)),
        Route(COLLECTING),
    ),
    plants=PLANTS,
    order=200,
)
