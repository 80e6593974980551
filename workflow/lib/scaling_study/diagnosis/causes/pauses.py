"""A script that waits by itself."""

from scaling_study.diagnosis.agreement import Waiting
from scaling_study.diagnosis.case import CACHED
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Plant
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.sampled import UNSEEN

PAUSED = Account(
    ("idle_s_per_step",),
    "waiting for time to pass or for another process",
    cohort=CACHED,
    missing=UNSEEN,
)

PLANTS = {
    "pause": Plant(
        "a pause in every step",
        ("pauses",),
        wrapper=lambda dose: ("pause.py", "--seconds", f"{dose.strength * dose.step_s:.5f}"),
        level=True,
        promised=False,
    ),
}

CAUSE = Cause(
    "A script that waits by itself",
    "the training script pauses, or waits for an answer of another program",
    "Blocked time outside of the loader; training threads are found in a sleep, or waiting for "
    "a pipe, a socket or a child process.",
    "nanosleep(2), poll(2), recv(2), wait4(2); /proc/PID/syscall in proc(5)",
    Remedy(
        "Look in the script for pauses, for what is tried again and again, and for services "
        "that are asked in every step; ask them for more at once, or in the background.",
        command="py-spy dump --pid PID  # of a member: the line that waits",
    ),
    growth=(Route(PAUSED, (Waiting(("sleep", "peer")),)),),
    level=(Route(PAUSED, (Waiting(("sleep", "peer")),)),),
    plants=PLANTS,
    order=100,
)
