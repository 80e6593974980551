"""Programs that train in processes of their own: detected, and measured as a whole."""

import pytest

from configs import minimal
from jobs import config, ends, planned
from pools import POOL, study
from processes import PATIENCE_S

KINDS = ["joblib", "fork", "spawn", "torch", "dask"]


@pytest.mark.parametrize(("how", "n"), [*((how, 2) for how in KINDS), ("joblib", 1)])
def test_a_pool_is_measured_while_all_its_processes_train(tmp_path, how, n):
    records = ends(study(how, n=n), tmp_path)
    (readback,) = records["readback"]
    assert len({member["pid"] for member in readback["members"]}) == n
    (window,) = records["window"]
    for member in window["members"]:
        assert member["steps"] > 0
        assert member["cpu_user_s"] + member["cpu_system_s"] > 0
        # Whole steps: as many as ended in the window, give or take those that its ends have met.
        assert abs(member["steps"] - member["steps_active"]) <= 1
        assert member["load_s"] is None
    assert window["window_s"] < 60.0  # long enough for the config's steps: not the longest time
    assert set(window["flags"]) <= {"foreign_cpu", "stolen_cpu", "short_steps"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--how", "fork", "--jobs", "1", "--steps", "{n}"], ("ended before 2", "at most")),
        (["--how", "fork", "--jobs", "3", "--steps", "20000{n}"], ("3 processes train at once",)),
        (["--how", "fork", "--jobs", "{n}", "--fold"], ("unrecognized arguments: --fold",)),
    ],
)
def test_a_program_that_does_not_train_with_so_many_says_so(tmp_path, args, words):
    mapping = study("fork")
    mapping["workload"]["args"] = [*args, *([] if "{n}" in str(args) else ["{n}"])]
    ends(mapping, tmp_path, "failed", *words)


def test_a_pool_whose_processes_have_another_environment_is_told_so(tmp_path):
    script = tmp_path / "sweep.py"
    command = [str(POOL), "--how", "joblib", "--jobs", "1", "--steps", "20"]
    script.write_text(
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, *{command!r}], env={{'PATH': '/usr/bin'}}, check=True)\n"
    )
    mapping = study("fork", n=1)
    mapping["workload"] |= {"script": str(script), "args": ["{n}"]}
    words = "the program ended without a step", "inherit the program's environment"
    ends(mapping, tmp_path, "failed", *words)


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_without_n_it_is_said_where_the_program_trains(tmp_path, how):
    script = config(POOL, args=["--how", how, "--jobs", "2", "--steps", "30"], processes=[1])
    words = "trains in processes that it starts itself: 240 optimizer steps", "workload.args"
    ends(script, tmp_path, "failed", *words)


def test_a_program_that_trains_elsewhere_for_long_is_not_waited_for(tmp_path):
    script = config(POOL, args=["--how", "fork", "--jobs", "1", "--steps", "10000000"],
                    processes=[1], timeout_s=PATIENCE_S)  # fmt: skip
    ends(script, tmp_path, "failed", "trains in processes that it starts itself")


def test_nothing_that_needs_gates_is_planned():
    workload = {"script": str(POOL), "step": "optimizer", "args": ["{n}"]}
    plan = planned(minimal(workload=workload, data_loader="quick"))
    assert (plan.explained, plan.data_loader) == ({}, "off")
    assert plan.profiled  # stacks can be sampled from outside
