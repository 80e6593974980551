import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import json, structs

import machines
import made_records
from scaling_study.common.file_errors import UnusableError
from scaling_study.host import probe, system
from scaling_study.records.machine import Fact


@pytest.fixture(scope="module")
def hybrid():
    return probe.read_machine(machines.root("vm-hybrid"))


def test_machine_json_of_a_captured_machine(hybrid):
    stored = json.decode(json.encode(hybrid))
    chosen = ("cpu_model", "allowed_cpus", "smt", "virtual", "thp", "quota_cpus", "l3_bytes")
    assert {key: stored[key] for key in chosen} == {
        "cpu_model": "Intel(R) Xeon(R) Processor", "allowed_cpus": "0-1", "smt": False,
        "virtual": "hypervisor", "thp": "madvise", "quota_cpus": None, "l3_bytes": 480 * 2**20,
    }  # fmt: skip
    assert " ".join(stored["isa"]) == "avx avx2 fma f16c avx512f avx512_bf16 amx_tile amx_bf16"
    assert re.fullmatch("[0-9a-f]{12}", stored["hash"])


CHANGES = {
    "cpu_model": "another", "isa": ("avx2",), "l2_bytes": 1, "l3_bytes": 1, "allowed_cpus": "0",
    "allowed_nodes": "", "quota_cpus": 1.5, "kernel": "5.4", "governor": "powersave",
    "thp": "always", "numa_balancing": True, "virtual": None,
}  # fmt: skip


@pytest.mark.parametrize("fact", CHANGES)
def test_what_matters_to_speed_changes_the_hash_and_is_named(hybrid, fact):
    here, there = getattr(hybrid, fact), CHANGES[fact]
    other = structs.replace(hybrid, **{fact: there})
    (difference,) = probe.differences(hybrid, other)
    assert difference == Fact(fact, here, there)
    assert str(difference) == f"{fact}: {here} here, {there} there"
    assert probe.digest(other) != hybrid.hash


def test_more_memory_or_a_moved_cpu_matters(hybrid):
    def differ(**changed):
        other = structs.replace(hybrid, **changed)
        return [one.fact for one in probe.differences(hybrid, other)]

    topology = hybrid.topology
    assert differ(memory_bytes=hybrid.memory_bytes + 2**31) == ["memory_gib"]
    first, second, *others = topology.cpus
    moved = replace(topology, cpus=(first, replace(second, core=0), *others))
    assert differ(topology=moved) == ["topology", "topology_layout"]
    node, *others = topology.nodes
    farther = replace(topology, nodes=(replace(node, distances={0: 11}), *others))
    assert differ(topology=farther) == ["topology_layout"]


def test_what_does_not_matter_leaves_the_hash(hybrid):
    other = structs.replace(
        hybrid, hostname="other", swap_bytes=1, versions={}, commit="abc", libraries={},
        perf_counters=True, memory_limit_bytes=1,
    )  # fmt: skip
    assert not probe.differences(hybrid, other)
    assert probe.digest(other) == hybrid.hash


def git(folder, *arguments):
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_says_whether_the_checkout_differs(tmp_path):
    git(tmp_path, "init", "-q")
    assert probe.read_commit(tmp_path) is None
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    git(tmp_path, "tag", "-a", "v1", "-m", "not the commit's name")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert probe.read_commit(tmp_path) == commit
    (tmp_path / "results").write_text("not tracked")
    assert probe.read_commit(tmp_path) == commit
    (tmp_path / "file").write_text("2")
    assert probe.read_commit(tmp_path) == f"{commit}-dirty"
    (tmp_path / "below").mkdir()
    assert probe.read_commit(tmp_path / "below") is None


def test_a_machine_without_most_files_can_be_probed(tmp_path):
    status = "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0"
    machine = probe.read_machine(machines.write(tmp_path, {"proc/self/status": status}))
    assert machine.cpu_model == "unknown"
    assert machine.cgroup_version is None
    assert (machine.usable.cpu_ids, machine.memory_bytes) == ((0, 1), 0)


