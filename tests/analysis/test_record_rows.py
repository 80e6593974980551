import pytest

import synthetic
from made_records import edit
from scaling_study.analysis.record_rows import NOT_PROVEN, read_rows
from scaling_study.records.codec import RecordError


@pytest.fixture
def path(tmp_path):
    launch = synthetic.Launch({"intra_op": 1}, "baseline")
    synthetic.write_study(tmp_path, launches=[launch], ns=[1, 2], replicates=1, windows=1, steps=4)
    return tmp_path / "measure" / launch.id / "0.jsonl"


def test_windows_of_a_launch_that_did_not_take_effect_do_not_count(path):
    edit(path, "readback", lambda record: record["checks"][0].update(ok=False))
    file = read_rows(path)
    assert not file.rows["valid"].any()
    assert (set(file.rows["flags"]), file.cohorts[0].windows_valid) == ({NOT_PROVEN}, 0)
    assert len(file.cohorts[0].windows_invalid) == 2


def test_windows_of_a_cohort_that_failed_do_not_count(path):
    edit(path, "end", lambda record: record.update(status="failed", reason="it changed its CPUs"))
    file = read_rows(path)
    assert not file.rows["valid"].any()
    assert file.cohorts[0].windows_valid == 0


def test_an_invalid_window_without_members_is_still_counted(path):
    edit(
        path, "window", lambda record: record.update(valid=False, flags=["member_died"], members=[])
    )
    cohort = read_rows(path).cohorts[0]
    assert [one.flags for one in cohort.windows_invalid] == [("member_died",)]
    assert cohort.windows_valid == 1


def first(**changed):
    """Change the first member of a window."""
    return lambda record: record["members"][0].update(changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record["members"].pop(), "a valid window of n = . with . members"),
        (first(slot=7), r"slots \[.*7\]"),
        (first(steps=5), "counted 5 steps and has 4 step times"),
        (first(steps=0, step_us=[]), "slot 0 made no step"),
        (lambda record: record.update(cohort=3), "cohort 3, which did not start"),
    ],
)
def test_refuses_a_window_that_contradicts_itself(path, change, message):
    edit(path, "window", change)
    with pytest.raises(RecordError, match=rf"0\.jsonl:3: .*{message}"):
        read_rows(path)


def test_refuses_a_record_that_is_there_twice(path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], *lines[2:]]))
    with pytest.raises(RecordError, match=r"0\.jsonl:4: cohort 0, window 0, attempt 0 .* twice"):
        read_rows(path)
    path.write_text(lines[0] * 2)
    with pytest.raises(RecordError, match=r"0\.jsonl:2: cohort 0 is in this file twice"):
        read_rows(path)


def test_refuses_an_empty_file(path):
    path.write_text("")
    with pytest.raises(RecordError, match="no cohort in it"):
        read_rows(path)
