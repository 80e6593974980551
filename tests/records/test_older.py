"""Records that an older version of this program has written are read as today's."""

import json

import pytest

from scaling_study.records import codec, confirmation

HEAD = {
    "kind": "confirmation", "schema_version": 5, "study": "s", "machine_hash": "m", "arms": [],
    "seed": 1, "seconds": 60.0, "measured_hash": "w", "harness_hash": "h",
    "started": "2025-01-01T00:00:00+00:00",
}  # fmt: skip
ROUND = codec.plain(confirmation.Round.failed("today/fresh", ""))
RUN = {
    "slot": 0, "began_s": 0.0, "first_s": 1.0, "latest_s": 2.0, "iterations": 5, "ordinary_s": 0.1,
    "ended_s": 2.5,
}  # fmt: skip


def write(path, *records):
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def test_rounds_of_version_4_number_processes_and_starts(tmp_path):
    head = HEAD | {"schema_version": 4}
    runs = [
        RUN | {"slot": slot, "process": process, "again": again}
        for slot, process, again in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 1)]
    ]
    record = ROUND | {"runs": runs}
    path = write(tmp_path / "rounds.jsonl", head, record)
    (_, first), (_, found) = codec.read(path, confirmation.DECODER)
    assert first.schema_version == 5
    assert {(run.slot, run.model, run.ahead) for run in found.runs} == {
        (0, 0, False), (0, 1, False), (0, 2, True), (1, 0, False), (1, 1, True),
    }  # fmt: skip
    assert {run.ended_s for run in found.runs} == {2.5}


def test_what_no_step_raises_is_refused(tmp_path):
    head = HEAD
    for version in (3, 6):
        path = write(tmp_path / "rounds.jsonl", head | {"schema_version": version})
        with pytest.raises(codec.RecordError, match=rf"schema_version {version}, this one reads 5"):
            list(codec.read(path, confirmation.DECODER))


def test_steps_are_taken_one_after_another(tmp_path, monkeypatch):
    def add_study(record):
        return record | {"study": "unnamed", "schema_version": 4}

    monkeypatch.setitem(codec.OLDER["confirmation"], 3, add_study)
    head = {name: HEAD[name] for name in HEAD if name != "study"} | {"schema_version": 3}
    ((_, found),) = codec.read(write(tmp_path / "rounds.jsonl", head), confirmation.DECODER)
    assert (found.schema_version, found.study) == (5, "unnamed")
