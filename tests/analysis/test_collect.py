import numpy as np
import pandas as pd
import pytest

import synthetic
from made_records import edit, read_lines, reported, slot, summary, write_lines
from scaling_study.analysis.collect import collect, oversubscribed
from scaling_study.analysis.record_rows import STEP_QUANTILES
from scaling_study.diagnosis.cause_file import ACCOUNTS
from scaling_study.records.codec import RecordError
from scaling_study.records.columns import TABLES
from scaling_study.records.model_length import ModelLength
from scaling_study.study import stages
from synthetic import typed

BASELINE = synthetic.Launch({"intra_op": 1}, "baseline", synthetic.linear(50.0))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return folder, *synthetic.collected(folder)


OF_WINDOW = ("cohort", "window", "block", "n", "attempt", "valid", "window_s", "overlap")
OF_MEMBER = ("slot", "steps", "steps_active", "threads", "rss_bytes", "active_s")


def tables(collected):
    """Each table, with what was collected of it."""
    frames = (collected.windows, collected.replicates, collected.between, collected.points)
    return zip(TABLES, frames, strict=True)


def of(frame, launch):
    return frame[frame["launch"] == launch.id]


def test_windows_hold_every_member_and_window_of_the_records(study):
    folder, _, collected = study
    launch = synthetic.LAUNCHES[3]  # has retries
    records = read_lines(folder / "measure" / launch.id / "1.jsonl")
    windows = [record for record in records if record["kind"] == "window"]
    rows = of(collected.windows, launch)
    rows = rows[rows["replicate"] == 1].reset_index(drop=True)
    assert len(rows) == sum(len(window["members"]) for window in windows)
    assert any(window["attempt"] > 0 for window in windows)
    members = [(window, member) for window in windows for member in window["members"]]
    for at, (window, member) in enumerate(members):
        row = rows.loc[at]
        assert {name: row[name] for name in OF_WINDOW} == {name: window[name] for name in OF_WINDOW}
        assert {name: row[name] for name in OF_MEMBER} == {name: member[name] for name in OF_MEMBER}
        assert row["flags"] == ";".join(window["flags"])
        assert row["foreign_cpu_s"] == window["machine"]["foreign_cpu_s"]
        quantiles = np.quantile(member["step_us"], [*STEP_QUANTILES.values()]) / 1e6
        assert [row[name] for name in STEP_QUANTILES] == pytest.approx(quantiles)
        accounts = [f"trainer_{name}_s_per_step" for name in ACCOUNTS]
        assert row[accounts].sum() == pytest.approx(row["step_mean_s"])


def ended(path, steps):
    """Have all members of a record file say after how many steps their script ended."""
    *records, end = read_lines(path)
    (before,) = [record for record in records if record["kind"] == "readback"]
    told = {"starts": 2, "steps": steps, "shortest": steps, "longest": steps}
    members = [member | {"ended": told} for member in before["members"][:1]]
    write_lines(path, [*records, before | {"when": "after", "members": members}, end])


def test_starts_that_ended_give_models_per_hour(tmp_path):
    """Unless the config says the number; the default launch's own ones come first."""
    default = synthetic.Launch({}, "default", synthetic.linear(40.0))
    launches = [default, BASELINE]
    plan = synthetic.write_study(
        tmp_path, launches=launches, ns=[1, 2], replicates=1, steps_per_model="auto"
    )
    unknown = collect(tmp_path, typed(plan))
    assert unknown.cohorts.model_length == ModelLength()
    assert unknown.points["models_per_hour"].isna().all()
    ended(tmp_path / "measure" / default.id / "0.jsonl", 400)
    ended(tmp_path / "measure" / BASELINE.id / "0.jsonl", 800)
    found = collect(tmp_path, typed(plan))
    assert found.cohorts.model_length == ModelLength(4, 400, 400, 800)
    plan["workload"]["steps_per_model"] = 400
    by_number = collect(tmp_path, typed(plan))
    columns = ["models_per_hour", "models_per_hour_low", "models_per_hour_high"]
    pd.testing.assert_frame_equal(found.points[columns], by_number.points[columns])
    assert found.points["models_per_hour"].notna().all()


def test_tables_follow_the_plan_and_hold_the_columns_of_the_documentation(study):
    _, plan, collected = study
    for table, frame in tables(collected):
        assert frame.columns.tolist() == table.names
        order = frame["launch"].drop_duplicates().tolist()  # of none, where nothing comes back
        assert order == [each.id for each in plan.launches if each.id in order]
    assert of(collected.points, BASELINE)["n"].tolist() == [1, 2, 3, 4, 6, 8]


def test_an_all_failed_study_gives_empty_tables(tmp_path):
    launches = [
        synthetic.Launch({}, "default", ending="failed"),
        synthetic.Launch({"intra_op": 1}, "baseline", ending="skipped"),
    ]
    _, collected = synthetic.collected(tmp_path, launches=launches)
    for table, frame in tables(collected):
        pd.testing.assert_frame_equal(frame, table.frame())
    assert len(collected.cohorts.cohorts) == 6


