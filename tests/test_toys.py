"""An axis and a launcher in a file each, outside the package: a whole study that measures them."""

import json
import os
import subprocess
import sys

import pytest

from jobs import ROOT
from projects import SHORT, Project

pytestmark = pytest.mark.slow

TOYS = ROOT / "tests/toys"
STUDY = {
    "study": "toys",
    "workload": {"script": "tests/workloads/paced.py", "steps_per_model": 300},
    "processes": [1],
    "launches": {
        "baseline": {"intra_op": 1},
        "include": [{"pace": "quick", "launcher": "polite"}],
    },
    "measure": SHORT,
    "profile": {"launches": []},
    "why": "off",
    "confirm": {"seconds": 10},
}


class ToyProject(Project):
    """A project whose Python path has the toys."""

    def environment(self):
        found = super().environment()
        return {**found, "PYTHONPATH": os.pathsep.join([found["PYTHONPATH"], str(TOYS)])}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = ToyProject(tmp_path_factory.mktemp("toys"))
    project.take_every_window()
    project.configure(STUDY)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def attested(project):
    for path in (project.folder / "results/toys/measure").glob("*polite*/*.jsonl"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "attestation":
                yield record


def test_both_took_effect_and_that_was_read_in_the_member(project):
    records = list(attested(project))
    assert records
    for record in records:
        rows = {row["axis"]: row for row in record["checks"]}
        assert rows["pace"] == {
            "axis": "pace", "requested": "quick", "effective": "quick", "ok": True,
        }  # fmt: skip
        assert rows["launcher"]["effective"] == "polite"
        assert record["members"][0]["switches"] == {"pace": "quick"}


def test_the_launch_is_recommended_and_confirmed(project):
    results = project.folder / "results/toys"
    found = json.loads((results / "analysis/recommendation.json").read_text())
    (entry,) = found["machines"]
    assert entry["recommended"]["label"] == "launcher polite, intra_op 1, pace quick"
    (confirmed,) = json.loads((results / "analysis/confirmation.json").read_text())["machines"]
    # 300 steps of 10 ms and more without it.
    assert confirmed["ratio"]["value"] > 1.2


def test_the_report_names_it(project):
    text = (project.folder / "reports/toys.html").read_text()
    assert "launcher polite, intra_op 1, pace quick" in text
    assert "torch.pace = &#39;quick&#39;" in text


@pytest.mark.parametrize("queue", [False, True])
def test_the_launch_script_does_what_was_measured(project, queue, tmp_path):
    (tmp_path / "models").write_text("--steps 3\n--steps 4\n")
    words = ["--queue", "--reuse", tmp_path / "models"] if queue else []
    script = project.folder / "results/toys/launch/recommended.sh"
    done = subprocess.run(
        ["/bin/bash", script, *words, tmp_path / "logs"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    logs = sorted((tmp_path / "logs").glob("*.log"))
    assert [log.read_text() for log in logs] == ["pace quick\n"] * (2 if queue else 1)


def test_its_switches_are_a_file_of_its_own(project, tmp_path):
    """It needs nothing of this package, and does the same for any script."""
    file = project.folder / "results/toys/launch/recommended.switches.py"
    script = project.folder / "tests/workloads/paced.py"
    done = subprocess.run(
        [sys.executable, "-I", file, script, "--steps", "2"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "pace quick\n"
    assert "scaling_study" not in file.read_text()


def test_a_value_that_the_axis_does_not_have_is_an_error(project):
    launches = {"include": [{"pace": "qick"}]}
    project.configure({**STUDY, "launches": launches})
    done = project.snakemake()
    assert done.returncode != 0
    assert "launches.include[0].pace" in done.stdout + done.stderr
    assert "quick" in done.stdout + done.stderr
    project.configure(STUDY)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("empty.py", "", "it has no AXIS"), ("isa.py", "from scaling_study.axes.isa import AXIS",
      "there is isa already")],
)  # fmt: skip
def test_a_module_that_adds_nothing_is_an_error(tmp_path, name, text, said):
    (tmp_path / "scaling_study_axes").mkdir()
    (tmp_path / "scaling_study_axes" / name).write_text(text)
    path = os.pathsep.join([str(ROOT / "workflow/lib"), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", "import scaling_study.axes.table"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{name}: {said}" in done.stderr
