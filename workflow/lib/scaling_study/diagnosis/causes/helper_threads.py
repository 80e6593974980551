"""Helper threads that compete for CPUs."""

from scaling_study.common.quantities import format_cpus, format_number
from scaling_study.diagnosis.agreement import Fact, other_threads_cpus
from scaling_study.diagnosis.case import CACHED
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, step_thread
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.runqueue import SCHEDSTAT
from scaling_study.stats.thresholds import FOREIGN_CPUS


def _helpers(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    n = asked.n
    busy = other_threads_cpus(asked)
    text = (
        f"A member has {format_number(case.mean('threads', n))} threads in "
        f"{format_number(case.mean('processes', n))} processes; beside the training thread they "
        f"keep {format_cpus(busy)} CPUs busy."
    )
    if case.threads > 1:
        return False, f"{text} Operators have {case.threads} threads: these are theirs."
    return bool(busy >= FOREIGN_CPUS), text


def _waits(*, relieved: bool) -> Route:
    waited = "waiting for a CPU that helper threads had"
    # Without the loader, whose own threads have causes of their own.
    account = Account(("wait_threads_s_per_step",), waited, relieved=relieved, cohort=CACHED)
    return Route(account, (Fact(_helpers, "account"),))


PLANTS = {
    "helper": Plant(
        "a thread that needs a CPU of its own",
        ("helper_threads",),
        wrapper=lambda dose: step_thread(dose, "--native"),
        promised=False,
    ),
}

CAUSE = Cause(
    "Helper threads that compete for CPUs",
    "other threads and processes that each process starts take processor time from the "
    "training itself",
    "Run-queue wait grows although the training threads alone would fit; threads or child "
    "processes beside them use CPU time, and are not those of operators.",
    SCHEDSTAT,
    Remedy(
        "Start fewer loader workers and background threads, or fewer processes, so that all "
        "threads that work fit on the CPUs."
    ),
    growth=(_waits(relieved=True),),
    level=(_waits(relieved=False),),
    plants=PLANTS,
    order=168,
)
