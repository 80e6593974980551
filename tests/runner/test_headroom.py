"""Limits: what they leave, what members take of them, and the words that name one too low."""

import resource
import subprocess

import pytest

import jobs
import machines
from scaling_study.common.unavailable import UnavailableError
from scaling_study.host import limits
from scaling_study.launch.axes.launcher import LAUNCHERS
from scaling_study.launch.launchers.launcher import Exec, Launcher
from scaling_study.records import codec
from scaling_study.records.window import CohortEnd
from scaling_study.runner import headroom
from scaling_study.runner.headroom import Footprint, Need, Room

GIB = 2**30

# ---- whether there is room for members


@pytest.fixture
def left(monkeypatch):
    monkeypatch.setitem(LAUNCHERS, "sharing", Launcher("", Exec, least_bytes=4 * 2**20))

    def left(*, files=(65536, 65536), tasks=100_000, memory=512 * GIB, shared=64 * GIB):
        monkeypatch.setattr(resource, "getrlimit", lambda _: files)
        rooms = {
            "tasks": Room(tasks, "pids.max of a job, 9"),
            "memory": Room(memory, "memory.max of a job"),
            "shared": Room(shared, "shared memory, /x/shm"),
        }
        for name, room in rooms.items():
            monkeypatch.setattr(headroom, f"read_free_{name}", lambda room=room: room)

    return left


@pytest.mark.parametrize(
    ("room", "need", "words", "fit"),
    [
        ({"tasks": 10_000}, Need(192, 192 * 192, "exec"),
         ("192 members of 192 threads", "10000 are left (pids.max of a job, 9)"), 52),
        ({"memory": 8 * GIB}, Need(192, 192, "exec"),
         ("192 members need 12.0 GiB or more", "8.0 GiB are left (memory.max of a job)"), 128),
        ({"shared": GIB}, Need(192, 192, "exec", Footprint(memory=GIB, shared=2**23)),
         ("192 members need 1.5 GiB or more", "1.0 GiB are left (shared memory, /x/shm)"), 128),
    ],
)  # fmt: skip
def test_a_limit_that_is_too_low_is_named_with_what_fits(left, room, need, words, fit):
    left(**room)
    with pytest.raises(UnavailableError) as caught:
        headroom.check([need])
    said = f"{caught.value.reason}; {caught.value.remedy}"
    assert all(word in said for word in (*words, f"processes to at most {fit}")), said
    headroom.check([need.of(fit - 1)])


