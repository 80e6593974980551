"""Windows of whole runs: any program, counted from its start to its end."""

import shlex
import sys

import pytest

from configs import minimal
from jobs import WORKLOADS, config, ends, planned
from scaling_study.common.unavailable import UnavailableError
from scaling_study.host import probe
from scaling_study.runner import resolve

WHOLE = WORKLOADS / "whole.py"


def study(folder, *args, processes=(1, 2), windows=1, **workload):
    """A study of the program's runs: windows of each count."""
    words = ["--notes", str(folder / "notes"), *args]
    mapping = config(
        WHOLE, args=words, processes=processes, step="run", windows=windows, window_s=[1.0, 3.0]
    )
    mapping["workload"] |= workload
    return mapping


def noted(folder):
    """The names of the runs that the program itself has noted, in order."""
    return (folder / "notes").read_text().split()[::2]


def test_runs_are_counted_as_the_program_counts_them(tmp_path):
    records = ends(study(tmp_path, "--name", "{member}"), tmp_path)
    alone, both = sorted(records["window"], key=lambda one: one["n"])
    counted = [member["steps"] for window in (alone, both) for member in window["members"]]
    # Of each slot, one more may have ended while others or the read-back were waited for.
    assert sum(counted) <= len(noted(tmp_path)) <= sum(counted) + 4
    for window in (alone, both):
        assert len(window["members"]) == window["n"]
        for member in window["members"]:
            # Runs begin within the window's shortest time, and count however long they take.
            assert member["steps"] == member["steps_active"] == len(member["step_us"]) >= 1
            whole_s = sum(member["step_us"]) / 1e6
            assert whole_s - member["step_us"][-1] / 1e6 < 1.0 <= window["window_s"]
            assert member["active_s"] == pytest.approx(whole_s, abs=1e-3)
            used_s = member["cpu_user_s"] + member["cpu_system_s"]
            assert 0.3 * member["steps"] <= used_s <= whole_s + 0.1
            assert member["rss_bytes"] > 2**20
            assert member["threads"] is member["load_s"] is member["trainer_user_s"] is None


def test_a_command_is_no_python_and_its_settings_are_read_from_outside(tmp_path):
    script = tmp_path / "train.sh"
    script.write_text(f'set -e\n{shlex.join([sys.executable, str(WHOLE)])} "$@"\ntrue\n')
    mapping = study(tmp_path, processes=[2])
    mapping["workload"] = {
        "command": ["bash", str(script), "--name", "{member}", *mapping["workload"]["args"]],
        "step": "run",
    }
    mapping["launches"]["baseline"]["placement"] = "cores"
    (readback,) = ends(mapping, tmp_path)["readback"]
    checks = {check["axis"]: check for check in readback["checks"]}
    assert checks["intra_op"]["effective"].startswith("OMP_NUM_THREADS=1, ")
    assert checks["placement"]["effective"].endswith("by 2 threads")  # bash, and what it starts
    assert all(check["ok"] for check in readback["checks"])
    assert set(noted(tmp_path)) == {"0", "1"}


def test_a_setting_that_the_program_replaces_fails_the_launch(tmp_path):
    mapping = study(tmp_path, processes=[1])
    words = shlex.join([sys.executable, str(WHOLE), *mapping["workload"]["args"]])
    line = f"export OMP_NUM_THREADS=7; {words}; true"
    mapping["workload"] = {"command": ["bash", "-c", line], "step": "run"}
    words = "intra_op OMP_NUM_THREADS=1, ", "did not take effect: OMP_NUM_THREADS=7, "
    ends(mapping, tmp_path, "failed", *words)


def test_one_program_may_hold_all_processes(tmp_path):
    (window,) = ends(study(tmp_path, "--name", "{n}", processes=[2]), tmp_path)["window"]
    assert (window["n"], len(window["members"])) == (2, 1)
    assert "one_program" in window["flags"]
    assert set(noted(tmp_path)) == {"2"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--fails"], ("a run ended with status 1: no data",)),
        (["--skips"], ("a first run took", "of CPU time", "workload.fresh_folder: true")),
    ],
)
def test_runs_that_say_nothing_are_refused(tmp_path, args, words):
    mapping = study(tmp_path, *args, "--seconds", "1", processes=[1], windows=2)
    ends(mapping, tmp_path, "failed", *words)


def test_a_command_has_no_inside():
    mapping = minimal(
        workload={"command": [sys.executable, "{member}"]},
        launches={"include": [{"optimizer_kernel": "fused"}, {"intra_op": 1}]},
    )
    plan, machine = planned(mapping), probe.read_machine()
    assert (plan.workload.step, plan.steps_per_model) == ("run", 1)
    by_label = {one.label: one for one in plan.launches}
    with pytest.raises(UnavailableError, match="optimizer_kernel changes a Python process"):
        resolve.resolve(plan, by_label["optimizer_kernel fused"].axes, machine, None, [1])
    found = resolve.resolve(plan, by_label["intra_op 1"].axes, machine, None, [1, 2])
    assert [one.command[-1] for one in found.members] == ["0", "1"]


def test_nothing_that_needs_steps_is_planned():
    plan = planned(minimal(workload={"script": str(WHOLE), "step": "run"}, data_loader="quick"))
    assert (plan.profiled, plan.explained, plan.data_loader) == ({}, {}, "off")
    assert plan.objective_name == "models_per_hour"
