"""The first models of a race, trained through the real entry and its supervisor."""

import pytest

import confirm_jobs
import jobs
from scaling_study.records import codec
from scaling_study.records.confirmation import FirstModels
from scaling_study.runner.jobs import job_sections, job_text
from scaling_study.search.rounds import Decided, Wanted

# It has no torch to import, so that it starts and ends soon.
MARKS = """
import pandas, time
from scaling_study import mark
for _ in range(60):
    time.sleep(0.002)
    mark()
"""


def trained(folder, wanted, script=MARKS):
    """What a round that trains first models writes, and measures nothing."""
    path = folder / "train.py"
    path.write_text(script)
    plan = confirm_jobs.planned(path, 12, step="mark")
    (folder / "rounds").mkdir()
    round_file = folder / "rounds/1.json"
    decided = Decided(
        schema_version=2, decided="", stage="race", reason="", batches=[], spent_s=0.0,
        launches=[plan.by_id[plan.baseline]], expected_s=0.0, budget_s=0.0, choice=None,
        not_screened=[], models=Wanted(plan.baseline, *wanted),
    )  # fmt: skip
    codec.write_file(round_file, decided)
    words = ["--job", job_text(job_sections(plan), None), "--builds", folder / "builds"]
    words += ["--log", folder / "log", "--output", folder / "1-0.done", "--round", round_file]
    command = [*jobs.supervised(), *jobs.STAGE, "race", *map(str, words)]
    (folder / "measure").mkdir()
    jobs.succeed(command, folder)
    assert jobs.left_behind(folder) == []
    found = codec.read_file(folder / "measure/models.json", FirstModels)
    assert found.launch == plan.baseline
    return found


def test_a_fresh_model_and_then_a_forked_one_are_trained_to_their_end(tmp_path):
    fresh, forked = trained(tmp_path, ("forked", 60.0)).rounds
    assert (fresh.status, forked.status) == ("ok", "ok"), (fresh.reason, forked.reason)
    assert [run.ahead for run in fresh.runs] == [False]
    assert [run.ahead for run in forked.runs] == [False, True]
    for run in (*fresh.runs, *forked.runs):
        assert run.iterations == 60
        assert run.began_s < run.first_s < run.latest_s < run.ended_s
    starts = [run.first_s - run.began_s for run in (fresh.runs[0], forked.runs[1])]
    assert starts[1] < starts[0]  # pandas was imported before


def test_where_forking_is_not_wanted_there_is_a_fresh_model_only(tmp_path):
    (fresh,) = trained(tmp_path, ("fresh", 60.0)).rounds
    assert [run.iterations for run in fresh.runs] == [60]


@pytest.mark.parametrize(
    ("script", "reason"), [("import sys; sys.exit('no data')", "no data"), ("", "iteration")]
)
def test_a_script_that_fails_is_no_failure_of_the_race(tmp_path, script, reason):
    (fresh,) = trained(tmp_path, ("fresh", 60.0), script).rounds
    assert fresh.status == "failed"
    assert reason in fresh.reason
