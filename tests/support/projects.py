"""A copy of the project in which real studies are run."""

import json
import os
import shutil
import subprocess
import sys

import yaml

from jobs import ROOT
from processes import captured

PARTS = (
    *("Snakefile", "config", "envs", "profiles", "workflow"),
    *("scripts/workloads", "tests/workloads"),
)
SNAKEMAKE = [sys.executable, "-P", "-m", "snakemake", "--cores", "192"]

KEY = "sk-planted-5c1f0e9d7b"
"""In the shell of whoever runs a study: no file and no output may hold it."""

SHORT_RACE = {"windows": 2, "steps": 20, "window_s": [0.5, 3.0], "warmup_steps": 5}
"""The section `measure` of a race that takes no longer than it must."""
SHORT = {"replicates": 1, **SHORT_RACE}
"""The same of a grid."""


def take_every_window(library):
    """Let no window be invalid but for want of steps, and compare what windows give.

    A study on a busy machine takes its windows again and again and then has no result, or steps
    that differ too much to compare launches, which other tests show. Here it would make a test of
    the workflow long, and then fail.

    Args:
        library: the folder of a copy of the package.
    """
    for name, begin, rest in (
        ("runner/windows.py", "INVALID = ", 'frozenset({"few_steps"})'),
        ("analysis/unequal_work.py", "def unequal_work(", "*_): return []"),
    ):
        text = (library / name).read_text()
        assert f"\n{begin}" in text
        (library / name).write_text(f"{text}\n\n{begin}{rest}\n")


def hurry(library):
    """Let experiments on causes take no longer than they must; their intervals are wide."""
    efforts = library / "config/efforts.py"
    quick = "blocks=5, kernels=('register',), doses=(1.0,), dose_blocks=1"
    changed = f'EFFORTS["quick"] = replace(EFFORTS["quick"], {quick})'
    efforts.write_text(f"{efforts.read_text()}\n\n{changed}\n")
    microbenchmarks = library / "experiments/microbenchmarks.py"
    text = microbenchmarks.read_text()
    assert "\nBLOCKS = 5\n" in text
    microbenchmarks.write_text(text.replace("\nBLOCKS = 5\n", "\nBLOCKS = 1\n"))


class Project:
    """A folder in which a study is run, and the copy of the project that runs it.

    Args:
        folder: where Snakemake runs.
        checkout: the copy, if it is elsewhere.
    """

    def __init__(self, folder, checkout=None):
        self.folder = folder
        self.checkout = checkout or folder
        for part in PARTS:
            source, target = ROOT / part, self.checkout / part
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)

    def take_every_window(self):
        """Let no window of this copy be invalid but for want of steps."""
        take_every_window(self.checkout / "workflow/lib/scaling_study")

    def hurry(self):
        """Let experiments of this copy take no longer than they must."""
        hurry(self.checkout / "workflow/lib/scaling_study")

    def configure(self, config):
        if not isinstance(config, str) and "workload" in config:
            # What this environment exports makes no launch, unless a test says so.
            launches = {"today": "off", **config.get("launches", {})}
            # Observing a start takes longer than these studies: a test that wants it says so.
            workload = {"step": "optimizer", **config["workload"]}
            config = {**config, "launches": launches, "workload": workload}
        text = config if isinstance(config, str) else yaml.safe_dump(config)
        (self.folder / "study.yaml").write_text(text)

    def environment(self):
        # What Snakemake's caller exports must reach no member.
        tuning = {"OMP_NUM_THREADS": "7", "MALLOC_ARENA_MAX": "1", "API_KEY": KEY}
        return {**os.environ, **tuning, "PYTHONPATH": str(self.checkout / "workflow/lib")}

    def command(self, *options):
        elsewhere = ["--snakefile", str(self.checkout / "Snakefile")]
        where = elsewhere if self.checkout != self.folder else []
        return [*SNAKEMAKE, *where, *options, "--configfile", "study.yaml"]

    def execute(self, words, cwd=None):
        return captured(words, cwd=cwd or self.folder, env=self.environment())

    def snakemake(self, *options):
        return self.execute(self.command(*options))

    def succeeds(self, *options):
        """Run to the end; return all that it says."""
        done = self.snakemake(*options)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return said

    def fails(self, *options):
        """Run what cannot succeed; return its message, which is no traceback."""
        done = self.snakemake(*options)
        said = done.stdout + done.stderr
        assert done.returncode != 0, said
        assert "Traceback" not in said, said
        return said

    def start(self, *options):
        """Start it in a session of its own, and go on; what it says goes to a file."""
        with (self.folder / "said").open("w") as said:
            return subprocess.Popen(
                self.command(*options), cwd=self.folder, env=self.environment(),
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def said(self):
        return (self.folder / "said").read_text()

    def machine(self, study, analysis):
        """The one machine of an analysis."""
        path = self.folder / "results" / study / "analysis" / f"{analysis}.json"
        (found,) = json.loads(path.read_text())["machines"]
        return found

    def records(self, study):
        files = (self.folder / "results" / study / "measure").glob("*/*.jsonl")
        return {str(path.relative_to(self.folder)): path.stat().st_mtime_ns for path in files}
