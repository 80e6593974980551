"""Counters of members: the mechanics with events of the kernel's own, which every machine has."""

import errno
import os
import resource
import subprocess
import sys
import time

import pytest

from processes import gone, killed_at_the_end
from scaling_study.host import kernel_counters, perf_events
from scaling_study.host.perf_events import Event, PerfEvents, Reading

pytestmark = pytest.mark.timing

SOFTWARE = 1
FAULTS = Event("page_faults", SOFTWARE, 2)
SWITCHES = Event("switches", SOFTWARE, 3, user_only=False)
TASK_CLOCK = Event("task_clock", SOFTWARE, 1, user_only=False)
NOT_THERE = Event("not_there", SOFTWARE, 9999)


def allowed(event):
    try:
        os.close(perf_events._open(event, 0))
    except OSError:
        return False
    return True


needs_perf = pytest.mark.skipif(not allowed(FAULTS), reason="perf_event_open is not allowed here")


# ---- the arithmetic


def reading(count, enabled_s=1.0, running_s=None):
    running_s = enabled_s if running_s is None else running_s
    return Reading(count, round(enabled_s * 1e9), round(running_s * 1e9))


def test_what_was_counted_is_a_difference_and_scaled_up_where_counters_took_turns():
    before = {"instructions": reading(1000, 1.0), "cycles": reading(0, 1.0)}
    after = {"instructions": reading(5000, 3.0), "cycles": reading(70, 3.0)}
    found = perf_events.count(before, after, cpu_s=2.0)
    assert found == {
        "instructions": 4000, "cycles": 70, "cache_misses": None, "stalled_cycles": None,
    }  # fmt: skip
    half = {"cycles": reading(600, 3.0, 1.5)}
    assert perf_events.count({"cycles": reading(100, 1.0)}, half, cpu_s=2.0)["cycles"] == 2000


@pytest.mark.parametrize(
    ("after", "cpu_s"),
    [
        (reading(600, 3.0, 1.0), 2.0),  # never its turn
        (reading(600, 2.8), 2.0),  # a tenth of the CPU time is another thread's
        (reading(0, 1.0), 0.0),  # nothing ran
    ],
)
def test_what_was_not_counted_whole_is_unknown(after, cpu_s):
    assert perf_events.count({"cycles": reading(0)}, {"cycles": after}, cpu_s)["cycles"] is None


def test_a_counter_that_one_edge_lacks_is_unknown():
    assert perf_events.count({}, {"cycles": reading(1)}, 0.0)["cycles"] is None
    assert perf_events.count({"cycles": reading(1)}, {}, 0.0)["cycles"] is None


# ---- descriptors


@pytest.fixture
def limit(monkeypatch):
    def limit(soft):
        monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))

    return limit


@needs_perf
@pytest.mark.parametrize(
    ("soft", "members", "beside", "most"),
    [
        *((1024, 192, 0, 2), (512, 192, 0, 0), (4096, 192, 0, 3), (1024, 2, 0, 3)),
        *((1024, 192, 256, 0), (resource.RLIM_INFINITY, 192, 192, 3)),
    ],
)
def test_few_descriptors_are_for_the_first_events(limit, soft, members, beside, most):
    limit(soft)
    events = (FAULTS, SWITCHES, TASK_CLOCK)
    used = sum(1 for _ in os.scandir("/proc/self/fd"))
    assert used < 100
    found = PerfEvents(members, events, beside=beside).names
    assert found == tuple(event.name for event in events)[:most]


@needs_perf
def test_as_many_descriptors_as_events_and_members_and_none_is_left():
    def descriptors():
        return sum(1 for _ in os.scandir("/proc/self/fd"))

    before = descriptors()
    events = PerfEvents(3, (FAULTS, TASK_CLOCK, NOT_THERE))
    assert events.names == ("page_faults", "task_clock")
    for slot in (0, 1, 2, 1):  # the second member was started again
        events.add(slot, os.getpid())
    assert descriptors() == before + 6
    assert set(events.read(1)) == {"page_faults", "task_clock"}
    events.drop(1)
    assert events.read(1) == {}
    events.close()
    assert descriptors() == before


@needs_perf
def test_a_member_that_is_gone_counts_nothing():
    events = PerfEvents(1, (FAULTS,))
    events.add(0, gone())
    assert events.read(0) == {}


