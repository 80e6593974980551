"""A study that names machines, as its users run it: real Snakemake, in a copy of the project."""

import json

import pytest

import synthetic
from configs import short
from projects import SHORT, Project

pytestmark = pytest.mark.long

KINDS = {"epyc": {}, "xeon": {}}


def study(machines):
    measure = {**SHORT, "replicates": 2}
    return short(study="several", measure=measure, machines=machines)


def test_this_machine_is_not_measured_under_two_names(tmp_path):
    project = Project(tmp_path)
    project.configure(study(KINDS))
    assert "--config machine=epyc" in project.fails()
    assert not list((project.folder / "results/several").glob("machines/*/machine.json"))


LAUNCHES = (
    synthetic.Launch(role="default", law=synthetic.hard_saturation(10.0, 20.0)),
    synthetic.Launch({"intra_op": 1}, "baseline", synthetic.hard_saturation(50.0, 100.0)),
    synthetic.Launch({"intra_op": 1}, "repeat", synthetic.hard_saturation(50.0, 100.0)),
)


def test_machines_that_were_measured_elsewhere_are_compared(tmp_path):
    """Folders as they are copied from two hosts; this one is neither of them."""
    project = Project(tmp_path)
    results = tmp_path / "results/several"
    project.configure(study(KINDS))

    def copy(name):
        folder = results / "machines" / name
        synthetic.write_study(
            folder,
            study="several",
            launches=LAUNCHES,
            ns=(1, 2),
            replicates=2,
            machines=[synthetic.machine(name=f"host of {name}")],
        )
        (folder / "plan.json").unlink()

    def compared():
        return json.loads((results / "analysis/machines.json").read_text())["machines"]

    # The launches that the config asks for are those that were measured: nothing is left to do.
    copy("epyc")
    said = project.succeeds("--config", "machine=epyc")
    assert "xeon is missing: 0 of 6 cohorts are measured, and no node was probed" in said
    assert [one["status"] for one in compared()] == ["measured", "missing"]
    assert (results / "launch/recommended-epyc.sh").exists()
    assert not (results / "launch/recommended-xeon.sh").exists()

    copy("xeon")
    said = project.succeeds("--config", "machine=xeon")
    assert "is missing" not in said
    assert [one["status"] for one in compared()] == ["measured", "measured"]
    assert (results / "launch/recommended-xeon.sh").exists()
    assert "Nothing to be done" in project.succeeds("--config", "machine=xeon")

    # Another account compares anew, and that is all.
    project.configure(study({**KINDS, "epyc": {"account": "lab"}}))
    said = project.succeeds("--dry-run", "--config", "machine=xeon")
    assert "compare" in said
    for rule in ("probe", "measure", "collect", "analyse"):
        assert f"\n{rule} " not in said

    # A job on another node than was probed stops before it measures; the other machine is reported.
    project.configure(study(KINDS))
    said = project.fails("--config", "machine=xeon", "--forcerun", "measure")
    assert "is not the machine that was probed as xeon, which was host of xeon: " in said
    assert "cpu_model: " in said
    assert "xeon is missing: 0 of 6 cohorts are measured" in said
    assert len(list((results / "machines/epyc/measure").glob("*/*.jsonl"))) == 6
    assert "Report: reports/several.html" in said
    assert [one["status"] for one in compared()] == ["measured", "missing"]
    assert not (results / "launch/recommended-xeon.sh").exists()
    assert "xeon is missing" in (tmp_path / "reports/several.html").read_text()
