"""The self-test's own parts: what is injected, that it is taken away, and how runs are judged."""

import signal
import subprocess
import sys
from datetime import UTC, datetime

import fault_list
import fault_runs
import fault_scores
import inject
import pytest
from fault_list import FAULTS, NOTHING
from fault_runs import Case, clean_of

from jobs import environment, processes
from processes import wait_until
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.host.limits import read_hierarchy

OUTSIDE = [sys.executable, str(fault_list.FOLDER / "outside.py")]
BOTH = [
    (name, workload)
    for name, fault in FAULTS.items()
    for workload in filter(fault.suits, fault_runs.WORKLOADS)
]

no_quota = pytest.mark.skipif(fault_list.no_quota() is not None, reason=fault_list.no_quota() or "")


@pytest.mark.parametrize(("fault", "workload"), BOTH)
def test_every_fault_is_a_study(fault, workload, tmp_path):
    if FAULTS[fault].missing():
        pytest.skip(FAULTS[fault].missing())
    case = Case(workload, fault, 1)
    assert case.seconds != Case(workload, fault, 2).seconds
    for one in {case, clean_of(case)}:
        plan = make_plan(load_config(one.config(tmp_path)))
        assert plan.processes[0] == 1
        assert plan.processes[-1] == FAULTS[one.fault].most
        assert (fault_runs.ROOT / plan.workload.script).exists()
    plan = make_plan(load_config(case.config(tmp_path)))
    axes = plan.by_id[plan.baseline].axes.items()
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in axes}
    assert FAULTS[fault].axes.items() <= asked.items()


def test_what_is_injected_has_a_name():
    from scaling_study.diagnosis.causes.cause_table import CAUSES

    known = {cause.id for cause in CAUSES}
    assert {cause for fault in FAULTS.values() for cause in fault.causes} <= known
    assert [name for name, fault in FAULTS.items() if not fault.causes] == [NOTHING]
    assert {fault.inject for fault in FAULTS.values() if fault.inject} == inject.KINDS.keys()


# ---- what is outside


def groups():
    hierarchy = read_hierarchy("cpu")
    return list(hierarchy.folders[0].glob("injected-quota-*")) if hierarchy else []


BUSY = (
    "import time\n"
    "began, used = time.perf_counter(), time.process_time()\n"
    "while time.perf_counter() < began + 3: pass\n"
    "print((time.process_time() - used) / (time.perf_counter() - began))"
)


@pytest.mark.timing
@no_quota
def test_a_quota_holds_and_is_removed(tmp_path):
    command = [*OUTSIDE, "--quota-cpus", "0.2", "--", sys.executable, "-c", BUSY]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 0.5  # without a quota nearly 1; beside others it may be less
    assert groups() == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_however_the_caller_ends(tmp_path, signum):
    quota = ["--quota-cpus", "0.5"] if fault_list.no_quota() is None else []
    # A shell's background job, as these tests may be, has its children ignore SIGINT.
    caller = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "subprocess.Popen(sys.argv[1:])\ntime.sleep(60)"
    )
    sleep = [sys.executable, "-c", "import time; time.sleep(50)"]
    command = [*OUTSIDE, "--hog", "memory", *quota, "--", *sleep]
    process = subprocess.Popen(
        [sys.executable, "-c", caller, *command], env=environment(tmp_path),
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: processes(tmp_path, "time.sleep(50)"), "the command")
    wait_until(lambda: len(processes(tmp_path)) >= 4, "all that is beside it")
    process.send_signal(signum)
    process.wait()
    wait_until(lambda: processes(tmp_path) == [], "the end of all")
    wait_until(lambda: groups() == [], "no group left")


# ---- judging


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(fault, run=0, *, step_n_s=0.02, named=(), workload="ncf", control=False, **more):
    return {
        "workload": workload, "fault": fault, "run": run, "control": control,
        "status": "explained", "reason": None, "n": 2, "step_1_s": 0.01, "step_n_s": step_n_s,
        "named": [{"part": "scaling_loss", "cause": cause, "share": 1.0, "seconds": seconds}
                  for cause, seconds in named],
        "started": NOW.isoformat(), "machine": "CPUs 0-1", "stolen_cpus": 0.0, **more,
    }  # fmt: skip


CLEAN = [entry(NOTHING, run, step_n_s=0.01 + 0.0001 * run) for run in range(5)]


def test_the_injected_cause_first_is_right():
    runs = [
        entry("quota", 0, named=[("cpu_quota", 0.009)]),
        entry("quota", 1, named=[("spinning", 0.006), ("cpu_quota", 0.002)]),
        entry("quota", 2),
    ]
    found = fault_scores.score("ncf", "quota", [*CLEAN, *runs])
    assert (found.runs, found.right) == (3, 1)
    assert found.others == {"spinning": 1}
    assert found.accounted == pytest.approx([0.009 / 0.0098, 0.008 / 0.0098, 0.0])
    assert found.share == pytest.approx(0.017 / (3 * 0.0098))
    assert found.slowdown == pytest.approx([2 / 1.02] * 3)