# ---- what the kernel says no to


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_says_no_nothing_is_counted(monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(perf_events, "_open", refuse)
    events = PerfEvents(2)
    events.add(0, os.getpid())
    assert events.names == ()
    assert not perf_events.has_hardware_counters()
    assert events.read(0) == {}
    assert set(perf_events.count(events.read(0), events.read(0), 1.0).values()) == {None}


def test_on_an_unknown_architecture_nothing_is_counted(monkeypatch):
    monkeypatch.setattr(perf_events.platform, "machine", lambda: "pdp11")
    assert PerfEvents(1, (FAULTS,)).names == ()
    assert not perf_events.has_hardware_counters()


def test_the_hardware_counts_or_says_no():
    """On a machine with counters these are plausible; most virtual ones have none."""
    events = PerfEvents(1)
    try:
        events.add(0, os.getpid())
        before, began = events.read(0), time.process_time()
        sum(range(3_000_000))
        cpu_s = time.process_time() - began
        counted = perf_events.count(before, events.read(0), 0.5 * cpu_s)
    finally:
        events.close()
    assert perf_events.has_hardware_counters() == ("instructions" in events.names)
    if "instructions" in events.names:
        assert counted["instructions"] > 3_000_000
    if "cycles" in events.names:
        assert 1e8 < counted["cycles"] / cpu_s < 1e10
    assert (counted["instructions"] is None) == ("instructions" not in events.names)


# ---- real members

# Waits for a line, then does what that says; before the line it has one thread only.
PROGRAM = """
import mmap, os, subprocess, sys, threading, time

def touch(pages):
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        memory[page * mmap.PAGESIZE] = 1

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(10_000))

def in_thread(work, *args):
    thread = threading.Thread(target=work, args=args)
    thread.start()
    thread.join()

def in_child(work, *args):
    if not (pid := os.fork()):
        work(*args)
        os._exit(0)
    os.waitpid(pid, 0)

{before}
print("ready", flush=True)
for line in sys.stdin:
    eval(line)
    print("done", flush=True)
"""


def counted(work, event, *, before="", late=False):
    """Count an event while a program works; opened when it starts, or late."""
    events = PerfEvents(1, (event,))
    program = subprocess.Popen(
        [sys.executable, "-S", "-c", PROGRAM.format(before=before)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with killed_at_the_end(program):
        if not late:
            events.add(0, program.pid)
        assert program.stdout.readline() == "ready\n"
        if late:
            events.add(0, program.pid)
        one, tree = events.read(0)[event.name], kernel_counters.read_tree(program.pid)
        program.stdin.write(work + "\n")
        program.stdin.flush()
        assert program.stdout.readline() == "done\n"
        two, later = events.read(0)[event.name], kernel_counters.read_tree(program.pid)
    program.stdin.close()
    program.stdout.close()
    events.close()
    used = kernel_counters.usage(tree, later, program.pid)
    return perf_events._change(one, two, used.cpu_s), used


@needs_perf
@pytest.mark.parametrize("how", ["touch(2000)", "in_thread(touch, 2000)", "in_child(touch, 2000)"])
def test_faults_of_threads_and_children_that_begin_later_are_counted(how):
    found, used = counted(how, FAULTS)
    assert 2000 <= found <= 2600
    if "child" not in how:  # of a child that has ended the process's own counters know nothing
        assert found == pytest.approx(used.minor_faults, abs=20)


@needs_perf
@pytest.mark.skipif(not allowed(SWITCHES), reason="kernel events are not allowed here")
def test_switches_are_counted_as_proc_counts_them():
    found, used = counted("[time.sleep(1e-4) for _ in range(100)], burn(0.05)", SWITCHES)
    total = used.voluntary_switches + used.involuntary_switches
    assert 100 <= found == pytest.approx(total, rel=0.2)


@needs_perf
@pytest.mark.parametrize("late", [False, True])
def test_a_thread_that_was_there_before_counters_were_opened_makes_the_count_unknown(late):
    found, _ = counted("touch(2000)", FAULTS, before=SPINNING_THREAD, late=late)
    assert found is None if late else found >= 2000


SPINNING_THREAD = "threading.Thread(target=burn, args=(9,), daemon=True).start()"
