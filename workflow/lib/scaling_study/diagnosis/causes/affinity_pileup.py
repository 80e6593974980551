"""Members piled up on the same CPUs."""

from scaling_study.common.quantities import format_count, format_number, known
from scaling_study.diagnosis.agreement import BringsBack, Fact, FirstKnown
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import CPUS, Plant, one_cpu
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import AtLeast, ByRelief
from scaling_study.diagnosis.runqueue import SCHEDSTAT

UNPILED = ("pinned", "unpinned", "spread", "per_l3")


def _crowded(asked: Asked) -> tuple[bool | None, str]:
    """Whether masks leave some thread without a CPU of its own, though there would be enough."""
    case, cpus = asked.case, asked.case.machine.allowed_cpus
    members = asked.n
    demands = [(case.mean("members_cpus", members), members * case.demand, "thread")]
    if asked.scope == "growth":
        trainers = min(case.mean("trainers_cpus", members), case.placeable)
        demands.insert(0, (trainers, members, "training thread"))
    if not all(known(have) for have, *_ in demands):  # a file of an older version
        return None, "Which CPUs the members may use was not read."
    crowded = [one for one in demands if one[0] < min(one[1], cpus)]
    have, wanted, who = (crowded or demands)[0]
    text = (
        f"The masks allow {format_number(have)} of {format_count(wanted, who)} a CPU of "
        f"its own; there are {format_count(cpus, 'CPU')}."
    )
    return bool(crowded), text


PILED = AtLeast(
    Account(("wait_pileup_s_per_step",), "waiting for a CPU while others were idle"),
    ByRelief(UNPILED, beyond=("passive", "one_thread"), own="wait_pileup_s_per_step"),
)
UNCROWDED = FirstKnown((Fact(_crowded), BringsBack(UNPILED)))

PLANTS = {
    "bound": Plant(
        "piled on one CPU by OMP_PROC_BIND=true",
        ("affinity_pileup",),
        wrapper=lambda _: ("bound.py",),
        missing=one_cpu,
    ),
    "mask": Plant(
        "piled on one CPU by mask",
        ("affinity_pileup",),
        axes={"intra_op": 1, "placement": [str(CPUS[0])] * len(CPUS)},
        missing=one_cpu,
    ),
}

CAUSE = Cause(
    "Members piled up on the same CPUs",
    "the processes are bound to the same processors while others stand idle",
    "Members wait for a CPU while allowed CPUs are idle; their masks allow fewer CPUs than "
    "there are members. OMP_PROC_BIND and GOMP_CPU_AFFINITY do this to separately started "
    "processes.",
    f"{SCHEDSTAT}; sched_setaffinity(2); libgomp manual, OMP_PROC_BIND",
    Remedy(
        "Give each process CPUs of its own, and unset OMP_PROC_BIND, GOMP_CPU_AFFINITY and "
        "KMP_AFFINITY.",
        axes={"placement": "cores"},
        command="unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY",
    ),
    growth=(Route(PILED, (UNCROWDED,)),),
    level=(Route(PILED, (UNCROWDED,)),),
    plants=PLANTS,
    order=30,
)
