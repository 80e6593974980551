"""A script that fails: what the measuring job says and keeps, and what the next run measures."""

import json
import subprocess
import sys

import pytest

import confirm_jobs
from confirm_jobs import of_kind
from jobs import WORKLOADS, command, config, ends, execute, planned, read
from scaling_study.report.study import SHOWN_LINES, tell_stopped
from scaling_study.runner import measure, supervisor
from scaling_study.runner.jobs import job_sections, job_text
from scaling_study.runner.journal import mark_of

FAILS = WORKLOADS / "fails.py"

HOW = {
    "file": "FileNotFoundError: [Errno 2] No such file or directory: 'forgotten.txt'",
    "package": "ModuleNotFoundError: No module named 'forgotten_package'",
    "shape": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (16x4 and 8x1)",
    "message": "ended with status 1: no data is left",
    "segfault": "was killed by SIGSEGV",
    "killed": "was killed by SIGKILL",
    "nothing": "ended without a step",
    "manual": "; it made 100 backward passes, and called step() of no torch optimizer",
    "waits": "(measure.timeout_s); it made 100 backward passes, and called step() of no",
    "loud": "ended with status 1: ValueError: loss is nan",
    "arguments": "fails.py: error: the following arguments are required: --how",
}


def first_run(mapping, folder):
    """Run the study's first job below a stand-in for Snakemake; return all that it left."""
    folder.mkdir(parents=True)
    plan = planned(mapping)
    default_job = job_text(job_sections(plan), plan.by_id[plan.default])
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as snakemake:
        done = execute(command(default_job, folder, snakemake.pid), folder)
        stopped = snakemake.poll() if done.returncode != supervisor.STOPS else snakemake.wait(60)
        snakemake.kill()
    return done, stopped, folder.parent / measure.STOPPED


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.long] * (how == "waits")) for how in HOW]
)
def test_the_first_member_decides(tmp_path, how):
    """The study stops, and the reason is everywhere."""
    arguments = ["--how", how, "--file", "forgotten.txt"] if how != "arguments" else []
    mapping = config(FAILS, args=arguments, **{"timeout_s": 30.0} if how == "waits" else {})
    done, stopped, story = first_run(mapping, tmp_path / "measure/default")
    reason = HOW[how]
    assert done.returncode == supervisor.STOPS, done.stderr
    assert stopped == -supervisor.STUDY_STOPS
    assert reason in done.stderr
    assert ("no step yet; it made" in done.stderr) or how != "waits"
    told = json.loads(story.read_text())
    assert reason in told["reason"]
    assert told["script"] == str(FAILS)
    shown = tell_stopped(story).splitlines()
    assert reason in shown[1]
    if how not in {"segfault", "killed", "manual", "waits"}:
        assert reason.removeprefix("ended with status 1: ") in "".join(shown[-4:-1])
    records = read(story.parent / "default/0.jsonl.part")
    event, end = records["event"][0], records["end"][0]
    assert reason in event["reason"]
    assert reason in end["reason"]
    assert (end["status"], records["window"]) == ("failed", [])
    assert not (story.parent / "default/0.jsonl").exists()


def test_a_second_member_that_fails_leaves_the_first_ones_points(tmp_path):
    mapping = config(FAILS, args=["--how", "second", "--seed", "{member}"])
    done, stopped, story = first_run(mapping, tmp_path / "measure/default")
    assert (done.returncode, stopped, story.exists()) == (0, None, False)
    (end,) = read(story.parent / "default/0.jsonl")["end"]
    assert end["status"] == "partial"
    assert end["reason"].endswith("(the last one: ended with status 1: the second one has no data)")


def test_no_job_begins_after_a_study_has_stopped(tmp_path):
    folder = tmp_path / "measure/default"
    (tmp_path / "measure").mkdir()
    (tmp_path / "measure" / measure.STOPPED).write_text("{}")
    done, stopped, _ = first_run(config(FAILS, args=["--how", "none"]), folder)
    assert (done.returncode, stopped) == (1, None)
    assert "the default launch's script cannot be measured" in done.stderr
    assert not list(folder.glob("*.jsonl*"))


def test_a_script_without_an_optimizer_is_measured_by_its_backward_passes(tmp_path):
    mapping = config(FAILS, args=["--how", "manual", "--steps", "30"], step="backward", windows=1)
    for window in ends(mapping, tmp_path)["window"]:
        for member in window["members"]:
            assert member["steps"] >= 5
            assert member["backward_s"] > 0 == member["optimizer_s"]


def test_another_launch_that_fails_is_a_result_of_this_run_and_measured_by_the_next(tmp_path):
    needed = tmp_path / "forgotten.txt"
    mapping = config(FAILS, args=["--how", "file", "--file", str(needed)], windows=1)
    path = tmp_path / "0.jsonl"
    ends(mapping, tmp_path, "failed", "FileNotFoundError")
    assert mark_of(path).read_text() == measure.FAILED
    needed.write_text("now it is here")
    path.unlink()
    records = ends(mapping, tmp_path)
    assert records["event"] == []
    assert {window["n"] for window in records["window"]} == {1, 2}
    # Other programs may have been at work.
    seen = {window["n"] for window in records["window"] if window["valid"]}
    assert mark_of(path).exists() == (seen != {1, 2})


def test_what_the_machine_lacks_is_marked_so(tmp_path):
    mapping = config(FAILS, args=["--how", "none"], launch={"placement": ["4000"]})
    (end,) = ends(mapping, tmp_path, "skipped", "4000")["end"]
    assert end["remedy"]
    assert mark_of(tmp_path / "0.jsonl").read_text() == measure.SKIPPED


def test_a_confirmation_that_fails_names_the_exception_and_is_run_again(tmp_path):
    needed = tmp_path / "forgotten.txt"
    arguments = ["--how", "file", "--file", str(needed), "--steps", "2000"]
    plan = confirm_jobs.planned(FAILS, 12, args=arguments)
    found = confirm_jobs.recommendation(plan)
    rounds = of_kind(confirm_jobs.run(plan, found, tmp_path), "round")
    words = f"FileNotFoundError: [Errno 2] No such file or directory: '{needed}'"
    failed = ("failed", f"slot 0 ended with status 1: {words}")
    assert {(one.status, one.reason) for one in rounds} == {failed}
    path = tmp_path / "rounds.jsonl"
    assert mark_of(path).exists()
    needed.write_text("now it is here")
    path.unlink()
    records = confirm_jobs.run(plan, found, tmp_path)
    rounds = of_kind(records, "round")
    assert {one.status for one in rounds} == {"ok"}
    assert len(rounds) == 9
    assert len(of_kind(records, "end")) == 1
    assert not mark_of(path).exists()


def test_a_terminal_shows_the_last_lines_and_obeys_none(tmp_path):
    path = tmp_path / measure.STOPPED
    log = "\n".join([*map(str, range(100)), "\x1b[2J" + "x" * 10_000])
    path.write_text(json.dumps({"script": "a.py", "reason": "ended with status 1", "log": log}))
    shown = tell_stopped(path)
    assert len(shown.splitlines()) == SHOWN_LINES + 4
    assert "\x1b" not in shown
    assert len(shown) < 1000
