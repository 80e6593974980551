"""One line says how far a run is: what runs, what is left, and the best launch so far."""

import os
import time
from unittest.mock import Mock

import pytest

from configs import short
from jobs import planned
from scaling_study.records.codec import read_file
from scaling_study.study.progress import Progress, add_time, expected_s


@pytest.fixture
def clock():
    """A clock that the test sets."""
    clock = Mock(s=0.0)
    clock.side_effect = lambda: clock.s
    return clock


@pytest.fixture
def progress(clock, tmp_path):
    """Makes the progress of a run from its jobs, what they should take, and the best launch."""

    def make(jobs, expected, best=""):
        return Progress(jobs, expected, lambda: best, tmp_path / "stages.json", clock)

    return make


def test_what_runs_is_the_last_line_of_its_log(progress, tmp_path):
    log = tmp_path / "0.log"
    run = progress({"measure": 3}, {"measure": 60.0})
    run.start(1, "measure", str(log))
    assert run.line(100) == "1 of 3, measure · about 3 min left"
    log.write_text("measure (default): window 1 of 4\nmeasure (default): \x1b[2J\n")
    assert run.line(100) == "1 of 3, measure (default): \\x1b[2J · about 3 min left"
    long_ago = time.time() - 100
    os.utime(log, (long_ago, long_ago))  # of an earlier run
    assert run.line(100) == "1 of 3, measure · about 3 min left"


def test_time_left_follows_what_jobs_took(clock, progress, tmp_path):
    run = progress({"measure": 3, "confirm": 1}, {"measure": 60.0, "confirm": 30.0})
    assert run.left_s() == 3 * 60 + 30
    run.start(1, "measure", None)
    clock.s = 20
    assert run.left_s() == 40 + 2 * 60 + 30
    assert run.end(1) == ""
    assert run.left_s() == 2 * 20 + 30
    run.start(2, "measure", None)
    clock.s += 100  # later than expected
    assert run.left_s() == 20 + 30
    run.end(2)
    assert read_file(tmp_path / "stages.json", dict[str, float]) == {"measure": 120.0}


def test_a_race_counts_down_and_names_the_best_launch(clock, progress, tmp_path):
    log = tmp_path / "decide.log"
    run = progress({"decide": 1, "searched": 1}, {"race": 300.0}, "intra_op 1, 2 processes")
    run.start(1, "decide", str(log))
    log.write_text("first: 4 starts, about 1 min\n")
    clock.s = 5
    assert run.end(1) == "first: 4 starts, about 1 min"
    run.start(2, "race", None)
    clock.s = 60
    assert run.line(100) == "race · about 4 min left · best so far: intra_op 1, 2 processes"
    run.end(2)
    run.start(3, "searched", None)
    run.end(3)
    assert run.left_s() == 0


def test_what_is_expected_adds_up_to_the_estimate():
    stages = {"why": "quick", "confirm": {"seconds": 60}}
    plan = planned(short(profile={"launches": ["recommended"]}, **stages))
    jobs = {"measure": 9, "profile": 1, "why": 2}
    found = expected_s(plan, [1, 2], jobs, 0.0)
    assert all(seconds > 0 for rule, seconds in found.items() if rule != "loader_experiment")
    assert found["loader_experiment"] == 0
    raced = planned(short(search={"budget_minutes": 10}))
    assert expected_s(raced, [1, 2], {}, 120.0)["race"] == 8 * 60


def test_a_later_run_adds_to_the_time_of_a_stage(tmp_path):
    path = tmp_path / "stages.json"
    for stage, seconds in (("observe", 10.0), ("race", 60.0), ("race", 30.0)):
        add_time(path, stage, seconds)
    assert read_file(path, dict[str, float]) == {"observe": 10.0, "race": 90.0}
