import pytest

import machines
from scaling_study.host import limits

MOUNT = "sys/fs/cgroup"
JOB = f"{MOUNT}/cpu,cpuacct/job"


def changed(name, folder, files):
    """A captured machine with further files."""
    return machines.write(machines.fake_root(name, folder), files)


@pytest.mark.parametrize(
    ("name", "cpus", "quota_cpus", "memory_gib", "version"),
    [
        ("container-v2", (4, 5, 6, 7, 20, 21, 22, 23), 2.5, 8, 2),
        ("container-v2-nested", tuple(range(32)), 4.0, 16, 2),
        ("container-v1", (2, 3, 4, 5), 2.0, 4, 1),
        ("vm-hybrid", (0, 1), None, None, 1),
        ("vm-no-l3", (0, 1, 2, 3), None, None, None),
        ("xeon-4s-offline-cpus", (0, 1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 15), None, None, None),
    ],
)
def test_limits(name, cpus, quota_cpus, memory_gib, version):
    root = machines.root(name)
    hierarchy = limits.read_hierarchy("cpu", root)
    assert limits.read_allowed_cpus(root) == cpus
    assert limits.read_quota(root) == (quota_cpus and limits.Quota(quota_cpus, 0.1))
    assert limits.read_memory_limit_bytes(root) == (memory_gib and memory_gib * 2**30)
    assert (hierarchy and hierarchy.version) == version


def test_the_mask_and_the_cpuset_both_bind(tmp_path):
    status = {"proc/self/status": "Cpus_allowed_list:\t0-5"}
    assert limits.read_allowed_cpus(changed("container-v2", tmp_path, status)) == (4, 5)


def test_nodes_of_the_cpuset(tmp_path):
    status = {"proc/self/status": "Mems_allowed_list:\t1,3,9"}
    assert limits.read_allowed_nodes(changed("epyc-7451-2s", tmp_path, status)) == (1, 3)


def test_hybrid_takes_the_controller_from_where_it_is(tmp_path):
    limit = {f"{MOUNT}/memory/jobs/memory.limit_in_bytes": "1048576"}
    root = changed("vm-hybrid", tmp_path, limit)
    cgroup = root / MOUNT
    top = cgroup / "memory"
    assert limits.read_hierarchy("cpu", root) == limits.Hierarchy(1, (cgroup / "cpu",))
    assert limits.read_hierarchy("memory", root) == limits.Hierarchy(
        1, (top / "jobs/96f7", top / "jobs", top)
    )
    assert limits.read_hierarchy("io", root) == limits.Hierarchy(2, (cgroup / "unified",))
    assert limits.read_memory_limit_bytes(root) == 2**20


@pytest.mark.parametrize(
    ("name", "files", "quota"),
    [
        # of all groups on the way up the tightest, whichever it is
        ("container-v2-nested", {f"{MOUNT}/user.slice/job.service/cpu.max": "50000 100000"}, 0.5),
        ("container-v2-nested", {f"{MOUNT}/cpu.max": "10000 100000"}, 0.1),
        # a path of the host means the mount
        *(
            ("container-v2", {"proc/self/cgroup": f"0::{path}"}, 2.5)
            for path in ("/kubepods/pod1/c1", "/../../elsewhere", "/")
        ),
        # a group below the one that the mount shows
        (
            "container-v1",
            {
                "proc/self/cgroup": "2:cpu,cpuacct:/docker/4f1d/job",
                f"{JOB}/cpu.cfs_quota_us": "100000",
                f"{JOB}/cpu.cfs_period_us": "100000",
            },
            1.0,
        ),
        ("vm-hybrid", {f"{MOUNT}/cpu/cpu.cfs_quota_us": "150000"}, 1.5),
    ],
)
def test_quotas(tmp_path, name, files, quota):
    assert limits.read_quota(changed(name, tmp_path, files)).cpus == quota


def test_a_quota_has_a_period(tmp_path):
    root = changed("container-v2", tmp_path, {f"{MOUNT}/cpu.max": "100000 50000"})
    assert limits.read_quota(root) == limits.Quota(2.0, 0.05)
