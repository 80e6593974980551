"""What the adapter relies on is in the installed Snakemake; a signal to Snakemake ends its jobs.

tests/faults/test_kills.py sends signals to real studies.
"""

import inspect
import os
import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import snakemake
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from snakemake.cli import get_argument_parser
from snakemake.dag import DAG
from snakemake.jobs import Job
from snakemake.logging import LoggerManager
from snakemake.modules import WorkflowModifier
from snakemake.resources import Resources
from snakemake.rules import Rule
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.settings import types as settings
from snakemake.shell import shell
from snakemake.sourcecache import SourceFile
from snakemake.workflow import Workflow

from configs import ROOT
from processes import PATIENCE_S, has_ended, killed_at_the_end
from scaling_study.runner.supervisor import STUDY_STOPS
from scaling_study.study import snakemake_adapter

ROOTS = {"workflow": Workflow, "shell": shell, "job": Job}
KINDS = {
    "_processes": dict,
    "config_settings": settings.ConfigSettings,
    "current_basedir": SourceFile,
    "dag": DAG,
    "dag_settings": settings.DAGSettings,
    "logger_manager": LoggerManager,
    "modifier": WorkflowModifier,
    "output_settings": settings.OutputSettings,
    "resource_settings": settings.ResourceSettings,
    "resources": Resources,
    "rule": Rule,
    "scheduler": JobScheduler,
}
"""Classes of Snakemake's objects by their names in the adapter."""

ADAPTER = Path(snakemake_adapter.__file__)
RULES = [ROOT / "Snakefile", ROOT / "workflow/Snakefile", *ROOT.glob("workflow/rules/*")]
NAMES = sorted({
    (root, *names.strip(".").split("."))
    for path in [ADAPTER, *RULES]
    for root, names in re.findall(r"(?<!/)(workflow|shell|job)((?:\.[a-z_]+)+)", path.read_text())
})  # fmt: skip

READING = """
from scaling_study.study.snakemake_adapter import Snakemake
print("local:", Snakemake(workflow).local)
"""

# What Snakemake does with its lock, its handler of SIGTERM, and Ctrl-C.
SNAKEMAKE = """
import os, signal, subprocess, sys, threading
from types import SimpleNamespace
from snakemake.shell import shell
from scaling_study.study import snakemake_adapter

class Scheduler:
    def __init__(self):
        self.lock = threading.Lock()
        self.reading, self.writing = os.pipe()
        signal.signal(signal.SIGTERM, self.exit_gracefully)
    def exit_gracefully(self, *_):
        with self.lock:
            os.write(self.writing, b"!")

def start(command):
    job = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE)
    shell._processes[job.pid] = job
    return job

where, locked = sys.argv[1:]
if locked != "locked":
    snakemake_adapter.LOCK_S = 600.0  # a busy machine is no lock
workflow = SimpleNamespace(scheduler=None, local_exec=where == "local")
snakemake = object.__new__(snakemake_adapter.Snakemake)
vars(snakemake).update(_workflow=workflow, terminal=None, stopped=[])
snakemake.pass_signals_on()
workflow.scheduler = Scheduler()
first = start("sleep 600 | cat")
second = start("setsid bash -c 'echo $$; exec sleep 600' 2> /dev/null & wait")
other = second.stdout.readline().decode()
try:
    if locked == "locked":
        with workflow.scheduler.lock:
            print(other, end="", flush=True)  # the signal comes after this
            first.wait()
            signal.pause()
    print(other, end="", flush=True)
    os.read(workflow.scheduler.reading, 1)
    if where == "local":
        start("sleep 600")  # it was about to be started when the signal came
    for job in shell._processes.values():
        job.wait()
    print(*snakemake.stopped, "graceful", flush=True)
except KeyboardInterrupt:
    for job in shell._processes.values():
        job.wait()
    print("interrupted", flush=True)
"""


def has(kind, name):
    """Whether a class has an attribute, or its methods give one to its objects."""
    return name in {*dir(kind), *inspect.get_annotations(kind)} or bool(
        re.search(rf"self\.{name}\b[^=\n]*=[^=]", inspect.getsource(kind))
    )


def test_the_versions_are_those_of_the_package_and_of_the_workflow():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    supported = needed["snakemake"]
    assert supported == SpecifierSet(snakemake_adapter.SUPPORTED)
    assert version("snakemake") in supported
    (least,) = re.findall(r'min_version\("(.+)"\)', (ROOT / "workflow/Snakefile").read_text())
    assert f">={least}" in map(str, supported)


@pytest.mark.parametrize("names", NAMES, ids=".".join)
def test_snakemake_has_each_name(names):
    root, first, *others = names
    assert has(ROOTS[root], first)
    for kind, name in zip([first, *others], others, strict=False):
        assert has(KINDS[kind], name)


def test_snakemake_has_each_message_and_option():
    package = Path(snakemake.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    assert not [phrase for phrase in snakemake_adapter.NOISE if phrase not in text]
    assert set(get_argument_parser()._option_string_actions) >= snakemake_adapter.NO_JOBS


@pytest.mark.parametrize("options", [["--cores=1"], ["--executor=slurm", "--jobs=1"]])
def test_a_cluster_is_known_while_the_workflow_is_read(tmp_path, options):
    snakefile = tmp_path / "Snakefile"
    snakefile.write_text(READING)
    words = [sys.executable, "-m", "snakemake", "--dry-run", "--directory", tmp_path, *options]
    read = subprocess.check_output([*words, "--snakefile", snakefile], text=True, cwd=tmp_path)
    assert f"local: {options == ['--cores=1']}" in read


def told(where, locked, *signals):
    """Send signals to Snakemake alone; return its last words and a supervisor's command."""
    process = subprocess.Popen(
        [sys.executable, "-c", SNAKEMAKE, where, locked],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with killed_at_the_end(process):
        other = int(process.stdout.readline())
        for signum in signals:
            process.send_signal(signum)
        out, error = process.communicate(timeout=PATIENCE_S)
    ours = not has_ended(other)
    os.kill(other, signal.SIGKILL)
    assert ours, "what a supervisor has started is the supervisor's to end"
    assert process.returncode == 0, error
    named = "" if signals[0] == STUDY_STOPS else signal.Signals(signals[0]).name
    assert error == (f"{named}: all jobs are being stopped\n" if named else "")
    return out.strip()


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_jobs_end_and_snakemake_finishes_as_usual_however_impatient_its_user(signum, times):
    assert told("local", "free", *[signum] * times) == f"{signum.name} graceful"


def test_a_job_that_stops_the_study_ends_the_others_without_a_message():
    assert told("local", "free", STUDY_STOPS) == "graceful"


def test_a_signal_while_snakemake_has_its_lock():
    """Its own handler would wait for the lock that the interrupted code has."""
    assert told("local", "locked", signal.SIGTERM) == "interrupted"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_on_a_cluster_snakemake_cancels_what_it_has_submitted(signum):
    assert told("cluster", "free", signum) == "interrupted"
