"""A mask or cpuset smaller than the machine."""

from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import CPUS, Plant, one_cpu
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.runqueue import SCHEDSTAT


def _smaller(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    allowed, online = case.machine.allowed_cpus, case.machine.online_cpus
    return allowed < online, f"{allowed} of the machine's {online} CPUs are allowed."


PLANTS = {
    "one_cpu": Plant(
        "a mask of one CPU around the whole study",
        ("cpuset",),
        outside=lambda _: ("--cpu", str(CPUS[0])),
        missing=one_cpu,
        promised=False,
    ),
}

CAUSE = Cause(
    "A mask or cpuset smaller than the machine",
    "the processes may use only a part of this computer's processors",
    "Members outnumber the CPUs that they may use, but not those of the machine.",
    f"{SCHEDSTAT}; cpuset(7), taskset(1)",
    Remedy("Start the study with more CPUs allowed (cpuset, taskset, the whole node)."),
    growth=(
        Route(
            Account(
                ("wait_cpuset_s_per_step",),
                "waiting for a CPU that the whole machine would have had",
                relieved=True,
            ),
            (Fact(_smaller),),
        ),
    ),
    plants=PLANTS,
    order=130,
)
