"""A study that names machines, as its users run it: real Snakemake, in a copy of the project."""

import json

import pytest

import synthetic
from configs import short
from projects import Project

pytestmark = pytest.mark.long

MACHINES = {
    "epyc": {"constraint": "genoa&ib", "partition": "cpu", "account": "lab", "price": 3.0},
    "xeon": {"partition": "old", "cores": 64, "price": 1.0},
}


MEASURE = {
    "replicates": 2,
    "windows": 1,
    "steps": 5,
    "shortest_s": 0.2,
    "longest_s": 2.0,
    "settle_s": 0.05,
    "warmup_steps": 2,
    "retries": 20,  # whatever else runs meanwhile
}


def study(machines, **sections):
    several = {
        "study": "several",
        "measure": dict(MEASURE),
        "currency": "EUR",
        "machines": machines,
    }
    return short(**{**several, **sections})


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("project"))


def jobs(said):
    """Resources and wildcards of each job of a dry run, by line."""
    return [line.strip() for line in said.splitlines() if line.startswith("    ")]


def test_jobs_of_each_machine_ask_for_its_nodes(project):
    project.configure(study(MACHINES, profile={"launches": ["recommended"]}, why="quick"))
    done = project.snakemake("--dry-run", "--quiet", "reason")
    assert done.returncode == 0, done.stdout + done.stderr
    resources = [line for line in jobs(done.stdout) if "slurm_partition" in line]
    epyc = [line for line in resources if "slurm_partition=cpu" in line]
    xeon = [line for line in resources if "slurm_partition=old" in line]
    # A probe, six measurements, a profile, two explanations and the microbenchmarks.
    assert len(epyc) == len(xeon) == 11
    for line in epyc:
        assert "slurm_account=lab" in line
        assert "constraint=genoa&ib" in line
        assert "cpus_per_task=-1" in line
    for line in xeon:
        assert "slurm_account" not in line
        assert "constraint" not in line
        assert "cpus_per_task=64" in line


def test_one_machine_is_chosen(project):
    project.configure(study(MACHINES))
    done = project.snakemake("--dry-run", "--quiet", "reason", "--config", "machine=xeon")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "machines/xeon/measure" in done.stdout
    assert "machines/epyc" not in done.stdout
    done = project.snakemake("--dry-run", "--config", "machine=xeno")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "machine = 'xeno': is no machine of the config; allowed: epyc, xeon" in said
    assert "did you mean xeon?" in said
    assert "Traceback" not in said


def test_this_machine_is_not_measured_under_two_names(project):
    project.configure(study(MACHINES))
    done = project.snakemake()
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "--config machine=epyc" in said
    assert "Traceback" not in said
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
    kinds = {"epyc": {"price": 3.0}, "xeon": {"price": 1.0}}

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

    def run(*options, kinds=kinds, code=0):
        project.configure(study(kinds))
        done = project.snakemake(*options)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def compared():
        return json.loads((results / "analysis/machines.json").read_text())["machines"]

    # The launches that the config asks for are those that were measured: nothing is left to do.
    copy("epyc")
    said = run("--config", "machine=epyc")
    assert "xeon is missing: 0 of 6 cohorts are measured, and no node was probed" in said
    assert [one["status"] for one in compared()] == ["measured", "missing"]
    assert (results / "launch/recommended-epyc.sh").exists()
    assert not (results / "launch/recommended-xeon.sh").exists()

    copy("xeon")
    said = run("--config", "machine=xeon")
    assert "is missing" not in said
    assert [one["status"] for one in compared()] == ["measured", "measured"]
    assert (results / "launch/recommended-xeon.sh").exists()
    report = (tmp_path / "reports/several.html").read_text()
    assert "models/EUR" in report
    assert "Nothing to be done" in run("--config", "machine=xeon")

    # Another price compares anew, and that is all.
    dearer = {**kinds, "epyc": {"price": 9.0}}
    said = run("--dry-run", "--config", "machine=xeon", kinds=dearer)
    assert "compare" in said
    for rule in ("probe", "measure", "collect", "analyse"):
        assert f"\n{rule} " not in said

    # A job on another node than was probed stops before it measures; the other machine is reported.
    said = run("--config", "machine=xeon", "--forcerun", "measure", code=1)
    assert "is not the machine that was probed as xeon, which was host of xeon: " in said
    assert "cpu_model: " in said
    assert "xeon is missing: 0 of 6 cohorts are measured" in said
    assert len(list((results / "machines/epyc/measure").glob("*/*.jsonl"))) == 6
    assert "Report: reports/several.html" in said
    assert [one["status"] for one in compared()] == ["measured", "missing"]
    assert not (results / "launch/recommended-xeon.sh").exists()
    assert "xeon is missing" in (tmp_path / "reports/several.html").read_text()
