"""Releasing members, putting them to rest, and seeing them die: real processes, without torch."""

import signal
import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processes import descriptors, private_folder, state, wait_until
from scaling_study.member import channel
from scaling_study.runner.members import Members
from small_cohort import train, until

# A member as far as the channel goes; what it does between steps is up to each test.
MEMBER = """
import os, sys, time
from pathlib import Path
from scaling_study.member.member import Member, Options
member = Member(Path(sys.argv[1]), int(sys.argv[2]), Options(), print)
"""
STEPPING = f"{MEMBER}\nwhile True:\n    time.sleep(0.001)\n    member.step_end()\n"
# It makes its steps as fast as it can, and counts them itself.
RUSHING = f"{MEMBER}\nwhile True:\n    member.step_end()\n"
# Its first step leads it to the gate; it dies in the step after its release.
DYING = f"{MEMBER}\nmember.step_end()\nsys.exit(3)\n"


class Group:
    """Members with their processes; ends them all."""

    def __init__(self, folder, count):
        self.folder = folder
        self.members = Members(folder, count)
        self.processes = []

    def start_resting(self, code, *slots):
        for slot in slots:
            self.members.clear(slot)
            process = subprocess.Popen([sys.executable, "-c", code, self.folder, str(slot)])
            self.processes.append(process)
            self.members.add(slot, process.pid)
        assert self.members.wait_resting(slots, until()) == set()
        assert self.members.resting.issuperset(slots)
        return self.processes

    def close(self):
        for slot in list(self.members.pids):
            self.members.kill(slot)
        self.members.close()
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def one(tmp_path):
    with closing(Group(private_folder(tmp_path / "cohort"), 2)) as group:
        yield group


def test_members_rest_at_their_first_step_and_only_ordered_ones_run(one):
    one.start_resting(STEPPING, 0, 1)
    for slot in (0, 1):
        words = one.members.words(slot)
        assert words[channel.STEPS] == 1
        assert words[channel.TRAINER_TID] == one.processes[slot].pid  # its only thread
        assert [step.fresh for step in one.members.steps(slot)] == [1]
    train(one.members, [1])
    assert one.members.words(1)[channel.STEPS] >= 5
    assert one.members.words(0)[channel.STEPS] == 1
    assert one.members.words(0)[channel.RELEASED_NS] == 0
    assert one.members.resting == {0, 1}


def test_steps_of_a_window_are_in_the_page_in_order(one):
    one.start_resting(STEPPING, 0)
    for _ in range(2):  # a second window begins with an empty ring
        release_ns, closed_ns = train(one.members, [0], steps=7)
        words = one.members.words(0)
        assert release_ns <= words[channel.RELEASED_NS] < closed_ns
        steps = one.members.steps(0)
        assert {step.fresh for step in steps} == {0}
        ends = [step.end_ns for step in steps]
        assert len(steps) == words[channel.STEPS] >= 7
        assert ends == sorted(ends)
        assert release_ns < ends[0]
        assert ends[-2] < closed_ns < ends[-1] <= words[channel.PARKED_NS]
        assert all(later - end > 1_000_000 for end, later in pairwise(ends))


@given(data=st.data())
@settings(deadline=None, max_examples=50)
def test_steps_done_since_a_moment_are_those_that_began_after_it(tmp_path_factory, data):
    """Counted from the end of the page, without copying it, as from its steps."""
    ends = sorted(data.draw(st.lists(st.integers(1, 50), max_size=40)))
    fresh = data.draw(st.lists(st.integers(0, 1), min_size=len(ends), max_size=len(ends)))
    since_ns = data.draw(st.integers(0, 51))
    filled = Members(private_folder(tmp_path_factory.mktemp("page") / "cohort"), 1)
    words = filled.words(0)
    words[channel.STEPS] = len(ends)
    for step, (end_ns, mark) in enumerate(zip(ends, fresh, strict=True)):
        at = channel.HEADER + step * channel.STEP_FIELDS
        words[at + channel.END_NS], words[at + channel.FRESH] = end_ns, mark
    later = [step for step in filled.steps(0) if step.end_ns >= since_ns]
    assert filled.done(0, since_ns) == sum(not step.fresh for step in later[1:])
    filled.close()


def test_a_full_ring_keeps_its_steps_and_goes_on_counting(one):
    one.start_resting(RUSHING, 0)
    train(one.members, [0], steps=channel.CAPACITY + 100)
    steps = one.members.steps(0)
    assert one.members.words(0)[channel.STEPS] > channel.CAPACITY == len(steps)
    assert all(step.end_ns for step in steps)
    assert not any(one.members.words(1)), "the neighbour's block was written"


def test_a_death_ends_a_sleep_early(one):
    one.start_resting(STEPPING, 0)
    one.start_resting(DYING, 1)
    one.members.order([0, 1], channel.RUN)
    assert one.members.sleep_until(until()) == {1}
    one.members.kill(1)
    assert one.members.pids.keys() == {0}
    wake_ns = time.perf_counter_ns() + 50_000_000
    assert one.members.sleep_until(wake_ns) == set()
    assert time.perf_counter_ns() >= wake_ns


def test_a_new_process_is_not_let_through_by_what_its_predecessor_left_at_the_gate(one):
    (first,) = one.start_resting(STEPPING, 0)
    train(one.members, [0])
    first.send_signal(signal.SIGSTOP)
    wait_until(lambda: state(first.pid) == "T", "stop")
    one.members.order([0], channel.RUN)  # it dies before it has read this
    one.members.kill(0)
    assert one.members.resting == set()
    first.wait()
    _, second = one.start_resting(STEPPING, 0)
    assert one.members.words(0)[channel.STEPS] == 1
    wait_until(lambda: state(second.pid) == "S", "sleep at the gate")
    time.sleep(0.05)
    assert one.members.words(0)[channel.RELEASED_NS] == 0
    assert state(second.pid) == "S"


def test_no_descriptor_is_left(tmp_path):
    before = descriptors()
    one = Group(private_folder(tmp_path), 5)
    one.start_resting(STEPPING, 0, 1, 2)
    one.members.kill(1)
    # Two pipes' and a process's ends for each member at the most: 300 members fit the usual 1,024.
    assert len(descriptors()) - len(before) <= 2 * 5 + 3
    one.close()
    del one
    assert descriptors() == before
