"""Processes that wait for the same lock."""

from scaling_study.common.quantities import format_number
from scaling_study.diagnosis.agreement import Fact, Waiting
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import Dose, Options, Plant, one_cpu
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.sampled import UNSEEN, kind_of


def _locked(asked: Asked) -> tuple[bool | None, str]:
    case, scope = asked.case, asked.scope
    one = case.sampled[case.n if scope == "growth" else 1]
    if not one.samples:
        return None, "Locks were not looked at."
    most = max(one.locks.items(), key=lambda item: item[1], default=None)
    if most is not None:
        return True, f"On average {format_number(most[1])} threads wait for the lock on {most[0]}."
    places = {on: syscall for (syscall, on) in one.calls if kind_of(syscall, on) == "lock"}
    found = ", ".join(f"{on or 'a file'} ({syscall})" for on, syscall in places.items())
    return bool(places), f"Waits for a lock on {found or 'nothing'}."


LOCKED = Account(("blocked_lock_s_per_step",), "waiting for a lock", missing=UNSEEN)


def _lock(dose: Dose, kind: str, *more: str) -> Options:
    # Two processes wait for a lock only where a step holds it for more than half its time.
    seconds = f"{3 * dose.strength * dose.step_s:.5f}"
    return ("lock.py", "--kind", kind, "--folder", str(dose.folder), "--seconds", seconds, *more)


def _lock_plant(title: str, kind: str, *, promised: bool) -> Plant:
    return Plant(
        title,
        ("lock_contention",),
        wrapper=lambda dose: _lock(dose, kind),
        control=lambda dose: _lock(dose, kind, "--private"),
        missing=one_cpu,
        promised=promised,
    )


PLANTS = {
    "file_lock": _lock_plant("contention on one file lock", "flock", promised=True),
    "polled_lock": _lock_plant("a file lock that is tried again and again", "poll", promised=False),
    "semaphore": _lock_plant("a semaphore that processes share", "semaphore", promised=False),
}

CAUSE = Cause(
    "Processes that wait for the same lock",
    "the processes take turns at something that only one of them may use at a time",
    "Blocked time grows; training threads are found in flock or fcntl, in a futex in memory "
    "that processes share, or in a pause while another member holds a file's lock.",
    "flock(2), fcntl(2), futex(2); /proc/locks and /proc/PID/syscall in proc(5)",
    Remedy(
        "Give each process a file or lock of its own, or hold the lock for a shorter time.",
        command="cat /proc/locks",
        code="open a file per process: f'{path}.{os.getpid()}'",
    ),
    growth=(Route(LOCKED, (Waiting(("lock",), 0.1), Fact(_locked, "samples"))),),
    level=(Route(LOCKED, (Waiting(("lock",), 0.1), Fact(_locked, "samples"))),),
    plants=PLANTS,
    order=80,
)
