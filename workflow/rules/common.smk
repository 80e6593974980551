"""The config, the plan made of it, and the few names that all rules share."""

import gc
import json
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from scaling_study import measure, plan
from scaling_study.config_file import read_config
from scaling_study.config import load_config
from scaling_study.problems import ConfigError
from scaling_study.study import StudyInUseError, StudyLock, conclusion, outline

# Snakemake keeps what it makes for each job: collecting garbage among 10,000 of them again and again
# takes a quarter of a dry run and finds none.
gc.set_threshold(100_000, 50, 50)

# Without --configfile the full-size study is run. Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: "config/tsmixerx.yaml"


try:
    # Snakemake has read these files already, but tells nothing of keys that stand there twice.
    for path in workflow.configfiles:
        read_config(Path(path))
    PLAN = plan.make_plan(load_config(config))
except ConfigError as error:
    raise WorkflowError(f"\n{error}") from None

# Jobs run in the interpreter that runs Snakemake, wherever that is.
shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

RESULTS = f"results/{PLAN.study}"
REPORT = f"reports/{PLAN.study}.html"
BUILDS = "results/.builds"  # no study can have this name
PLAN_JSON = PLAN.to_dict()
LAUNCHES = {launch.id: launch for launch in PLAN.launches}
JOBS = {launch["id"]: launch for launch in PLAN_JSON["launches"]}
PACKAGE = Path(workflow.basedir) / "workflow/lib/scaling_study"
CODE = sorted(map(str, PACKAGE.glob("*.py")))
RECORDS = [
    f"{RESULTS}/measure/{launch}/{replicate}.jsonl"
    for launch in LAUNCHES
    for replicate in range(PLAN.measure.replicates)
]


wildcard_constraints:
    launch=r"[A-Za-z0-9_.-]+",
    replicate=r"\d+",


# By content, in params: a changed file means new measurements, a new time stamp does not.
FILES = measure.digest(
    measure.harness_digest(), measure.workload_digest(PLAN_JSON["workload"])
)
BUILT = any(launch.axes["build"].endswith(".txt") for launch in PLAN.launches)


def build_of(wildcards):
    """The environment that a launch needs, where it is one of ours."""
    build = LAUNCHES[wildcards.launch].axes["build"]
    return f"{BUILDS}/{Path(build).stem}.txt" if build.endswith(".txt") else []


def order_of(wildcards):
    """Replicate by replicate, each in an order of its own that the seed decides."""
    return plan.priority(PLAN, LAUNCHES[wildcards.launch], int(wildcards.replicate))


def announce():
    """Say what will be done, and refuse to do it twice at once in one folder."""
    global study_lock
    try:
        study_lock = StudyLock(Path(RESULTS))
    except StudyInUseError as error:
        raise WorkflowError(f"\n{error}") from None
    print(outline(PLAN, len(RECORDS), sum(Path(path).exists() for path in RECORDS)))


def conclude():
    """Say what came out; a run that was asked for less than the report has nothing to say."""
    if Path(REPORT).exists():
        print(conclusion(Path(RESULTS), Path(REPORT)))


def explain():
    """Say what to do after a failure."""
    print(
        "The study stopped before its end; the message above says why. Windows that were taken"
        " are kept: the same command goes on where it stopped.",
        file=sys.stderr,
    )
