"""What limits leave, on captured machines with what other programs of them use."""

import os
import subprocess
import sys

import pytest

import machines
from scaling_study.host import limits
from scaling_study.runner import headroom
from scaling_study.runner.headroom import Room

GIB = 2**30
MEMINFO = "MemTotal:  134217728 kB\nMemAvailable:   104857600 kB\nCached: 1 kB"
V2 = "sys/fs/cgroup"
NESTED = f"{V2}/user.slice/job.service"
STATUS = "Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nThreads:\t{threads}\nCapEff:\t{caps}"


def machine(name, tmp_path, files):
    root = machines.fake_root(name, tmp_path)
    for path, text in {"proc/meminfo": MEMINFO, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text + "\n")
    return root


def test_memory_of_a_machine_without_limits(tmp_path):
    root = machine("vm-no-l3", tmp_path, {})
    assert headroom.read_free_memory(root) == Room(100 * GIB, "the machine's memory")


def test_memory_where_the_kernel_does_not_tell(tmp_path):
    root = machine("vm-no-l3", tmp_path, {"proc/meminfo": "MemTotal: 1 kB"})
    with pytest.raises(ValueError, match="MemAvailable"):
        headroom.read_free_memory(root)


def test_a_cgroups_memory_is_what_its_limit_leaves_of_it(tmp_path):
    files = {f"{V2}/memory.current": str(7 * GIB), f"{V2}/memory.stat": "anon 1\nfile 2"}
    root = machine("container-v2", tmp_path, files)
    left = headroom.read_free_memory(root)
    assert left.free == GIB
    assert left.limit == f"memory.max of {root / V2}, {8 * GIB}"


def test_a_cgroups_inactive_cache_can_be_had(tmp_path):
    stat = f"anon 1\nactive_file {2 * GIB}\ninactive_file {3 * GIB}\ninactive_file_more 9"
    files = {f"{V2}/memory.current": str(7 * GIB), f"{V2}/memory.stat": stat}
    assert headroom.read_free_memory(machine("container-v2", tmp_path, files)).free == 4 * GIB


def test_the_group_that_leaves_least_counts_not_the_one_with_the_smallest_limit(tmp_path):
    files = {
        f"{NESTED}/memory.current": str(GIB),
        f"{V2}/user.slice/memory.max": str(20 * GIB),
        f"{V2}/user.slice/memory.current": str(18 * GIB),  # of other jobs
    }
    left = headroom.read_free_memory(machine("container-v2-nested", tmp_path, files))
    assert left.free == 2 * GIB
    assert "user.slice, " in left.limit


def test_a_limit_above_what_the_machine_has_left_does_not_count(tmp_path):
    files = {f"{V2}/memory.current": "0", "proc/meminfo": "MemAvailable: 1024 kB"}
    left = headroom.read_free_memory(machine("container-v2", tmp_path, files))
    assert left == Room(2**20, "the machine's memory")


def test_memory_of_cgroup_version_1(tmp_path):
    root = machines.fake_root("container-v1", tmp_path)
    (folder,) = limits.read_hierarchy("memory", root).folders
    (folder / "memory.usage_in_bytes").write_text(str(3 * GIB))
    (folder / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {GIB}\n")
    (root / "proc/meminfo").write_text(MEMINFO)
    assert headroom.read_free_memory(root).free == 2 * GIB
    (folder / "memory.limit_in_bytes").write_text("9223372036854771712")  # none
    assert headroom.read_free_memory(root).free == 100 * GIB


def tasks(name, tmp_path, files, uid=1000, caps="0"):
    own = {
        "proc/loadavg": "0.1 0.2 0.3 2/1000 4711",
        "proc/sys/kernel/threads-max": "200000",
        "proc/sys/kernel/pid_max": "32768",
        "proc/self/limits": "Max open files  1024  4096  files\nMax processes  5000  9000  tasks",
    }
    root = machine(name, tmp_path, own | files)
    status = root / "proc/self/status"
    status.write_text(status.read_text() + STATUS.format(uid=uid, threads=1, caps=caps) + "\n")
    for pid, (owner, threads) in enumerate([(1000, 300), (1000, 1), (0, 4000)], start=100):
        (root / f"proc/{pid}").mkdir()
        text = STATUS.format(uid=owner, threads=threads, caps="0")
        (root / f"proc/{pid}/status").write_text(text)
    return headroom.read_free_tasks(root)


def test_a_user_has_what_ulimit_leaves_after_all_of_its_threads(tmp_path):
    assert tasks("vm-no-l3", tmp_path, {}) == Room(5000 - 301, "ulimit -u, 5000")


def test_ulimit_does_not_bind_who_may_everything(tmp_path):
    left = tasks("vm-no-l3", tmp_path, {}, uid=0, caps="000001ffffffffff")
    assert left == Room(32768 - 1000, "kernel.pid_max, 32768")


def test_without_a_limit_of_processes_the_kernels_counts(tmp_path):
    files = {
        "proc/self/limits": "Max processes  unlimited  unlimited  processes",
        "proc/sys/kernel/pid_max": "4194304",
    }
    assert tasks("vm-no-l3", tmp_path, files) == Room(199_000, "kernel.threads-max, 200000")


def test_tasks_of_a_group_above(tmp_path):
    files = {
        f"{NESTED}/pids.max": "max",
        f"{NESTED}/pids.current": "3",
        f"{V2}/user.slice/pids.max": "100",
        f"{V2}/user.slice/pids.current": "120",
    }
    left = tasks("container-v2-nested", tmp_path, files)
    assert left.free == 0
    assert "user.slice, 100" in left.limit


@pytest.mark.skipif(os.getuid() == 0, reason="RLIMIT_NPROC does not bind root")
def test_the_limit_of_processes_is_the_kernels():
    code = "from scaling_study.runner import headroom; print(headroom.read_free_tasks())"
    limited = ["bash", "-c", 'ulimit -u 4000; exec "$@"', "-", sys.executable, "-c", code]
    done = subprocess.run(limited, capture_output=True, text=True, check=True)
    assert "ulimit -u, 4000" in done.stdout
