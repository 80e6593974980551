"""A planted key in workload.env, looked for in all that a real study writes, shows and starts."""

import contextlib
import gzip
import hashlib
import os
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from projects import Project

pytestmark = pytest.mark.slow

KEY = "sk-planted-5c1f0e9d7b"
# More looks take so much CPU time that no window is valid; all that is started lives longer.
LOOK_EVERY_S = 0.25
# Where the key may lie, for its owner alone.
PRIVATE = {"results/.secrets/keyed.json", "results/keyed/launch/recommended.env.json"}


def config(known, **sections):
    return {
        "study": "keyed",
        "workload": {
            "script": "tests/workloads/with_key.py",
            "args": [str(known)],
            "env": {"API_KEY": KEY},
            "steps_per_model": 300,
        },
        "processes": [2],
        "launches": {
            "baseline": {"intra_op": 1, "wait_policy": "passive"},
            "one_change": {"launcher": ["fork", "dask"]},
        },
        "measure": {
            "replicates": 1,
            "windows": 1,
            "steps": 5,
            "shortest_s": 0.2,
            "longest_s": 2.0,
            "settle_s": 0.05,
            "warmup_steps": 3,
            "retakes": 2,
        },
        "profile": {"launches": ["baseline"], "samples": 20, "rate_hz": 20},
        "why": "off",
        "confirm": {"seconds": 10},
        **sections,
    }


class Watch(threading.Thread):
    """Looks at all command lines of this machine, and at what Snakemake writes meanwhile."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.shown = set()
        self.members = 0
        self._over = threading.Event()

    def run(self):
        while not self._over.wait(LOOK_EVERY_S):
            for path in (*Path("/proc").glob("[0-9]*/cmdline"), *files(self.folder / ".snakemake")):
                with contextlib.suppress(OSError):  # it is gone
                    text = path.read_bytes()
                    self.members += b"scaling_study.member" in text
                    if holds_key(text):
                        self.shown.add((str(path), text))

    def stop(self):
        self._over.set()
        self.join()


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def holds_key(content):
    return any(text.encode() in content for text in (KEY, hashlib.sha256(KEY.encode()).hexdigest()))


def content(path):
    found = path.read_bytes()
    return gzip.decompress(found) if path.suffix == ".gz" else found


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    path = tmp_path_factory.mktemp("known") / "key"
    path.write_text(KEY)
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("project"))
    project.take_every_window()  # who looks at all command lines is another program
    return project


@pytest.fixture(scope="module")
def whole(project, known):
    project.configure(config(known))
    watch = Watch(project.folder)
    watch.start()
    try:
        done = project.snakemake("--printshellcmds", "--verbose")
    finally:
        watch.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    return watch, done


def test_members_get_it(project, whole):
    """The script ends at once without it, so that a launch with results has had it."""
    launches = {path.split("/")[3] for path in project.records("keyed")}
    assert len(launches) == 5  # default, baseline, repeat, fork, dask
    for path in project.records("keyed"):
        text = (project.folder / path).read_text()
        assert '"status": "complete"' in text, text[-2000:]


def test_no_command_line_and_no_output_shows_it(whole):
    watch, done = whole
    assert watch.members  # there were some to look at
    assert watch.shown == set()
    assert not holds_key((done.stdout + done.stderr).encode())


def test_no_file_holds_it_but_those_for_its_owner(project, whole):
    holding = {
        str(path.relative_to(project.folder))
        for path in files(project.folder)
        if path.name != "study.yaml" and holds_key(content(path))
    }
    assert holding == PRIVATE
    for path in PRIVATE:
        assert stat.S_IMODE((project.folder / path).stat().st_mode) == 0o600, path
    assert stat.S_IMODE((project.folder / "results/.secrets").stat().st_mode) == 0o700


def test_its_name_is_shown_with_a_mask(project, whole):
    for path in ("results/keyed/plan.json", "results/keyed/tables/cohorts.json"):
        assert '"API_KEY": "••••"' in (project.folder / path).read_text()
    report = (project.folder / "reports/keyed.html").read_text()
    assert "API_KEY" in report
    assert "••••" in report


def test_the_same_key_measures_nothing_anew_and_another_one_does(project, known, whole):
    again = project.snakemake()
    assert "Nothing to be done" in again.stdout + again.stderr
    changed = config(known)
    changed["workload"]["env"]["API_KEY"] = f"{KEY}-new"
    project.configure(changed)
    dry = project.snakemake("--dry-run", "--printshellcmds", "--verbose")
    project.configure(config(known))
    assert "measure" in dry.stdout.split("Rules with provenance triggered jobs:")[1]
    assert not holds_key((dry.stdout + dry.stderr).encode())
    again = project.snakemake()  # a dry run leaves the values as they were
    assert "Nothing to be done" in again.stdout + again.stderr


def test_the_launch_script_hands_it_to_its_members(project, whole, tmp_path):
    script = project.folder / "results/keyed/launch/recommended.sh"
    if "has nothing to recommend" in script.read_text():
        pytest.skip("other programs left no window valid")
    watch = Watch(project.folder)
    watch.start()
    try:
        subprocess.run(
            ["/bin/bash", script, tmp_path / "logs"],
            cwd=tmp_path,
            env={name: os.environ[name] for name in ("PATH", "HOME")},
            check=True,
        )
    finally:
        watch.stop()
    assert watch.shown == set()
    assert list((tmp_path / "logs").glob("member-*.log"))


def test_a_mistake_in_the_config_does_not_show_it(project, known, whole):
    wrong = config(known)
    wrong["workload"]["env"] = {"OMP_NUM_THREADS": KEY, "A-B": KEY}
    project.configure(wrong)
    done = project.snakemake("--dry-run")
    project.configure(config(known))
    assert done.returncode == 1
    assert "belongs to the axis intra_op" in done.stdout + done.stderr
    assert not holds_key((done.stdout + done.stderr).encode())
