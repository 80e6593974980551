"""What members take of the memory, as records tell it to later cohorts."""

import json

import pytest

from scaling_study.measuring import footprint
from scaling_study.probing import room
from scaling_study.probing.room import Room


def write(folder, launch, replicate, *lines):
    path = folder / launch / f"{replicate}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def end(taken):
    return json.dumps({"kind": "end", "member_bytes": taken})


def test_the_least_that_was_seen_of_this_launch_or_else_of_any(tmp_path):
    assert footprint.known(tmp_path, "a") == 0
    write(tmp_path, "a", 0, "{}", end(300))
    write(tmp_path, "a", 1, "{}", end(280))
    write(tmp_path, "b", 0, "{}" * 9000, end(100))
    assert footprint.known(tmp_path, "a") == 280
    assert footprint.known(tmp_path, "b") == 100
    assert footprint.known(tmp_path, "c") == 100


@pytest.mark.parametrize("last", [[], ["{"], [end(None)], [end(0)], ['{"kind": "end"}'], ["[1]"]])
def test_a_file_that_says_nothing_counts_for_nothing(tmp_path, last):
    write(tmp_path, "a", 0, *last)
    assert footprint.known(tmp_path, "a") == 0


def test_it_is_by_how_much_less_memory_is_free(monkeypatch):
    free = iter([1000, 400, 1200])
    monkeypatch.setattr(room, "read_free_memory", lambda: Room(next(free), "of a test"))
    meter = footprint.Meter()
    assert meter.each(3) == 200
    assert meter.each(0) is None
    assert meter.each(2) == 0
