"""Waiting for files."""

from scaling_study.causes.cause import Cause, Remedy, Route
from scaling_study.evidence.agreement import Waiting
from scaling_study.evidence.measures import Account
from scaling_study.evidence.sampled import UNSEEN

DEVICE = Account(("blocked_device_s_per_step",), "waiting for files or devices", missing=UNSEEN)

CAUSE = Cause(
    "Waiting for files",
    "the processes wait for the disk",
    "Blocked time; training threads are found in read, write or fsync on files, or in "
    "uninterruptible sleep.",
    "Documentation/accounting/psi.rst; /proc/PID/syscall in proc(5)",
    Remedy(
        "Keep the data in memory, or on a faster disk; write checkpoints and logs less often.",
        command="cat /proc/pressure/io",
    ),
    growth=(Route(DEVICE, (Waiting(("device",), 0.1),)),),
    level=(Route(DEVICE, (Waiting(("device",), 0.1),)),),
    order=90,
)
