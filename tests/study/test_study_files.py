"""What rules ask a study for: its files, what its jobs depend on, what a cluster is asked for."""

import json
from pathlib import Path

import pytest

from configs import ROOT, short
from scaling_study.common.problems import ConfigError
from scaling_study.config.config import load_config
from scaling_study.study import files as study_files
from scaling_study.study.files import Study

ENVS = [str(path.relative_to(ROOT)) for path in (ROOT / "envs").glob("*.txt")][:1]
MACHINES = {
    "epyc": {"constraint": "genoa&ib", "partition": "cpu", "account": "lab"},
    "xeon": {"partition": "old", "cores": 64},
}


def study(choice=None, **sections):
    return Study(load_config(short(**sections)), (), choice)


def test_a_grid_has_a_record_file_for_each_launch_and_replicate_and_a_race_begins_with_a_round():
    grid = study(study="grid", measure={"replicates": 2})
    assert grid.planned == "results/grid/plan.json"
    assert f"results/grid/measure/{grid.plan.default}/1.jsonl" in grid.records
    assert len(grid.records) == 2 * len(grid.launches)
    assert {grid.report, "results/grid/launch/recommended.sh", *grid.records} < set(grid.targets)
    race = study(study="raced", search={"budget_minutes": 5, "nodes": 2})
    assert (race.planned, race.records) == ("results/raced/searched.json", [])
    assert "results/raced/rounds/0.json" in race.targets
    assert race.round_before({"round": "0"}) == []
    assert race.round_before({"round": "2"}) == [
        "results/raced/rounds/1-0.done", "results/raced/rounds/1-1.done",
    ]  # fmt: skip


def test_named_machines_have_folders_of_their_own():
    made = study(study="several", machines=MACHINES)
    assert made.here == "results/several/machines/{machine}"
    assert made.of_chosen("{machine}.json") == ["epyc.json", "xeon.json"]
    assert "results/several/launch/recommended-xeon.sh" in made.targets
    assert study("xeon", machines=MACHINES).of_chosen("{machine}.json") == ["xeon.json"]
    with pytest.raises(ConfigError, match="did you mean xeon"):
        study("xeno", machines=MACHINES)


def test_a_cluster_is_asked_for_what_a_machine_sets():
    resources = study(machines=MACHINES).node_resources
    asked = {word: [find({"machine": one}) for one in MACHINES] for word, find in resources.items()}
    assert asked == {
        "slurm_partition": ["cpu", "old"],
        "slurm_account": ["lab", None],
        "constraint": ["genoa&ib", None],
        "cpus_per_task": [-1, 64],
    }
    assert study().node_resources == {}


def test_a_job_depends_on_its_launch_its_section_and_its_code():
    made = study()
    launch = {"launch": made.plan.baseline}
    texts = {kind: json.loads(made.job(kind)(launch)) for kind in study_files.DEPENDS}
    assert texts["measure"]["launch"]["id"] == made.plan.baseline
    assert json.loads(made.job("measure")({}))["launch"] is None  # a race's
    assert json.loads(made.job("confirm")({}))["launch"]["id"] == made.plan.default
    assert json.loads(made.job("why")({"launch": "recommended"}))["launch"] is None
    assert len({text["files"] for text in texts.values()}) == len(texts) - 1  # why, loader
    assert {kind for kind, text in texts.items() if "confirm" in text} == {"confirm"}


def test_only_requirements_are_built():
    assert study().any_builds == []
    made = study(launches={"baseline": {"intra_op": 1}, "one_change": {"build": ENVS}})
    assert made.any_builds == made.builds
    assert made.builds({"launch": made.plan.default}) == []
    assert made.builds({}) == [f"results/.builds/{Path(ENVS[0]).stem}.txt"]
