"""Scripts that do what no script should: the windows of other members are kept, nothing is left."""

import os
import signal
import subprocess

import pytest

import jobs
from faulty import Fault
from processes import killed_at_the_end, wait_until
from quotas import divided_group, inside
from scaling_study.runner import cohort_windows
from scaling_study.runner.member_processes import LONGEST_LOG_BYTES

pytestmark = pytest.mark.faults

WINDOWS = 3
STARTS = cohort_windows.MEMBER_RESTARTS + 1
MEMORY_BYTES = 2 * 1024**3


def job(how, folder, *args, **measure):
    """The command of a job in which member 1 misbehaves."""
    # With more patience these tests would only wait longer, with less no member would start.
    settings = {"windows": WINDOWS, "window_s": [0.1, 3.0], "timeout_s": 30.0}
    arguments = ["--how", how, "--member", "{member}", *args]
    script = jobs.WORKLOADS / "misbehaves.py"
    mapping = jobs.config(script, args=arguments, step="mark", **{**settings, **measure})
    return jobs.command(jobs.baseline_job(mapping), folder)


def run(words, folder):
    jobs.succeed(words, folder)
    return jobs.read(folder / "0.jsonl")


def note(record_property, title, folder, ns):
    """Assert that all windows of these counts are there once, and nothing else is left."""
    fault = Fault(title, record_property, folder, folder)
    fault.leaves(planned=dict.fromkeys(ns, WINDOWS))


HARMLESS = {
    "forks": "three deaf daemons of a member",
    "ignores": "a member that ignores SIGTERM",
    "closes": "a member that closes its descriptors",
    "moves": "a member that changes directory",
    "prints": "a member that prints 100 MB",
    "exits": "a member that exits 0 early",
    "leaves": "a member that ends at once with status 0",
}


@pytest.mark.parametrize("how", HARMLESS)
def test_it_costs_no_window(tmp_path, how, record_property):
    beside = ("--beside", os.path.relpath(jobs.ROOT / "pyproject.toml"), "--steps", "100")
    records = run(job(how, tmp_path, *beside), tmp_path)
    end = records["end"][0]
    assert (end["status"], records["event"]) == ("complete", []), (end, records["event"])
    note(record_property, HARMLESS[how], tmp_path, (1, 2))


def test_a_forked_child_that_trains_too_is_refused(tmp_path):
    """Its steps and the member's are not of one model: nobody can say what a model takes."""
    records = run(job("trains", tmp_path, "--steps", "100"), tmp_path)
    (end,) = records["end"]
    assert end["status"] == "failed"
    assert "neither are the model's alone: measure whole runs" in end["reason"]


FATAL = {
    "segfaults": ("a member that segfaults", "was killed by SIGSEGV"),
    "hangs": ("a member that hangs in C code", "for 30 s"),
}


def check_lost_points(records, because):
    """Assert that the points of the bad member, and only those, are lost, and that it is said."""
    end = records["end"][0]
    assert end["status"] == "partial"
    assert "windows of 2 processes could not be taken" in end["reason"]
    assert because in end["reason"]
    assert [event["slot"] for event in records["event"]] == [1] * STARTS
    assert all(because in event["reason"] for event in records["event"])


@pytest.mark.parametrize("how", FATAL)
def test_it_costs_its_own_points_only(tmp_path, how, record_property):
    title, because = FATAL[how]
    records = run(job(how, tmp_path), tmp_path)
    check_lost_points(records, because)
    note(record_property, title, tmp_path, (1,))


def test_the_kernel_kills_who_takes_all_memory(tmp_path, record_property):
    with divided_group("memory") as group:
        (group / "memory.limit_in_bytes").write_text(str(MEMORY_BYTES))
        records = run(inside(group, job("eats", tmp_path)), tmp_path)
        kills = (group / "memory.oom_control").read_text().split()
    assert int(kills[kills.index("oom_kill") + 1]) >= STARTS
    check_lost_points(records, "killed by SIGKILL (the kernel does this when memory runs out)")
    note(record_property, "a member that the OOM killer ends", tmp_path, (1,))


def test_who_gets_no_more_memory_ends_with_a_message(tmp_path, record_property):
    records = run(job("starves", tmp_path, timeout_s=60.0), tmp_path)
    check_lost_points(records, "ended with status 1")
    assert "MemoryError" in records["event"][-1]["log"]
    note(record_property, "a member over its memory limit", tmp_path, (1,))


def test_what_is_printed_fills_no_disk(tmp_path):
    """What is kept of it is what a message shows, and a bit."""
    words = job("prints", tmp_path, windows=50)
    with (
        subprocess.Popen(words, env=jobs.environment(tmp_path), start_new_session=True) as process,
        killed_at_the_end(process),
    ):
        largest = 0

        def shortened():
            nonlocal largest
            sizes = [log.stat().st_size for log in tmp_path.glob("scaling-study-*/*/*/log-1")]
            largest = max([largest, *sizes])
            assert process.poll() is None
            return largest > 10 * LONGEST_LOG_BYTES and sizes[0] <= LONGEST_LOG_BYTES

        wait_until(shortened, "100 MB, and then much less")
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert jobs.processes(tmp_path) == []


def test_a_daemon_of_a_member_ends_even_if_the_supervisor_is_killed(tmp_path, record_property):
    words = job("forks", tmp_path, windows=50)
    with subprocess.Popen(words, env=jobs.environment(tmp_path), start_new_session=True) as process:
        part = tmp_path / "0.jsonl.part"
        wait_until(lambda: part.exists() and b'"window"' in part.read_bytes(), "a window")
        fault = Fault("kill -9 of the job step beside daemons", record_property, tmp_path, tmp_path)
        daemons = jobs.processes(tmp_path, "scaling_study.member.worker")
        assert len(daemons) == 5  # two members and the three
        process.kill()
        process.wait()
        fault.leaves()
