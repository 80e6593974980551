import numpy as np
import pytest

from made_records import edit
from scaling_study.analysis import experiment_runs
from scaling_study.records.codec import RecordError
from synthetic_why import MS, Step, World, write_run


@pytest.fixture
def path(tmp_path):
    return write_run(tmp_path / "0.jsonl", World(), np.random.default_rng(1), noise=0.0)


def test_members_of_different_speed_give_the_step_of_all_throughput(path):
    def slow(window):
        for member in window["members"][1:]:
            member["step_us"] = [3 * each for each in member["step_us"]]

    edit(path, "window", slow, n=2)
    table = experiment_runs.read_run(path).windows
    row = table[table["n"] == 2].iloc[0]
    # Rates 1 and 1/3 together: two members share 4/3 steps.
    assert row["step_s"] == pytest.approx(Step().total * MS * 2 / (4 / 3), rel=1e-3)


def test_a_window_disturbed_from_outside_is_evidence_and_no_measurement(path):
    flags = ["foreign_cpu", "short_steps"]
    edit(path, "window", lambda one: one.update(valid=False, flags=flags))
    row = experiment_runs.read_run(path).windows.iloc[0]
    assert not row["valid"]
    assert row["usable"]


@pytest.mark.parametrize("flag", ["short_overlap", "sleeping_member_ran", "few_steps"])
def test_any_other_invalid_window_is_of_no_use(path, flag):
    edit(path, "window", lambda one: one.update(valid=False, flags=["foreign_cpu", flag]))
    assert not experiment_runs.read_run(path).windows.iloc[0]["usable"]


def test_windows_of_a_cohort_that_did_not_prove_itself_are_of_no_use(path):
    def fail(one):
        one["checks"][0]["ok"] = False

    edit(path, "readback", fail)
    table = experiment_runs.read_run(path).windows
    reference = table[table["experiment"] != "intervention"]
    assert not reference["usable"].any()
    assert table.loc[table["experiment"] == "intervention", "usable"].all()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("window", lambda one: one.update(experiment="guess")),
        ("window", lambda one: one["members"][0].update(steps=3)),
        ("window", lambda one: one["members"].append(one["members"][0])),
        ("why", lambda one: one.update(schema_version=1)),
        ("samples", lambda one: one.pop("members")),
    ],
)
def test_a_record_that_cannot_be_is_refused_with_its_line(path, kind, change):
    edit(path, kind, change)
    with pytest.raises(RecordError, match=r"0\.jsonl:\d+"):
        experiment_runs.read_run(path)
