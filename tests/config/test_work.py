"""Axes of a study's own, and the work of a step and of a model: from the config to tables."""

import json
import sys

import numpy as np
import pytest

import jobs
import synthetic
from made_records import edit_members, made_plan
from scaling_study.analysis.collect import collect
from scaling_study.common import placeholders
from scaling_study.config import work
from scaling_study.config.config import load_config
from scaling_study.config.plan import Plan
from scaling_study.host import probe
from scaling_study.records.analysis import shown
from scaling_study.records.codec import RecordError
from scaling_study.records.model_length import ModelLength, is_model, pool
from scaling_study.runner import resolve
from scaling_study.stats.interval import Interval
from synthetic import typed


def config(launches=None, **workload):
    return {
        "study": "own",
        "workload": {
            "script": str(jobs.WORKLOADS / "plain_loop.py"),
            "args": ["--batch-size", "{batch_size}", "--seed", "{member}"],
            "parameters": {"batch_size": 64},
            **workload,
        },
        "launches": launches or {},
    }


# ---- config and plan


@pytest.fixture
def shim(monkeypatch, tmp_path):
    """The only `python` on PATH, as pyenv has it."""
    shim = tmp_path / "python"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return shim


@pytest.mark.parametrize("torch_here", [True, False])
def test_the_shells_python_runs_commands_and_what_the_studys_own_cannot(
    monkeypatch, shim, torch_here
):
    monkeypatch.setattr(work, "find_spec", lambda _: object() if torch_here else None)
    script = load_config(config()).workload
    # Jobs have another PATH, on which `python` is the study's.
    command = load_config({"study": "own", "workload": {"command": ["python", "-V"]}}).workload
    assert work.python_of_shell(script) == (None if torch_here else sys.executable)
    assert work.python_of_shell(command) == sys.executable
    shim.unlink()
    assert work.python_of_shell(script) is None
    assert work.python_of_shell(command) is None


def test_an_interpreter_of_the_config_comes_first(shim):
    of_shell, of_config = "/shells/python", sys.executable
    for named, wanted in ((None, of_shell), (of_config, of_config)):
        study = work.with_interpreter(load_config(config(python=named)), of_shell)
        assert study.workload.python == wanted
        assert work.with_interpreter(study, None) == study
    assert work.python_of_shell(load_config(config(python=of_config)).workload) is None
    command = load_config({"study": "own", "workload": {"command": ["python", "-V"]}})
    assert work.with_interpreter(command, of_shell).workload.python == of_shell


def test_values_of_a_parameter_are_launches_like_those_of_any_axis():
    launches = {
        "baseline": {"intra_op": 1},
        "grid": {"batch_size": [64, 128]},
        "one_change": {"batch_size": [256], "blas": ["mkl"]},
        "exclude": [{"batch_size": 128}],
    }
    plan = jobs.planned(config(launches))
    assert [launch.label for launch in plan.launches] == [
        "default", "intra_op 1", "intra_op 1 (repeat)", "intra_op 1, batch_size 256",
        "intra_op 1, blas mkl",
    ]  # fmt: skip
    assert [one.label for one in plan.dropped] == ["intra_op 1, batch_size 128"]
    assert [launch.axes["batch_size"] for launch in plan.launches] == [64, 64, 64, 256, 64]
    assert plan.launches[3].id == "intra_op-1.batch_size-256-1d5faa"
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again == plan


# ---- what members get


def test_only_parameters_are_replaced_in_variables():
    text = '{a}-{b} {{a}} {{b}} {"a": {a}} {member}'
    assert placeholders.fill_known(text, {"a": 1}) == '1-{b} {a} {{b}} {"a": 1} {member}'


def test_each_launch_gets_its_own_arguments_and_variables(tmp_path):
    content = config(
        {"baseline": {"batch_size": 8}}, env={"SIZE": "{batch_size} {other}", "PLAIN": "{member}"}
    )
    plan = jobs.planned(content)
    machine = probe.read_machine()
    for launch, size in zip(plan.launches, ("64", "8"), strict=False):
        found = resolve.resolve(plan, launch.axes, machine, tmp_path, [2])
        assert found.members[1].command[1:] == ("--batch-size", size, "--seed", "1")
        assert found.launch.env["SIZE"] == f"{size} {{other}}"
        assert found.launch.env["PLAIN"] == "{member}"


