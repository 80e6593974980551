"""Counters of members: the mechanics with events of the kernel's own, which every machine has."""

import contextlib
import errno
import os
import time

import pytest

import machines
from processes import descriptors
from scaling_study.host import perf_events
from scaling_study.host.perf_events import PerfEvent, PerfEvents, Reading

pytestmark = pytest.mark.timing

SOFTWARE = 1
FAULTS = PerfEvent("page_faults", SOFTWARE, 2)
TASK_CLOCK = PerfEvent("task_clock", SOFTWARE, 1)
NOT_THERE = PerfEvent("not_there", SOFTWARE, 9999)


needs_perf = pytest.mark.skipif(
    not perf_events._countable(FAULTS), reason="perf_event_open is not allowed here"
)


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


# ---- kinds of cores


def test_an_event_is_counted_in_the_unit_of_each_kind_of_core(monkeypatch):
    assert perf_events.units(machines.root("vm-hybrid")) == (0,)
    kinds = perf_events.units(machines.root("core-i7-1370p"))
    assert kinds == (4, 10)
    monkeypatch.setattr(perf_events, "units", lambda: kinds)
    cycles = perf_events.EVENTS[1]
    assert [one.config for one in cycles.by_unit()] == [4 << 32, 10 << 32]
    assert FAULTS.by_unit() == [FAULTS]


@needs_perf
def test_a_unit_that_cannot_be_opened_leaves_none_open(monkeypatch):
    monkeypatch.setattr(PerfEvent, "by_unit", lambda self: [self, NOT_THERE])
    before = descriptors()
    assert not perf_events._countable(FAULTS)
    assert descriptors() == before
    monkeypatch.setattr(PerfEvent, "by_unit", lambda self: [self, self])
    with contextlib.closing(PerfEvents(1, (TASK_CLOCK,))) as events:
        events.add(0, os.getpid())
        assert len(descriptors()) == len(before) + 2
        read = events.read(0)["task_clock"]
    # Both run all the time here; on a processor with two kinds, one of them does.
    assert read.running_ns > 1.5 * read.enabled_ns


# ---- descriptors


@needs_perf
def test_as_many_descriptors_as_events_and_members_and_none_is_left():
    before = descriptors()
    events = PerfEvents(3, (FAULTS, TASK_CLOCK, NOT_THERE))
    assert events.events == [FAULTS, TASK_CLOCK]
    for slot in (0, 1, 2, 1):  # the second member was started again
        events.add(slot, os.getpid())
    assert len(descriptors()) == len(before) + 6
    assert set(events.read(1)) == {"page_faults", "task_clock"}
    events.drop(1)
    assert events.read(1) == {}
    events.close()
    assert descriptors() == before


# ---- what the kernel says no to


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_says_no_nothing_is_counted(monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(perf_events, "_open", refuse)
    events = PerfEvents(2)
    events.add(0, os.getpid())
    assert events.events == []
    assert not perf_events.has_hardware_counters()
    assert events.read(0) == {}
    assert set(perf_events.count(events.read(0), events.read(0), 1.0).values()) == {None}


def test_the_hardware_counts_or_says_no():
    """On a machine with counters these are plausible; most virtual ones have none."""
    with contextlib.closing(PerfEvents(1)) as events:
        events.add(0, os.getpid())
        before, began = events.read(0), time.process_time()
        sum(range(3_000_000))
        cpu_s = time.process_time() - began
        counted = perf_events.count(before, events.read(0), 0.5 * cpu_s)
    names = [event.name for event in events.events]
    assert perf_events.has_hardware_counters() == ("instructions" in names)
    if "instructions" in names:
        assert counted["instructions"] > 3_000_000
    if "cycles" in names:
        assert 1e8 < counted["cycles"] / cpu_s < 1e10
    assert (counted["instructions"] is None) == ("instructions" not in names)


# ---- real members


@needs_perf
@pytest.mark.parametrize(
    "how",
    [
        "touch(2000)",
        "in_thread(touch, 2000)",
        "os.waitpid(os.fork() or (touch(2000), os._exit(0)), 0)",
    ],
)
def test_faults_of_threads_and_children_that_begin_later_are_counted(child, how):
    events = PerfEvents(1, (FAULTS,))
    events.add(0, child.pid)
    before = events.read(0)["page_faults"]
    used, _ = child.usage(how)
    found = perf_events._change(before, events.read(0)["page_faults"], used.cpu_s)
    events.close()
    assert 2000 <= found <= 2600
    if "fork" not in how:  # of a child that has ended the process's own counters know nothing
        assert found == pytest.approx(used.minor_faults, abs=20)
