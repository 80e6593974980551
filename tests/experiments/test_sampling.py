"""What threads wait for, and who else takes CPU time."""

import fcntl
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from processes import wait_state, wait_until
from scaling_study.diagnosis.waits import Sampled
from scaling_study.experiments import sampling
from scaling_study.records.experiment import SampledLock, SampledMember, Samples, Wait

pytestmark = pytest.mark.timing

STEP_S = 0.01

# As a Linux 6.1 on x86-64 wrote it.
LOCKS = """\
1: FLOCK  ADVISORY  WRITE 1201 08:01:131090 0 EOF
1: -> FLOCK  ADVISORY  WRITE 1202 08:01:131090 0 EOF
1: -> FLOCK  ADVISORY  WRITE 1203 08:01:131090 0 EOF
2: POSIX  ADVISORY  READ  815 00:18:622 128 128
"""


def test_a_waiter_is_told_from_a_holder():
    assert sampling.parse_locks(LOCKS) == (
        [(1202, "08:01:131090"), (1203, "08:01:131090")],
        [(1201, "08:01:131090"), (815, "00:18:622")],
    )
    assert sampling.parse_locks("") == ([], [])


@pytest.mark.parametrize(
    ("text", "machine", "expected"),
    [
        ("running\n", "x86_64", None),
        ("-1 0x7ffd5a 0x7f1c", "x86_64", None),
        ("73 0x4 0x2 0x0 0x0 0x0 0x0 0x7f 0x7f", "x86_64", ("flock", 4, 2)),
        ("32 0x4 0x2 0x0 0x0 0x0 0x0 0x7f 0x7f", "aarch64", ("flock", 4, 2)),
        ("9999 0x1 0x2 0x0 0x0 0x0 0x0 0x7f 0x7f", "x86_64", ("system call 9999", 1, 2)),
        ("73 0x4 0x2 0x0 0x0 0x0 0x0 0x7f 0x7f", "riscv64", ("system call 73", 4, 2)),
    ],
)
def test_a_system_call_has_a_name(text, machine, expected):
    assert sampling.parse_syscall(text, machine) == expected


