"""Limits that are met before the first member starts, each with the words that name it."""

import resource
import subprocess

import pytest

import jobs
from made_records import hardware
from scaling_study.common.unavailable import UnavailableError
from scaling_study.runner import headroom, resolve
from scaling_study.runner.headroom import Footprint, Need, Room

GIB = 2**30


@pytest.fixture
def left(monkeypatch):
    def left(*, files=(65536, 65536), tasks=100_000, memory=512 * GIB, shared=64 * GIB):
        monkeypatch.setattr(resource, "getrlimit", lambda _: files)
        monkeypatch.setattr(
            headroom, "read_free_tasks", lambda: Room(tasks, "pids.max of a job, 9")
        )
        monkeypatch.setattr(
            headroom, "read_free_memory", lambda: Room(memory, "memory.max of a job")
        )
        monkeypatch.setattr(
            headroom, "read_free_shared", lambda: Room(shared, "shared memory, /x/shm")
        )

    return left


@pytest.mark.parametrize("members", [1, 192, 384])
def test_where_there_is_plenty_nothing_is_said(left, members):
    left()
    headroom.check([Need(members, members, "exec")])


def test_too_few_open_files(left):
    left(files=(256, 4096))
    with pytest.raises(UnavailableError) as caught:
        headroom.check([Need(192, 192, "exec")])
    assert "192 members need " in caught.value.reason
    assert "the limit is 256 (ulimit -n)" in caught.value.reason
    assert "ulimit -n " in caught.value.remedy
    assert "as root" not in caught.value.remedy
    fit = int(caught.value.remedy.rpartition("at most ")[2])
    assert 0 < fit < 192
    headroom.check([Need(fit, fit, "exec")])


def test_without_a_limit_of_open_files(left):
    left(files=(resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    headroom.check([Need(10_000, 10_000, "fork")])


def test_the_threads_of_the_default_launch_are_too_many_where_one_each_would_do(left):
    left(tasks=10_000)
    headroom.check([Need(192, 192, "exec")])
    with pytest.raises(UnavailableError) as caught:
        headroom.check([Need(192, 192 * 192, "exec")])
    assert "192 members of 192 threads" in caught.value.reason
    assert "10000 are left (pids.max of a job, 9)" in caught.value.reason
    assert "set intra_op to 1, or processes to at most 52" in caught.value.remedy
    headroom.check([Need(51, 51 * 192, "exec")])


def test_no_room_for_the_least_that_torch_needs(left):
    left(memory=8 * GIB)
    with pytest.raises(UnavailableError) as caught:
        headroom.check([Need(192, 192, "exec")])
    assert "192 members need 12.0 GiB or more" in caught.value.reason
    assert "8.0 GiB are left (memory.max of a job)" in caught.value.reason
    assert "processes to at most 128" in caught.value.remedy
    headroom.check([Need(128, 128, "exec")])
    headroom.check([Need(192, 192, "fork")])  # whose members share what torch needs


def test_no_room_for_the_batches_of_all_loader_workers(left):
    left(shared=GIB)
    need = Need(192, 192, "exec", Footprint(memory=GIB, shared=2**23))
    with pytest.raises(UnavailableError) as caught:
        headroom.check([need])
    assert "192 members need 1.5 GiB or more" in caught.value.reason
    assert "1.0 GiB are left (shared memory, /x/shm)" in caught.value.reason
    assert "processes to at most 128" in caught.value.remedy
    headroom.check([need.of(128)])


def test_cohorts_that_live_at_once_add_up(left):
    left(files=(1024, 1024))
    one = Need(256, 256, "exec")
    headroom.check([one])
    with pytest.raises(UnavailableError, match="512 members need 1"):
        headroom.check([one, one])
    left(tasks=700)
    headroom.check([one, one])
    with pytest.raises(UnavailableError, match=r"768 members of 1 threads .* 700 are left"):
        headroom.check([one, one, one])
    left(memory=GIB)
    headroom.check([Need(8, 8, "exec"), Need(100, 100, "fork")])
    with pytest.raises(UnavailableError, match=r"116 members need 1\.4 GiB"):
        headroom.check([Need(16, 16, "exec"), Need(100, 100, "fork")])


def test_counts_that_fit_are_left_with_the_reason_of_the_largest_that_does_not(left):
    left(tasks=10_000)
    default = Need(385, 385 * 96, "exec")
    counts, missing = headroom.fitting(default, [1, 64, 128, 384, 385])
    assert counts == [1, 64]
    assert "385 members of 96 threads or more each need " in missing.reason
    assert headroom.fitting(Need(385, 385, "exec"), [1, 385]) == ([1, 385], None)
    left(tasks=100)
    with pytest.raises(UnavailableError, match="64 members"):
        headroom.fitting(default, [64, 385])


@pytest.mark.parametrize(
    ("room", "most", "sizes"),
    [
        ({}, 9, [5]),
        ({}, 2, [2, 2, 1]),
        ({"tasks": 900}, 9, [1, 3, 1]),
        ({"files": (1024, 1024)}, 9, [2, 1, 1, 1]),
        ({"tasks": 1}, 9, [1, 1, 1, 1, 1]),  # each is tried, and says itself what it lacks
    ],
)
def test_interventions_are_tried_together_as_far_as_they_fit(left, room, most, sizes):
    left(**room)
    cohorts = [(200, 800), (200, 200), (200, 200), (300, 300), (300, 300)]
    needs = [Need(members, threads, "exec") for members, threads in cohorts]
    assert headroom.together(needs, most) == sizes


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "status"), [((1, 192), "partial"), ((192,), "skipped")])
def test_a_study_that_meets_a_limit_measures_what_fits_and_names_it(tmp_path, counts, status):
    """The whole measuring job under a real limit, as a user would meet it."""
    job = jobs.baseline_job(jobs.config(jobs.WORKLOADS / "plain_loop.py", processes=counts))
    # A job raises its soft limit to the hard one by itself.
    limited = ["prlimit", "--nofile=256:256", *jobs.command(job, tmp_path)]
    subprocess.run(limited, env=jobs.environment(tmp_path), check=True)
    found = jobs.read(tmp_path / "0.jsonl")
    (end,) = found["end"]
    assert end["status"] == status
    assert "the limit is 256 (ulimit -n)" in end["reason"]
    assert "the hard limit is 256: as root" in end["remedy"]
    assert {window["n"] for window in found["window"]} == set(counts) - {192}


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 64 * GIB), (8 * GIB, 8 * GIB), (100 * GIB, 64 * GIB)]
)
def test_members_may_use_the_limit_or_the_machine_whichever_is_less(limit, expected):
    machine = hardware(memory_bytes=64 * GIB, memory_limit_bytes=limit)
    assert resolve.host(machine).memory_bytes == expected
