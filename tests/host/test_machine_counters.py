"""What the kernel counts for the machine and for cgroups: literal texts."""

import os
from pathlib import Path

import pytest

import machines
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


def test_the_machines_counters(tmp_path):
    some = "some avg10=0.00 avg60=4.00 total={}\nfull avg10=0.00 total=1"
    pressures = {"cpu": some.format(2_000_000), "memory": some.format(3_000_000)}
    machines.write(tmp_path / "pressure", pressures)
    machines.write(tmp_path, {"stat": STAT.rstrip()})
    (tmp_path / "pressure/io").mkdir()  # there, but not to be read, as where it is switched off
    machine = machine_counters.read_machine(frozenset({0}), tmp_path)
    ticks = os.sysconf("SC_CLK_TCK")
    assert machine == machine_counters.MachineCounters(116 / ticks, 4 / ticks, 2.0, 3.0, None)


# ---- throttling: whose files count it


NESTED = "sys/fs/cgroup/user.slice/job.service"
# Of a quota on Linux 6.18 (version 1, shortened), and as cgroup-v2.rst describes version 2.
V1 = "nr_periods 10\nnr_throttled 9\nthrottled_time {}\nnr_bursts 0\nburst_time 0"
V2_WITHOUT_CONTROLLER = "usage_usec 5211043\nuser_usec 5087225\nsystem_usec 123818"
V2 = V2_WITHOUT_CONTROLLER + "\nnr_periods 10\nnr_throttled 9\nthrottled_usec {}\nnr_bursts 0"


def throttled(root):
    """The throttled seconds of members 7 and 8, by the files below the mount that count them."""
    read = machine_counters.read_throttled([7, 8], root)
    return {str(path.relative_to(root / "sys/fs/cgroup")): value for path, value in read.items()}


def captured(name, tmp_path, files):
    """A captured machine with members 7 and 8 in its only cgroup, and with further files."""
    root = machines.fake_root(name, tmp_path)
    group = (root / "proc/self/cgroup").read_text().rstrip()
    return machines.write(root, {f"proc/{pid}/cgroup": group for pid in (7, 8)} | files)


def test_a_quota_at_any_level_is_counted(tmp_path):
    files = {
        f"{NESTED}/cpu.stat": V2.format(0),
        "sys/fs/cgroup/user.slice/cpu.stat": V2.format(3_000_000),
        "sys/fs/cgroup/cpu.stat": V2_WITHOUT_CONTROLLER,  # the uppermost one can have no quota
    }
    root = captured("container-v2-nested", tmp_path, files)
    assert throttled(root) == {"user.slice/job.service/cpu.stat": 0.0, "user.slice/cpu.stat": 3.0}


def test_version_1_counts_nanoseconds(tmp_path):
    files = {"sys/fs/cgroup/cpu,cpuacct/cpu.stat": V1.format(1_500_000_000)}
    root = captured("container-v1", tmp_path, files)
    assert throttled(root) == {"cpu,cpuacct/cpu.stat": 1.5}


def test_a_groups_own_count_of_all_quotas_is_preferred(tmp_path):
    files = {
        f"{NESTED}/cpu.stat.local": "throttled_usec 1500000",
        f"{NESTED}/cpu.stat": V2.format(0),
        "sys/fs/cgroup/user.slice/cpu.stat": V2.format(9),
    }
    root = captured("container-v2-nested", tmp_path, files)
    assert throttled(root) == {"user.slice/job.service/cpu.stat.local": 1.5}


def test_without_cgroups_or_members_nothing_is_counted(tmp_path):
    files = {f"{NESTED}/cpu.stat": V2_WITHOUT_CONTROLLER, "proc/7/cgroup": ""}
    root = captured("container-v2-nested", tmp_path, files)
    assert throttled(root) == {}
    (root / "proc/8/cgroup").unlink()
    assert throttled(root) == {}
    one, other = Path("one"), Path("other")  # a group that only one reading saw
    assert machine_counters.throttled_s({one: 1.0}, {other: 9.0}) is None


def test_members_in_groups_of_their_own_are_added(tmp_path):
    other = "sys/fs/cgroup/user.slice/other/cpu.stat"
    files = {
        f"{NESTED}/cpu.stat": V2.format(1_000_000),
        other: V2.format(500_000),
        "proc/8/cgroup": "0::/user.slice/other",
    }
    root = captured("container-v2-nested", tmp_path, files)
    before = machine_counters.read_throttled([7, 8], root)
    later = {f"{NESTED}/cpu.stat": V2.format(1_250_000), other: V2.format(1_500_000)}
    after = machine_counters.read_throttled([7, 8], machines.write(root, later))
    assert machine_counters.throttled_s(before, after) == pytest.approx(1.25)