# ---- equal work


def declare(folder, plan, sizes):
    """Let the config say how many samples a step of each launch has."""
    for launch in plan["launches"]:
        launch["axes"]["batch_size"] = sizes[launch["id"]]
    plan["workload"] |= {
        "parameters": {"batch_size": 64},
        "args": ["{batch_size}"],
        "samples_per_step": "batch_size",
    }


def say(folder, plan, sizes):
    """Let the script say it in each step."""
    plan["workload"]["samples_per_step"] = "mark"

    def count(launch, member):
        member["samples_active"] = sizes[launch] * member["steps_active"]

    edit_members(folder, count)


FACTORS = {"steps_per_s": 4, **dict.fromkeys(("step_s", "step_mean_s", "step_median_s"), 1 / 4)}


@pytest.mark.parametrize("tell", [declare, say])
def test_a_step_counts_as_the_work_it_does(tmp_path, tell):
    plan = synthetic.write_study(tmp_path)
    plain = collect(tmp_path, typed(plan))
    heavy = [launch["id"] for launch in plan["launches"] if launch["label"] == "intra_op 2"]
    sizes = {launch["id"]: 256 if launch["id"] in heavy else 64 for launch in plan["launches"]}
    tell(tmp_path, plan, sizes)
    found = collect(tmp_path, typed(plan))
    for name in ("windows", "replicates", "points"):
        before, after = getattr(plain, name), getattr(found, name)
        for column in FACTORS.keys() & set(before.columns):
            factors = np.where(before["launch"].isin(heavy), FACTORS[column], 1)
            ratios = after[column] / before[column]
            assert ratios.dropna().to_numpy() == pytest.approx(factors[ratios.notna()]), column
    if tell is say:
        assert found.cohorts.samples.items() <= sizes.items()


def test_a_script_that_says_no_samples_is_told(tmp_path):
    plan = synthetic.write_study(tmp_path)
    say(tmp_path, plan, {launch["id"]: 0 for launch in plan["launches"]})
    with pytest.raises(RecordError, match=r"no samples in launch .*mark\(samples=...\)"):
        collect(tmp_path, typed(plan))


def planned(*launches, **workload):
    """A plan whose launches do different work; the first one is the default and baseline."""
    return made_plan(*launches, workload=workload)


RANKS = [{"ranks": "none"}, {"ranks": 1}, {"ranks": 4}]


@pytest.mark.parametrize("workload", [{}, {"samples_per_step": 32}])
def test_every_rank_does_the_work_of_a_step(workload):
    assert list(work.work_by_launch(planned(*RANKS, **workload)).values()) == [1, 1, 4]


def test_ranks_that_divide_a_step_train_as_before():
    launches = [
        {"ranks": "none", "size": 256},
        {"ranks": 2, "size": 128},
        {"ranks": 2, "size": 256},
        {"ranks": "none", "size": 512},
        {"ranks": 2, "size": 128, "autocast": "bf16"},
    ]
    plan = planned(*launches, samples_per_step="size", parameters={"size": 256})
    assert list(work.work_by_launch(plan).values()) == [1.0, 1.0, 2.0, 2.0, 1.0]
    assert list(work.changed_training(plan).values()) == [
        {}, {}, {"ranks": 2}, {"size": 512}, {"autocast": "bf16"},
    ]  # fmt: skip


def test_what_trains_otherwise_than_the_default_or_the_baseline_is_told():
    plan = planned(
        {"ranks": "none", "size": 128},
        {"ranks": 4, "size": 32},
        {"ranks": 4, "size": 128},
        samples_per_step="size",
        parameters={"size": 128},
    )
    plan = plan.model_copy(update={"baseline": "1"})
    assert list(work.changed_training(plan).values()) == [{}, {}, {"ranks": 4, "size": 128}]


