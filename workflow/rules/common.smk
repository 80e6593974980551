"""The config, the plan made of it, and the few names that all rules share."""

import gc
import json
import os
import shlex
import sys
from pathlib import Path

# Whatever jobs start writes nothing beside its code or in the user's home: `make` has compiled the
# package, a script's own modules stay as they are, and the caches of matplotlib and torch are here.
sys.dont_write_bytecode = True
os.environ.update(
    PYTHONDONTWRITEBYTECODE="1",
    MPLCONFIGDIR=str(Path("results/.matplotlib").absolute()),
)
os.environ.setdefault(
    "TORCHINDUCTOR_CACHE_DIR", str(Path("results/.torchinductor").absolute())
)

from snakemake.exceptions import WorkflowError

# The checkout of this file, whose package comes first, here and in jobs, installed or not. In a
# module workflow.basedir is the outer workflow's.
CHECKOUT = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parents[1]
if CHECKOUT.is_dir():  # not where Snakemake reads this file from a repository
    LIBRARY = str(CHECKOUT / "workflow/lib")
    sys.path.insert(0, LIBRARY)
    further = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ.update(PYTHONPATH=os.pathsep.join([LIBRARY, *further]))

import scaling_study
from scaling_study.common import entries
from scaling_study.common.file_errors import UnusableError
from scaling_study.common.problems import ConfigError
from scaling_study.common.storage import read_json
from scaling_study.config.config_file import located, read_config, shipped
from scaling_study.config.config import CHOICE, choose_machines, load_config
from scaling_study.config.launches import look
from scaling_study.confirm import confirm
from scaling_study.experiments import experiment, microbenchmarks
from scaling_study.analysis import imported
from scaling_study.config.import_config import is_import
from scaling_study.runner import journal, measure, resolve, stop
from scaling_study.config import plan
from scaling_study.config.efforts import EFFORTS, FEEDS
from scaling_study.host import limits, probe
from scaling_study.search import rounds

# Snakemake keeps what it makes for each job: collecting garbage among 10,000 of them again and again
# takes a quarter of a dry run and finds none.
gc.set_threshold(100_000, 50, 50)

# Relative, as all paths are: in an absolute one Snakemake would read { and < of a folder's name.
PROJECT = Path(scaling_study.__file__).parents[3]
ROOT = Path(os.path.relpath(PROJECT))
if {"{", "}"} & set(str(PROJECT)) or "<" in str(ROOT):
    raise WorkflowError(
        f"the project's folder, {PROJECT}, has a brace or < in its path, which Snakemake reads as a"
        " wildcard; allowed: a path without them"
    )
IN_MODULE = not workflow.modifier.is_main_snakefile()
if workflow.modifier.modify_path("results") != "results":
    raise WorkflowError(
        "the module of this workflow has a prefix, which its jobs do not know; allowed: a module"
        " without prefix and replace_prefix. Studies are told apart by their names (study), and"
        " --directory puts all results elsewhere"
    )

# A measurement takes all of this resource and every other rule one of it. It is set here, and not in
# a profile, which a module or another profile would leave out.
workflow.register_resource("quiet", 100)

STOPPED = stop.end_jobs_with(
    workflow, lambda: [job.pid for job in list(shell._processes.values())]
)

# Without --configfile the full-size study is run. Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: str(PROJECT / "config/tsmixerx.yaml")


try:
    # Snakemake has read these files already, but tells nothing of keys that stand there twice.
    for path in [] if IN_MODULE else workflow.configfiles:
        read_config(Path(path))
    config = shipped(config)  # a copy: an outer workflow may use its own again
    IMPORTED = is_import(config)
    if IMPORTED:
        STUDY = imported.load_import(config)
    else:
        choice = config.pop(CHOICE, None)
        checked = load_config(config)
        # Snakemake changes the environment of its jobs, and a cluster has another one: they read
        # what the run has found where the user started it (see `announce`).
        FOUND = Path(f"results/{checked.study}/shell.json")
        if workflow.is_main_process:
            policy = limits.read_memory_policy() if workflow.local_exec else ""
            SHELL = look(os.environ, policy)
        else:
            SHELL = tuple(read_json(FOUND))
        STUDY = plan.make_plan(checked, SHELL)
        MACHINES = checked.machines
        CHOSEN = choose_machines(MACHINES, choice)
        RACED = STUDY.search.budget_minutes is not None
except ConfigError as error:
    files = [] if IN_MODULE else map(Path, workflow.configfiles)
    told = located(error, files, given=workflow.config_settings.config)
    raise WorkflowError(f"\n{told}") from None
except UnusableError as error:
    raise WorkflowError(f"\n{error}") from None

