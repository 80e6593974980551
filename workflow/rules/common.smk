"""The study that the config describes, and the few names that all rules share."""

import json
import os
import sys
from pathlib import Path

# Programs that jobs start write nothing beside their code or in the user's home: `make` has compiled
# the package, a script's own modules are not compiled, and matplotlib and torch have caches in results/.
sys.dont_write_bytecode = True
os.environ.update(
    PYTHONDONTWRITEBYTECODE="1",
    MPLCONFIGDIR=str(Path("results/.matplotlib").absolute()),
)
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR", str(Path("results/.torchinductor").absolute())
)

# The folder of this file. Its package comes first, here and in jobs, whether installed or not. In a
# module, workflow.basedir is the outer workflow's.
CHECKOUT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
if CHECKOUT.is_dir():  # not if Snakemake reads this file from a remote repository
    LIBRARY = str(CHECKOUT / "workflow/lib")
    sys.path.insert(0, LIBRARY)
    further = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ.update(PYTHONPATH=os.pathsep.join([LIBRARY, *further]))

from scaling_study.study import files as study_files
from scaling_study.common import entries
from scaling_study.common.storage import PROJECT
from scaling_study.study.run import Run
from scaling_study.study.snakemake_adapter import Snakemake

RUN = Run(Snakemake(workflow))

# The full-size study is the default. Snakemake would merge it with a config that is given.
if not RUN.snakemake.configs:

    configfile: str(PROJECT / "config/tsmixerx.yaml")


STUDY = RUN.load(config)
RESULTS, REPORT, HERE = STUDY.results, STUDY.report, STUDY.here
FOLDER = HERE.replace("{machine}", "{wildcards.machine}")  # in a job's command

# Relative, like all paths: in an absolute one, Snakemake would interpret { and < of a folder's name.
ROOT = Path(os.path.relpath(PROJECT))
CODE = study_files.code(ROOT)
TEMPLATES = study_files.templates(ROOT)

# Rules have no conda environment and no container, which `snakemake --lint` wants: jobs run in the
# interpreter that runs Snakemake, and measure how this machine runs a script as its user starts it.
# A job that measures starts members. Its supervisor ends them with the job, and with Snakemake.
STAGE = " ".join(["python", *study_files.STAGE])
MEASURING = f"exec {STAGE}.runner.supervisor --watch $PPID -- {STAGE}"
FILES = "--log {log:q} --output {output:q}"
JOB = f"--job {{params.job:q}} --builds {study_files.BUILDS} --probed {{input.probed:q}} {FILES}"

# A job that measures a named machine checks that its node is the one that was probed.
PROBED = ancient(f"{HERE}/machine.json") if STUDY.machines else []


def tables(*names):
    return multiext(
        f"{HERE}/tables/",
        *(f"{name}.{kind}" for name in names for kind in ("parquet", "csv")),
    )


def rounds_needed(_):
    """Return the files of the rounds that are decided; a race's last one measures nothing."""
    for number in STUDY.rounds:
        checkpoints.decide.get(round=number)
        if STUDY.is_over(number):
            break
    return expand(f"{RESULTS}/rounds/{{round}}.json", round=range(number + 1))


def last_measured(wildcards):
    """Return the files that exist once the last round is measured, if it measures anything."""
    last = len(rounds_needed(wildcards)) - 1
    return [] if STUDY.is_over(last) else STUDY.measured(last)


wildcard_constraints:
    machine=r"[A-Za-z][A-Za-z0-9_-]*",
    launch=r"[A-Za-z0-9_.-]+",
    replicate=r"\d+",
    round=r"\d+",
    node=r"\d+",


onstart:
    RUN.start()


onsuccess:
    RUN.end()


onerror:
    RUN.fail()
