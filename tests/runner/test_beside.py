"""Steps of several threads, and of child processes beside a script's own, give no number."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import confirm_jobs
import jobs
from pools import study
from processes import killed_at_the_end, wait_until
from scaling_study.host import kernel_counters
from scaling_study.member.iterations import THREADS
from scaling_study.runner import hangs
from scaling_study.runner.member_processes import MemberProcesses

BESIDE = jobs.WORKLOADS / "beside.py"


def beside(*args, step="optimizer"):
    return jobs.config(BESIDE, args=["--how", *args], processes=[1], step=step)


@pytest.mark.parametrize("step", ["optimizer", "mark", "backward"])
def test_a_second_thread_that_makes_steps_is_refused_at_once(tmp_path, step):
    records = jobs.ends(beside("threads", "--ends", step, step=step), tmp_path, "failed")
    assert records["end"][0]["reason"] == THREADS


def test_one_thread_may_be_any(tmp_path):
    records = jobs.ends(beside("apart"), tmp_path)
    assert all(window["members"][0]["backward_s"] > 0 for window in records["window"])


def test_steps_of_children_beside_own_ones_give_no_number(tmp_path):
    """The first of them are a warm-up, perhaps; the others are the model's."""
    words = "makes steps of its own and", "2 processes that it starts"
    jobs.ends(beside("warm-up"), tmp_path, "failed", *words)


def test_a_pool_whose_processes_train_in_several_threads_gives_no_number(tmp_path):
    mapping = study("fork", n=1)
    args = ["--how", "threads", "--steps", "10000{n}"]
    mapping["workload"] |= {"script": str(BESIDE), "args": args}
    jobs.ends(mapping, tmp_path, "failed", THREADS)


def test_a_confirmation_of_several_threads_gives_no_number(tmp_path):
    plan = confirm_jobs.planned(BESIDE, 12, args=["--how", "threads"])
    found = confirm_jobs.run(plan, confirm_jobs.recommendation(plan), tmp_path)
    rounds = confirm_jobs.of_kind(found, "round")
    assert {(one.status, one.reason) for one in rounds} == {("failed", THREADS)}


@pytest.fixture
def pool(monkeypatch):
    """Starts a program of two threads that forks a pool, and looks at it often."""
    monkeypatch.setattr(hangs, "IDLE_S", 2.0)
    monkeypatch.setattr(hangs, "EVERY_S", 0.1)
    with contextlib.ExitStack() as stack:

        def start(how):
            env = os.environ | {"OMP_NUM_THREADS": "2"}
            command = [sys.executable, BESIDE, "--how", how]
            process = subprocess.Popen(command, env=env, start_new_session=True)
            stack.enter_context(killed_at_the_end(process))
            children = lambda: kernel_counters.descendants(process.pid)[1:]  # noqa: E731
            wait_until(lambda: len(children()) == 2, "a pool")
            return process.pid

        yield start


def test_processes_that_hang_after_a_fork_are_told_with_the_place(pool):
    pid, looks = pool("warm-up"), hangs.Hangs()
    said = wait_until(lambda: looks.of(pid), "a hang")
    assert "of the processes that it forked hang in " in said
    assert "torch" in said or "beside.py" in said
    assert "intra_op: 1" in said


def test_processes_that_wait_for_work_do_not_hang(pool):
    pid, looks = pool("idle"), hangs.Hangs()
    deadline = time.monotonic() + 6.0
    while time.monotonic() < deadline:
        assert looks.of(pid) == ""
        time.sleep(0.1)


def test_a_script_that_becomes_another_program_is_told_so(tmp_path):
    """As some do to set PYTHONHASHSEED."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, runpy, sys\n"
        "if os.environ.get('PYTHONHASHSEED') != '0':\n"
        "    os.environ['PYTHONHASHSEED'] = '0'\n"
        "    os.execv(sys.executable, [sys.executable, *sys.argv])\n"
        f"sys.argv = ['beside.py', '--how', 'apart', '--steps', '20000']\n"
        f"runpy.run_path({str(BESIDE)!r}, run_name='__main__')\n"
    )
    words = "the script becomes another program", "workload.step: run"
    jobs.ends(jobs.config(script, processes=[1]), tmp_path, "failed", *words)


def test_a_gpu_that_a_process_has_open_is_found(monkeypatch):
    """No machine of these tests has a GPU: another device stands for it."""
    assert kernel_counters.open_gpu([os.getpid()]) == ""
    monkeypatch.setattr(kernel_counters, "GPU_DEVICES", ("/dev/full",))
    with Path("/dev/full").open():
        assert kernel_counters.open_gpu([os.getpid()]) == "/dev/full"


def test_variables_that_a_script_sets_itself_are_told_from_the_launchs():
    launch = SimpleNamespace(env={"OMP_NUM_THREADS": "1", "LD_PRELOAD": "a"})
    cohort = SimpleNamespace(_launch=launch)
    env = {"OMP_NUM_THREADS": "4", "LD_PRELOAD": "a", "ATEN_CPU_CAPABILITY": "avx2", "TORCH_X": "1"}
    found = MemberProcesses.script_sets(cohort, SimpleNamespace(env=env))
    assert found == {"OMP_NUM_THREADS": "4", "ATEN_CPU_CAPABILITY": "avx2"}


# ---- settings that change while it trains: windows would show two launches

SCRIPT = """
import os, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10**9):
    if step == {step}:
        {change}
    optimizer.zero_grad()
    model(torch.randn(64, 64, dtype=torch.float32)).square().mean().backward()
    optimizer.step()
"""
CPUS = sorted(os.sched_getaffinity(0))
FEWER = f"os.sched_setaffinity(0, {{{CPUS[0]}}})"
CHANGES = {
    "torch.set_num_threads(3)": "number of threads (torch.set_num_threads) from 1 to 3",
    "torch.set_default_dtype(torch.float64)": "torch.float32 to torch.float64",
    FEWER: "CPUs",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", [0, 40])
def test_a_setting_that_changes_after_the_first_step_fails(tmp_path, step, change):
    if change == FEWER and len(CPUS) == 1:
        pytest.skip("one CPU")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(step=step, change=change))
    mapping = jobs.config(script, processes=[1])
    if step:
        jobs.ends(mapping, tmp_path, "failed", "the script changed ", CHANGES[change])
    elif "threads" not in change:  # before the first step it is the launch that fails: intra_op 1
        jobs.ends(mapping, tmp_path)
