"""The self-test's own parts: what is injected, that it is taken away, and how runs are judged."""

import lzma
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import fault_list
import fault_runs
import fault_scores
import inject
import numpy as np
import pytest
from fault_list import FAULTS, NOTHING
from fault_runs import Case, Named, Run, clean_of
from ledger import ROOT

import injected
import synthetic_why
from injected_worlds import Quota
from jobs import environment, planned, processes
from processes import captured, wait_until
from scaling_study.host.limits import read_hierarchy
from scaling_study.host.probe import read_machine
from scaling_study.records import codec

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
        plan = planned(one.config(tmp_path))
        assert plan.processes[0] == 1
        assert plan.processes[-1] == FAULTS[one.fault].most
        assert (fault_runs.ROOT / plan.workload.script).exists()
    plan = planned(case.config(tmp_path))
    axes = plan.by_id[plan.baseline].axes.items()
    asked = {name: list(value) if isinstance(value, tuple) else value for name, value in axes}
    assert FAULTS[fault].axes.items() <= asked.items()


def test_what_is_injected_has_a_name():
    from scaling_study.diagnosis.verdict import CAUSES

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
    done = captured(command, env=environment(tmp_path))
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
HERE = read_machine()


def run(fault, number=0, *, step_n_s=0.02, named=(), workload="ncf", control=False, **more):
    return Run(**{
        "case": Case(workload, fault, number, control), "started": NOW, "host": "h",
        "machine": HERE, "status": "explained", "reason": None, "step_1_s": 0.01,
        "step_n_s": step_n_s, "lost_cpus": 0.0, **more,
        "named": tuple(Named("scaling_loss", *each) for each in named),
    })  # fmt: skip


RNG = np.random.default_rng(1)
WORLD = (
    synthetic_why.microbenchmarks(Quota(), RNG),
    b"".join(map(codec.encode, synthetic_why.make_records(Quota(), RNG))),
)
"""What a run under a quota of half of the CPUs keeps."""
CLEAN = [run(NOTHING, number, step_n_s=0.01 + 0.0001 * number) for number in range(5)]


def score(fault, runs, workload="ncf"):
    return fault_scores.scores(runs)[fault, workload]


def test_the_injected_cause_first_is_right():
    runs = [
        run("quota", 0, named=[("cpu_quota", 0.009)]),
        run("quota", 1, named=[("spinning", 0.006), ("cpu_quota", 0.002)]),
        run("quota", 2),
    ]
    outcome = score("quota", [*CLEAN, *runs])
    assert (outcome.runs, outcome.right) == (3, 1)
    assert outcome.others == {"spinning": 1}
    assert outcome.accounted == pytest.approx([0.009 / 0.0098, 0.008 / 0.0098, 0.0])
    assert outcome.share == pytest.approx(0.017 / (3 * 0.0098))
    assert outcome.slowdown == pytest.approx([2 / 1.02] * 3)


def test_a_run_without_effect_or_result_does_not_count():
    weak = score("quota", [*CLEAN, run("quota", step_n_s=0.0105, named=[("cpu_quota", 0.001)])])
    assert weak.runs == 0
    assert "no effect (1.03 times)" in weak.failures[0]
    assert fault_scores.cell("quota", "ncf", weak) == "no effect"
    failed = score("quota", [*CLEAN, run("quota", status="failed", reason="no usable window")])
    assert fault_scores.cell("quota", "ncf", failed) == "no result"
    assert failed.failures == ["run 0: failed, no usable window"]
    assert fault_scores.cell("mask", "ncf", None) == "not run"
    assert fault_scores.cell("rows", "ncf", None) == ""


def test_causes_of_the_workload_count_only_beyond_those_of_clean_runs():
    clean = [run(NOTHING, at, step_n_s=0.01, named=[("data_loading", 0.002)]) for at in range(3)]
    assert score(NOTHING, clean).right == 3
    elsewhere = [run(NOTHING, workload="tsmixerx", named=[("data_loading", 0.002)])]
    assert score(NOTHING, elsewhere, "tsmixerx").right == 0
    runs = [
        run("quota", named=[("data_loading", 0.006), ("cpu_quota", 0.005)]),
        run("slow_loader", named=[("data_loading", 0.003), ("loader_storage", 0.008)]),
    ]
    for fault in ("slow_loader", "quota"):
        outcome = score(fault, [*clean, *runs])
        assert (outcome.right, outcome.accounted) == (1, pytest.approx([0.9]))
    assert "NCF has a cause of its own" in fault_scores.markdown([*clean, *runs])


