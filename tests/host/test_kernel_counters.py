"""What the kernel counts: the arithmetic of readings, and real processes whose work is known."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import gone, killed_at_the_end, wait_until, written
from scaling_study.host import kernel_counters
from scaling_study.host.kernel_counters import Process
from threads import thread

pytestmark = pytest.mark.timing

# ---- the arithmetic of two readings


def process(cpu_s, *, user_s=1.0, system_s=0.0, reaped_s=0.0, threads=None, **counts):
    given = {"minor_faults": 0, "major_faults": 0, "rss_bytes": 4096} | counts
    return Process(cpu_s, user_s, system_s, reaped_s, threads=threads or {}, **given)


def test_a_new_thread_counts_from_nothing_and_the_trainer_stands_alone():
    before = {1: process(1.0, threads={1: thread(0.6, 0.1, 10, 20, 3)})}
    threads = {1: thread(1.6, 0.4, 15, 26, 5), 2: thread(0.3, 0.2, 100, 200, 7)}
    after = {1: process(2.3, user_s=2.0, threads=threads)}
    used = kernel_counters.usage(before, after, trainer_tid=1)
    assert (used.trainer_user_s, used.trainer_system_s) == pytest.approx((1.0, 0.0))
    assert (used.trainer_runqueue_s, used.runqueue_s) == (pytest.approx(0.3), pytest.approx(0.5))
    assert (used.voluntary_switches, used.involuntary_switches) == (105, 206)
    assert (used.migrations, used.threads, used.processes) == (9, 2, 1)


def test_the_trainers_time_divides_as_its_own_ticks_do():
    """The other thread spins in user mode, the trainer is in the kernel."""
    then = {1: thread(0.0, ticks=(0.5, 0.5)), 2: thread(0.0)}
    now = {1: thread(1.0, ticks=(0.6, 1.4)), 2: thread(1.0)}
    before = {1: process(0.0, user_s=0, threads=then)}
    after = {1: process(2.0, user_s=1.1, system_s=0.9, threads=now)}
    used = kernel_counters.usage(before, after, trainer_tid=1)
    assert (used.trainer_user_s, used.trainer_system_s) == pytest.approx((0.1, 0.9))
    assert (used.cpu_user_s, used.cpu_system_s) == pytest.approx((1.1, 0.9))
    # Below a tick it divides as its process does.
    before = {1: process(0.0, user_s=0, threads={1: thread(0.0)})}
    after = {1: process(0.04, user_s=0.03, system_s=0.01, threads={1: thread(0.008)})}
    used = kernel_counters.usage(before, after, trainer_tid=1)
    assert (used.trainer_user_s, used.trainer_system_s) == pytest.approx((0.006, 0.002))


def test_cpus_that_threads_may_run_on():
    threads = [thread(0, cpus="0,4-5"), thread(0, cpus="5-7"), thread(0, cpus="9")]
    assert kernel_counters.allowed_cpus(threads) == {0, 4, 5, 6, 7, 9}


def test_one_thread_without_migrations_makes_their_number_unknown():
    threads = {1: thread(0), 2: thread(0, 0, 0, 0, None)}
    assert kernel_counters.usage({}, {1: process(1.0, threads=threads)}, 1).migrations is None


def test_a_new_child_counts_from_its_beginning():
    parent = process(5.0, minor_faults=10)
    child = process(0.5, minor_faults=7, major_faults=2)
    used = kernel_counters.usage({1: parent}, {1: parent, 2: child}, trainer_tid=1)
    assert used.cpu_s == pytest.approx(0.5)
    assert (used.minor_faults, used.major_faults, used.processes) == (7, 2, 2)
    assert used.rss_bytes == 8192


@pytest.mark.parametrize(
    ("before", "after", "used_s"),
    [
        # The child had used 3 s, and 2 s more by children of its own that it had waited for; then
        # 0.25 s more. Its parent waited for it: all of that is in the parent's count at once.
        (
            {1: process(5.0, reaped_s=1.0), 2: process(3.0, reaped_s=2.0)},
            {1: process(5.0, reaped_s=1.0 + 3.0 + 2.0 + 0.25)},
            0.25,
        ),
        # A child that nobody waited for takes nothing away.
        ({1: process(5.0), 2: process(3.0)}, {1: process(6.0)}, 1.0),
    ],
)
def test_of_an_ended_child_only_what_it_used_since_is_added(before, after, used_s):
    assert kernel_counters.usage(before, after, trainer_tid=1).cpu_s == pytest.approx(used_s)


# ---- real processes


def test_cpu_time_of_one_thread_of_a_process_with_a_strange_name(child):
    cpu = max(os.sched_getaffinity(0))
    child.tell(f"os.sched_setaffinity(0, [{cpu}])")
    threads = kernel_counters.threads_of([kernel_counters.read_tree(child.pid)])
    assert kernel_counters.allowed_cpus(threads.values()) == {cpu}
    assert threads[child.pid].last_cpu == cpu
    child.tell("open('/proc/self/comm', 'w').write('x) R 1 (y z')")
    assert (Path(f"/proc/{child.pid}/comm")).read_text() == "x) R 1 (y z\n"
    used, (own_s, _) = child.usage("burn(0.2)")
    assert own_s >= 0.2
    assert own_s <= used.cpu_s <= 1.5 * own_s  # what its own account leaves out is small
    # All of it was the trainer's, and most of it was spent in user mode.
    assert used.trainer_user_s + used.trainer_system_s == pytest.approx(used.cpu_s, rel=0.1)
    assert used.cpu_user_s > used.cpu_system_s
    assert (used.threads, used.processes) == (1, 1)


def test_cpu_time_of_children_that_begin_and_end_in_between(child):
    used, (own_s, children_s) = child.usage("[child(0.1) for _ in range(2)]")
    assert children_s >= 0.2
    assert (used.cpu_s, used.processes) == (pytest.approx(own_s + children_s, rel=0.4), 1)


def test_touched_pages_are_faults_and_sleeps_are_voluntary_switches(child):
    used, _ = child.usage("touch(1000), [time.sleep(1e-4) for _ in range(100)]")
    assert 1000 <= used.minor_faults <= 1200
    assert used.major_faults == 0
    assert 2**20 < used.rss_bytes < 2**27
    assert 100 <= used.voluntary_switches <= 300  # one for each; not two, nor all since its start


def test_waiting_for_a_cpu_is_run_queue_time(child):
    """Two processes on one CPU: each waits while the other runs, about as long as it runs."""
    cpu = min(os.sched_getaffinity(0))
    child.tell(f"os.sched_setaffinity(0, [{cpu}])")
    spin = "'print(flush=True)\\nwhile True: pass'"
    start = f"subprocess.Popen([sys.executable, '-S', '-c', {spin}], stdout=subprocess.PIPE)"
    child.tell(f"globals().update(other={start}), other.stdout.readline()")
    before = kernel_counters.read_tree(child.pid)[child.pid]
    child.tell("burn(0.4)")
    after = kernel_counters.read_tree(child.pid)[child.pid]
    child.tell("other.kill(), other.communicate()")
    used = kernel_counters.usage({1: before}, {1: after}, child.pid)
    assert used.runqueue_s > used.cpu_s / 5
    assert used.involuntary_switches > 0


TREE = """
import os, subprocess, sys, threading, time
from pathlib import Path
depth, folder = int(sys.argv[1]), Path(sys.argv[2])
def start():
    subprocess.Popen([sys.executable, "-S", "-c", sys.argv[3], str(depth - 1), folder, sys.argv[3]])