def test_a_study_without_a_valid_window_has_its_windows_and_no_points(tmp_path):
    def disturb(_plan):
        for path in tmp_path.glob("measure/*/*.jsonl"):
            path.write_text(path.read_text().replace('"valid": true', '"valid": false'))

    plan, collected = synthetic.collected(tmp_path, disturb, launches=[BASELINE])
    assert len(collected.windows)
    assert not collected.windows["valid"].any()
    assert not collected.points["steps"].sum()
    stages.analyse(tmp_path, plan)


def test_nothing_measured_says_what_to_do(tmp_path):
    plan = synthetic.write_study(tmp_path / "other")
    with pytest.raises(RecordError, match="measure first"):
        collect(tmp_path, typed(plan))


def test_missing_and_unplanned_files_are_listed(tmp_path):
    launches = [BASELINE, synthetic.Launch({"intra_op": 2}, "grid")]

    def lose(plan):
        plan["launches"].pop()
        (tmp_path / "measure" / BASELINE.id / "1.jsonl").unlink()

    _, collected = synthetic.collected(tmp_path, lose, launches=launches)
    (missing,) = collected.cohorts.missing
    assert (missing.launch, missing.replicate) == (BASELINE.id, 1)
    assert collected.cohorts.left_out == tuple(
        f"measure/{launches[1].id}/{replicate}.jsonl" for replicate in range(3)
    )
    assert set(collected.windows["launch"]) == {BASELINE.id}


def test_a_machine_of_its_own_keeps_its_points(tmp_path):
    machines = [synthetic.machine(), synthetic.machine(name="host-b", cpus=4)]
    _, collected = synthetic.collected(tmp_path, launches=[BASELINE], machines=machines)
    assert list(collected.cohorts.machines) == [each["hash"] for each in machines]
    assert (collected.points["replicates"] == 3).all()
    assert len(collected.points) == 12
    # One thread each: more than four members are too many for the smaller machine only.
    crowded = collected.points[collected.points["oversubscribed"]]
    assert set(crowded["machine"]) == {machines[1]["hash"]}
    assert crowded["n"].tolist() == [6, 8]


@pytest.mark.parametrize(
    ("key", "what"), [("measured_hash", "workload"), ("harness_hash", "measuring code")]
)
def test_windows_measured_differently_are_not_pooled(tmp_path, key, what):
    plan = synthetic.write_study(tmp_path, launches=[BASELINE])
    path = tmp_path / "measure" / BASELINE.id / "2.jsonl"
    edit(path, "cohort", lambda record: record.update({key: "other"}))
    with pytest.raises(RecordError) as caught:
        collect(tmp_path, typed(plan))
    for words in (
        what, f"{key} other: measure/{BASELINE.id}/2.jsonl", "run the study again",
        f"measure/{BASELINE.id}/0.jsonl, measure/{BASELINE.id}/1.jsonl",
    ):  # fmt: skip
        assert words in str(caught.value)


def test_builds_measure_different_things_by_intent(tmp_path):
    builds = [BASELINE, synthetic.Launch({"intra_op": 1, "build": "envs/old.txt"}, "one_change")]
    plan = synthetic.write_study(tmp_path, launches=builds)
    for path in (tmp_path / "measure" / builds[1].id).iterdir():
        path.write_text(path.read_text().replace("measured0001", "measured0002"))
    assert len(collect(tmp_path, typed(plan)).points) == 12


def test_a_file_in_the_wrong_place_is_refused(tmp_path):
    plan = synthetic.write_study(tmp_path, launches=[BASELINE])
    folder = tmp_path / "measure" / BASELINE.id
    (folder / "1.jsonl").write_text((folder / "0.jsonl").read_text())
    with pytest.raises(RecordError, match=r"1\.jsonl: it holds .*replicate 0: was it copied"):
        collect(tmp_path, typed(plan))


def test_a_rerun_adds_its_cohort_to_the_same_replicate(tmp_path):
    plan = synthetic.write_study(tmp_path, launches=[BASELINE], ns=[1, 2], replicates=1)
    path = tmp_path / "measure" / BASELINE.id / "0.jsonl"
    records = read_lines(path)
    write_lines(path, [*records, *({**record, "cohort": 1} for record in records)])
    points = collect(tmp_path, typed(plan)).points
    assert (points["replicates"].tolist(), points["windows"].tolist()) == ([1, 1], [6, 6])
    assert points["steps_per_s_low"].isna().all()


def slots(*oversubscribed):
    return [slot(slot=at, oversubscribed=each) for at, each in enumerate(oversubscribed)]


def test_members_that_share_a_cpu_or_have_too_many_ranks_are_oversubscribed():
    sharing = summary(readback=reported(intra_op=(1, 1)), slots=slots(False, True))
    assert [oversubscribed(sharing, n, cpus=8) for n in (1, 2)] == [False, True]
    ranks = summary(readback=reported(intra_op=(2,)), slots=slots(False), axes={"ranks": 4})
    assert [oversubscribed(ranks, 1, cpus=cpus) for cpus in (8, 7)] == [False, True]