def test_too_few_open_files(left):
    left(files=(256, 4096))
    with pytest.raises(UnavailableError) as caught:
        headroom.check([Need(192, 192, "exec")])
    assert "the limit is 256 (ulimit -n)" in caught.value.reason
    assert "as root" not in caught.value.remedy
    fit = int(caught.value.remedy.rpartition("at most ")[2])
    assert 0 < fit < 192
    headroom.check([Need(fit, fit, "exec")])
    left(files=(resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    headroom.check([Need(10_000, 10_000, "sharing")])


def test_cohorts_that_live_at_once_add_up(left):
    left(files=(1024, 1024))
    one = Need(256, 256, "exec")
    headroom.check([one])
    with pytest.raises(UnavailableError, match="512 members need 1"):
        headroom.check([one, one])
    left(tasks=700)
    with pytest.raises(UnavailableError, match=r"768 members of 1 threads .* 700 are left"):
        headroom.check([one, one, one])
    left(memory=GIB)
    headroom.check([Need(8, 8, "exec"), Need(100, 100, "sharing")])
    with pytest.raises(UnavailableError, match=r"116 members need 1\.4 GiB"):
        headroom.check([Need(16, 16, "exec"), Need(100, 100, "sharing")])


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


# ---- what limits leave, on captured machines with what other programs of them use

MEMINFO = "MemTotal:  134217728 kB\nMemAvailable:   104857600 kB\nCached: 1 kB"
V2 = "sys/fs/cgroup"
NESTED = f"{V2}/user.slice/job.service"
STATUS = "Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nThreads:\t{threads}\nCapEff:\t{caps}"


def machine(name, tmp_path, files):
    root = machines.fake_root(name, tmp_path)
    return machines.write(root, {"proc/meminfo": MEMINFO, **files})


@pytest.mark.parametrize(
    ("name", "files", "free", "limit"),
    [
        ("vm-no-l3", {}, 100 * GIB, "the machine's memory"),
        ("container-v2", {f"{V2}/memory.current": 7 * GIB, f"{V2}/memory.stat": "anon 1\nfile 2"},
         GIB, f"{V2}, {8 * GIB}"),
        # an inactive cache can be had
        ("container-v2",
         {f"{V2}/memory.current": 7 * GIB,
          f"{V2}/memory.stat": f"active_file 1\ninactive_file {GIB}\ninactive_file_more 9"},
         2 * GIB, f"{V2}, {8 * GIB}"),
        # the group that leaves least counts, not the one with the smallest limit
        ("container-v2-nested",
         {f"{NESTED}/memory.current": GIB, f"{V2}/user.slice/memory.max": 20 * GIB,
          f"{V2}/user.slice/memory.current": 18 * GIB},  # of other jobs
         2 * GIB, "user.slice, "),
        # a limit above what the machine has left does not count
        ("container-v2", {f"{V2}/memory.current": 0, "proc/meminfo": "MemAvailable: 1024 kB"},
         2**20, "the machine's memory"),
    ],
)  # fmt: skip
def test_free_memory(tmp_path, name, files, free, limit):
    left = headroom.read_free_memory(machine(name, tmp_path, files))
    assert left.free == free
    assert limit in left.limit


def test_memory_of_cgroup_version_1(tmp_path):
    root = machine("container-v1", tmp_path, {})
    (folder,) = limits.read_hierarchy("memory", root).folders
    (folder / "memory.usage_in_bytes").write_text(str(3 * GIB))
    (folder / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {GIB}\n")
    assert headroom.read_free_memory(root).free == 2 * GIB
    (folder / "memory.limit_in_bytes").write_text("9223372036854771712")  # none
    assert headroom.read_free_memory(root).free == 100 * GIB


USER, ROOT = {"uid": 1000, "caps": "0"}, {"uid": 0, "caps": "000001ffffffffff"}


@pytest.mark.parametrize(
    ("files", "own", "left"),
    [
        ({}, USER, Room(5000 - 301, "ulimit -u, 5000")),
        # RLIMIT_NPROC does not bind who may everything
        ({}, ROOT, Room(32768 - 1000, "kernel.pid_max, 32768")),
        ({"proc/self/limits": "Max processes  unlimited  unlimited  processes",
          "proc/sys/kernel/pid_max": "4194304"},
         USER, Room(199_000, "kernel.threads-max, 200000")),
        ({f"{NESTED}/pids.max": "max", f"{NESTED}/pids.current": "3",
          f"{V2}/user.slice/pids.max": "100", f"{V2}/user.slice/pids.current": "120"},
         USER, Room(0, "pids.max of {}/sys/fs/cgroup/user.slice, 100")),
    ],
)  # fmt: skip
def test_free_tasks(tmp_path, files, own, left):
    kernels = {
        "proc/loadavg": "0.1 0.2 0.3 2/1000 4711",
        "proc/sys/kernel/threads-max": "200000",
        "proc/sys/kernel/pid_max": "32768",
        "proc/self/limits": "Max open files  1024  4096  files\nMax processes  5000  9000  tasks",
    }
    root = machine("container-v2-nested", tmp_path, kernels | files)
    status = root / "proc/self/status"
    status.write_text(f"{status.read_text()}{STATUS.format(threads=1, **own)}\n")
    for pid, (uid, threads) in enumerate([(1000, 300), (1000, 1), (0, 4000)], start=100):
        (root / f"proc/{pid}").mkdir()
        (root / f"proc/{pid}/status").write_text(STATUS.format(uid=uid, threads=threads, caps="0"))
    assert headroom.read_free_tasks(root) == Room(left.free, left.limit.format(root))


# ---- what members take of the memory, as records tell it to later cohorts


def end(taken, shared=0):
    record = CohortEnd(
        cohort=0, status="complete", reason=None, remedy=None, wall_s=2.0, start_s=1.0,
        in_windows_s=1.0, member_bytes=taken, member_shared_bytes=shared,
    )  # fmt: skip
    return codec.encode(record).decode().rstrip()


def test_the_least_that_was_seen_of_this_launch_or_else_of_any(tmp_path):
    assert headroom.known(tmp_path, "a") == (0, 0)
    files = {"a/0": end(300, 40), "a/1": end(280, 50), "b/0": end(100)}
    before = "{}" * 9000
    machines.write(tmp_path, {f"{name}.jsonl": f"{before}\n{one}" for name, one in files.items()})
    known = [headroom.known(tmp_path, launch) for launch in "abc"]
    assert known == [(280, 40), (100, 0), (100, 0)]


@pytest.mark.parametrize("last", ["", "{", end(None), '{"kind": "end"}', "[1]"])
def test_a_file_that_says_nothing_counts_for_nothing(tmp_path, last):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/0.jsonl").write_text(last)
    assert headroom.known(tmp_path, "a") == (0, 0)


def test_it_is_by_how_much_less_memory_is_free(monkeypatch):
    free, shared = iter([1000, 400, 1200]), iter([90, 30, 60])
    monkeypatch.setattr(headroom, "read_free_memory", lambda: Room(next(free), "of a test"))
    monkeypatch.setattr(headroom, "read_free_shared", lambda: Room(next(shared), "of a test"))
    before = headroom.read_free()
    found = [headroom.footprint(before, members) for members in (3, 0, 2)]
    assert found == [(200, 20), None, (0, 15)]


@pytest.mark.parametrize(
    ("log", "reason", "told"),
    [
        ("RuntimeError: DataLoader worker is killed by signal: Bus error.", "ended", True),
        ("", "was killed by SIGBUS", True),
        ("unable to allocate shared memory(shm) for file </torch_1>", "ended", True),
        ("ValueError: bus", "ended with status 1", False),
    ],
)
def test_a_bus_error_is_told_as_what_it_most_likely_is(log, reason, told, left):
    left(shared=2**20)
    said = headroom.why_bus_error(log, reason)
    assert ("1 MiB are left (shared memory, /x/shm)" in said) == told == bool(said)
