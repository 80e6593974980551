"""OpenMP runtimes and the CPUs of their threads, in real members."""

import os
from contextlib import closing

import pytest

from made_records import UNBOUND
from processes import wait_until
from scaling_study.common.topology import format_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.host import kernel_counters, probe
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.axes.axis_table import AXES, checks, prepare, recorded, switches
from small_cohort import SmallCohort
from switches import SCRIPT, placed_here

RUNTIMES = list(AXES["openmp"].words)
MACHINE = probe.read_machine()
SHOWN = ("openmp", "openmp_affinity", "placement", "wait_policy")


def read_back(cohort, values, slot, launcher="exec"):
    """Start a member, let it train, and return its report, in which some axes took effect.

    The test is skipped where a runtime is not installed.
    """
    try:
        env = prepare(values, Where(MACHINE)).environment()
    except UnavailableError as unavailable:
        pytest.skip(f"{unavailable.reason}: {unavailable.remedy}")
    how = cohort.launcher(launcher, env=env, switches=switches(values))
    cohort.start(how, 0, SCRIPT, "--workers", 1, cpus=slot.cpus)
    cohort.wait_resting([0])
    cohort.train(0)
    # On a busy machine waiting threads may come to rest after one of two looks.
    got = min((cohort.read_back(0) for _ in range(2)), key=lambda one: one.spin_s)
    rows = checks(values, [slot], [got])
    assert {row.axis: row.effective for row in rows if row.axis in SHOWN and not row.ok} == {}
    return got


@pytest.fixture
def cohort(tmp_path):
    with closing(SmallCohort(tmp_path / "cohort", 1)) as one:
        yield one


@pytest.mark.parametrize(
    ("runtime", "launcher"), [*((one, "exec") for one in RUNTIMES), ("intel", "fork")]
)
def test_the_runtime_that_is_asked_for_runs_parallel_regions(cohort, runtime, launcher):
    """Its idle threads sleep where they are asked to: it is this runtime that they belong to."""
    values = {"intra_op": 2, "openmp": runtime, "wait_policy": "passive"}
    got = read_back(cohort, values, UNBOUND, launcher)
    assert got.intra_op == 2
    assert got.thread_cpus is None
    others = [checks({"openmp": one}, [UNBOUND], [got]) for one in RUNTIMES if one != runtime]
    assert [row.ok for rows in others for row in rows if row.axis == "openmp"] == [False] * 2


@pytest.mark.parametrize(
    ("runtime", "value"), [*((one, "close") for one in RUNTIMES), ("intel", "spread")]
)
def test_each_thread_has_a_cpu_of_its_slot(cohort, runtime, value):
    values = {"intra_op": 2, "placement": "cores", "openmp": runtime, "openmp_affinity": value}
    slot = recorded(placed_here(values))
    got = read_back(cohort, values, slot)
    assert [len(mask) for mask in got.thread_cpus] == [1, 1]
    assert format_cpu_list(got.cpus) == slot.cpus
    # The training thread has one of these CPUs, and a loader worker, which it starts, has all.
    pid = cohort.members.pids[0]
    assert os.sched_getaffinity(pid) == set(got.thread_cpus[0])
    worker = wait_until(lambda: kernel_counters.descendants(pid)[1:], "a loader worker")[0]
    assert os.sched_getaffinity(worker) == set(got.cpus)
