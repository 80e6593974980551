"""Whole measuring jobs, with real members: what is on the disk, and what is left behind."""

import os
import random
import shutil
import signal
import subprocess
import sys

import pytest

import jobs
import made_records
from processes import wait_until
from scaling_study.analysis.record_rows import read_rows
from scaling_study.common import private
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.records import codec
from scaling_study.records.window import DECODER, CohortEnd, Window
from scaling_study.runner import cohort_windows, measure
from scaling_study.runner.blocks import Blocks
from scaling_study.runner.cohort_windows import Count
from scaling_study.runner.jobs import Job
from scaling_study.runner.journal import read_part

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def normal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("normal")
    return folder, jobs.run(jobs.config(jobs.WORKLOADS / "plain_loop.py"), folder)


def test_records_follow_the_schema_and_nothing_is_left(normal):
    folder, records = normal
    *_, (_, last) = codec.read(folder / "0.jsonl", DECODER)
    assert isinstance(last, CohortEnd)
    # A second name of the same file, until it has been collected.
    assert (folder / "0.jsonl.part").samefile(folder / "0.jsonl")
    assert jobs.left_behind(folder) == []
    assert records["end"][0]["status"] == "complete"
    head = records["cohort"][0]
    planned = []

    def attempt(_condition, window, _number):
        planned.append(window)
        return made_records.taken([])

    counts = [Count(n) for n in head["process_counts"]]
    Blocks(attempt, 0).run(counts, 2, random.Random(head["seed"]))  # noqa: S311 (an order)
    assert [(one["window"], one["n"]) for one in records["window"]] == [
        (one.window, one.n) for one in planned
    ]
    for window in records["window"]:
        assert [member["slot"] for member in window["members"]] == list(range(window["n"]))
        for member in window["members"]:
            assert member["steps"] >= 5
            assert member["steps"] == len(member["step_us"])
            assert sum(member["step_us"]) / 1e6 <= window["window_s"]
            ran_s = sum(member[f"trainer_{name}_s"] for name in ("user", "system", "runqueue"))
            assert ran_s > 0
    checks = {check["axis"]: check for check in records["readback"][0]["checks"]}
    # Switches are looked at where a launch has them.
    assert set(checks) == {name for name, axis in AXES.items() if axis.effective is not None}
    assert all(check["ok"] for check in checks.values())
    assert checks["intra_op"]["effective"] == "1"


def test_a_run_that_was_killed_after_its_last_window_ends_the_cohort_that_took_it(normal, tmp_path):
    folder, found = normal
    *lines, _end = (folder / "0.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "0.jsonl.part").write_text("".join(lines))
    # On a busy machine a window was lost, which the next run takes again, in another cohort.
    lost = int(any(not window["valid"] for window in found["window"]))
    records = jobs.run(jobs.config(jobs.WORKLOADS / "plain_loop.py"), tmp_path)
    assert len(records["cohort"]) == 1 + lost
    assert [(end["cohort"], end["status"]) for end in records["end"]] == [(lost, "complete")]
    assert len(read_rows(tmp_path / "0.jsonl").cohorts) == 1 + lost


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("", "torch.set_num_threads(2)\n"),
        ("import os\nos.environ |= {'OMP_NUM_THREADS': '2', 'MKL_NUM_THREADS': '2'}\n", ""),
    ],
    ids=["later", "before it imports torch"],
)
def test_a_script_that_sets_its_own_threads_is_no_launch_of_one_thread(tmp_path, first, later):
    script = tmp_path / "greedy.py"
    text = (jobs.WORKLOADS / "plain_loop.py").read_text()
    script.write_text(first + text.replace("torch.manual_seed", f"{later}torch.manual_seed"))
    shutil.copy(jobs.WORKLOADS / "size.py", tmp_path)
    mapping = jobs.config(script, windows=1, processes=[1])
    words = "intra_op 1 did not take effect: 2"
    assert jobs.ends(mapping, tmp_path, "failed", words)["window"] == []


def test_a_member_that_crashes_is_started_again_then_given_up(tmp_path):
    script = tmp_path / "crashes.py"
    script.write_text("from scaling_study import mark\nfor _ in range(4):\n    mark()\n1 / 0\n")
    mapping = jobs.config(script, step="mark", processes=[1], windows=1)
    records = jobs.ends(mapping, tmp_path, "failed")
    reasons = [event["reason"] for event in records["event"]]
    assert len(reasons) >= cohort_windows.MEMBER_RESTARTS
    assert all("status 1" in reason for reason in reasons)
    assert "Traceback" in records["event"][0]["log"]


@pytest.mark.parametrize(
    ("name", "processes"), [("last.pt", 2), ("{member}/last.pt", None)], ids=["fixed", "own"]
)
def test_a_checkpoint_that_all_members_write_is_named(tmp_path, name, processes):
    out = tmp_path / "runs" / name
    script = jobs.WORKLOADS / "plain_loop.py"
    records = jobs.run(jobs.config(script, args=["--out", str(out)], windows=1), tmp_path)
    shared = {str(out): processes} if processes else None
    before, after = (record.get("shared_files") for record in records["readback"])
    assert (before, after) == (None, shared)  # the first checkpoint comes after the first step
    (cohort,) = read_rows(tmp_path / "0.jsonl").cohorts
    assert cohort.shared_files == (shared or {})


CALLER = """
import os, subprocess, sys
sys.exit(subprocess.call([word.replace("PID", str(os.getpid())) for word in sys.argv[1:]]))
"""


