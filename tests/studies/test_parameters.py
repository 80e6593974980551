"""Axes of a study's own: from the config to arguments, names, tables and the launch script."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

import synthetic
from made_records import made_plan
from projects import SHORT, Project
from scaling_study.analysis.collect import collect
from scaling_study.common import placeholders
from scaling_study.config.config import load_config
from scaling_study.config.plan import Plan, make_plan
from scaling_study.config.work import (
    changed_training,
    epoch_s,
    with_learnt,
    work_by_launch,
)
from scaling_study.host import probe
from scaling_study.records.codec import RecordError
from scaling_study.runner import resolve
from synthetic import typed

SCRIPT = Path(__file__).parents[1] / "workloads" / "sized.py"


def config(launches=None, **workload):
    return {
        "study": "own",
        "workload": {
            "script": str(SCRIPT),
            "args": ["--batch-size", "{batch_size}", "--seed", "{member}"],
            "parameters": {"batch_size": 64},
            **workload,
        },
        "launches": launches or {},
    }


# ---- config and plan


def test_values_of_a_parameter_are_launches_like_those_of_any_axis():
    plan = make_plan(
        load_config(
            config(
                {
                    "baseline": {"intra_op": 1},
                    "grid": {"batch_size": [64, 128]},
                    "one_change": {"batch_size": [256], "blas": ["mkl"]},
                    "exclude": [{"batch_size": 128}],
                }
            )
        )
    )
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


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{member}", "3"),
        ("out/{member}/{member}.pt", "out/3/3.pt"),
        ("{{member}}", "{member}"),
        ("{{epoch}}-{member}", "{epoch}-3"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("{} { member }", "{} { member }"),
    ],
)
def test_placeholders(text, filled):
    assert placeholders.unknown(text) is None
    assert placeholders.fill(text, {"member": 3}) == filled


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{a}-{b}", "1-{b}"),
        ("{{a}} {{b}}", "{a} {{b}}"),
        ('{"a": {a}}', '{"a": 1}'),
        ("{member}", "{member}"),
    ],
)
def test_only_parameters_are_replaced_in_variables(text, filled):
    assert placeholders.fill_known(text, {"a": 1}) == filled


def test_each_launch_gets_its_own_arguments_and_variables(tmp_path):
    content = config(
        {"baseline": {"batch_size": 8}}, env={"SIZE": "{batch_size} {other}", "PLAIN": "{member}"}
    )
    plan = make_plan(load_config(content))
    machine = probe.read_machine()
    for launch, size in zip(plan.launches, ("64", "8"), strict=False):
        found = resolve.resolve(plan, launch.axes, machine, tmp_path, [2])
        assert found.members[1].command[1:] == ("--batch-size", size, "--seed", "1")
        assert found.launch.env["SIZE"] == f"{size} {{other}}"
        assert found.launch.env["PLAIN"] == "{member}"


# ---- equal work


def with_sizes(folder, sizes, **options):
    """A made-up study whose launches have batch sizes, the default's first."""
    plan = synthetic.write_study(folder, **options)
    for launch in plan["launches"]:
        launch["axes"]["batch_size"] = sizes.get(launch["label"], sizes["default"])
    plan["workload"] |= {
        "parameters": {"batch_size": 64},
        "args": ["{batch_size}"],
        "samples_per_step": "batch_size",
    }
    return plan


def test_a_step_counts_as_the_work_it_does(tmp_path):
    plan = synthetic.write_study(tmp_path)
    plain = collect(tmp_path, typed(plan))
    plan = with_sizes(tmp_path, {"default": 64, "intra_op 2": 256})
    assert set(work_by_launch(typed(plan)).values()) == {1.0, 4.0}
    scaled = collect(tmp_path, typed(plan))
    for name in ("windows", "replicates", "points"):
        before, after = getattr(plain, name), getattr(scaled, name)
        other = before["label"] == "intra_op 2"
        for column in before.columns:
            if column == "steps_per_s":
                factor = 4
            elif column in {"step_s", "step_mean_s", "step_median_s", "user_s_per_step"}:
                factor = 1 / 4
            else:
                continue
            ratios = (after[column][other] / before[column][other]).dropna()
            assert ratios.tolist() == pytest.approx([factor] * len(ratios))
            assert after[column][~other].equals(before[column][~other])
    points = scaled.points.set_index(["label", "n"])["models_per_hour"]
    assert points["intra_op 2", 1] > 3 * plain.points.set_index(["label", "n"])[
        "models_per_hour"
    ]["intra_op 2", 1]  # fmt: skip


@pytest.fixture
def saying(tmp_path):
    """A made-up study, and what changes how many samples its scripts say in each step."""
    plan = synthetic.write_study(tmp_path)

    def say(of_step):
        plan["workload"]["samples_per_step"] = "mark"
        for path in (tmp_path / "measure").glob("*/*.jsonl"):
            samples = of_step.get(path.parent.name, of_step["others"])
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for member in (one for line in lines for one in line.get("members", ())):
                if "steps_active" in member:
                    member["samples_active"] = samples * member["steps_active"]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return typed(plan)

    return say


