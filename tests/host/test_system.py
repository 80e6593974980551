import os

import pytest

import machines
from scaling_study.common.topology import Cpu, Node
from scaling_study.host import limits, system


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_this_machine_has_the_cpus_that_the_kernel_lets_us_use():
    topology = system.read_topology()
    assert set(limits.read_allowed_cpus()) <= os.sched_getaffinity(0)
    assert set(limits.read_allowed_cpus()) <= set(topology.cpu_ids)
    assert topology.cpu_ids == system.read_online_cpus()
    assert limits.read_allowed_nodes()
    assert system.read_memory_bytes() > 0
    assert system.read_kernel() == os.uname().release


def test_the_l3_is_found_by_its_level_not_by_its_index(tmp_path):
    root = machines.fake_root("epyc-7451-2s", tmp_path)
    for index in root.glob("sys/devices/system/cpu/cpu*/cache/index3"):
        index.rename(index.with_name("index2"))
    assert system.read_topology(root) == machines.topology("epyc-7451-2s")
    assert system.read_cache_bytes(3, root) == 8 * 2**20


def test_caches_have_sizes(tmp_path):
    root = machines.fake_root("vm-hybrid", tmp_path)
    cache = "sys/devices/system/cpu/cpu0/cache"
    for index, level, kind, size in ((1, "1", "Instruction", "64K"), (2, "2", "Unified", "2048K")):
        write(root, f"{cache}/index{index}/level", level)
        write(root, f"{cache}/index{index}/type", kind)
        write(root, f"{cache}/index{index}/size", size)
    assert system.read_cache_bytes(2, root) == 2 * 2**20
    assert system.read_cache_bytes(3, root) == 480 * 2**20
    assert system.read_cache_bytes(4, root) is None
    assert system.read_cache_bytes(3, machines.root("vm-no-l3")) is None


def test_without_sys_the_cpus_are_those_of_the_mask(tmp_path):
    write(tmp_path, "proc/self/status", "Cpus_allowed_list:\t2,5\nMems_allowed_list:\t0\n")
    write(tmp_path, "proc/meminfo", "MemTotal:    1024 kB\n")
    topology = system.read_topology(tmp_path)
    assert topology.cpus == (Cpu(2, 2, 0, 0, 2), Cpu(5, 5, 0, 0, 2))
    assert topology.nodes == (Node(0, 2**20, {0: 10}),)
    assert limits.read_allowed_cpus(tmp_path) == (2, 5)
    assert limits.read_allowed_nodes(tmp_path) == (0,)


@pytest.mark.parametrize("status", ["Name:\tpython\n", "", None])
def test_without_a_list_of_allowed_cpus_the_kernel_is_asked_for_the_mask(tmp_path, status):
    if status is not None:
        write(tmp_path, "proc/self/status", status)
    mask = tuple(sorted(os.sched_getaffinity(0)))
    assert system.read_topology(tmp_path).cpu_ids == mask
    assert limits.read_allowed_cpus(tmp_path) == mask
    assert limits.read_allowed_nodes(tmp_path) == (0,)


def test_cpuinfo_of_arm(tmp_path):
    text = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
    write(tmp_path, "proc/cpuinfo", text)
    info = system.read_cpu_info(tmp_path)
    assert (info.model, info.vendor) == ("0xd4f", "0x41")
    assert info.flags == {"fp", "asimd", "sve"}


def test_virtual_machines(tmp_path):
    hardware = system.CpuInfo("", "", frozenset({"avx2"}))
    guest = system.CpuInfo("", "", frozenset({"hypervisor"}))
    write(tmp_path, "sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
    assert system.read_virtual(hardware, tmp_path) is None
    assert system.read_virtual(guest, tmp_path) == "Amazon EC2"
    write(tmp_path, "sys/class/dmi/id/product_name", "m7i.large\n")
    assert system.read_virtual(guest, tmp_path) == "Amazon EC2 m7i.large"
    assert system.read_virtual(guest, tmp_path / "nothing") == "hypervisor"
    write(tmp_path / "xen", "sys/hypervisor/type", "xen\n")
    assert system.read_virtual(hardware, tmp_path / "xen") == "xen"


def test_settings_of_the_kernel(tmp_path):
    write(tmp_path, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(tmp_path, "proc/sys/kernel/numa_balancing", "2\n")
    for cpu, governor in enumerate(("powersave", "performance", "powersave")):
        write(tmp_path, f"{system.CPU_FOLDER}/cpu{cpu}/cpufreq/scaling_governor", f"{governor}\n")
    assert system.read_thp(tmp_path) == "madvise"
    assert system.read_numa_balancing(tmp_path) is True
    assert system.read_governor(tmp_path) == "performance, powersave"