def test_what_a_script_says_of_its_samples_decides_what_trains_otherwise():
    plan = planned(
        {"ranks": "none", "size": 256},
        {"ranks": 2, "size": 256},  # the script divides it
        {"ranks": 2, "size": 512},
        {"ranks": 4, "size": 256},  # not measured yet
        samples_per_step="mark",
        parameters={"size": 256},
    )
    known = work.with_learnt(plan, {"0": 255.4, "1": 256.0, "2": 512.0})
    assert list(work.work_by_launch(known).values()) == pytest.approx([1, 1, 2, 4], rel=0.01)
    assert list(work.changed_training(known).values()) == [
        {}, {}, {"ranks": 2, "size": 512}, {"ranks": 4},
    ]  # fmt: skip
    assert work.epoch_s(known, 5.0) is None
    of_epochs = {"workload": plan.workload.model_copy(update={"samples_per_epoch": 2554})}
    assert work.epoch_s(known.model_copy(update=of_epochs), 5.0) == pytest.approx(2.0)
    assert work.epoch_s(plan.model_copy(update=of_epochs), 5.0) is None


# ---- how many steps a model has


def seen(*lengths):
    """What a member reports of starts of its script that have ended."""
    return ModelLength(len(lengths), sum(lengths) / len(lengths), min(lengths), max(lengths))


@pytest.mark.parametrize(
    ("default", "other", "times", "found"),
    [
        pytest.param([seen(300, 300), seen(300)], [], 1, ModelLength(3, 300, 300, 300), id="alike"),
        pytest.param([seen(290, 310)], [seen(600)], 1, ModelLength(3, 300, 290, 600),
                     id="the default launch's own starts come first"),
        pytest.param([], [seen(75)], 4, ModelLength(1, 300, 300, 300),
                     id="a step of four times as many samples"),
        pytest.param([], [], 1, ModelLength(), id="no start has ended"),
    ],
)  # fmt: skip
def test_starts_that_ended_tell_the_steps_of_a_model(default, other, times, found):
    assert work.model_length({"d": default, "b": other}, {"d": 1.0, "b": times}, "d") == found
    assert found.differs == (found.shortest != found.longest)


def test_a_script_that_has_not_ended_adds_nothing():
    assert pool([ModelLength(), seen(7)]) == seen(7)


@pytest.mark.parametrize(
    ("steps", "of_model", "whole"),
    [(1000, 1010, True), (1000, 1011, False), (3, 4, True), (3, 5, False)],
)
def test_lengths_differ_by_more_than_a_rounded_epoch(steps, of_model, whole):
    assert is_model(steps, of_model) is whole
    assert seen(steps, of_model).differs is not whole


@pytest.mark.parametrize(("asked", "known"), [("auto", 300), (500, 500), (None, None)])
def test_only_auto_goes_by_what_was_learnt(asked, known):
    plan = planned({}, steps_per_model=asked)
    learnt = work.with_learnt(plan, {"0": 2.0}, seen(300))
    assert learnt.steps_per_model == known
    assert (learnt.model_length is not None) == (asked == "auto")
    assert learnt.samples == {"0": 2.0}
    if asked == "auto":
        assert work.with_learnt(plan, {}).steps_per_model is None


# ---- what is looked for: a rate of all processes together, or the time of one model


@pytest.mark.parametrize(
    ("asked", "steps", "name"),
    [
        ("models_per_hour", 500, "models_per_hour"),
        ("models_per_hour", None, "steps_per_s"),
        ("one_model", 500, "model_s"),
        ("one_model", None, "iteration_s"),
    ],
)
def test_a_step_stands_for_a_model_whose_number_of_steps_is_not_known(asked, steps, name):
    plan = made_plan({}, objective=asked, workload={"steps_per_model": steps})
    assert plan.objective_name == name


def test_the_lowest_rate_is_the_longest_time():
    ends = Interval(60.0, 50.0, 72.0)
    assert shown(ends, "model_s", 1) == ends
    assert shown(Interval(60.0), "model_s", 2) == Interval(120.0)
    assert shown(ends, "models_per_hour", 2) == ends