def test_a_fault_without_effect_does_not_count():
    runs = [entry("quota", 0, step_n_s=0.0105, named=[("cpu_quota", 0.001)])]
    found = fault_scores.score("ncf", "quota", [*CLEAN, *runs])
    assert found.runs == 0
    assert "no effect (1.03 times)" in found.failures[0]
    assert fault_scores.cell("quota", found) == "no effect"
    assert fault_scores.cell("mask", fault_scores.score("ncf", "mask", CLEAN)) == "not run"


def test_what_a_workload_has_of_itself_counts_only_beyond_that():
    clean = [
        entry(NOTHING, run, step_n_s=0.01, named=[("data_loading", 0.002)]) for run in range(3)
    ]
    assert fault_scores.score("ncf", NOTHING, clean).right == 3
    elsewhere = [{**one, "workload": "tsmixerx"} for one in clean]
    assert fault_scores.score("tsmixerx", NOTHING, elsewhere).right == 0
    runs = [
        entry("quota", 0, named=[("data_loading", 0.006), ("cpu_quota", 0.005)]),
        entry("slow_loader", 0, named=[("data_loading", 0.011)]),
    ]
    found = fault_scores.score("ncf", "slow_loader", [*clean, *runs])
    assert (found.right, found.accounted) == (1, pytest.approx([0.9]))
    found = fault_scores.score("ncf", "quota", [*clean, *runs])
    assert (found.right, found.accounted) == (1, pytest.approx([0.9]))
    assert "NCF has a cause of its own" in fault_scores.markdown([*clean, *runs], {})


def test_a_machine_that_became_faster_is_no_missing_fault():
    """What leaves one process alone is told by the run itself; what does not, by its repetition."""
    clean = [entry(NOTHING, run, step_1_s=1.0 + run, step_n_s=1.1 + 1.1 * run) for run in (0, 1)]
    later = entry("quota", 2, step_1_s=0.5, step_n_s=1.0, named=[("cpu_quota", 0.45)])
    found = fault_scores.score("ncf", "quota", [*clean, later])
    assert found.slowdown == pytest.approx([1.0 / 0.55])
    assert found.accounted == pytest.approx([1.0])
    slow = entry("slow_blas", 1, step_n_s=4.4, named=[("slow_blas", 2.2)])
    found = fault_scores.score("ncf", "slow_blas", [*clean, slow])
    assert found.slowdown == pytest.approx([2.0])
    later = {**slow, "started": "2026-01-01T01:00:00+00:00"}
    unpaired = fault_scores.score("ncf", "slow_blas", [*clean, later])
    assert "no clean run" in unpaired.failures[0]
    near = entry(NOTHING, 3, step_n_s=1.1, started="2026-01-01T00:50:00+00:00")
    found = fault_scores.score("ncf", "slow_blas", [*clean, near, later])
    assert found.slowdown == pytest.approx([4.0])


def test_a_control_is_compared_with_its_own_run_and_is_an_a_a_run_too():
    controls = [entry("denormals", run, control=True, step_n_s=0.01 * (run + 1)) for run in (0, 1)]
    runs = [entry("denormals", 1, step_n_s=0.04, named=[("denormals", 0.02)])]
    found = fault_scores.score("ncf", "denormals", [*CLEAN, *controls, *runs])
    assert found.slowdown == pytest.approx([2.0])
    assert found.accounted == pytest.approx([1.0])
    other = fault_scores.score("ncf", "denormals", [*controls, {**runs[0], "run": 2}])
    assert "no clean run" in other.failures[0]
    assert fault_scores.score("ncf", NOTHING, [*CLEAN, *controls]).runs == 7


def test_a_run_on_a_disturbed_machine_does_not_count_whatever_it_names_and_is_due():
    disturbed = {"stolen_cpus": 0.3, "named": [("steal", 0.002)]}
    runs = [*CLEAN[:4], entry(NOTHING, 4, **disturbed)]
    found = fault_scores.score("ncf", NOTHING, runs)
    assert (found.runs, found.right, found.others) == (4, 4, {})
    assert found.failures == ["run 4: the hypervisor took 0.30 CPUs meanwhile"]
    assert [fault_scores.to_run(Case("ncf", NOTHING, run), runs, NOW) for run in range(6)] == [
        *[()] * 4, (Case("ncf", NOTHING, 4),), (Case("ncf", NOTHING, 5),),
    ]  # fmt: skip
