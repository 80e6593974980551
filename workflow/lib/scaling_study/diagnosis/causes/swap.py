"""Swapping, or a memory limit."""

from scaling_study.common.quantities import format_number
from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.query import Asked


def _swap(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    n = asked.n
    swapped = case.mean("pswpin_per_step", n)
    major = case.mean("major_faults_per_step", n)
    text = (
        f"Major faults per step: {format_number(major)}; pages read from swap: "
        f"{format_number(swapped)}."
    )
    return major >= MAJOR_FAULTS or swapped >= MAJOR_FAULTS, text


MAJOR_FAULTS = 0.1
"""A read from a disk takes 0.1 to 10 ms: one in ten steps is what can matter."""

CAUSE = Cause(
    "Swapping, or a memory limit",
    "memory does not suffice, and parts of it are fetched from the disk again and again",
    "Major faults and pages from swap appear with more members; threads stall for memory.",
    "Documentation/accounting/psi.rst; memory.max in Documentation/admin-guide/cgroup-v2.rst",
    Remedy(
        "Start fewer processes, or give them more memory.",
        command="cat /sys/fs/cgroup/memory.max /proc/pressure/memory; free -m",
    ),
    growth=(
        Route(
            Account(("memory_stall_s_per_step",), "stalled for memory"),
            (Fact(_swap, "account"),),
        ),
    ),
    level=(
        Route(
            Account(("memory_stall_s_per_step",), "stalled for memory"),
            (Fact(_swap, "account"),),
        ),
    ),
    order=210,
)