def test_an_arm_processor_and_settings_of_the_kernel(tmp_path):
    files = {
        "proc/cpuinfo": "Features\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f",
        "proc/sys/kernel/numa_balancing": "2",
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
        **{
            f"{system.CPU_FOLDER}/cpu{cpu}/cpufreq/scaling_governor": name
            for cpu, name in enumerate(("powersave", "performance", "powersave"))
        },
    }
    machine = probe.read_machine(machines.write(tmp_path, files))
    assert (machine.cpu_model, machine.cpu_vendor) == ("Arm Neoverse V2", "0x41")
    assert machine.isa == ("asimd", "sve")
    assert not machine.is_x86
    switched = machines.write(tmp_path, {"sys/kernel/debug/sched/llc_balancing/enabled": "advise"})
    (changed,) = probe.differences(probe.read_machine(switched), machine)
    assert str(changed) == "llc_balancing: advise here, None there"
    assert (machine.thp, machine.numa_balancing) == ("always", True)
    assert machine.governor == "performance, powersave"


def test_kinds_of_cores_are_a_fact_only_where_there_are_two():
    one, two = (probe.read_machine(machines.root(name)) for name in ("graviton3", "gb10"))
    same = [replace(cpu, kind=0) for cpu in two.topology.cpus]
    merged = structs.replace(two, topology=replace(two.topology, cpus=tuple(same)))
    assert {item.fact for item in probe.differences(two, merged)} == {"topology", "topology_layout"}
    assert all("kind" not in probe._layout(cpu) for cpu in one.topology.cpus)


@pytest.mark.parametrize("name", machines.NAMES)
def test_every_captured_machine_can_be_probed_and_stored(name):
    machine = probe.read_machine(machines.root(name))
    assert made_records.kept(machine) == machine
    assert machine.topology == machines.topology(name)
    assert machine.usable == machines.usable(name)


@pytest.mark.parametrize(
    ("path", "quoted"),
    [("sys/devices/system/node/node1/cpulist", "0x1f"), ("proc/self/cgroup", "")],
)
def test_a_file_in_another_format_is_an_error_that_says_so(tmp_path, path, quoted):
    root = machines.fake_root("epyc-7451-2s", tmp_path)
    (root / path).write_text("0x1f")
    with pytest.raises(UnusableError, match=f"not as Linux writes it: .*{quoted}"):
        probe.read_machine(root)


# ---- libraries

ELF = Path(sys.executable).read_bytes()[:20]

LDCONFIG = """\
412 libs found in cache `/etc/ld.so.cache'
\tlibzstd.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libzstd.so.1
\tlibc.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libc.so.6
\tlibc.so.6 (libc6, OS ABI: Linux 3.2.0) => /lib/i386-linux-gnu/libc.so.6
\tlibmine.so (libc6,x86-64) => /opt/my libs/libmine.so
Cache generated by: ldconfig (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36
"""


def library(path, content=ELF):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_loader_cache_names_folders():
    assert probe.parse_loader_cache(LDCONFIG) == (
        Path("/lib/x86_64-linux-gnu"),
        Path("/lib/i386-linux-gnu"),
        Path("/opt/my libs"),
    )
    assert probe.parse_loader_cache("") == ()


@pytest.mark.parametrize("installed", range(1, 6))
def test_the_stated_order_of_openblas_variants(tmp_path, installed):
    names = [
        "openblas-openmp/libopenblas.so.0",
        "libopenblaso.so.0",
        "openblas-pthread/libopenblas.so.0",
        "libopenblasp.so.0",
        "libopenblas.so.0",
    ]
    for name in names[-installed:]:
        library(tmp_path / name)
    found = probe.find_library("openblas", [tmp_path])
    assert found == str(tmp_path / names[-installed])


def test_links_are_followed_to_the_file_that_names_its_version(tmp_path):
    real = library(tmp_path / "openblas-openmp/libopenblasp-r0.3.21.so")
    (tmp_path / "openblas-openmp/libopenblas.so.0").symlink_to(real.name)
    assert probe.find_library("openblas", [tmp_path]) == str(real)


@pytest.mark.parametrize(
    "content", [b"/* GNU ld script */", b"", ELF[:4] + b"\x01" + ELF[5:], ELF[:18] + b"\xff\xff"]
)
def test_what_this_interpreter_cannot_load_is_passed_over(tmp_path, content):
    library(tmp_path / "libmimalloc.so.3", content)
    good = library(tmp_path / "libmimalloc.so.2")
    assert probe.find_library("mimalloc", [tmp_path]) == str(good)


def test_an_environment_brings_its_own_libraries_first(tmp_path):
    folders = probe.library_folders(tmp_path)
    assert folders[0] == tmp_path / "lib"
    assert len(set(folders)) == len(folders)
    mkl = library(tmp_path / "lib/libmkl_rt.so.3")
    assert probe.find_library("mkl", folders) == str(mkl)