if depth:
    start()
    threading.Thread(target=lambda: (start(), time.sleep(600))).start()  # a thread's child is ours
(folder / f"{depth}-{os.getpid()}").write_text(f"{os.getppid()}\\n")
time.sleep(600)
"""


def test_descendants_of_a_tree_come_after_their_parents(tmp_path):
    root = subprocess.Popen(
        [sys.executable, "-S", "-c", TREE, "2", tmp_path, TREE], start_new_session=True
    )
    with killed_at_the_end(root):
        wait_until(lambda: len(list(tmp_path.iterdir())) == 7, "seven processes")
        parents = {int(p.name.partition("-")[2]): int(written(p)) for p in tmp_path.iterdir()}
        found = kernel_counters.descendants(root.pid)
        assert found[0] == root.pid
        assert sorted(found) == sorted(parents)
        assert all(found.index(parents[pid]) < found.index(pid) for pid in found[1:])
        tree = kernel_counters.read_tree(root.pid)
        assert tree.keys() == parents.keys()
        assert {len(process.threads) for process in tree.values()} == {1, 2}
        below = kernel_counters.descendants(found[1])
        rest = kernel_counters.descendants(root.pid, without={found[1]})
        assert sorted([*below, *rest]) == sorted(found)


def test_a_process_that_is_gone():
    pid = gone()
    for read in (kernel_counters.read_process, kernel_counters.read_tree):
        with pytest.raises((FileNotFoundError, ProcessLookupError)):
            read(pid)
    # It may end between two files of its folder, too.
    with pytest.raises(ProcessLookupError):
        kernel_counters._process_clock_s(pid)
    assert kernel_counters.descendants(pid) == [pid]
    assert kernel_counters.tree_cpu_s(pid) == 0
