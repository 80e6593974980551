import json
from pathlib import Path

import numpy as np
import pytest

import synthetic
from made_records import member, window
from scaling_study.records import codec
from scaling_study.records.codec import RecordError
from scaling_study.records.confirmation import DECODER as ROUNDS
from scaling_study.records.window import DECODER


@pytest.fixture
def lines(tmp_path):
    launch = synthetic.Launch({"intra_op": 1}, "baseline")
    synthetic.write_study(tmp_path, launches=[launch], ns=[1, 2], replicates=1)
    return (tmp_path / "measure" / launch.id / "0.jsonl").read_text().splitlines(keepends=True)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "0.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("number", ["1e999", "1e300", "-1.0", '"1.0"', "true"])
def test_refuses_what_is_no_sane_number(tmp_path, lines, number):
    window = json.loads(lines[2])
    window["members"][0]["cpu_user_s"] = "HERE"
    text = json.dumps(window).replace('"HERE"', number)
    path = write(tmp_path, "".join([*lines[:2], text + "\n"]))
    with pytest.raises(RecordError, match=r"0\.jsonl:3: .*members.*\.cpu_user_s"):
        list(codec.read(path, DECODER))


@pytest.mark.parametrize("number", ["NaN", "-Infinity"])
def test_refuses_numbers_that_json_does_not_have(tmp_path, lines, number):
    text = lines[-1].replace('"wall_s": 30.0', f'"wall_s": {number}')
    with pytest.raises(RecordError, match=r"0\.jsonl:2: record: JSON is malformed"):
        list(codec.read(write(tmp_path, lines[0] + text), DECODER))


def test_says_that_a_line_was_cut_off(tmp_path, lines):
    path = write(tmp_path, lines[0] + lines[1][:100])
    with pytest.raises(RecordError, match=r"0\.jsonl:2: .*it was cut off"):
        list(codec.read(path, DECODER))


@pytest.mark.parametrize("text", ["[1]\n", "\n", '{"kind": "story"}\n', '{"no": "kind"}\n', "{\n"])
def test_refuses_what_is_no_record(tmp_path, text):
    with pytest.raises(RecordError, match=r"0\.jsonl:1: "):
        list(codec.read(write(tmp_path, text), DECODER))


def test_null_only_where_a_machine_may_lack_the_counter(tmp_path, lines):
    window = json.loads(lines[2])
    window["machine"]["throttled_s"] = None
    list(codec.read(write(tmp_path, json.dumps(window) + "\n"), DECODER))
    window["machine"]["foreign_cpu_s"] = None
    with pytest.raises(RecordError, match="foreign_cpu_s"):
        list(codec.read(write(tmp_path, json.dumps(window) + "\n"), DECODER))


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        ("cohort", 3, r"another version of .* \(schema_version 3, this one reads 2\)"),
        ("confirmation", 1, r"an older version of .*\): measure again, or use the program"),
    ],
)
def test_another_version_is_refused_with_what_to_do(tmp_path, kind, version, message):
    path = write(tmp_path, json.dumps({"kind": kind, "schema_version": version}) + "\n")
    with pytest.raises(RecordError, match=f":1: it was written by {message}"):
        list(codec.read(path, DECODER if kind == "cohort" else ROUNDS))


def test_what_is_read_is_written_as_it_was(lines):
    for line in lines:
        record = DECODER.decode(line)
        assert json.loads(line).keys() <= json.loads(codec.encode(record)).keys()
        assert DECODER.decode(codec.encode(record)) == record


def test_numbers_of_numpy_are_numbers():
    line = codec.encode(window([member([5_000], load_s=np.float64(0.5))]))
    assert DECODER.decode(line).members[0].load_s == 0.5


def test_a_number_that_json_does_not_have_is_not_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        codec.encode(window([member([5_000], load_s=float("nan"))]))
