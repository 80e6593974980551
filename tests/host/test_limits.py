import pytest

import machines
from scaling_study.host import limits


def cpus_of(quota):
    return quota and quota.cpus


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
    assert cpus_of(limits.read_quota(root)) == quota_cpus
    assert limits.read_memory_limit_bytes(root) == (memory_gib and memory_gib * 2**30)
    assert (hierarchy and hierarchy.version) == version


def test_the_mask_and_the_cpuset_both_bind(tmp_path):
    root = machines.fake_root("container-v2", tmp_path)
    status = "Cpus_allowed_list:\t0-5\nMems_allowed_list:\t0\n"
    assert limits.read_allowed_cpus(machines.write(root, {"proc/self/status": status})) == (4, 5)


def test_nodes_of_the_cpuset(tmp_path):
    root = machines.fake_root("epyc-7451-2s", tmp_path)
    status = "Cpus_allowed_list:\t0-95\nMems_allowed_list:\t1,3,9\n"
    assert limits.read_allowed_nodes(machines.write(root, {"proc/self/status": status})) == (1, 3)


def test_hybrid_takes_the_controller_from_where_it_is(tmp_path):
    root = machines.fake_root("vm-hybrid", tmp_path)
    cgroup = root / "sys/fs/cgroup"
    top = cgroup / "memory"
    assert limits.read_hierarchy("cpu", root) == limits.Hierarchy(1, (cgroup / "cpu",))
    assert limits.read_hierarchy("memory", root) == limits.Hierarchy(
        1, (top / "jobs/96f7", top / "jobs", top)
    )
    assert limits.read_hierarchy("io", root) == limits.Hierarchy(2, (cgroup / "unified",))
    machines.write(root, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000"})
    assert cpus_of(limits.read_quota(root)) == 1.5
    machines.write(root, {"sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": "1048576"})
    assert limits.read_memory_limit_bytes(root) == 2**20


def test_the_tightest_ancestor_counts_whichever_it_is(tmp_path):
    root = machines.fake_root("container-v2-nested", tmp_path)
    machines.write(root, {"sys/fs/cgroup/user.slice/job.service/cpu.max": "50000 100000"})
    assert cpus_of(limits.read_quota(root)) == 0.5
    machines.write(root, {"sys/fs/cgroup/cpu.max": "10000 100000"})
    assert cpus_of(limits.read_quota(root)) == 0.1


@pytest.mark.parametrize("path", ["/kubepods/pod1/c1", "/../../elsewhere", "/"])
def test_a_path_of_the_host_means_the_mount(tmp_path, path):
    root = machines.write(
        machines.fake_root("container-v2", tmp_path), {"proc/self/cgroup": f"0::{path}\n"}
    )
    assert cpus_of(limits.read_quota(root)) == 2.5
    assert limits.read_hierarchy("cpu", root).folders == (root / "sys/fs/cgroup",)


def test_a_cgroup_below_the_one_that_the_mount_shows(tmp_path):
    root = machines.fake_root("container-v1", tmp_path)
    cgroup = (root / "proc/self/cgroup").read_text().replace("/docker/4f1d", "/docker/4f1d/job")
    folder = "sys/fs/cgroup/cpu,cpuacct/job"
    machines.write(
        root,
        {
            "proc/self/cgroup": cgroup,
            f"{folder}/cpu.cfs_quota_us": "100000",
            f"{folder}/cpu.cfs_period_us": "100000",
        },
    )
    assert cpus_of(limits.read_quota(root)) == 1.0


def test_a_quota_has_a_period(tmp_path):
    root = machines.fake_root("container-v2", tmp_path / "2")
    machines.write(root, {"sys/fs/cgroup/cpu.max": "100000 50000"})
    assert limits.read_quota(root) == limits.Quota(2.0, 0.05)
    assert limits.read_quota(machines.root("container-v1")) == limits.Quota(2.0, 0.1)
    assert limits.read_quota(machines.root("vm-no-l3")) is None
