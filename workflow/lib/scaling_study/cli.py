"""The stages of a study as one command, which the rules run: ``python -m scaling_study STAGE``.

A stage imports what it needs when it runs: a job that measures loads neither tables nor figures.
"""

import argparse
import io
import json
import os
import shlex
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from scaling_study.common import file_errors
from scaling_study.common.printable import clear_line, printable_lines
from scaling_study.common.problems import ConfigError
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config.launches import NO_LAUNCH
from scaling_study.config.plan import RECOMMENDED, Plan, make_plan, read_plan
from scaling_study.records.analysis import Machines, Recommendation
from scaling_study.records.codec import read_file, write_file
from scaling_study.runner import job_process
from scaling_study.runner.jobs import Job, read_job
from scaling_study.runner.measure import STOPPED, Measurement

WRONG_INPUT = 2
"""The exit status of argparse after a wrong command line; a wrong config has the same."""

SHOWN_LINES = 15
"""The last lines of another program's output that are shown."""

ARGUMENTS: dict[str, dict[str, Any]] = {  # type: ignore[explicit-any]  # argparse's own words
    "config": {"type": Path, "help": "a study's YAML file"},
    "--changes": {"type": Path, "help": "another one, whose keys come before those of the first"},
    "plan_file": {"type": Path, "nargs": "?", "help": "plan.json to write"},
    "point": {"metavar": "TARGET/N", "help": "a profiled point"},
    "other": {"metavar": "TARGET/N", "nargs": "?", "help": "another, to compare with it"},
    "page": {"type": Path, "help": "the HTML file to write"},
    "--job": {"required": True, "help": "what the records depend on, as JSON"},
    "--study-folder": {"type": Path, "required": True, "help": "results/<study>, or a machine's"},
    "--plan": {"type": Path, "help": "default: plan.json in the study's folder"},
    "--builds": {"type": Path, "help": "folder of built environments"},
    "--requirements": {"type": Path, "required": True, "help": "of pip: what the build has"},
    "--probed": {"type": Path, "nargs": "?", "help": "machine.json of the named machine"},
    "--target": {"required": True, "help": "a launch's id, or recommended"},
    "--replicate": {"type": int, "default": 0},
    "--log": {"type": Path, "required": True, "help": "gets what the stage prints"},
    "--output": {"type": Path, "required": True},
    "--limit": {"type": float, "required": True, "help": "longest time of a whole run (s)"},
    "--cores": {"help": "CPUs that the config says it has; None where it does not"},
    "--code": {"required": True, "help": "digest of what measures"},
    "--kept": {"type": Path, "required": True, "help": "folder of all machines' microbenchmarks"},
    "--round": {"type": Path, "required": True, "help": "rounds/<number>.json"},
    "--rounds": {"type": Path, "nargs": "+", "required": True, "help": "in their order"},
    "--node": {"type": int, "default": 0, "help": "which of the nodes that measure the round"},
    "--nodes": {"type": int, "default": 1},
    "--machines": {"type": json.loads, "required": True, "help": "of the config, as JSON"},
    "--compared": {"type": Path, "help": "machines.json of a study that names some"},
    "--report": {"type": Path, "required": True, "help": "the HTML file to write"},
    "--study": {"required": True, "help": "a study of saved tables, as JSON in a config's form"},
}
Subcommand = Callable[[argparse.Namespace], int | None]
MEASURING = ("--job", "--builds", "--probed", "--log", "--output")


@dataclass(frozen=True, slots=True)
class Stage:
    """A subcommand.

    Attributes:
        run: takes the options; may return an exit status.
        arguments: keys of ``ARGUMENTS``.
        reads: the study's own files, if the stage reads nothing else (``file_errors.told``).
    """

    run: Subcommand
    arguments: tuple[str, ...]
    reads: str


STAGES: dict[str, Stage] = {}


def _stage(*arguments: str, reads: str = "") -> Callable[[Subcommand], None]:
    def keep(run: Subcommand) -> None:
        STAGES[run.__name__] = Stage(run, arguments, reads)

    return keep


