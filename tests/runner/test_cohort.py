"""Cohorts in this process: what happens when members or the machine misbehave."""

import contextlib
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jobs import WORKLOADS
from processes import state, wait_until
from scaling_study.common import private
from scaling_study.host import kernel_counters, probe
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.member import channel
from scaling_study.runner import cohort, environment, headroom, member_processes, windows
from scaling_study.runner.member_processes import HostFacts, MemberEndedError

pytestmark = pytest.mark.slow

SETTINGS = cohort.WindowSettings(steps=5, shortest_s=0.2, longest_s=3.0, settle_s=0.05)
HOST = HostFacts(frozenset(os.sched_getaffinity(0)), headroom.read_free_memory().free, ())


def prepared(folder, script, args=(), *, members=1, host=HOST, env=None, step="optimizer"):
    """A cohort of which nothing is started yet."""
    asked = {"OMP_NUM_THREADS": "1", **(env or {})}
    env = environment.member_environment(os.environ, asked, {})
    launch = LaunchSpec(folder, sys.executable, env, step=step)
    command = (str(WORKLOADS / script), *map(str, args))
    specs = [MemberSpec(slot, None, "default", command) for slot in range(members)]
    return cohort.Cohort(launch, specs, host)


@pytest.fixture
def make():
    with private.folder() as folder, contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(prepared(folder, *args, **options))


def test_a_member_that_stops_stepping_is_ended(make, monkeypatch):
    monkeypatch.setattr(member_processes, "HANG_S", 1.0)
    one = make("misbehaves.py", ["--how", "hangs", "--at", 4], step="mark")
    one.start([0], 60)
    pid = one.members.pids[0]
    with pytest.raises(MemberEndedError):
        one.take(windows.WindowPlan(0, 0, 1), SETTINGS)
    assert one.alive == ()
    assert [event.what for event in one.events] == ["hung"]
    assert kernel_counters.descendants(pid) == [pid]
    one._launcher.close()
    assert not Path(f"/proc/{pid}").exists()


def test_a_member_without_a_first_step_in_time_is_ended(make):
    one = make("fails.py", ["--how", "waits"])
    one.start([0], 0.3)
    assert (one.alive, one.events[0].what) == ((), "hung")
    assert "0.3 s" in one.events[0].reason


@pytest.mark.timing
def test_a_member_may_rest_before_its_launcher_has_returned(make, monkeypatch):
    """A forked one is quick, and the coordinator one of many processes that want a CPU."""
    one = make("plain_loop.py")
    start = one._launcher.start

    def start_and_lose_the_cpu(member):
        pid = start(member)
        wait_until(lambda: one.members.words(0)[channel.PARKED_NS], "rest")
        wait_until(lambda: state(pid) == "S", "sleep at the gate")
        return pid

    monkeypatch.setattr(one._launcher, "start", start_and_lose_the_cpu)
    one.start([0], 120)
    assert one.events == []
    assert one.take(windows.WindowPlan(0, 0, 1), SETTINGS).members[0].steps >= 5


def test_the_last_member_goes_when_memory_runs_out(make, monkeypatch):
    one = make("plain_loop.py", members=2)
    left = iter([headroom.Room(0, "memory.max of the job")])
    plenty = headroom.Room(HOST.memory_bytes, "the machine's memory")
    monkeypatch.setattr(headroom, "read_free_memory", lambda: next(left, plenty))
    one.start([0, 1], 60)
    assert (one.alive, one.events[0].what) == ((0,), "out_of_memory")
    assert "memory.max of the job" in one.events[0].reason
    assert one.take(windows.WindowPlan(0, 0, 1), SETTINGS).members[0].steps >= 5


def test_on_a_large_machine_several_members_report_at_once_but_no_neighbours(make, monkeypatch):
    one = make("plain_loop.py", members=6, host=replace(HOST, cpus=frozenset(range(24))))
    one.start(range(6), 120)
    asked, order = [], one.members.order
    monkeypatch.setattr(
        one.members, "order", lambda slots, what: asked.append(slots) or order(slots, what)
    )
    reports = one.read_back(60)
    assert asked == [[0], [1, 3, 5], [2, 4]]
    assert [report.slot for report in reports] == list(range(6))
    assert all(report.sgemm_kernel for report in reports)
    asked.clear()
    monkeypatch.setattr(one, "_host", HOST)
    one.read_back(60)
    assert asked == [[slot] for slot in range(6)]


@pytest.mark.parametrize("name", ["libiomp5", "libomp"])
def test_threads_that_spin_for_long_are_stopped_with_their_member(make, name):
    library = probe.find_library(name, probe.library_folders())
    if library is None:
        pytest.skip(f"{name} is not installed")
    one = make("plain_loop.py", members=2, env={"OMP_NUM_THREADS": "2", "LD_PRELOAD": library})
    one.start([0, 1], 120)
    one.take(windows.WindowPlan(0, 0, 2), SETTINGS)
    with one._quiet([0]):
        wait_until(lambda: state(one.members.pids[1]) == "T", "the sleeping member's stop")
    record = one.take(windows.WindowPlan(1, 0, 1), SETTINGS)
    assert "sleeping_member_ran" not in record.flags