# Jobs run in the interpreter that runs Snakemake, wherever that is; a prefix of our own replaces
# Snakemake's strict mode, without which a command before `| tee` fails unseen.
BIN = (
    shlex.quote(str(Path(sys.executable).parent)).replace("{", "{{").replace("}", "}}")
)
shell.prefix(f"set -euo pipefail; export PATH={BIN}:$PATH; ")

# What measures starts members: its keeper ends them with it, and with Snakemake.
STAGE = "python -P -m scaling_study"
MEASURING = f"exec {STAGE}.measuring.keep --watch $PPID -- {STAGE}"

RESULTS = f"results/{STUDY.study}"
REPORT = f"reports/{STUDY.study}.html"
BUILDS = "results/.builds"  # no study can have this name
FINGERPRINTS = "results/.fingerprints"
JOB = (
    f"--job {{params.job:q}} --builds {BUILDS} --probed {{input.probed:q}}"
    " --log {log:q} --output {output:q}"
)
PACKAGE = ROOT / "workflow/lib/scaling_study"
CODE = sorted(map(str, PACKAGE.rglob("*.py")))
TEMPLATES = sorted(map(str, (ROOT / "workflow/report").iterdir()))


def of_chosen(paths):
    """Paths of each machine of this run; of a study of this machine alone, the paths as they are."""
    # As plain text: their flags (ancient …) are those of the rule that has set them.
    paths = [paths] if isinstance(paths, str) else map(str, paths)
    return expand(list(paths), machine=CHOSEN or [""])


def lacking(paths):
    """Record files that lack results, by why: what failed, was lost, or was more than there was."""
    marks = {path: journal.mark_of(Path(path)) for path in paths}
    return {path: mark.read_text() for path, mark in marks.items() if mark.exists()}


def try_what_was_skipped():
    """Have launches measured that this machine could not do, and can now."""
    skipped = [
        path
        for path, why in lacking(of_chosen(RECORDS)).items()
        if why == measure.SKIPPED
    ]
    machine = probe.read_machine().to_dict() if skipped else {}
    for path in skipped:
        launch = JOBS[Path(path).parent.name]
        if resolve.can(PLAN_JSON, launch["axes"], machine, Path(BUILDS)):
            if workflow.output_settings.dryrun:
                print(f"{launch['label']}: skipped before; this run would measure it")
            else:
                Path(path).unlink(missing_ok=True)


if not IMPORTED:
    PLAN = STUDY
    PLAN_JSON = PLAN.to_dict()
    # A study that names machines has a folder for each of them; one of this machine has none.
    HERE = f"{RESULTS}/machines/{{machine}}" if MACHINES else RESULTS
    SCRIPT_ENDED = f"{HERE}/measure/{measure.STOPPED}"
    LAUNCHES = {launch.id: launch for launch in PLAN.launches}
    JOBS = {launch["id"]: launch for launch in PLAN_JSON["launches"]}
    # A race measures what its rounds ask for, and makes launches of its own.
    RECORDS = [
        f"{HERE}/measure/{launch}/{replicate}.jsonl"
        for launch in ([] if RACED else LAUNCHES)
        for replicate in range(PLAN.measure.replicates)
    ]
    PLANNED = f"{RESULTS}/searched.json" if RACED else f"{RESULTS}/plan.json"
    # By content, in params: a changed file means new measurements, a new time stamp does not.
    FILES = measure.digest(
        measure.harness_digest(), measure.workload_digest(PLAN_JSON["workload"])
    )
    BUILT = any(launch.axes["build"].endswith(".txt") for launch in PLAN.launches)
    PROFILES = [f"{HERE}/profile/{launch}" for launch in PLAN.profiled]
    PROFILE_FILES = measure.digest(
        FILES, measure.harness_digest("profiling/profile_launch")
    )
    WHY = [
        f"{HERE}/why/{target}/{replicate}.jsonl"
        for target in PLAN.explained
        for replicate in range(EFFORTS[PLAN.why.effort].replicates)
    ]
    FEEDING = [
        f"{HERE}/feed/{replicate}.jsonl"
        for replicate in range(FEEDS[PLAN.feed].replicates if PLAN.feed in FEEDS else 0)
    ]
    CONFIRMED = [] if PLAN.confirm.seconds is None else [f"{HERE}/confirm/rounds.jsonl"]
    KEPT = [*RECORDS, *CONFIRMED, *PROFILES, *WHY, *FEEDING]
    KEPT += [f"{HERE}/tables/points.parquet"]
    KEPT += [f"{RESULTS}/rounds/0.json"] if RACED else []
    CONFIRM_FILES = measure.digest(FILES, measure.harness_digest(*confirm.MODULES))
    EXPERIMENT_FILES = measure.digest(
        FILES, measure.harness_digest(*experiment.MODULES)
    )
    FINGERPRINT_FILES = measure.harness_digest(*microbenchmarks.MODULES)
    # What measures under a machine's name checks that its node is the one that was probed.
    PROBED = ancient(f"{HERE}/machine.json") if MACHINES else []

    # On a cluster it is another machine that measures.
    if workflow.is_main_process and workflow.resource_settings.nodes is None:
        try_what_was_skipped()

    SUFFIX = "-{machine}" if MACHINES else ""
    LAUNCH_SCRIPT = f"{RESULTS}/launch/recommended{SUFFIX}.sh"
    RENDER = [
        *"-P -m scaling_study render".split(),
        "--study-folder",
        RESULTS,
        "--report",
        REPORT,
    ]
    RENDER += ["--plan", PLANNED]
    if MACHINES:
        COMPARED = f"{RESULTS}/analysis/machines.json"
        PROVENANCE = f"{HERE}/analysis/provenance.json"
        kinds = {name: kind.model_dump() for name, kind in MACHINES.items()}
        COMPARE = [
            *"-P -m scaling_study compare".split(),
            *("--study-folder", RESULTS, "--output", COMPARED),
            *("--machines", json.dumps(kinds), f"--currency={checked.currency}"),
        ]
        RENDER += ["--compared", COMPARED]


