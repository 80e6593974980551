"""The workflow run from a user's own folder: it writes nothing into its checkout elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata

import pytest
import yaml

from projects import SHORT, Project
from scaling_study import command
from scaling_study.config.config_file import PROJECT, shipped

SCRIPT = "src/train.py"
STUDY = {
    "study": "mine",
    "workload": {"script": SCRIPT, "env": {"GREETING": "hello"}},
    "processes": [1],
    "launches": {"baseline": {"intra_op": 1}},
    "measure": {**SHORT, "windows": 1},
    "profile": {"launches": []},
    "why": "off",
    "confirm": "off",
}
OUTER = """
configfile: "outer.yaml"


rule mine:
    input:
        "reports/mine.html",
    output:
        "outer.txt",
    resources:
        quiet=1,
    shell:
        "cp {{input}} {{output}}"


module study:
    snakefile:
        {snakefile!r}
    config:
        config["study"]
{more}

use rule * from study as study_*
"""


class Away:
    """A user's folder, in which a study is run by a checkout elsewhere that nobody may write."""

    def __init__(self, folder):
        self.project = Project(folder / 'a checkout\'s "own" földer')
        self.project.take_every_window()
        self.checkout = self.project.folder
        self.folder = folder / "my models"
        (self.folder / "src").mkdir(parents=True)
        shutil.copy(self.checkout / "tests/workloads/plain_loop.py", self.folder / SCRIPT)
        # Names of modules that Python would take from here, if it looked here.
        for name in ("logging", "queue", "yaml"):
            (self.folder / f"{name}.py").write_text(f"raise SystemExit('{name}: another one')\n")
        (self.folder / "mine.yaml").write_text(yaml.safe_dump(STUDY))
        self.configure_outer()
        self.allow(writing=False)
        self.files = self.checkout_files()

    def configure_outer(self, more=""):
        (self.folder / "outer.yaml").write_text(yaml.safe_dump({"study": STUDY, "own": 1}))
        snakefile = str(self.checkout / "Snakefile")
        (self.folder / "Snakefile").write_text(OUTER.format(snakefile=snakefile, more=more))

    def allow(self, *, writing):
        for path in (self.checkout, *self.checkout.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200 if writing else path.stat().st_mode & ~0o222)

    def checkout_files(self):
        """What root may write all the same."""
        return {path: path.stat().st_mtime_ns for path in self.checkout.rglob("*")}

    def python(self, *words, cwd=None):
        done = subprocess.run(
            [sys.executable, "-P", *words],
            cwd=cwd or self.folder,
            env={**os.environ, "PYTHONPATH": str(self.checkout / "workflow/lib")},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def snakemake(self, *options, cwd=None):
        return self.python("-m", "snakemake", "--cores", "192", *options, cwd=cwd)

    def study(self, *options, cwd=None):
        return self.snakemake("--snakefile", str(self.checkout / "Snakefile"), *options, cwd=cwd)


@pytest.fixture(scope="module")
def away(tmp_path_factory):
    away = Away(tmp_path_factory.mktemp("anywhere"))
    yield away
    away.allow(writing=True)  # pytest removes it


@pytest.fixture(scope="module")
def measured(away):
    code, said = away.python(
        *("-m", "scaling_study.command", "mine.yaml", "--cores", "192", "--verbose"),
        *("--workflow-profile", "none"),
    )
    assert code == 0, said
    return said


pytestmark = pytest.mark.slow


def test_a_study_is_run_where_its_user_is(away, measured):
    assert "Report: reports/mine.html" in measured
    made = {path.name for path in away.folder.iterdir()}
    assert {"results", "reports", ".snakemake"} < made
    assert (away.folder / "results/mine/launch/recommended.sh").exists()
    assert away.checkout_files() == away.files


def test_measurements_are_alone_without_any_profile(measured):
    events = (
        r"^localrule measure:$.*?^ +jobid: (?P<measurement>\d+)$"
        r"|^localrule (?!measure)\w+:$.*?^ +jobid: (?P<other>\d+)$"
        r"|^Finished jobid: (?P<ended>\d+) "
    )
    running, measurements = set(), set()
    for event in re.finditer(events, measured, re.MULTILINE | re.DOTALL):
        if event["ended"]:
            running.discard(event["ended"])
            continue
        assert not running & measurements
        if event["measurement"]:
            assert not running
            measurements.add(event["measurement"])
        running.add(event["measurement"] or event["other"])
    assert len(measurements) == 3


def test_the_same_folder_is_the_same_study_however_it_is_named(away, measured):
    for options in (
        ("--configfile", "mine.yaml"),
        ("--directory", str(away.folder), "--configfile", str(away.folder / "mine.yaml")),
    ):
        elsewhere = away.checkout if "--directory" in options else away.folder
        code, said = away.study(*options, "--dry-run", cwd=elsewhere)
        assert code == 0, said
        assert "Nothing to be done" in said


def test_code_that_has_changed_since_is_run_again(away, measured):
    away.allow(writing=True)
    code = away.checkout / "workflow/lib/scaling_study/report/page.py"
    text, before = code.read_text(), code.stat()
    code.write_text(f"{text}\n")
    _, said = away.study("--configfile", "mine.yaml", "--dry-run", "--quiet", "reason")
    code.write_text(text)
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    away.allow(writing=False)
    assert re.search(r"^render +1$", said, re.MULTILINE), said
    assert not re.search(r"^measure +", said, re.MULTILINE)


def test_a_module_says_what_it_does_and_its_rules_are_not_the_first(away, measured):
    code, said = away.snakemake()
    assert code == 0, said
    assert (away.folder / "outer.txt").exists()  # of the outer workflow's first rule
    assert "3 of 3 cohorts are measured already" in said
    assert "Report: reports/mine.html" in said
    assert "rule study_measure:" not in said
    assert away.checkout_files() == away.files


def test_a_module_with_a_prefix_is_refused(away):
    away.configure_outer('    prefix:\n        "sub"\n')
    code, said = away.snakemake("--dry-run")
    away.configure_outer()
    assert code != 0
    assert "allowed: a module without prefix" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("name", [None, "quick", "loader-images"])
def test_the_shipped_studies_find_their_scripts(away, tmp_path, name):
    given = ["--configfile", str(away.checkout / f"config/{name}.yaml")] if name else []
    code, said = away.study("--dry-run", *given, cwd=tmp_path)
    assert code == 0, said


def test_a_script_of_the_users_own_comes_before_a_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "scripts/workloads/ncf.py"
    config = {"study": "x", "workload": {"script": name, "args": []}}
    found = shipped(config)
    assert found["workload"] == {"args": [], "script": str(PROJECT / name)}
    assert config["workload"]["script"] == name
    (tmp_path / "scripts/workloads").mkdir(parents=True)
    (tmp_path / name).touch()
    assert shipped(config) == config
    assert shipped(config) is not config


@pytest.mark.parametrize("config", [None, 3, [], {}, {"workload": []}, {"workload": {"script": 1}}])
def test_other_configs_are_left_to_be_checked(config):
    assert shipped(config) == config


def test_the_command_explains_itself(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["torch-scaling-study", "--help"])
    command.main()
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 6
    assert str(PROJECT / "Snakefile") in said


def test_the_command_tells_its_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["torch-scaling-study", "--version"])
    command.main()
    installed = metadata.version("torch-scaling-study")
    assert capsys.readouterr().out == f"torch-scaling-study {installed}\n"


def test_the_command_names_a_config_that_is_not_there(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["torch-scaling-study", "missing.yaml"])
    with pytest.raises(SystemExit, match=r"^missing\.yaml: no such file"):
        command.main()


def test_the_command_says_what_it_needs_outside_of_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "CHECKOUT", tmp_path)
    with pytest.raises(SystemExit, match="installed from a checkout"):
        command.main()
