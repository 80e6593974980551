import json
from pathlib import Path

import pytest

import synthetic
from scaling_study.analysis import record_schema
from scaling_study.analysis.record_schema import RecordError


@pytest.fixture
def lines(tmp_path):
    launch = synthetic.Launch({"intra_op": 1}, "baseline")
    synthetic.write_study(tmp_path, launches=[launch], ns=[1, 2], replicates=1)
    return (tmp_path / "measure" / launch.id / "0.jsonl").read_text().splitlines(keepends=True)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "0.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def changed(line, **values):
    return json.dumps({**json.loads(line), **values}) + "\n"


def test_reads_every_record_with_its_line(tmp_path, lines):
    path = write(tmp_path, "".join(lines))
    found = list(record_schema.read(path))
    assert [number for number, _ in found] == list(range(1, len(lines) + 1))
    assert [record["kind"] for _, record in found] == [
        "cohort",
        "attestation",
        *["window"] * 6,
        "end",
    ]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1e300", "-1.0", '"1.0"', "true"])
def test_refuses_what_is_no_sane_number(tmp_path, lines, number):
    window = json.loads(lines[2])
    window["members"][0]["cpu_user_s"] = "HERE"
    text = json.dumps(window).replace('"HERE"', number)
    path = write(tmp_path, "".join([*lines[:2], text + "\n"]))
    with pytest.raises(RecordError, match=r"0\.jsonl:3: window\.members\.0\.cpu_user_s: "):
        list(record_schema.read(path))


def test_names_every_mistake_of_a_line(tmp_path, lines):
    path = write(tmp_path, lines[0] + changed(lines[-1], status="fine", wall_s=None))
    with pytest.raises(RecordError) as caught:
        list(record_schema.read(path))
    assert "end.status" in str(caught.value)
    assert "end.wall_s" in str(caught.value)


def test_says_that_a_line_was_cut_off(tmp_path, lines):
    path = write(tmp_path, lines[0] + lines[1][:100])
    with pytest.raises(RecordError, match=r"0\.jsonl:2: .*it was cut off"):
        list(record_schema.read(path))


def test_refuses_another_schema_version_before_anything_else(tmp_path):
    path = write(tmp_path, '{"kind": "cohort", "schema_version": 2}\n')
    with pytest.raises(RecordError, match=r":1: schema_version is 2, this program reads 1"):
        list(record_schema.read(path))


@pytest.mark.parametrize("text", ["[1]\n", "\n", '{"kind": "story"}\n', '{"no": "kind"}\n', "{\n"])
def test_refuses_what_is_no_record(tmp_path, text):
    with pytest.raises(RecordError, match=r"0\.jsonl:1: "):
        list(record_schema.read(write(tmp_path, text)))


def test_null_only_where_a_machine_may_lack_the_counter(tmp_path, lines):
    window = json.loads(lines[2])
    window["machine"]["throttled_s"] = None
    list(record_schema.read(write(tmp_path, json.dumps(window) + "\n")))
    window["machine"]["foreign_cpu_s"] = None
    with pytest.raises(RecordError, match="foreign_cpu_s"):
        list(record_schema.read(write(tmp_path, json.dumps(window) + "\n")))
