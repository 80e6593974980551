"""Processes that are stopped from outside."""

from scaling_study.diagnosis.agreement import Waiting
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.sampled import UNSEEN

STOPPED = Account(
    ("blocked_stopped_s_per_step",), "standing still, stopped by a signal", missing=UNSEEN
)

PLANTS = {
    "stopped": Plant(
        "a program that stops the processes again and again",
        ("stopped",),
        outside=lambda dose: ("--stop", f"{0.5 * dose.strength:.3f}"),
        level=True,
        promised=False,
    ),
}

CAUSE = Cause(
    "Processes that are stopped from outside",
    "some program stops the processes again and again, and lets them go on after a while",
    "Training threads are found stopped: neither ready to run nor waiting for anything. No "
    "counter of the kernel shows it.",
    "SIGSTOP in signal(7); ptrace(2); states T and t in /proc/PID/stat, proc(5); cpulimit(1)",
    Remedy(
        "Find what stops them, and have it leave them alone: cpulimit, a batch system that "
        "suspends jobs, a debugger or a tracer.",
        command="grep -H TracerPid /proc/[0-9]*/status; pgrep --list-full cpulimit",
    ),
    growth=(Route(STOPPED, (Waiting(("stopped",), 0.1),)),),
    level=(Route(STOPPED, (Waiting(("stopped",), 0.1),)),),
    plants=PLANTS,
    order=20,
)
