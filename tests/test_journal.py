"""Records while they are written: what a crash leaves, and what a rerun makes of it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from processes import killed_at_the_end, wait_until
from scaling_study.measuring.journal import SAME, Journal, read_part

HEAD = {
    "kind": "cohort", "schema_version": 1, "study": "one", "launch": "default", "replicate": 0,
    "axes": {"intra_op": 1}, "ladder": [1, 2], "seed": 5, "measured_hash": "a", "harness_hash": "b",
    "machine_hash": "c", "started": "2026-01-01T00:00:00", "cohort": 0,
}  # fmt: skip
WINDOW = {"kind": "window", "cohort": 0, "window": 0, "n": 2, "valid": True}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "measure" / "default" / "0.jsonl"


@pytest.fixture
def part(path):
    """The part of an interrupted run: two whole records."""
    journal = Journal(path)
    assert journal.resume(HEAD) == []
    journal.write(HEAD)
    journal.write(WINDOW)
    return path.with_name("0.jsonl.part")


def test_a_record_is_on_the_disk_when_it_is_written(part, path):
    assert [json.loads(line) for line in part.read_text().splitlines()] == [HEAD, WINDOW]
    assert not path.exists()


def test_the_same_goes_on(part, path):
    journal = Journal(path)
    assert journal.resume(HEAD) == [HEAD, WINDOW]
    second = {**WINDOW, "window": 1}
    journal.write(second)
    journal.finish()
    assert not part.exists()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [HEAD, WINDOW, second]


def test_a_later_start_of_the_same_is_the_same(part, path):
    later = {**HEAD, "started": "2026-02-02T00:00:00", "study": "renamed", "cohort": 1}
    assert Journal(path).resume(later) == [HEAD, WINDOW]


@pytest.mark.parametrize("half", ['{"kind": "window", "coh', "{", '{"kind": "end"}', "\x00\x00"])
def test_a_half_written_last_line_is_dropped(part, path, half):
    """Even one that would be whole: without its line end nothing says that it is."""
    whole = part.read_bytes()
    with part.open("a") as file:
        file.write(half)
    assert read_part(part) == [HEAD, WINDOW]
    journal = Journal(path)
    assert journal.resume(HEAD) == [HEAD, WINDOW]
    assert part.read_bytes() == whole
    journal.write(WINDOW)
    assert len(read_part(part)) == 3


def test_whole_lines_are_not_written_again(part, path):
    """The file that held them is the one that goes on: a crash meanwhile loses none."""
    inode = part.stat().st_ino
    modified = part.stat().st_mtime_ns
    Journal(path).resume(HEAD)
    assert part.stat().st_ino == inode
    assert part.read_bytes().count(b"\n") == 2
    assert modified <= part.stat().st_mtime_ns


@pytest.mark.parametrize("key", SAME)
def test_records_of_something_else_are_dropped(part, path, key):
    journal = Journal(path)
    assert journal.resume({**HEAD, key: "another"}) == []
    journal.write({**HEAD, key: "another"})
    assert read_part(part) == [{**HEAD, key: "another"}]


def test_one_cohort_of_something_else_is_enough(part, path):
    Journal(path).write({**HEAD, "cohort": 1, "machine_hash": "another"})
    assert Journal(path).resume(HEAD) == []


def test_a_part_without_a_cohort_is_dropped(path):
    journal = Journal(path)
    journal.write(WINDOW)
    assert journal.resume(HEAD) == []
    assert read_part(path.with_name("0.jsonl.part")) == []


@pytest.mark.parametrize("text", ["", "{", '{"kind": "cohort"'])
def test_a_part_without_a_whole_line_is_empty(path, text):
    journal = Journal(path)
    path.with_name("0.jsonl.part").write_text(text)
    assert journal.resume(HEAD) == []
    journal.write(HEAD)
    journal.finish()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [HEAD]


def test_finishing_replaces_an_older_file(part, path):
    path.write_text("old\n")
    Journal(path).finish()
    assert path.read_text().splitlines()[0] == json.dumps(HEAD)


def test_a_number_that_json_does_not_have_is_refused(part, path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Journal(path).write({"kind": "window", "overlap": float("nan")})
    assert len(read_part(part)) == 2


def test_text_of_any_language_comes_back(path):
    journal = Journal(path)
    journal.write({**HEAD, "label": "größe \udcff\n"})
    assert journal.resume(HEAD)[0]["label"] == "größe \udcff\n"


WRITER = """
import sys
from pathlib import Path
from scaling_study.measuring.journal import Journal
journal = Journal(Path(sys.argv[1]))
journal.write({"kind": "cohort"})
for number in range(10**6):
    journal.write({"kind": "window", "window": number, "text": "x" * 500})
"""


def test_a_killed_writer_leaves_whole_records(path):
    part = path.with_name("0.jsonl.part")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path])
    with killed_at_the_end(writer):
        wait_until(lambda: part.exists() and part.stat().st_size > 20_000, "some records")
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    records = read_part(part)
    assert [record["window"] for record in records[1:]] == list(range(len(records) - 1))
    assert len(records) > 30
