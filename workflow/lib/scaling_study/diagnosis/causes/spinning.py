"""OpenMP threads that spin while they wait."""

from scaling_study.common.quantities import format_number
from scaling_study.diagnosis.agreement import SEVERAL_THREADS, Fact
from scaling_study.diagnosis.case import REFERENCE
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant, one_cpu
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief
from scaling_study.launch.axes.wait_policy import SPIN_LIMIT_S


def _spins(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    spin_s = case.attested.get(REFERENCE, {}).get("spin_s")
    if spin_s is None:
        return None, "Whether waiting threads spin was not probed."
    return spin_s > SPIN_LIMIT_S, (
        f"After a parallel operator a member used {format_number(spin_s * 1e3)} ms of CPU time in "
        "20 ms of sleep."
    )


PLANTS = {
    "spinning": Plant("spinning by default threads", ("spinning",), axes={}, missing=one_cpu),
}

CAUSE = Cause(
    "OpenMP threads that spin while they wait",
    "threads that have nothing to do keep their processor busy asking for work, and the "
    "threads that have work must wait for it",
    "User time and run-queue wait grow on all threads as soon as processes share CPUs, and "
    "both go when waiting threads sleep. One process alone is not slow.",
    "libgomp manual, GOMP_SPINCOUNT and OMP_WAIT_POLICY",
    Remedy(
        "Let waiting threads sleep (OMP_WAIT_POLICY=PASSIVE), or give each process one thread.",
        axes={"wait_policy": "passive"},
        others={
            "one_thread": "Give each process one thread: that brings back more than letting "
            "waiting threads sleep (OMP_WAIT_POLICY=PASSIVE)."
        },
    ),
    growth=(Route(ByRelief(("passive",)), (SEVERAL_THREADS, Fact(_spins))),),
    level=(Route(ByRelief(("passive",)), (SEVERAL_THREADS, Fact(_spins))),),
    plants=PLANTS,
    order=110,
)