wildcard_constraints:
    machine=r"[A-Za-z][A-Za-z0-9_-]*",
    launch=r"[A-Za-z0-9_.-]+",
    replicate=r"\d+",
    round=r"\d+",
    node=r"\d+",


def build_of(wildcards):
    """The environment that a launch needs, where it is one of ours; any, where it is not known."""
    launches = (
        [LAUNCHES[wildcards.launch]]
        if wildcards.get("launch") in LAUNCHES
        else PLAN.launches
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


def confirm_of(_):
    """What a confirmation depends on; the recommended launch is the job's to find out."""
    return measure.job_text(PLAN_JSON, JOBS[PLAN.default], CONFIRM_FILES, "confirm")


def why_of(wildcards):
    """What the experiments on a launch depend on; the recommended one is the job's to find out."""
    launch = JOBS.get(wildcards.launch)
    return measure.job_text(PLAN_JSON, launch, EXPERIMENT_FILES, "why")


def feed_of(wildcards):
    """What the loader's variants depend on; the recommended launch is the job's to find out."""
    return measure.job_text(PLAN_JSON, None, EXPERIMENT_FILES, "feed")


def known_before(wildcards):
    """Which launch is recommended is known after the analysis; a race comes before all else."""
    if wildcards.launch in JOBS:
        return [PLANNED] if RACED else []
    return [PLANNED, f"{here(wildcards)}/analysis/recommendation.json"]


def here(wildcards):
    """The folder of a machine; of a study of this machine alone, the study's."""
    return HERE.format(machine=wildcards.get("machine"))


def group_of(name):
    """Jobs of one machine that share an allocation, where a cluster's profile lets jobs do so."""
    if workflow.resource_settings.nodes is None:  # what a profile says as `jobs`
        return None
    return f"{{machine}}-{name}" if MACHINES else name


def node_resources():
    """What the cluster is asked for in a machine's name, in the words of SLURM's plugin.

    What no machine sets is left to the profile; what some set is the site's default for the others.
    """
    words = {"partition": "slurm_partition", "account": "slurm_account"}
    keys = [
        key
        for key in ("partition", "account", "qos", "constraint", "cores")
        if any(getattr(kind, key) for kind in MACHINES.values())
    ]

    def asked(key):
        return lambda wildcards: getattr(MACHINES[wildcards.machine], key) or None

    resources = {words.get(key, key): asked(key) for key in keys if key != "cores"}
    if "cores" in keys:  # below zero is no number: all CPUs of the node
        resources["cpus_per_task"] = lambda wildcards: (
            MACHINES[wildcards.machine].cores or -1
        )
    return resources


def order_of(wildcards):
    """Replicate by replicate, each in an order of its own that the seed decides."""
    return plan.priority(PLAN, LAUNCHES[wildcards.launch], int(wildcards.replicate))


def race_of(_):
    """What all measurements of a race depend on; which launches there are is the rounds'."""
    return measure.job_text(PLAN_JSON, None, FILES)


def round_before(wildcards):
    """The round that was measured before one is decided."""
    before = int(wildcards.round) - 1
    return [] if before < 0 else measured_in(before)


def round_after(wildcards):
    """The round that was decided after one was measured."""
    after = int(wildcards.round) + 1
    return [f"{RESULTS}/rounds/{after}.json"] if after in ROUNDS else []


def measured_in(number):
    """One file for each node: they are there once all nodes have measured a round."""
    return [f"{RESULTS}/rounds/{number}-{node}.done" for node in NODES]
