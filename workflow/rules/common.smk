"""The config, the plan made of it, and the few names that all rules share."""

import gc
import json
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from scaling_study.common.problems import ConfigError
from scaling_study.configuring.config import load_config
from scaling_study.configuring.config_file import read_config
from scaling_study.experimenting import fingerprint, why
from scaling_study.importing import imported
from scaling_study.importing.import_config import is_import
from scaling_study.measuring import measure
from scaling_study.planning import plan
from scaling_study.planning.efforts import EFFORTS
from scaling_study.rendering.study import (
    StudyInUseError,
    StudyLock,
    conclusion,
    outline,
)

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
    IMPORTED = is_import(config)
    STUDY = (
        imported.load_import(config)
        if IMPORTED
        else plan.make_plan(load_config(config))
    )
except ConfigError as error:
    raise WorkflowError(f"\n{error}") from None

# Jobs run in the interpreter that runs Snakemake, wherever that is.
shell.prefix(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

RESULTS = f"results/{STUDY.study}"
REPORT = f"reports/{STUDY.study}.html"
BUILDS = "results/.builds"  # no study can have this name
FINGERPRINTS = "results/.fingerprints"
# Relative, as all paths are: in an absolute one Snakemake would read { and < of a folder's name.
PACKAGE = Path("workflow/lib/scaling_study")
CODE = sorted(map(str, PACKAGE.rglob("*.py")))
TEMPLATES = sorted(map(str, Path("workflow/report").iterdir()))

if not IMPORTED:
    PLAN = STUDY
    PLAN_JSON = PLAN.to_dict()
    LAUNCHES = {launch.id: launch for launch in PLAN.launches}
    JOBS = {launch["id"]: launch for launch in PLAN_JSON["launches"]}
    RECORDS = [
        f"{RESULTS}/measure/{launch}/{replicate}.jsonl"
        for launch in LAUNCHES
        for replicate in range(PLAN.measure.replicates)
    ]
    # By content, in params: a changed file means new measurements, a new time stamp does not.
    FILES = measure.digest(
        measure.harness_digest(), measure.workload_digest(PLAN_JSON["workload"])
    )
    BUILT = any(launch.axes["build"].endswith(".txt") for launch in PLAN.launches)
    PROFILES = [f"{RESULTS}/profile/{launch}" for launch in PLAN.profiled]
    PROFILE_FILES = measure.digest(
        FILES, measure.harness_digest("profiling/profile_launch")
    )
    WHY = [
        f"{RESULTS}/why/{target}/{replicate}.jsonl"
        for target in PLAN.explained
        for replicate in range(EFFORTS[PLAN.why.effort].replicates)
    ]
    WHY_FILES = measure.digest(FILES, measure.harness_digest(*why.MODULES))
    FINGERPRINT_FILES = measure.harness_digest(*fingerprint.MODULES)


wildcard_constraints:
    launch=r"[A-Za-z0-9_.-]+",
    replicate=r"\d+",


def build_of(wildcards):
    """The environment that a launch needs, where it is one of ours; any, where it is not known."""
    launches = (
        [LAUNCHES[wildcards.launch]] if wildcards.launch in LAUNCHES else PLAN.launches
    )
    builds = {launch.axes["build"] for launch in launches}
    return [
        f"{BUILDS}/{Path(build).stem}.txt"
        for build in sorted(builds)
        if build.endswith(".txt")
    ]


def profile_of(wildcards):
    """What a profile depends on; the recommended launch is the job's to find out."""
    launch = JOBS.get(wildcards.launch)
    return measure.job_text(PLAN_JSON, launch, PROFILE_FILES, "profile")


def why_of(wildcards):
    """What the experiments on a launch depend on; the recommended one is the job's to find out."""
    launch = JOBS.get(wildcards.launch)
    return measure.job_text(PLAN_JSON, launch, WHY_FILES, "why")


def known_before(wildcards):
    """Which launch is recommended is known after the analysis."""
    if wildcards.launch in JOBS:
        return []
    return [f"{RESULTS}/plan.json", f"{RESULTS}/analysis/recommendation.json"]


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
    if IMPORTED:
        print(imported.outline(STUDY))
    else:
        measured = sum(Path(path).exists() for path in RECORDS)
        print(outline(PLAN, len(RECORDS), measured))


def conclude():
    """Say what came out; a run that was asked for less than the report has nothing to say."""
    if Path(REPORT).exists():
        conclude_study = imported.conclusion if IMPORTED else conclusion
        print(conclude_study(Path(RESULTS), Path(REPORT)))


def explain():
    """Say what to do after a failure."""
    kept = (
        ""
        if IMPORTED
        else " Windows that were taken are kept: the same command goes on where it stopped."
    )
    print(
        f"The study stopped before its end; the message above says why.{kept}",
        file=sys.stderr,
    )
