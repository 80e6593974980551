"""The clock of a window: that of the CPUs on which its members' threads ran."""

import pytest

from scaling_study.runner import counter_snapshots
from threads import thread

# Threads of two members; CPU 3 belongs to another program, CPU 4 is idle.
BEFORE = {
    10: thread(1.0, last_cpu=3), 11: thread(1.0, last_cpu=4), 20: thread(1.0, last_cpu=3),
}  # fmt: skip
AFTER = {
    10: thread(4.0, last_cpu=0), 11: thread(1.0, last_cpu=4), 20: thread(3.0, last_cpu=1),
    21: thread(1.0, last_cpu=2),  # a loader's worker that began in between
}  # fmt: skip
CLOCK = {0: 3000.0, 1: 2400.0, 2: 1800.0, 3: 5000.0, 4: 800.0}


def test_the_clock_is_that_of_the_cpus_that_members_ran_on():
    assert counter_snapshots.members_mhz(CLOCK, BEFORE, AFTER) == pytest.approx(
        (3 * 3000 + 2 * 2400 + 1800) / 6
    )


# The last one has none either: it is idle.
@pytest.mark.parametrize(("missing", "before"), [(0, BEFORE), (1, BEFORE), (2, BEFORE), (4, AFTER)])
def test_without_run_time_or_the_clock_of_a_cpu_the_clock_is_unknown(missing, before):
    known = {cpu: mhz for cpu, mhz in CLOCK.items() if cpu != missing}
    assert counter_snapshots.members_mhz(known, before, AFTER) is None


def test_frequencies_that_cannot_be_read_are_left_out(tmp_path):
    for cpu, text in enumerate(("2400000\n", "<unknown>\n", "3100500\n")):
        (tmp_path / str(cpu)).write_text(text)
    files = [(cpu, tmp_path / str(cpu)) for cpu in range(4)]  # the last one is offline
    assert counter_snapshots.read_frequencies_mhz(files) == {0: 2400.0, 2: 3100.5}