def start_job(folder, windows=50):
    """Start a job below a stand-in for Snakemake, and wait for its first window."""
    job = jobs.baseline_job(jobs.config(jobs.WORKLOADS / "plain_loop.py", windows=windows))
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, *jobs.command(job, folder, "PID")],
        env=jobs.environment(folder),
        start_new_session=True,
    )
    part = folder / "0.jsonl.part"
    wait_until(
        lambda: any(one["kind"] == "window" for one in read_part(part)) or caller.poll(), "a window"
    )
    assert caller.poll() is None
    return caller


@pytest.mark.timing
@pytest.mark.parametrize("victim", ["caller", "supervisor", "coordinator"])
def test_a_kill_leaves_nothing_and_a_rerun_goes_on(tmp_path, victim):
    part = tmp_path / "0.jsonl.part"

    def taken():
        return [record for record in read_part(part) if record["kind"] == "window"]

    caller = start_job(tmp_path)
    names = [path.name for path in tmp_path.glob(f"{private.PREFIX}*")]
    assert all((private.SHARED_MEMORY / name).exists() for name in names)
    supervisor, coordinator = (
        min(jobs.processes(tmp_path, text))
        for text in ("scaling_study.runner.supervisor", "scaling_study measure")
    )
    before = taken()
    pids = {"caller": caller.pid, "supervisor": supervisor, "coordinator": coordinator}
    os.kill(pids[victim], signal.SIGKILL)
    wait_until(lambda: jobs.left_behind(tmp_path, names) == [], "nothing left")
    caller.wait()
    after = taken()
    assert after[: len(before)] == before
    resumed = start_job(tmp_path)
    wait_until(lambda: len(taken()) > len(after), "a further window")
    resumed.kill()
    wait_until(lambda: jobs.left_behind(tmp_path) == [], "nothing left")
    kept = taken()
    assert kept[: len(after)] == after
    # Only an invalid window is taken again.
    numbers = [record["window"] for record in kept if record["valid"]]
    assert len(set(numbers)) == len(numbers)
    every = {record["window"] for record in kept}
    assert every == set(range(len(every)))


def test_a_killed_member_costs_its_window_only(tmp_path):
    caller = start_job(tmp_path, windows=10)
    os.kill(max(jobs.processes(tmp_path, "scaling_study.member.worker")), signal.SIGKILL)
    caller.wait()
    records = jobs.read(tmp_path / "0.jsonl")
    assert [event["what"] for event in records["event"]] == ["died"]
    assert "SIGKILL" in records["event"][0]["reason"]
    # The window that was being taken is taken again, though nothing else may be.
    planned = [record for record in records["window"] if record["block"] < 10]
    assert len(planned) == 20
    assert jobs.left_behind(tmp_path) == []


def test_two_launches_are_measured_in_turns_and_each_has_a_record_file_of_its_own(tmp_path):
    mapping = jobs.config(jobs.WORKLOADS / "plain_loop.py", windows=1)
    plan = jobs.planned(mapping)
    launches = plan.launches[1:3]
    paths = [tmp_path / launch.id / "0.jsonl" for launch in launches]
    for path in paths:
        path.parent.mkdir()
    runs = [
        measure.Measurement(Job(plan, launch, 0), path, tmp_path, counts, batch="one")
        for launch, path, counts in zip(launches, paths, [(1, 2), (2,)], strict=True)
    ]
    measure.in_turns(runs)
    files = [read_rows(path) for path in paths]
    assert [[cohort.process_counts for cohort in file.cohorts] for file in files] == [
        [[1, 2]],
        [[2]],
    ]
    for path in paths:
        records = [record for _, record in codec.read(path, DECODER)]
        assert [record.n for record in records if isinstance(record, Window)]
        assert records[0].batch == "one"
        assert records[-1].status == "complete"


class Turns:
    """A measurement that writes down when its windows are taken, and when it is left."""

    def __init__(self, name, windows, seen, *, fails=False):
        self._name, self._windows, self._seen, self._fails = name, windows, seen, fails
        self._taken = 0

    def begin(self, _folder):
        pass

    def take_next(self):
        if self._taken == self._windows:
            self.close()
            if self._fails:
                raise OSError("no space")
            return False
        self._seen.append(f"{self._name}{self._taken}")
        self._taken += 1
        return True

    def close(self):
        if f"{self._name} ends" not in self._seen:
            self._seen.append(f"{self._name} ends")


def test_windows_are_taken_in_turns_until_each_launch_has_its_own():
    seen = []
    measure.in_turns([Turns("a", 1, seen), Turns("b", 3, seen), Turns("c", 2, seen)])
    assert seen == ["a0", "b0", "c0", "a ends", "b1", "c1", "b2", "c ends", "b ends"]


def test_where_memory_is_short_a_launch_waits_until_another_has_ended():
    seen = []

    def free_bytes():
        begun, ended = seen.count("a0") + seen.count("b0"), sum("ends" in one for one in seen)
        return 100 - 60 * (begun - ended)

    measure.in_turns([Turns("a", 2, seen), Turns("b", 1, seen)], free_bytes)
    assert seen == ["a0", "a1", "a ends", "b0", "b ends"]


def test_where_one_launch_stops_the_job_the_others_are_ended_too():
    seen = []
    with pytest.raises(OSError, match="no space"):
        measure.in_turns([Turns("a", 1, seen, fails=True), Turns("b", 3, seen)])
    assert seen == ["a0", "b0", "a ends", "b ends"]
