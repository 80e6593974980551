"""Waiting for files."""

from scaling_study.diagnosis.agreement import Waiting
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Dose, Options, Plant
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.sampled import UNSEEN

DEVICE = Account(("blocked_device_s_per_step",), "waiting for files or devices", missing=UNSEEN)

PAGE_READ_S = 0.1e-3
"""About what it takes to read a page from a fast disk; the dose differs with the disk."""


def _mapped(dose: Dose, *more: str) -> Options:
    pages = round(dose.strength * dose.step_s / PAGE_READ_S)
    return ("mapped_file.py", "--folder", str(dose.folder), "--pages", str(pages), *more)


PLANTS = {
    "sync": Plant(
        "a checkpoint that waits for the disk",
        ("file_io",),
        wrapper=lambda dose: ("sync_file.py", "--folder", str(dose.folder)),
        control=lambda dose: ("sync_file.py", "--folder", str(dose.folder), "--buffered"),
        level=True,
        promised=False,
    ),
    "mapped": Plant(
        "data in a mapped file that memory does not keep",
        ("file_io",),
        wrapper=_mapped,
        control=lambda dose: _mapped(dose, "--keep"),
        level=True,
        promised=False,
    ),
}

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
    plants=PLANTS,
    order=90,
)
