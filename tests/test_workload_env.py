"""Values of workload.env: one file for their owner alone, and an HMAC everywhere else."""

import hashlib
import json
import stat
import sys

import pytest

from configs import config as full_config
from configs import make_files
from scaling_study.common.file_errors import UnusableError
from scaling_study.common.workload_env import MASK, WorkloadEnv, masked, read, write_private
from scaling_study.configuring.config import load_config
from scaling_study.measuring.environment import member_environment
from scaling_study.measuring.measure import job_text, measured_digest, read_job
from scaling_study.planning.plan import make_plan

VALUES = {"API_KEY": "sk-planted-0123", "LEVEL": "3"}


@pytest.fixture
def file(tmp_path):
    return tmp_path / ".secrets/one.json"


def kept(file, values=VALUES):
    made = WorkloadEnv.of(file, values)
    made.keep()
    return made


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_names_stay_and_values_do_not():
    assert masked(VALUES) == {"API_KEY": MASK, "LEVEL": MASK}


def test_only_the_owner_may_read_them(file):
    kept(file)
    assert mode(file) == 0o600
    assert mode(file.parent) == 0o700
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_that_others_may_read_is_made_private_again(file):
    made = kept(file)
    file.chmod(0o644)
    WorkloadEnv.of(file, VALUES).keep()
    assert mode(file) == 0o600
    assert read(made.reference()) == VALUES


def test_a_job_gets_the_values_by_their_reference(file):
    reference = kept(file).reference()
    assert set(reference) == {"file", "hmac"}
    assert "sk-planted" not in str(reference)
    assert read(reference) == VALUES


def test_nothing_is_written_before_the_study_begins(file):
    WorkloadEnv.of(file, VALUES).reference()
    assert not file.parent.exists()


def test_the_key_stays_so_that_only_a_change_is_noticed(file):
    first = kept(file).reference()
    assert kept(file).reference() == first
    assert kept(file, {"LEVEL": "3", "API_KEY": "sk-planted-0123"}).reference() == first
    changed = kept(file, {**VALUES, "LEVEL": "4"}).reference()
    assert changed["hmac"] != first["hmac"]
    assert kept(file, {}).reference() is None
    assert "sk-planted" not in file.read_text()
    assert kept(file).reference() == first


def test_another_key_gives_another_digest(tmp_path):
    """Nobody can try values without the key, as a plain hash would allow."""
    digests = {kept(tmp_path / f"{at}.json").reference()["hmac"] for at in range(3)}
    assert len(digests) == 3
    plain = hashlib.sha256(json.dumps(VALUES, sort_keys=True).encode()).hexdigest()
    assert plain not in digests


def test_a_study_without_variables_has_no_file(file):
    made = kept(file, {})
    assert made.reference() is None
    assert not file.exists()


def test_jobs_of_other_values_do_not_run(file):
    reference = kept(file).reference()
    kept(file, {**VALUES, "LEVEL": "4"})
    with pytest.raises(UnusableError, match="holds other values"):
        read(reference)
    file.unlink()
    with pytest.raises(UnusableError, match="is missing: run the study's command again"):
        read(reference)


def test_two_runs_that_begin_at_once_do_not_mix_their_keys(file):
    late = WorkloadEnv.of(file, VALUES)
    kept(file)
    with pytest.raises(UnusableError, match="run the same command again"):
        late.keep()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "xy", "env": {}}', '{"key": "00"}', "1"])
def test_a_damaged_file_is_named_and_not_quoted(file, text):
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UnusableError, match=r"one\.json is damaged .*: delete it") as caught:
        WorkloadEnv.of(file, VALUES)
    assert caught.value.__cause__ is None
    with pytest.raises(UnusableError, match="is damaged"):
        read({"file": str(file), "hmac": ""})


def test_a_private_file_is_private_before_it_has_content(tmp_path, monkeypatch):
    def full(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", full)
    path = tmp_path / "values.json"
    with pytest.raises(OSError, match="Input/output"):
        write_private(path, VALUES)
    (beside,) = tmp_path.iterdir()
    assert (mode(beside), path.exists()) == (0o600, False)
    monkeypatch.undo()
    write_private(path, VALUES)
    assert [path] == list(tmp_path.iterdir())


@pytest.fixture
def planned(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    make_files(tmp_path)
    mapping = full_config()
    mapping["workload"]["env"] = VALUES

    def make(**changed):
        mapping["workload"]["env"] = {**VALUES, **changed}
        study = load_config(mapping)
        reference = kept(file, study.workload.env).reference()
        return {**make_plan(study).to_dict(), "workload_env": reference}

    return make


def test_a_job_names_variables_and_its_member_gets_their_values(planned):
    plan = planned()
    text = job_text(plan, plan["launches"][0], "", "profile")
    assert "sk-planted" not in text + json.dumps(plan)
    job = read_job(text, 0)
    workload = job.plan["workload"]
    assert workload["env"] == VALUES
    assert member_environment({}, {}, workload["env"]).items() >= VALUES.items()


def test_no_job_is_made_whose_member_would_get_masks(planned):
    plan = planned()
    del plan["workload_env"]
    with pytest.raises(ValueError, match="members would get masks"):
        job_text(plan, plan["launches"][0])


def test_a_changed_value_is_another_measurement(planned):
    def measured(plan):
        job = read_job(job_text(plan, plan["launches"][0]), 0)
        return measured_digest(job.plan["workload"], sys.executable)

    first, again = measured(planned()), measured(planned())
    assert first == again
    assert measured(planned(LEVEL="4")) != first
