"""What members take of the memory, as records tell it to later cohorts."""

import pytest

from scaling_study.records import codec
from scaling_study.records.window import End
from scaling_study.runner import headroom
from scaling_study.runner.headroom import Room


def write(folder, launch, replicate, *lines):
    path = folder / launch / f"{replicate}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def end(taken, shared=0):
    record = End(
        cohort=0, status="complete", reason=None, remedy=None, wall_s=2.0, start_s=1.0,
        in_windows_s=1.0, member_bytes=taken, member_shared_bytes=shared,
    )  # fmt: skip
    return codec.encode(record).decode().rstrip()


def test_the_least_that_was_seen_of_this_launch_or_else_of_any(tmp_path):
    assert headroom.known(tmp_path, "a") == (0, 0)
    write(tmp_path, "a", 0, "{}", end(300, 40))
    write(tmp_path, "a", 1, "{}", end(280, 50))
    write(tmp_path, "b", 0, "{}" * 9000, end(100))
    assert headroom.known(tmp_path, "a") == (280, 40)
    assert headroom.known(tmp_path, "b") == (100, 0)
    assert headroom.known(tmp_path, "c") == (100, 0)


@pytest.mark.parametrize("last", [[], ["{"], [end(None)], [end(0)], ['{"kind": "end"}'], ["[1]"]])
def test_a_file_that_says_nothing_counts_for_nothing(tmp_path, last):
    write(tmp_path, "a", 0, *last)
    assert headroom.known(tmp_path, "a") == (0, 0)


def test_it_is_by_how_much_less_memory_is_free(monkeypatch):
    free, shared = iter([1000, 400, 1200]), iter([90, 30, 60])
    monkeypatch.setattr(headroom, "read_free_memory", lambda: Room(next(free), "of a test"))
    monkeypatch.setattr(headroom, "read_free_shared", lambda: Room(next(shared), "of a test"))
    meter = headroom.Meter()
    assert meter.each(3) == (200, 20)
    assert meter.each(0) is None
    assert meter.each(2) == (0, 15)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", "ended"),
        ("", "was killed by SIGBUS"),
        ("unable to allocate shared memory(shm) for file </torch_1>", "ended with status 1"),
    ],
)
def test_a_bus_error_is_told_as_what_it_most_likely_is(log, reason, monkeypatch):
    monkeypatch.setattr(
        headroom, "read_free_shared", lambda: Room(2**20, "shared memory, /dev/shm")
    )
    said = headroom.why_bus_error(log, reason)
    assert "1 MiB are left (shared memory, /dev/shm)" in said
    assert "loader_workers" in said


def test_another_end_is_no_bus_error():
    assert headroom.why_bus_error("ValueError: bus", "ended with status 1") == ""
