"""Other programs on the same CPUs."""

from scaling_study.common.quantities import format_cpus
from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import HALF, Plant
from scaling_study.diagnosis.measures import Account, Partly
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.runqueue import SCHEDSTAT
from scaling_study.stats.thresholds import FOREIGN_CPUS


def _foreign(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    n = asked.n
    cpus = case.mean("foreign_cpus", n)
    names = ", ".join(
        f"{one['name']} (process {one['pid']}, {format_cpus(one['share'])} CPUs)"
        for one in case.foreign
    )
    text = f"Other programs kept {format_cpus(cpus)} CPUs busy{': ' + names if names else ''}."
    return cpus >= FOREIGN_CPUS, text


def _foreign_traffic(asked: Asked) -> str | None:
    if asked.case.mean("foreign_cpus", asked.n) < BUSY_CPUS:
        return None
    return "What their memory traffic costs besides is not known: nothing ran without them."


BUSY_CPUS = 0.1
"""Who runs for less than a tenth of the time hardly makes others slower by a tenth."""
BY_FOREIGN = Account(("wait_foreign_s_per_step",), "waiting for a CPU that another program had")

PLANTS = {
    "memory_hog": Plant(
        "a memory-bandwidth hog outside",
        ("foreign_load", "memory_bandwidth", "last_level_cache"),
        outside=lambda _: ("--hog", "memory", "--hogs", str(HALF)),
        level=True,
    ),
    "cpu_hog": Plant(
        "a CPU hog outside",
        ("foreign_load",),
        outside=lambda _: ("--hog", "cpu", "--hogs", str(HALF)),
    ),
}

CAUSE = Cause(
    "Other programs on the same CPUs",
    "other programs on this computer take processor time from the study",
    "Members wait for a CPU beside measured CPU time of programs that do not belong to the "
    "study; without those the CPUs would do.",
    f"{SCHEDSTAT}; /proc/stat in proc(5)",
    Remedy("Stop the other programs, or measure when they do not run.", command="top -b -n 1"),
    growth=(Route(BY_FOREIGN, (Fact(_foreign, "account"),)),),
    level=(Route(Partly(BY_FOREIGN, _foreign_traffic), (Fact(_foreign, "account"),)),),
    plants=PLANTS,
    order=40,
)