def test_a_step_counts_as_the_samples_that_the_script_says(saying, tmp_path):
    plain = collect(tmp_path, saying({"others": 64})).replicates
    other = plain.loc[plain["label"] == "intra_op 2", "launch"].iloc[0]
    found = collect(tmp_path, saying({"others": 64, other: 256}))
    assert found.cohorts.samples == {
        launch: 256 if launch == other else 64 for launch in plain["launch"].unique()
    }
    ratios = (found.replicates["steps_per_s"] / plain["steps_per_s"]).groupby(plain["launch"])
    assert {launch: round(own.mean(), 9) for launch, own in ratios} == {
        launch: 4 if launch == other else 1 for launch in plain["launch"].unique()
    }


def test_a_script_that_says_no_samples_is_told(saying, tmp_path):
    with pytest.raises(RecordError, match=r"no samples in launch .*mark\(samples=...\)"):
        collect(tmp_path, saying({"others": 0}))


def planned(*launches, **workload):
    """A plan whose launches do different work; the first one is the default and baseline."""
    return made_plan(*launches, workload=workload)


def test_every_rank_does_the_work_of_a_step():
    launches = [{"ranks": "none"}, {"ranks": 1}, {"ranks": 4}]
    assert list(work_by_launch(planned(*launches)).values()) == [1.0, 1.0, 4.0]
    assert list(work_by_launch(planned(*launches, samples_per_step=32)).values()) == [1, 1, 4]


def test_ranks_that_divide_a_step_train_as_before():
    launches = [
        {"ranks": "none", "size": 256},
        {"ranks": 2, "size": 128},
        {"ranks": 2, "size": 256},
        {"ranks": "none", "size": 512},
        {"ranks": 2, "size": 128, "autocast": "bf16"},
    ]
    plan = planned(*launches, samples_per_step="size", parameters={"size": 256})
    assert list(work_by_launch(plan).values()) == [1.0, 1.0, 2.0, 2.0, 1.0]
    assert list(changed_training(plan).values()) == [
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
    assert list(changed_training(plan).values()) == [{}, {}, {"ranks": 4, "size": 128}]


def test_what_a_script_says_of_its_samples_decides_what_trains_otherwise():
    plan = planned(
        {"ranks": "none", "size": 256},
        {"ranks": 2, "size": 256},  # the script divides it
        {"ranks": 2, "size": 512},
        {"ranks": 4, "size": 256},  # not measured yet
        samples_per_step="mark",
        parameters={"size": 256},
    )
    known = with_learnt(plan, {"0": 255.4, "1": 256.0, "2": 512.0})
    assert list(work_by_launch(known).values()) == pytest.approx([1, 1, 2, 4], rel=0.01)
    assert list(changed_training(known).values()) == [
        {}, {}, {"ranks": 2, "size": 512}, {"ranks": 4},
    ]  # fmt: skip
    assert epoch_s(known, 5.0) is None
    of_epochs = {"workload": plan.workload.model_copy(update={"samples_per_epoch": 2554})}
    assert epoch_s(known.model_copy(update=of_epochs), 5.0) == pytest.approx(2.0)
    assert epoch_s(plan.model_copy(update=of_epochs), 5.0) is None


# ---- a whole study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("own"))
    project.take_every_window()
    content = config(
        {"baseline": {"intra_op": 1}, "one_change": {"batch_size": [512], "pause": [0.002]}}
    )
    content["workload"] |= {
        "script": "tests/workloads/sized.py",
        "parameters": {"batch_size": 64, "pause": 0.008},
        "args": ["--batch-size", "{batch_size}", "--pause", "{pause}", "--seed", "{member}"],
        "samples_per_step": "batch_size",
        "steps_per_model": 800,
        "env": {"TELL": "waits {pause}"},
    }
    content |= {
        "processes": [1],
        "measure": dict(SHORT),
        "profile": {"launches": []},
        "why": "off",
        "confirm": {"seconds": 15},
    }  # fmt: skip
    project.configure(yaml.safe_dump(content))
    done = project.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.mark.long
def test_the_best_value_is_recommended_and_confirmed(study, tmp_path):
    results = study.folder / "results/own"
    (entry,) = json.loads((results / "analysis/recommendation.json").read_text())["machines"]
    assert entry["recommended"]["label"] == "intra_op 1, pause 0.002"
    (confirmed,) = json.loads((results / "analysis/confirmation.json").read_text())["machines"]
    assert confirmed["ratio"]["value"] > 1.2
    assert "--batch-size 64 --pause 0.002" in (results / "launch/recommended.sh").read_text()
    done = subprocess.run(
        ["/bin/bash", results / "launch/recommended.sh", tmp_path / "logs"], check=False
    )
    assert done.returncode == 0
    assert (tmp_path / "logs/member-0.log").read_text() == "64 samples, waits 0.002\n"


@pytest.mark.long
def test_a_larger_batch_gives_more_for_equal_work_and_is_not_recommended(study):
    """It waits as long in a step, for eight times as many samples; but it trains otherwise."""
    results = study.folder / "results/own"
    (entry,) = json.loads((results / "analysis/recommendation.json").read_text())["machines"]
    changed = entry["changed"]
    assert changed["what"] == {"batch_size": 512}
    assert changed["steps_per_s"] > 3 * entry["default"]["steps_per_s"]
    assert changed["ratio"]["value"] > 1.02