def main() -> None:
    """Run the stage that the command line names, and exit with its status."""
    parser = argparse.ArgumentParser(prog="python -m scaling_study", description=__doc__)
    version = f"torch-scaling-study {metadata.version('torch-scaling-study')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="stage", metavar="STAGE", required=True)
    for name, stage in STAGES.items():
        text = stage.run.__doc__ or ""
        command = commands.add_parser(name, help=text.partition("\n")[0], description=text)
        for argument in stage.arguments:
            command.add_argument(argument, **ARGUMENTS[argument])
        if "--log" not in stage.arguments:
            command.add_argument("--log", **{**ARGUMENTS["--log"], "required": False})
    options = parser.parse_args()
    stage = STAGES[options.stage]
    # Stages that measure write their logs themselves.
    log = None if "--log" in stage.arguments else options.log
    with _written(log), file_errors.told(options.stage, reads=stage.reads):
        sys.exit(stage.run(options))


class _Printed(io.StringIO):
    """A stream into a log, as far as its disk has room, and into a terminal if there is one."""

    def __init__(self, log: BinaryIO, terminal: TextIO | None = None) -> None:
        super().__init__()
        self._log, self._terminal = log, terminal

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._log.write(text.encode(errors="replace"))
        if self._terminal is None:
            return len(text)
        before = clear_line(self._terminal) if text.strip() else ""
        return self._terminal.write(f"{before}{text}")

    def flush(self) -> None:
        if self._terminal is not None:
            self._terminal.flush()


@contextmanager
def _written(path: Path | None) -> Iterator[None]:
    """Write all output into a log, and errors to the terminal too."""
    if path is None:
        yield
        return
    with path.open("wb", buffering=0) as log:
        printed = _Printed(log)
        with redirect_stdout(printed), redirect_stderr(_Printed(log, sys.stderr)):
            try:
                yield
            except (Exception, SystemExit) as error:
                if not isinstance(error, SystemExit) or error.__cause__:
                    printed.write(traceback.format_exc())
                raise


def _plan(options: argparse.Namespace) -> Plan:
    return read_plan(options.plan or options.study_folder / "plan.json")


@_stage("config", "plan_file", "--changes")
def check(options: argparse.Namespace) -> int:
    """Check a config and say what would be measured on this machine; the script does not run.

    It reads the config as data, and starts only the interpreter that the config names, for its
    versions. Snakemake itself gives neither the line nor the reason of a mistake in YAML.
    """
    from scaling_study.analysis import imported
    from scaling_study.config import work
    from scaling_study.config.config import load_config
    from scaling_study.config.config_file import as_written, located, merged, read_config, shipped
    from scaling_study.config.import_config import is_import
    from scaling_study.config.launches import look
    from scaling_study.host import limits
    from scaling_study.report.study import outline
    from scaling_study.runner import resolve

    files = [file for file in (options.config, options.changes) if file is not None]
    try:
        mapping = as_written(shipped(merged(*map(read_config, files))), files)
        if is_import(mapping):
            study = imported.load_import(mapping)
            text, plan = imported.outline(study), study.to_dict()
        else:
            config = load_config(mapping)
            config = work.with_interpreter(config, work.python_of_shell(config.workload))
            study_plan = make_plan(config, look(os.environ, limits.read_memory_policy()))
            plan = study_plan.to_dict()
            text = f"{outline(study_plan)}\n  runs in {resolve.check_workload(study_plan.workload)}"
            text += f"\n  the first process: {shlex.join(work.first_command(study_plan))}"
    except ConfigError as error:
        print(located(error, files), file=sys.stderr)
        return WRONG_INPUT
    except UnavailableError as error:
        print(f"{error.reason}\n  What helps: {error.remedy}", file=sys.stderr)
        return WRONG_INPUT
    print(text)
    if options.plan_file:
        write_file(options.plan_file, plan)
    return 0


@_stage("--cores", "--output")
def probe(options: argparse.Namespace) -> None:
    """Describe this machine in machine.json."""
    from scaling_study.host import node, probe

    node.require_whole_node()
    machine = probe.read_machine()
    node.require_cores(machine, None if options.cores == "None" else int(options.cores))
    write_file(options.output, machine)


