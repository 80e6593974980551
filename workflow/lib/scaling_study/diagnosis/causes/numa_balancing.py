"""Automatic NUMA balancing."""

from scaling_study.diagnosis.agreement import Fact, Falls, Present
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import ByRelief


def _balancing(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    on = case.machine.raw.get("numa_balancing")
    if on is None:
        return None, "Whether automatic NUMA balancing is on cannot be read."
    return bool(on), f"Automatic NUMA balancing is {'on' if on else 'off'}."


CAUSE = Cause(
    "Automatic NUMA balancing",
    "the system keeps moving memory between the processors' memories",
    "Hint faults and migrated pages; time comes back when memory is bound to its node, which "
    "the balancing leaves alone.",
    "numa_balancing in Documentation/admin-guide/sysctl/kernel.rst",
    Remedy(
        "Bind each member's memory to its node, or switch the balancing off.",
        axes={"placement": "cores", "membind": "local"},
        command="echo 0 > /proc/sys/kernel/numa_balancing  # as root",
    ),
    growth=(
        Route(
            ByRelief(("local_memory",), beyond=("pinned",)),
            (
                Present("numa_hint_faults_per_step", "NUMA hint faults per step", 1.0),
                Falls("numa_hint_faults_per_step", "NUMA hint faults"),
            ),
            needs=(Fact(_balancing),),
        ),
    ),
    level=(
        Route(
            ByRelief(("local_memory",), beyond=("pinned",)),
            (
                Present("numa_hint_faults_per_step", "NUMA hint faults per step", 1.0),
                Falls("numa_hint_faults_per_step", "NUMA hint faults"),
            ),
            needs=(Fact(_balancing),),
        ),
    ),
    order=240,
)