# ---- one cohort of three for all of these, in this order


@pytest.fixture(scope="module")
def three():
    endless = ["--steps", 10**9]  # a step of a script that starts anew counts in no window
    with private.folder() as folder, prepared(folder, "plain_loop.py", endless, members=3) as one:
        one.start([0, 1, 2], 60)
        one.warm_up(5)
        yield one


@pytest.mark.timing
def test_sleeping_members_sleep(three):
    steps = three.members.words(1)[channel.STEPS]
    record = three.take(windows.WindowPlan(0, 0, 1), SETTINGS)
    assert three.members.words(1)[channel.STEPS] == steps
    (member,) = record.members
    assert member.slot == 0
    used_s = member.cpu_user_s + member.cpu_system_s
    assert record.machine.sleeping_cpu_s < 0.5 * used_s


def test_a_window_says_when_it_began(three):
    before_s = time.monotonic()
    record = three.take(windows.WindowPlan(0, 0, 2), SETTINGS)
    assert before_s < record.released_s < time.monotonic() - record.window_s


@pytest.mark.timing
def test_a_window_of_bursts_holds_every_step_of_each(three):
    bursts = cohort.WindowSettings(0, 0.05, 0.05, 0.0, bursts=3, rest_s=0.1)
    record = three.take(windows.WindowPlan(0, 0, 2), bursts)
    assert record.window_s > 2 * 0.1 + 3 * 0.05  # rests and bursts, but for the first rest
    for member in record.members:
        assert member.steps == member.steps_active == len(member.step_us) >= 3
        # The rests are in no time but the window's own. On a busy machine a member may go on late,
        # and then trains for less than the bursts last.
        assert 0.05 < member.active_s < record.window_s - 0.15
        # Between a step's end and the gate another program may run; a step less is far less.
        assert 0.5 < sum(member.step_us) / 1e6 / member.active_s <= 1.001
        ran_s = member.trainer_user_s + member.trainer_system_s + member.trainer_runqueue_s
        assert 0.5 < ran_s / member.active_s < 2


def test_members_take_turns_and_one_that_ends_while_another_reports_is_left_out(three):
    def trained(n, first):
        record = three.take(windows.WindowPlan(0, 0, n), SETTINGS, first)
        return [member.slot for member in record.members if member.steps >= 5]

    assert [trained(1, first) for first in (0, 1, 5)] == [[0], [1], [2]]
    assert trained(2, 2) == [0, 2]
    os.kill(three.members.pids[1], signal.SIGKILL)
    assert len(three.read_back(60)) == 2
    assert three.alive == (0, 2)
    assert [event.what for event in three.events] == ["died"]
    assert [trained(1, first) for first in (1, 2)] == [[2], [0]]


def test_all_members_train_on_until_the_slowest_has_ended_its_step(make):
    """Every fifth step is long, and most windows close inside one."""
    one = make("plain_loop.py", ["--every", 5, "--phase-s", 0.4], members=2)
    one.start([0, 1], 60)
    short = cohort.WindowSettings(steps=1, shortest_s=0.1, longest_s=3.0, settle_s=0.3)
    records = [one.take(windows.WindowPlan(at, 0, 2), short) for at in range(6)]
    assert all(record.overlap > 0.99 for record in records)
    members = [member for record in records for member in record.members]
    assert all(member.steps >= 1 for member in members)
    assert any(max(member.step_us) > 400_000 for member in members)
    # The one that has ended its step goes on while the other is in its long one.
    assert any(member.after_us for member in members)


def test_what_a_loader_has_saved_up_is_used_up_before_a_window_counts(make):
    """Two workers give ten batches a second at most; six wait for the member that rested."""
    one = make("feeds.py", ["torch", "--workers", 2, "--seconds", 0.2, "--samples", 80_000])
    one.start([0], 60)
    # Batches may come in pairs: nine of them take 0.8 s at least.
    settings = cohort.WindowSettings(steps=8, shortest_s=0.5, longest_s=10.0, settle_s=0.05)
    for at in range(3):
        time.sleep(1.0)
        (member,) = one.take(windows.WindowPlan(at, 0, 1), settings).members
        assert len(member.settled_us) >= 6
        assert member.steps / sum(member.step_us) * 1e6 < 12


def test_a_script_that_can_run_only_once_gets_its_process_anew(make):
    one = make("plain_loop.py", ["--once", "--steps", 50])
    one.start([0], 60)
    pid = one.members.pids[0]
    assert one.read_back(60)[0].once is False
    for at in range(60):
        record = one.take(windows.WindowPlan(at, 0, 1), SETTINGS)
        if one.members.words(0)[channel.RESTARTS] >= 2:
            break
    assert one.members.words(0)[channel.RESTARTS] >= 2
    assert (one.events, one.members.pids[0]) == ([], pid)
    report = one.read_back(60)[0]
    assert (report.once, report.pid) == (True, pid)
    told = report.ended
    assert (told.steps, told.shortest, told.longest) == (50, 50, 50)
    assert record.members[0].steps >= 1
