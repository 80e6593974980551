"""What the kernel counts for the machine and for cgroups: literal texts."""

import os
from pathlib import Path

import pytest

from scaling_study.host import machine_counters

# Four CPUs of which cpu2 is unplugged: its line is missing.
STAT = """\
cpu  1000 20 300 40000 500 60 70 80 90 10
cpu0 100 1 10 9000 11 2 3 4 50 6
cpu1 200 2 20 9000 22 4 6 8 0 0
cpu3 400 4 40 9000 44 8 12 16 0 0
intr 33333 0 0 1
ctxt 5555
btime 1700000000
softirq 999 1 2 3
"""


@pytest.mark.parametrize(
    ("cpus", "busy", "stolen"),
    [
        ({0}, 100 + 1 + 10 + 2 + 3, 4),  # not idle, not iowait, and guest is in user already
        ({1, 3}, 232 + 464, 24),
        ({0, 1, 2, 3}, 116 + 232 + 464, 28),
        ({2}, 0, 0),
    ],
)
def test_machine_times_are_those_of_the_studys_cpus(cpus, busy, stolen):
    ticks = os.sysconf("SC_CLK_TCK")
    assert machine_counters.parse_stat(STAT, frozenset(cpus)) == (busy / ticks, stolen / ticks)


def machine_files(proc, **pressure):
    (proc / "stat").write_text(STAT)
    (proc / "pressure").mkdir()
    for name, total_us in pressure.items():
        (proc / "pressure" / name).write_text(
            f"some avg10=0.00 avg60=4.00 total={total_us}\nfull avg10=0.00 total=1\n"
        )
    return proc


def test_the_machines_counters(tmp_path):
    machine_files(tmp_path, cpu=2_000_000, memory=3_000_000, io=4_000_000)
    machine = machine_counters.read_machine(frozenset({0}), tmp_path)
    ticks = os.sysconf("SC_CLK_TCK")
    assert machine == machine_counters.Machine(116 / ticks, 4 / ticks, 2.0, 3.0, 4.0)


def test_what_the_kernel_does_not_count_is_none(tmp_path):
    machine_files(tmp_path, cpu=1_000_000)
    (tmp_path / "pressure/io").mkdir()  # there, but not to be read, as where it is switched off
    machine = machine_counters.read_machine(frozenset({0}), tmp_path)
    assert machine.psi_cpu_some_s == 1.0
    assert (machine.psi_memory_some_s, machine.psi_io_some_s) == (None, None)


# ---- throttling: whose files count it


MOUNTS = {
    1: "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n",
    2: "32 31 0:29 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n",
}
GROUPS = {1: "4:memory:/elsewhere\n1:cpu,cpuacct:/pod/box\n0::/\n", 2: "0::/pod/box\n"}
TOPS = {1: "sys/fs/cgroup/cpu", 2: "sys/fs/cgroup"}
# Of a quota on Linux 6.18 (version 1, shortened), and as cgroup-v2.rst describes version 2.
V1 = "nr_periods 10\nnr_throttled 9\nthrottled_time {}\nnr_bursts 0\nburst_time 0\n"
V2 = (
    "usage_usec 5211043\nuser_usec 5087225\nsystem_usec 123818\n"
    "nr_periods 10\nnr_throttled 9\nthrottled_usec {}\nnr_bursts 0\nburst_usec 0\n"
)
V2_WITHOUT_CONTROLLER = "usage_usec 5211043\nuser_usec 5087225\nsystem_usec 123818\n"


def cgroups(root, version, files):
    """A file system with members 7 and 8 in pod/box; ``files`` by their path below the mount."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(MOUNTS[version])
    for pid in (7, 8):
        (root / f"proc/{pid}").mkdir()
        (root / f"proc/{pid}/cgroup").write_text(GROUPS[version])
    (root / TOPS[version] / "pod/box").mkdir(parents=True)
    for name, text in files.items():
        (root / TOPS[version] / name).write_text(text)
    return root


def seconds(root):
    read = machine_counters.read_throttled([7, 8], root)
    return {str(path.relative_to(root)): value for path, value in read.items()}


@pytest.mark.parametrize(
    ("version", "text", "unit"), [(1, V1, 10**9), (2, V2, 10**6)], ids=["v1", "v2"]
)
def test_a_quota_at_any_level_is_counted(tmp_path, version, text, unit):
    top = TOPS[version]
    files = {
        "pod/box/cpu.stat": text.format(0),
        "pod/cpu.stat": text.format(3 * unit),
        "cpu.stat": V2_WITHOUT_CONTROLLER,  # the uppermost group can have no quota
    }
    cgroups(tmp_path, version, files)
    read = seconds(tmp_path)
    assert read == {f"{top}/pod/box/cpu.stat": 0.0, f"{top}/pod/cpu.stat": 3.0}


@pytest.mark.parametrize(
    ("version", "text"), [(1, "throttled_time 1500000000\n"), (2, "throttled_usec 1500000\n")]
)
def test_a_groups_own_count_of_all_quotas_is_preferred(tmp_path, version, text):
    files = {
        "pod/box/cpu.stat.local": text,
        "pod/box/cpu.stat": V2.format(0),
        "pod/cpu.stat": V2.format(9),
    }
    cgroups(tmp_path, version, files)
    assert seconds(tmp_path) == {f"{TOPS[version]}/pod/box/cpu.stat.local": 1.5}


def test_without_cgroups_or_members_nothing_is_counted(tmp_path):
    cgroups(tmp_path, 2, {"pod/box/cpu.stat": V2_WITHOUT_CONTROLLER})
    assert seconds(tmp_path) == {}
    (tmp_path / "proc/7/cgroup").write_text("")
    (tmp_path / "proc/8/cgroup").unlink()
    assert machine_counters.read_throttled([7, 8], tmp_path) == {}
    assert machine_counters.throttled_s({}, {}) is None


def test_members_in_groups_of_their_own_are_added(tmp_path):
    files = {"pod/box/cpu.stat": V2.format(1_000_000), "pod/cpu.stat": V2.format(0)}
    cgroups(tmp_path, 2, files)
    (tmp_path / "sys/fs/cgroup/pod/other").mkdir()
    (tmp_path / "sys/fs/cgroup/pod/other/cpu.stat").write_text(V2.format(500_000))
    (tmp_path / "proc/8/cgroup").write_text("0::/pod/other\n")
    before = machine_counters.read_throttled([7, 8], tmp_path)
    assert len(before) == 3
    (tmp_path / "sys/fs/cgroup/pod/box/cpu.stat").write_text(V2.format(1_250_000))
    (tmp_path / "sys/fs/cgroup/pod/other/cpu.stat").write_text(V2.format(1_500_000))
    after = machine_counters.read_throttled([7, 8], tmp_path)
    assert machine_counters.throttled_s(before, after) == pytest.approx(1.25)


def test_a_group_that_only_one_reading_saw_tells_nothing():
    one, other = Path("one"), Path("other")
    assert machine_counters.throttled_s({one: 1.0}, {one: 1.5, other: 9.0}) == 0.5
    assert machine_counters.throttled_s({one: 1.0}, {other: 9.0}) is None
