"""How many steps a model has: learnt from starts of the script that end, and said."""

import json

import pytest

from made_records import made_plan
from projects import SHORT, Project
from scaling_study.config.work import model_length, with_learnt
from scaling_study.records.model_length import ModelLength, is_model, pool


def seen(*lengths):
    """What a member reports of starts of its script that have ended."""
    mean = sum(lengths) / len(lengths)
    fewest, most = min(lengths), max(lengths)
    return ModelLength(len(lengths), mean, fewest, most)


def test_starts_that_ended_tell_the_steps_of_a_model():
    found = model_length({"d": [seen(300, 300), seen(300)], "b": []}, {"d": 1.0, "b": 1.0}, "d")
    assert found == ModelLength(3, 300, 300, 300)
    assert not found.differs


def test_the_default_launchs_own_starts_come_first():
    found = model_length({"d": [seen(290, 310)], "b": [seen(600)]}, {"d": 1.0, "b": 1.0}, "d")
    assert found == ModelLength(3, 300, 290, 600)
    assert found.differs


def test_steps_of_other_launches_count_by_their_work():
    """A step of four times as many samples: a model has a quarter of the steps."""
    found = model_length({"d": [], "b": [seen(75)]}, {"d": 1.0, "b": 4.0}, "d")
    assert found == ModelLength(1, 300, 300, 300)


def test_nothing_is_known_where_no_start_has_ended():
    assert model_length({"d": [], "b": []}, {"d": 1.0, "b": 1.0}, "d") == ModelLength()
    assert pool([ModelLength(), seen(7)]) == seen(7)
    assert not ModelLength().differs


@pytest.mark.parametrize(
    ("steps", "of_model", "whole"),
    [(1000, 1010, True), (1000, 1011, False), (3, 4, True), (3, 5, False)],
)
def test_lengths_differ_by_more_than_a_rounded_epoch(steps, of_model, whole):
    assert is_model(steps, of_model) is whole
    assert seen(steps, of_model).differs is not whole


@pytest.mark.parametrize(
    ("asked", "known"),
    [("auto", 300), (500, 500), (None, None)],
)
def test_only_auto_goes_by_what_was_learnt(asked, known):
    plan = made_plan({}, workload={"steps_per_model": asked})
    learnt = with_learnt(plan, {"0": 2.0}, seen(300))
    assert learnt.steps_per_model == known
    assert (learnt.model_length is not None) == (asked == "auto")
    assert learnt.samples == {"0": 2.0}
    if asked == "auto":
        assert with_learnt(plan, {}).steps_per_model is None


def study(steps, confirm):
    return {
        "study": f"after-{steps}",
        "workload": {"script": "tests/workloads/plain_loop.py", "args": ["--steps", str(steps)]},
        "processes": [1],
        "launches": {"baseline": {"intra_op": 1}},
        "measure": dict(SHORT),
        "profile": {"launches": []},
        "why": "off",
        "confirm": confirm,
    }


def run(project, steps, confirm):
    config = study(steps, confirm)
    project.configure(config)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.folder / "results" / config["study"]
    found = {
        name: json.loads((results / "analysis" / f"{name}.json").read_text())["machines"][0]
        for name in ("recommendation", "confirmation")
    }
    return done.stdout, (project.folder / f"reports/after-{steps}.html").read_text(), found


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("project"))
    project.take_every_window()
    return project


@pytest.mark.slow
def test_a_script_that_ends_gives_models_per_hour(project):
    said, report, found = run(project, 20, {"seconds": 10})
    assert found["recommendation"]["objective"] == "models_per_hour"
    length = found["recommendation"]["model_length"]
    assert length["starts"] > 0
    assert (length["steps"], length["shortest"], length["longest"]) == (20, 20, 20)
    assert found["confirmation"]["objective"] == "models_per_hour"
    assert found["confirmation"]["arms"][0]["value"] > 0
    assert "models/hour" in said
    assert "one model: 20 steps" in report