@_stage("--requirements", "--output")
def build(options: argparse.Namespace) -> int:
    """Make the environment of a build from its requirements file, and list its packages."""
    folder = options.output.with_suffix("")
    pip = [str(folder / "bin/python"), "-P", "-m", "pip"]
    cache = str(options.output.parent / ".pip")
    for command in (
        [sys.executable, "-P", "-m", "venv", "--clear", str(folder)],
        [*pip, "install", "--cache-dir", cache, "--requirement", str(options.requirements)],
        [*pip, "freeze"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr)
        if done.returncode:
            last = "\n".join(done.stderr.splitlines()[-SHOWN_LINES:])
            print(printable_lines(f"build: {shlex.join(command)} failed:\n{last}"), file=sys.stderr)
            return 1
    options.output.write_text(done.stdout, encoding="utf-8")
    return 0


@_stage("--job", "--builds", "--limit", "--log", "--output")
def observe(options: argparse.Namespace) -> None:
    """Observe one start of the default launch's program, to find its unit of work."""
    from scaling_study.runner import observe

    job = read_job(options.job, 0)
    with job_process.prepared("observe", options.log):
        observed = observe.Observer(job, options.builds, options.limit).observe()
        write_file(options.output, observed)


@_stage(*MEASURING, "--replicate")
def measure(options: argparse.Namespace) -> None:
    """Measure one launch and replicate of a study."""
    if (options.output.parents[1] / STOPPED).exists():  # a cluster queues many at once
        sys.exit("the default launch's script cannot be measured, so nothing is")
    job = read_job(options.job, options.replicate)
    with job_process.prepared(f"measure ({job.launch.label})", options.log, options.probed):
        Measurement(job, options.output, options.builds).run()


@_stage(*MEASURING, "--round", "--node", "--nodes")
def race(options: argparse.Namespace) -> None:
    """Measure the launches of one round of a race, batch by batch."""
    from scaling_study.confirm import one_round
    from scaling_study.records.confirmation import FIRST_MODELS
    from scaling_study.search import rounds

    decision = rounds.read(options.round)
    title = f"round {options.round.stem} ({decision.stage})"
    with job_process.prepared(title, options.log):
        folder, job = options.round.parent.parent / "measure", read_job(options.job, 0)
        if decision.models is not None and options.node == 0:
            launches = {launch.id: launch for launch in decision.launches}
            base = replace(job, launch=launches[decision.models.launch])
            one_round.train_first_models(
                base, decision.models, folder / FIRST_MODELS, options.builds
            )
        rounds.measure_part(decision, job, folder, options.builds, (options.node, options.nodes))
        options.output.touch()


@_stage("--job", "--study-folder", "--output", reads="plan.json, machine.json and the records")
def decide(options: argparse.Namespace) -> None:
    """Decide what a race measures next, from all records so far."""
    from scaling_study.search import rounds
    from scaling_study.study import stages

    now = datetime.now(UTC).isoformat(timespec="seconds")
    before = rounds.set_aside(options.study_folder, options.job, now)
    if before is not None:
        print(f"what is measured has changed: records of before are in {before}")
    decision = stages.decide(options.study_folder, now, first=options.output.stem == "0")
    write_file(options.output, decision)
    print(printable_lines(rounds.describe(decision)))


@_stage("--study-folder", "--rounds", "--output", reads="plan.json and the rounds")
def searched(options: argparse.Namespace) -> None:
    """Write the plan with the combinations and the outcome of a race."""
    from scaling_study.search import rounds

    plan = rounds.grown(read_plan(options.study_folder / "plan.json"), options.study_folder)
    plan = rounds.searched(plan, [rounds.read(path) for path in options.rounds])
    write_file(options.output, plan.to_dict())


@_stage("--study-folder", "--plan", reads="plan.json and the records")
def analyse(options: argparse.Namespace) -> None:
    """Collect the records into tables/, and analyse these into analysis/*.json."""
    from scaling_study.study import stages

    stages.analyse(options.study_folder, _plan(options))


@_stage(*MEASURING, "--study-folder", "--plan")
def confirm(options: argparse.Namespace) -> None:
    """Run the recommended and the default launch as a user would."""
    from scaling_study.confirm.confirm import ConfirmationJob

    plan, recommendation = _recommendation(options)
    with job_process.prepared("confirm", options.log, options.probed):
        job = read_job(options.job, 0)
        ConfirmationJob(job, plan, recommendation, options.output, options.builds).run()


@_stage(*MEASURING, "--study-folder", "--plan", "--target")
def profile(options: argparse.Namespace) -> None:
    """Profile one launch of a study."""
    from scaling_study.profiling import profile_launch

    job, plan, machine = _targeted(options)
    again = plan is not None and job.launch.id in plan.profiled
    if again or not job.launch.id:
        launch = job.launch if again else None
        content = profile_launch.without_profile(launch, machine)
        write_file(options.output / "profile.json", content)
        return
    with job_process.prepared(_title("profile", options, job), options.log, options.probed):
        profile_launch.profile_launch(job, options.target, options.output, options.builds)


@_stage(*MEASURING, "--study-folder", "--plan", "--target", "--replicate")
def why(options: argparse.Namespace) -> None:
    """Find out by experiment why a launch stops scaling."""
    from scaling_study.analysis.laws import read_law
    from scaling_study.experiments import why

    job, plan, machine = _targeted(options)
    launch = job.launch.id
    with job_process.prepared(_title("why", options, job), options.log, options.probed):
        experiments = why.WhyExperiment(job, options.target, options.output, options.builds)
        if not launch:
            experiments.leave_out("no launch is recommended on this machine")
        elif plan is not None and launch in plan.explained:
            experiments.leave_to(launch)
        else:
            with file_errors.told("why", reads="analysis"):
                law = read_law(options.study_folder, machine, launch)
            experiments.run(law.knee.value if law and law.knee else None)


@_stage("--code", "--kept", "--probed", "--log", "--output", reads="results/.microbenchmarks")
def microbenchmarks(options: argparse.Namespace) -> None:
    """Measure how much each part of the machine slows down, or copy a kept measurement."""
    from scaling_study.experiments import microbenchmarks

    with job_process.prepared("microbenchmarks", options.log, options.probed):
        microbenchmarks.take(options.kept, options.code, options.output)


@_stage(*MEASURING, "--study-folder", "--plan", "--replicate")
def loader_experiment(options: argparse.Namespace) -> None:
    """Measure what the recommended launch's data loader costs."""
    from scaling_study.experiments import loader_experiment

    options.target = RECOMMENDED
    job, _, machine = _targeted(options)
    with job_process.prepared(f"data_loader ({job.launch.label})", options.log, options.probed):
        experiment = loader_experiment.LoaderExperiment(job, options.output, options.builds)
        if not job.launch.id:
            experiment.leave_out("no launch is recommended on this machine")
        else:
            entry = _recommendation(options)[1].of(machine)
            if entry is not None and entry.recommended is not None:
                experiment.run(entry.recommended.n)


@_stage(
    "--study-folder",
    "--plan",
    reads="confirm, profile, why, data_loader, tables, analysis, plan.json",
)
def judge(options: argparse.Namespace) -> None:
    """Judge the confirmation, the profiles and the experiments, in analysis/*.json."""
    from scaling_study.study import stages

    stages.judge(options.study_folder, _plan(options))


@_stage(
    *("--study-folder", "--plan", "--machines", "--output"),
    reads="analysis and tables of each machine, and plan.json",
)
def compare(options: argparse.Namespace) -> int:
    """Compare the machines of a study, in analysis/machines.json."""
    from scaling_study.analysis import compare
    from scaling_study.config.config import NodeKind

    plan = _plan(options)
    kinds = {name: NodeKind.model_validate(kind) for name, kind in options.machines.items()}
    results = {
        name: compare.read_results(options.study_folder / "machines" / name, plan) for name in kinds
    }
    missing = {name: reason for name, reason in results.items() if isinstance(reason, str)}
    for name, reason in missing.items():
        print(f"{name} is missing: {reason}", file=sys.stderr)
    if len(missing) == len(results):
        print("compare: no machine is measured yet", file=sys.stderr)
        return 1
    write_file(options.output, compare.compare(results, kinds))
    print(f"compared {len(results) - len(missing)} of {len(results)} machines")
    return 0


@_stage(
    *("--study-folder", "--plan", "--compared", "--report"),
    reads="analysis, tables, profile, microbenchmarks.json and plan.json",
)
def render(options: argparse.Namespace) -> None:
    """Render a study: figures/*.svg, launch/recommended.sh and the report."""
    from scaling_study.report.page import render_study

    folder = options.study_folder
    written = render_study(
        folder,
        options.report,
        plan=options.plan or folder / "plan.json",
        builds=folder.parent / ".builds",
        compared=options.compared,
    )
    print(f"wrote {len(written)} files: {options.report} and what it is made of")


@_stage("--study-folder", "--report", reads="the records so far")
def so_far(options: argparse.Namespace) -> int:
    """Report on the records that a stopped study has, and print the result."""
    from scaling_study.study import stages

    with redirect_stdout(io.StringIO()):
        said = stages.report_so_far(options.study_folder, options.report)
    print(said or "nothing is known yet")
    return 0 if said else 1


@_stage("--study", "--study-folder", "--report")
def tables(options: argparse.Namespace) -> int:
    """Read saved tables of torch's profiler, compare their operators, and report on them."""
    from scaling_study.config.import_config import ImportConfig
    from scaling_study.report.imported import render_imported
    from scaling_study.study import stages

    try:
        study = ImportConfig.model_validate(json.loads(options.study))
        stages.import_tables(study, options.study_folder)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    with file_errors.told("tables", reads="analysis and tables"):
        written = render_imported(options.study_folder, options.report)
    print(f"wrote {len(written)} files: {options.report} and its figures")
    return 0


@_stage("--study-folder", "point", "other", "page")
def flamegraph(options: argparse.Namespace) -> int:
    """Show the flamegraph of a profiled point, or the difference between any two, in a page.

    A point is a target (a launch's id, or recommended) with a process count: the name of its folder
    in results/<study>/profile, such as intra_op-1-d88425/2.
    """
    from scaling_study.common.storage import write_whole
    from scaling_study.profiling.profiles import profile_folders, read_manifests
    from scaling_study.report.flamegraph import PointError, view_points
    from scaling_study.report.page import render_page

    manifests = read_manifests(profile_folders(options.study_folder))
    try:
        flame = view_points(manifests, options.point, options.other)
    except PointError as error:
        print(f"flamegraph: {error}", file=sys.stderr)
        return WRONG_INPUT
    page = render_page("flames.html.j2", graphs=[flame])
    write_whole(options.page, lambda path: path.write_text(page, encoding="utf-8"))
    return 0


def _recommendation(options: argparse.Namespace) -> tuple[Plan, Machines[Recommendation]]:
    """Return the plan and recommendation.json."""
    path = options.study_folder / "analysis/recommendation.json"
    with file_errors.told(options.stage, reads="plan.json and analysis"):
        return _plan(options), read_file(path, Machines[Recommendation])


def _targeted(options: argparse.Namespace) -> tuple[Job, Plan | None, str]:
    """Return a target's job, the plan if the target is ``recommended``, and this machine's hash.

    The job's launch has no id if none is recommended on this machine.
    """
    from scaling_study.host import probe

    job = read_job(options.job, options.replicate if "replicate" in options else 0)
    machine = probe.read_machine().hash
    if options.target != RECOMMENDED:
        return job, None, machine
    plan, recommendation = _recommendation(options)
    entry = recommendation.of(machine)
    chosen = entry.recommended.launch if entry and entry.recommended else ""
    return replace(job, launch=plan.by_id.get(chosen, NO_LAUNCH)), plan, machine


def _title(stage: str, options: argparse.Namespace, job: Job) -> str:
    named = options.target == job.launch.id
    label = "" if named else f": {job.launch.label}"
    return f"{stage} ({options.target}{label})"