def test_a_machine_that_became_faster_is_no_missing_fault():
    """A fault that leaves one process alone is compared within the run, others with the nearest."""
    clean = [run(NOTHING, at, step_1_s=1.0 + at, step_n_s=1.1 + 1.1 * at) for at in (0, 1)]
    later = run("quota", 2, step_1_s=0.5, step_n_s=1.0, named=[("cpu_quota", 0.45)])
    outcome = score("quota", [*clean, later])
    assert outcome.slowdown == pytest.approx([1.0 / 0.55])
    assert outcome.accounted == pytest.approx([1.0])
    slow = run("slow_blas", 1, step_n_s=4.4, named=[("slow_blas", 3.3)])
    near = run(NOTHING, 2, step_n_s=2.2, started=NOW + timedelta(minutes=50))
    for started, expected in ((NOW, 4.0), (near.started, 2.0)):
        outcome = score("slow_blas", [*clean, near, replace(slow, started=started)])
        assert outcome.slowdown == pytest.approx([expected])
    outcome = score("slow_blas", [*clean, replace(slow, host="another")])
    assert "no clean run" in outcome.failures[0]


def test_a_control_is_compared_with_the_run_of_its_dose_and_counts_as_a_run_without_fault():
    controls = [run("denormals", at, control=True, step_n_s=0.01 * (at + 1)) for at in (0, 1)]
    fault = run("denormals", 1, step_n_s=0.04, named=[("denormals", 0.02)])
    outcome = score("denormals", [*CLEAN, *controls, fault])
    assert outcome.slowdown == pytest.approx([2.0])
    assert outcome.accounted == pytest.approx([1.0])
    other = score("denormals", [*controls, replace(fault, case=Case("ncf", "denormals", 2))])
    assert "no clean run" in other.failures[0]
    assert score(NOTHING, [*CLEAN, *controls]).runs == 7


def test_what_is_missing_is_due_after_a_clean_run_of_the_same_minutes():
    quota, denormals = Case("ncf", "quota", 0), Case("ncf", "denormals", 0)
    control, clean = clean_of(denormals), Case("ncf", NOTHING, 5)
    later = NOW + fault_scores.LONGEST_APART

    def due(case, now=NOW, host="h"):
        return fault_scores.due(case, [*CLEAN, run("denormals", control=True)], host, now)

    assert due(CLEAN[0].case, later) == ()
    assert due(quota) == (quota,)
    assert due(quota, later) == due(quota, host="another") == (clean, quota)
    assert due(denormals) == (denormals,)
    assert due(denormals, later) == (control, denormals)


# ---- what is kept


def test_a_run_that_others_disturb_is_not_kept_and_done_again(tmp_path, monkeypatch):
    lost = iter([0.3, 0.1, 0.3, 0.3, 0.3])

    def measured(case, kept):
        fault_runs.keep(kept / case.file, *WORLD)
        return replace(fault_runs.judge(case, kept), lost_cpus=next(lost))

    monkeypatch.setattr(injected, "KEPT", tmp_path)
    monkeypatch.setattr(injected, "measure_case", measured)
    again, never = Case("ncf", NOTHING, 0), Case("ncf", NOTHING, 1)
    assert injected.measure(again).lost_cpus == 0.1
    assert injected.measure(never) is None
    assert [run.case for run in fault_runs.kept_runs(tmp_path)] == [again]


def test_a_kept_run_is_judged_and_names_no_path_of_this_machine(tmp_path):
    case = Case("ncf", "quota", 3)
    path = tmp_path / case.file
    known, records = WORLD
    fault_runs.keep(path, known, records.replace(b"synthetic", bytes(ROOT / "script.py")))
    [kept] = fault_runs.kept_runs(tmp_path)
    assert (kept.case, kept.host) == (case, known.machine)
    assert kept.named[0].cause == "cpu_quota"
    added_s = kept.step_n_s - kept.step_1_s
    assert [kept.step_1_s, kept.named[0].seconds] == pytest.approx([added_s] * 2, rel=0.1)
    assert b"./script.py" in lzma.decompress(path.read_bytes())
    assert bytes(ROOT) not in lzma.decompress(path.read_bytes())


def test_the_table_is_of_todays_rules():
    runs = sorted(fault_runs.kept_runs(injected.KEPT), key=lambda run: run.case)
    assert fault_scores.markdown(runs) in injected.DOCUMENT.read_text()