@pytest.fixture
def started():
    processes = []

    def start(code, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        processes.append(process)
        process.stdout.readline()
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


LOCKING = """
import fcntl, sys
file = open(sys.argv[1], "w")
print("ready", flush=True)
fcntl.flock(file, fcntl.LOCK_EX)
"""


def wait_in(process, call):
    """Wait until a process sleeps in a system call."""

    def there():
        found = sampling.parse_syscall(
            Path(f"/proc/{process.pid}/syscall").read_text(), platform.machine()
        )
        return found is not None and found[0] == call

    wait_until(there, f"sleep in {call}")


def sample(process):
    sampler = sampling.Sampler()
    for _ in range(10):
        sampler.look({3: (process.pid, process.pid)})
        time.sleep(0.01)
    return sampler.record(1, 0.01, STEP_S)


def test_who_waits_for_a_file_lock_is_seen_with_the_file(tmp_path, started):
    path = tmp_path / "a lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = started(LOCKING, str(path))
        wait_in(process, "flock")
        found = sample(process)
    (member,) = found.members
    assert (member.slot, member.states) == (3, {"S": 10})
    assert member.waits == [Wait(syscall="flock", on=str(path), count=10)]
    assert found.locks == [SampledLock(path=str(path), waiters_mean=1.0, samples=10)]


POLLING = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
print("ready", flush=True)
while True:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        time.sleep(0.02)
"""


def test_a_pause_beside_a_held_lock_may_be_for_that_lock(tmp_path, started):
    path = tmp_path / "a lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = started(POLLING, str(path))
        sampler = sampling.Sampler()
        for _ in range(30):
            sampler.look({0: (process.pid, process.pid), 1: (os.getpid(), os.getpid())})
            time.sleep(0.013)
    assert sampler.holders == {str(path): {os.getpid()}}
    # All of its pauses; beside other programs it is seldom asleep.
    assert {on for _, on in sampler.waits[0]} == {str(path)}


@pytest.mark.parametrize(
    ("alone_share", "step_s", "counts"),
    [
        (0.0, 2 * STEP_S, {"/a lock": 30, "": 13}),
        (0.5, 2 * STEP_S, {"/a lock": 28, "": 15}),  # 15 of 60 looks: half of a step half as long
        (0.5, 10 * STEP_S, {"/a lock": 30, "": 13}),  # 3 of 60: those away from locks
        (1.0, STEP_S, {"": 43}),
    ],
)
def test_pauses_are_for_a_lock_that_members_hold_in_turn(alone_share, step_s, counts):
    sampler = sampling.Sampler()
    sampler.states[0]["S"] = 60
    sampler.waits[0] |= {("nanosleep", "/a lock"): 30, ("nanosleep", ""): 10, ("flock", "/b"): 20}
    sampler.waits[0]["nanosleep", "/held by one"] = 3
    sampler.holders |= {"/a lock": {1, 2}, "/held by one": {1}}
    alone = sampling.Sampler()
    alone.states[0]["S"] = 60
    alone.waits[0]["clock_nanosleep", ""] = round(60 * alone_share)
    of_one = alone.record(1, 0.02, STEP_S)
    (member,) = sampler.record(2, 0.02, step_s, of_one).members
    waits = {(wait.syscall, wait.on): wait.count for wait in member.waits}
    assert waits.pop(("flock", "/b")) == 20
    assert waits == {("nanosleep", on): count for on, count in counts.items()}


BETWEEN = """
import multiprocessing, threading, sys
kind = multiprocessing.Lock if sys.argv[1] == "processes" else threading.Lock
lock = kind()
lock.acquire()
print("ready", flush=True)
lock.acquire()
"""


def test_a_futex_between_processes_is_told_from_one_between_threads(started):
    process = started(BETWEEN, "processes")
    wait_in(process, "futex")
    (member,) = sample(process).members
    ((syscall, on),) = {(wait.syscall, wait.on) for wait in member.waits}
    assert syscall == "futex"
    assert "/sem." in on
    process = started(BETWEEN, "threads")
    wait_in(process, "futex")
    (member,) = sample(process).members
    assert {(wait.syscall, wait.on) for wait in member.waits} == {("futex", "")}


MAPS = """\
7f0000000000-7f0000001000 rw-s 00000000 00:01 33 /srv/with a name (deleted)
7f0000001000-7f0000002000 rw-s 00000000 00:01 34
7f0000002000-7f0000003000 rw-p 00000000 00:00 0
"""


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0x7F0000000FFF, "/srv/with a name (deleted)"),
        (0x7F0000001000, "shared memory"),
        (0x7F0000002000, ""),
        (0x7F0000003000, ""),
    ],
)
def test_the_mapping_of_an_address(address, name):
    assert sampling.shared_mapping(address, MAPS) == name


def test_a_process_that_has_ended_is_passed_over(started):
    process = started("print(flush=True)")
    process.wait()
    assert [one.states for one in sample(process).members] in ([], [{"Z": 10}])


def test_who_is_stopped_is_seen(started):
    process = started("print('ready', flush=True); input()")
    process.send_signal(signal.SIGSTOP)
    wait_state(process.pid, "T")
    assert sample(process).members[0].states == {"T": 10}


# Sleep outside of a system call is a page that a device brings.
@pytest.mark.parametrize(
    ("states", "waits", "calls", "shares"),
    [
        ({"T": 10, "D": 10}, [], {"page fault": 10, "stopped by a signal": 10},
         {"device": 0.5, "stopped": 0.5}),
        ({"R": 10, "D": 6, "S": 4}, [Wait(syscall="futex", on="", count=4)],
         {"futex": 4, "page fault": 6}, {"futex": 0.4, "device": 0.6}),
    ],
)  # fmt: skip
def test_looks_are_divided_by_what_threads_wait_for(states, waits, calls, shares):
    member = SampledMember(slot=0, samples=20, states=states, waits=waits)
    found = Sampled([Samples(n=1, interval_s=0.02, members=[member], locks=[])], 1)
    assert found.calls == {(name, ""): count for name, count in calls.items()}
    assert found.shares == shares
