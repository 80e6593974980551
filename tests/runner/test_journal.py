"""Records while they are written: what a crash leaves, and what a rerun makes of it."""

import errno
import json
import os
import resource
from unittest.mock import Mock

import msgspec
import pytest

import made_records
from scaling_study.common import file_errors
from scaling_study.records import codec
from scaling_study.runner import journal
from scaling_study.runner.journal import SAME, Journal, mark_of, read_part, settle

PLAIN = msgspec.json.Decoder()
HEAD = json.loads(codec.encode(made_records.head(measure={"steps": 9})))
WINDOW = {"kind": "window", "cohort": 0, "window": 0, "n": 2, "valid": True}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "measure" / "default" / "0.jsonl"


@pytest.fixture
def part(path):
    """The part of an interrupted run: two whole records."""
    journal = Journal(path, PLAIN)
    assert journal.resume(HEAD) == []
    journal.write(HEAD)
    journal.write(WINDOW)
    return path.with_name("0.jsonl.part")


def test_the_same_goes_on(part, path):
    assert not path.exists()
    journal, inode = Journal(path, PLAIN), part.stat().st_ino
    later = {**HEAD, "started": "2026-02-02T00:00:00", "study": "renamed", "cohort": 1}
    assert journal.resume(later) == [HEAD, WINDOW]
    # Whole lines are not written again: a crash meanwhile would lose them.
    assert part.stat().st_ino == inode
    path.write_text("old\n")  # which finishing replaces
    second = {**WINDOW, "window": 1}
    journal.write(second)
    journal.finish()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [HEAD, WINDOW, second]


@pytest.mark.parametrize("half", ['{"kind": "window", "coh', "{", '{"kind": "end"}', "\x00\x00"])
def test_a_half_written_last_line_is_dropped(part, path, half):
    """Even one that would be whole: without its line end nothing says that it is."""
    whole = part.read_bytes()
    with part.open("a") as file:
        file.write(half)
    assert read_part(part) == [HEAD, WINDOW]
    journal = Journal(path, PLAIN)
    assert journal.resume(HEAD) == [HEAD, WINDOW]
    assert part.read_bytes() == whole
    journal.write(WINDOW)
    assert len(read_part(part)) == 3


@pytest.mark.parametrize("key", SAME)
def test_windows_of_something_else_are_set_aside(part, path, caplog, key):
    whole = part.read_bytes()
    caplog.set_level("INFO")
    assert Journal(path, PLAIN).resume({**HEAD, key: "another"}) == []
    (other,) = path.parent.glob("0.jsonl.*.other")
    assert other.read_bytes() == whole
    assert f"another {key}" in caplog.text
    assert part.read_bytes() == b""


def interrupted(path, head, window):
    """A run that writes one window more, and is stopped; return what it found."""
    journal = Journal(path, PLAIN)
    found = journal.resume(head)
    if not found:
        journal.write(head)
    journal.write({**WINDOW, "window": window})
    journal._close()
    return found


def test_a_job_that_returns_to_a_machine_goes_on_there(path):
    """A, B, A, C, B: each machine's windows wait for it."""
    a, b, c = ({**HEAD, "machine_hash": name} for name in "abc")
    windows = [{**WINDOW, "window": at} for at in range(5)]
    assert interrupted(path, a, 0) == []
    assert interrupted(path, b, 1) == []
    assert interrupted(path, a, 2) == [a, windows[0]]
    assert interrupted(path, c, 3) == []
    assert interrupted(path, b, 4) == [b, windows[1]]
    assert read_part(path.with_name("0.jsonl.part")) == [b, windows[1], windows[4]]
    assert Journal(path, PLAIN).resume(a) == [a, windows[0], windows[2]]
    assert len(list(path.parent.glob("*.other"))) == 2


def test_a_machine_that_cannot_do_it_loses_nothing_of_another_one(part, path):
    skipping = Journal(path, PLAIN)
    skipping.restart()
    skipping.write({**HEAD, "measured_hash": "", "machine_hash": "another"})
    skipping.finish()
    del skipping
    assert Journal(path, PLAIN).resume(HEAD) == [HEAD, WINDOW]


def test_another_process_may_not_write_meanwhile(part, path, monkeypatch):
    holder = Journal(path, PLAIN)
    holder.resume(HEAD)
    monkeypatch.setattr(journal, "PATIENCE_S", 0.1)
    with pytest.raises(file_errors.UnusableError, match="written by another process: wait for it"):
        Journal(path, PLAIN).resume(HEAD)
    del holder
    assert Journal(path, PLAIN).resume(HEAD) == [HEAD, WINDOW]


@pytest.mark.parametrize("line", [b"\x00\x00", b'{"kind": "win', b"[1]", b"{}", b"\xff"])
def test_a_damaged_line_is_named_and_nothing_lost(part, path, line):
    lines = part.read_bytes().splitlines()
    damaged = b"\n".join([lines[0], line, lines[1], b""])
    part.write_bytes(damaged)
    with pytest.raises(file_errors.UnusableError, match=r"part, line 2, is damaged .*: delete"):
        Journal(path, PLAIN).resume(HEAD)
    assert part.read_bytes() == damaged


def test_what_has_been_collected_has_no_part_any_more(part, path):
    path.write_text("old\n")
    settle([path])
    assert part.exists()  # it is of something newer
    Journal(path, PLAIN).finish()
    whole = path.read_bytes()
    settle([path])
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == whole


def test_a_file_system_without_links_gets_a_copy(part, path, monkeypatch):
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EPERM, "no links here")))
    Journal(path, PLAIN).finish()
    assert path.read_bytes() == part.read_bytes()
    assert sorted(file.name for file in path.parent.iterdir()) == ["0.jsonl", "0.jsonl.part"]


def test_a_record_that_does_not_fit_leaves_nothing_of_itself(part, path):
    whole = part.read_bytes()
    one = Journal(path, PLAIN)
    one.resume(HEAD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            one.write(WINDOW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.filename == str(part)
    assert part.read_bytes() == whole
    one.write(WINDOW)
    assert read_part(part) == [HEAD, WINDOW, WINDOW]


def test_the_part_of_a_file_that_lacks_results_stays_until_it_has_them(part, path):
    Journal(path, PLAIN).finish("failed")
    assert mark_of(path).read_text() == "failed"
    settle([path])
    assert part.exists()
    path.unlink()  # so a run ends
    journal = Journal(path, PLAIN)
    assert journal.resume(HEAD) == [HEAD, WINDOW]
    journal.finish()
    assert not mark_of(path).exists()
    settle([path])
    assert not part.exists()


def test_what_failed_gives_way_and_all_else_is_kept(part, path):
    journal = Journal(path, PLAIN)
    records = journal.resume(HEAD)
    journal.write({"kind": "end", "cohort": 0, "status": "failed"})
    assert len(journal.read()) == 3
    assert journal.keep(records[:1]) == [HEAD]
    assert read_part(part) == [HEAD]
    journal.write(WINDOW)
    journal.finish()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [HEAD, WINDOW]


def test_a_crash_while_records_give_way_loses_none(part, path, monkeypatch):
    journal = Journal(path, PLAIN)
    records = journal.resume(HEAD)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match=r"No space left on device: .*part\.new"):
        journal.keep(records[:1])
    assert read_part(part) == [HEAD, WINDOW]
