"""Records: their fields, what is refused and with which words, and those of older versions."""

import json
from typing import get_args

import numpy as np
import pytest

import made_records
import synthetic
from scaling_study.records import codec, columns, confirmation, experiment, window
from scaling_study.records.codec import RecordError
from scaling_study.records.field import fields


@pytest.fixture
def lines(tmp_path):
    launch = synthetic.Launch({"intra_op": 1}, "baseline")
    synthetic.write_study(tmp_path, launches=[launch], ns=[1, 2], replicates=1)
    return (tmp_path / "measure" / launch.id / "0.jsonl").read_text().splitlines(keepends=True)


@pytest.fixture
def read(tmp_path):
    """Reads lines, as those of a file."""

    def read(*lines, decoder=window.DECODER):
        path = tmp_path / "0.jsonl"
        path.write_text("".join(lines))
        return [record for _, record in codec.read(path, decoder)]

    return read


@pytest.mark.parametrize("number", ["1e999", "1e300", "-1.0", '"1.0"', "true"])
def test_refuses_what_is_no_sane_number(read, lines, number):
    record = json.loads(lines[2])
    record["members"][0]["cpu_user_s"] = "HERE"
    with pytest.raises(RecordError, match=r"0\.jsonl:3: .*members.*\.cpu_user_s"):
        read(*lines[:2], json.dumps(record).replace('"HERE"', number) + "\n")


@pytest.mark.parametrize("number", ["NaN", "-Infinity"])
def test_refuses_numbers_that_json_does_not_have(read, lines, number):
    with pytest.raises(RecordError, match=r"0\.jsonl:2: record: JSON is malformed"):
        read(lines[0], lines[-1].replace('"wall_s": 30.0', f'"wall_s": {number}'))


def test_says_that_a_line_was_cut_off(read, lines):
    with pytest.raises(RecordError, match=r"0\.jsonl:2: .*it was cut off"):
        read(lines[0], lines[1][:100])


@pytest.mark.parametrize("text", ["[1]\n", "\n", '{"kind": "story"}\n', '{"no": "kind"}\n', "{\n"])
def test_refuses_what_is_no_record(read, text):
    with pytest.raises(RecordError, match=r"0\.jsonl:1: "):
        read(text)


def test_null_only_where_a_machine_may_lack_the_counter(read, lines):
    record = json.loads(lines[2])
    record["machine"]["throttled_s"] = None
    read(json.dumps(record) + "\n")
    record["machine"]["foreign_cpu_s"] = None
    with pytest.raises(RecordError, match="foreign_cpu_s"):
        read(json.dumps(record) + "\n")


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        ("cohort", 3, r"another version of .* \(schema_version 3, this one reads 2\)"),
        ("confirmation", 1, r"an older version of .*\): measure again, or use the program"),
        ("confirmation", 3, r".* \(schema_version 3, this one reads 5\)"),
        ("confirmation", 6, r".* \(schema_version 6, this one reads 5\)"),
    ],
)
def test_another_version_is_refused_with_what_to_do(read, kind, version, message):
    decoder = window.DECODER if kind == "cohort" else confirmation.DECODER
    with pytest.raises(RecordError, match=f":1: it was written by {message}"):
        read(json.dumps({"kind": kind, "schema_version": version}) + "\n", decoder=decoder)


def test_what_is_read_is_written_as_it_was(lines):
    for line in lines:
        record = window.DECODER.decode(line)
        assert json.loads(line).keys() <= json.loads(codec.encode(record)).keys()
        assert window.DECODER.decode(codec.encode(record)) == record


def of_member(load_s):
    """A window of one member, as it is written."""
    return codec.encode(made_records.window([made_records.member([5_000], load_s=load_s)]))


def test_numbers_of_numpy_are_numbers_and_those_that_json_does_not_have_are_not_written():
    assert window.DECODER.decode(of_member(np.float64(0.5))).members[0].load_s == 0.5
    with pytest.raises(ValueError, match="not JSON compliant"):
        of_member(float("nan"))


@pytest.mark.parametrize("union", [window.Record, experiment.WhyRecord, experiment.LoaderRecord,
                                   confirmation.Record])  # fmt: skip
def test_every_field_of_a_record_has_a_meaning(union):
    for record in get_args(union):
        for field in fields(record).values():
            assert field.name == "schema_version" or field.meaning.endswith((".", ")")), field


@pytest.mark.parametrize("table", columns.TABLES, ids=lambda table: table.name)
def test_columns_of_a_table_have_names_of_their_own(table):
    assert len(set(table.names)) == len(table.names)


# ---- records that an older version of this program has written


HEAD_4 = {
    "kind": "confirmation", "schema_version": 4, "study": "s", "machine_hash": "m", "arms": [],
    "seed": 1, "seconds": 60.0, "measured_hash": "w", "harness_hash": "h",
    "started": "2025-01-01T00:00:00+00:00",
}  # fmt: skip


def test_rounds_of_version_4_number_processes_and_starts(read):
    run = {"began_s": 0.0, "first_s": 1.0, "latest_s": 2.0, "iterations": 5, "ordinary_s": 0.1}
    runs = [
        run | {"slot": slot, "process": process, "again": again, "ended_s": 2.5}
        for slot, process, again in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 1)]
    ]
    record = codec.plain(confirmation.Round.failed("today/fresh", "")) | {"runs": runs}
    lines = [f"{json.dumps(one)}\n" for one in (HEAD_4, record)]
    first, found = read(*lines, decoder=confirmation.DECODER)
    assert first.schema_version == 5
    assert {(run.slot, run.model, run.ahead) for run in found.runs} == {
        (0, 0, False), (0, 1, False), (0, 2, True), (1, 0, False), (1, 1, True),
    }  # fmt: skip
    assert {run.ended_s for run in found.runs} == {2.5}


def test_steps_are_taken_one_after_another(read, monkeypatch):
    def add_study(record):
        return record | {"study": "unnamed", "schema_version": 4}

    monkeypatch.setitem(codec.OLDER["confirmation"], 3, add_study)
    head = {name: HEAD_4[name] for name in HEAD_4 if name != "study"} | {"schema_version": 3}
    (record,) = read(json.dumps(head) + "\n", decoder=confirmation.DECODER)
    assert (record.schema_version, record.study) == (5, "unnamed")
