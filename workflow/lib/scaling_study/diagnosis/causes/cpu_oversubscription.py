"""More work than CPUs."""

from scaling_study.common.quantities import format_count, format_seconds
from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import CPUS, Plant
from scaling_study.diagnosis.measures import Demand, Fewer
from scaling_study.diagnosis.query import MOST, Asked
from scaling_study.diagnosis.runqueue import SCHEDSTAT


def _outnumber(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    cpus = case.machine.allowed_cpus
    return case.n * case.demand > cpus, (
        f"{format_count(case.n, 'member')} with {format_count(case.demand, 'thread')} each on "
        f"{format_count(cpus, 'CPU')}."
    )


def _take_turns(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    waited_s = case.mean("wait_processes_s_per_step", case.n)
    added_s = case.mean("step_s", case.n) - case.mean("step_s", 1)
    text = f"Members wait {format_seconds(waited_s)} of a step for a CPU that another one had."
    return waited_s >= MOST * asked.share * added_s, text


PLANTS = {
    "processes": Plant(
        "twice as many processes as CPUs", ("cpu_oversubscription",), most=2 * len(CPUS)
    ),
}

CAUSE = Cause(
    "More work than CPUs",
    "there is more work than processors, so the processes take turns",
    "Run-queue wait grows in proportion to members beyond the CPUs, or one member alone keeps "
    "several CPUs busy already; throughput stays what it is.",
    f"{SCHEDSTAT}; Documentation/scheduler/sched-eevdf.rst",
    Remedy(
        "Start fewer processes: as many as there are CPUs for their threads. More do not give "
        "more models per hour."
    ),
    growth=(
        Route(Fewer(), (Fact(_outnumber), Fact(_take_turns, "account"))),
        Route(Demand(), (Fact(_outnumber),)),
    ),
    plants=PLANTS,
    order=140,
)
