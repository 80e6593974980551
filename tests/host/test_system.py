import os

import pytest

import machines
from scaling_study.common.topology import Cpu, Node
from scaling_study.host import limits, system


def test_this_machine_has_the_cpus_that_the_kernel_lets_us_use():
    topology = system.read_topology()
    assert set(limits.read_allowed_cpus()) <= os.sched_getaffinity(0)
    assert set(limits.read_allowed_cpus()) <= set(topology.cpu_ids)
    assert topology.cpu_ids == system.read_online_cpus()
    assert limits.read_allowed_nodes()


def test_the_l3_is_found_by_its_level_not_by_its_index(tmp_path):
    root = machines.fake_root("epyc-7451-2s", tmp_path)
    for index in root.glob("sys/devices/system/cpu/cpu*/cache/index3"):
        index.rename(index.with_name("index2"))
    assert system.read_topology(root) == machines.topology("epyc-7451-2s")
    assert system.read_cache_bytes(3, root) == 8 * 2**20


def test_caches_have_sizes(tmp_path):
    root = machines.fake_root("vm-hybrid", tmp_path)
    cache = "sys/devices/system/cpu/cpu0/cache"
    for level, kind, size in ((1, "Instruction", "64K"), (2, "Unified", "2048K")):
        files = {"level": level, "type": kind, "size": size}
        machines.write(root / f"{cache}/index{level}", files)
    assert system.read_cache_bytes(2, root) == 2 * 2**20
    assert system.read_cache_bytes(3, root) == 480 * 2**20
    assert system.read_cache_bytes(4, root) is None
    assert system.read_cache_bytes(3, machines.root("vm-no-l3")) is None


def test_without_sys_the_cpus_are_those_of_the_mask(tmp_path):
    status = "Cpus_allowed_list:\t2,5\nMems_allowed_list:\t0"
    files = {"proc/self/status": status, "proc/meminfo": "MemTotal:    1024 kB"}
    machines.write(tmp_path, files)
    topology = system.read_topology(tmp_path)
    assert topology.cpus == (Cpu(2, 2, 0, 0, 2), Cpu(5, 5, 0, 0, 2))
    assert topology.nodes == (Node(0, 2**20, {0: 10}),)
    assert limits.read_allowed_cpus(tmp_path) == (2, 5)
    assert limits.read_allowed_nodes(tmp_path) == (0,)


@pytest.mark.parametrize("status", ["Name:\tpython\n", "", None])
def test_without_a_list_of_allowed_cpus_the_kernel_is_asked_for_the_mask(tmp_path, status):
    if status is not None:
        machines.write(tmp_path, {"proc/self/status": status})
    mask = tuple(sorted(os.sched_getaffinity(0)))
    assert system.read_topology(tmp_path).cpu_ids == mask
    assert (limits.read_allowed_cpus(tmp_path), limits.read_allowed_nodes(tmp_path)) == (mask, (0,))


def test_virtual_machines(tmp_path):
    machines.write(tmp_path, {"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"})
    assert system.read_virtual({"avx2"}, tmp_path) is None
    assert system.read_virtual({"hypervisor"}, tmp_path) == "Amazon EC2"
    assert system.read_virtual({"hypervisor"}, tmp_path / "nothing") == "hypervisor"
    machines.write(tmp_path / "xen", {"sys/hypervisor/type": "xen\n"})
    assert system.read_virtual({"avx2"}, tmp_path / "xen") == "xen"
