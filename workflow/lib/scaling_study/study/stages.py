"""Stages that make the tables and analyses of a study's folder from its records."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from scaling_study.analysis import analyse as analysis
from scaling_study.analysis import collect as collecting
from scaling_study.analysis import imported, model_times, unequal_work
from scaling_study.analysis.experiment_runs import read_loader_run
from scaling_study.analysis.inflation import compare_all
from scaling_study.config.config import Confirm
from scaling_study.config.import_config import ImportConfig
from scaling_study.config.plan import Plan, read_plan
from scaling_study.config.work import with_learnt, work_by_launch
from scaling_study.confirm.confirmation import Length, summarise
from scaling_study.diagnosis import loader_verdict
from scaling_study.diagnosis.cause_file import gather, read_targets
from scaling_study.profiling.profiles import read_profiles
from scaling_study.records import columns
from scaling_study.records.analysis import Machines, Recommendation, SavedTables
from scaling_study.records.codec import RecordError, read_file, write_file
from scaling_study.records.cohorts import Cohorts
from scaling_study.records.machine import Machine
from scaling_study.records.tables import read_table, write_table
from scaling_study.runner import journal
from scaling_study.search import rounds
from scaling_study.study.files import loader_records, why_records


def analyse(folder: Path, plan: Plan) -> None:
    """Collect the records of all launches into tables, and analyse these.

    Args:
        folder: results/<study>, or a machine's; ``tables`` and ``analysis`` in it are written.
        plan: plan.json, or searched.json after a race.

    Raises:
        RecordError: a record cannot be used.
    """
    collected = collecting.collect(folder, plan)
    tables, study = folder / "tables", collected.cohorts
    for table in columns.TABLES:
        write_table(tables, table, getattr(collected, table.name))
    write_file(tables / "cohorts.json", study)
    journal.settle(folder / file for file in {cohort.file for cohort in study.cohorts})
    print(
        f"collected {len(study.cohorts)} cohorts, {len(collected.windows)} rows of windows, "
        f"{len(collected.points)} points into {tables}"
    )
    results = analysis.analyse(collected, plan)
    analysis.write(folder / "analysis", results, plan)
    print(f"wrote {', '.join(analysis.FILES)} to {folder / 'analysis'}")


def judge(folder: Path, plan: Plan) -> None:
    """Judge the confirmation of the recommendation, the profiles and the experiments.

    Raises:
        RecordError, ProfileError: a record or a profile cannot be used.
    """
    summarise_confirmation(folder, plan)
    compare_profiles(folder, [folder / "profile" / launch for launch in plan.profiled])
    judge_experiments(folder, plan)
    if paths := loader_records(folder, plan):
        judge_loader(folder, paths)


def summarise_confirmation(folder: Path, plan: Plan) -> None:
    """Write analysis/confirmation.json: the rounds' results beside the predictions."""
    study = read_file(folder / "tables" / "cohorts.json", Cohorts)
    plan = with_learnt(plan, study.samples, study.model_length)
    off, pool = plan.confirm.seconds is None, plan.workload.pool
    learnt = None if pool else plan.model_length
    confirmations = summarise(
        read_file(folder / "analysis" / "recommendation.json", Machines[Recommendation]).machines,
        None if off else folder / "confirm" / "rounds.jsonl",
        read_table(
            folder / "tables", columns.WINDOWS,
            ("machine", "launch", "n", "valid", "frequency_mhz"),
        ),
        Length(plan.steps_per_model, work_by_launch(plan), learnt, pool),
    )  # fmt: skip
    write_file(folder / "analysis" / "confirmation.json", Machines(tuple(confirmations)))
    print(f"confirmation: {', '.join(confirmation.status for confirmation in confirmations)}")


def compare_profiles(folder: Path, profiles: Sequence[Path]) -> None:
    """Gather profiled operators into a table, and compare few processes with many."""
    manifests, operators = read_profiles(profiles)
    write_table(folder / "tables", columns.OPERATORS, operators)
    entries = compare_all(manifests, operators)
    write_file(folder / "analysis" / "inflation.json", Machines(tuple(entries)))
    compared = sum(len(entry.comparisons) for entry in entries)
    print(f"gathered {len(operators)} rows of operators, made {compared} comparisons")


def judge_experiments(folder: Path, plan: Plan) -> None:
    """Gather the experiments into a table, and judge which causes they show."""
    paths = [Path(path) for path in why_records(folder, plan)]
    experiments, content = gather(paths, folder, folder / "microbenchmarks.json" if paths else None)
    write_table(folder / "tables", columns.EXPERIMENTS, experiments)
    write_file(folder / "analysis" / "causes.json", content)
    journal.settle(paths)
    targets = [target for entry in content.machines for target in entry.targets]
    print(f"gathered {len(experiments)} windows of experiments on {len(targets)} launches")
    for target in targets:
        named = [*target.scaling_loss.named, *target.single_process_loss.named]
        titles = "; ".join(cause.title for cause in named)
        print(f"{target.target}: {target.status}{': ' if named else ''}{titles}")


def judge_loader(folder: Path, paths: Sequence[str]) -> None:
    """Write analysis/data_loader.json: what the data loader costs, from its record files."""
    runs = [read_loader_run(Path(path)) for path in paths]
    entries = tuple(
        loader_verdict.data_loader([run for run in runs if run.head.machine_hash == machine])
        for machine in dict.fromkeys(run.head.machine_hash for run in runs)
    )
    write_file(folder / "analysis" / "data_loader.json", Machines(entries))
    print(f"data_loader: {', '.join(entry.status for entry in entries)}")


def import_tables(study: ImportConfig, folder: Path) -> None:
    """Read saved tables of torch's profiler into a folder's tables, and compare them."""
    tables = imported.read_tables(study)
    operators = imported.operator_frame(tables)
    write_table(folder / "tables", columns.OPERATORS, operators)
    saved = tuple(table.saved for table in tables)
    findings = imported.findings(saved, operators)
    content = SavedTables(config=study.to_dict(), tables=saved, findings=findings)
    write_file(folder / "analysis/tables.json", content)
    compared = imported.compare_tables(tables, operators)
    write_file(folder / "analysis/inflation.json", Machines((compared,)))


def decide(folder: Path, now: str, *, first: bool) -> rounds.Decided:
    """Decide what a race measures next, from all records so far.

    Args:
        folder: results/<study>.
        now: the time, in ISO 8601.
        first: whether this is the first round of this run.

    Returns:
        The round.
    """
    again = rounds.left(folder) if first else ()
    plan = rounds.grown(read_plan(folder / "plan.json"), folder)
    machine = read_file(folder / "machine.json", Machine)
    further = rounds.helpful(plan, read_targets(folder, machine.hash))
    plan = plan.model_copy(update={"launches": (*plan.launches, *further)})
    if not plan.made:
        return rounds.next_round(plan, machine, [], 0, now, again=again)
    collected = collecting.collect(folder, plan)
    study, here = collected.cohorts, machine.hash
    plan = with_learnt(plan, study.samples, study.model_length)
    cohorts, first_models = study.of(here), study.first_of(here)
    rates, points, windows = (
        table[table["machine"] == here]
        for table in (collected.replicates, collected.points, collected.windows)
    )
    return rounds.next_round(
        plan, machine, rounds.starts(cohorts, rates, plan), rounds.done(cohorts), now,
        unequal=unequal_work.unequal_work(points, rates, windows, cohorts, plan), again=again,
        times=model_times.model_times(cohorts, first_models), first=first_models,
    )  # fmt: skip


def report_so_far(folder: Path, page: Path) -> str:
    """Write a report of what is known; return the result in a few lines, empty if nothing is known.

    It is made in a folder of its own (so_far/), so that the study goes on as if it were not there.

    Args:
        folder: results/<study>.
        page: the HTML file to write.
    """
    from scaling_study.report import study as texts  # noqa: PLC0415 (it loads figures)
    from scaling_study.report.page import render_study  # noqa: PLC0415 (likewise)

    beside = folder / "so_far"
    shutil.rmtree(beside, ignore_errors=True)
    _copy_records(folder / "measure", beside / "measure")
    beside.mkdir(exist_ok=True)
    shutil.copy(folder / "machine.json", beside)
    plan = _plan(folder, beside)
    write_file(beside / "plan.json", plan.to_dict())
    try:
        analyse(beside, plan)
    except RecordError:  # no start has a valid window yet
        return ""
    judge(beside, plan)
    render_study(beside, page, plan=beside / "plan.json", builds=folder.parent / ".builds")
    return texts.conclusion(beside, beside / "plan.json", page)


def _copy_records(measure: Path, target: Path) -> None:
    """Copy all records, and name files that are being written as if their whole lines were all."""
    if measure.exists():
        shutil.copytree(measure, target)
    for part in target.glob(f"*/{journal.part_of(Path('*.jsonl')).name}"):
        path, data = part.with_suffix(""), part.read_bytes()
        if not path.exists() and (whole := data[: data.rfind(b"\n") + 1]):
            path.write_bytes(whole)


def _plan(folder: Path, records: Path) -> Plan:
    """Return the plan with what a race has done so far, and without all that comes later."""
    plan = read_plan(folder / "plan.json")
    if plan.search.budget_minutes is not None:
        plan = rounds.grown(plan, records)
        if decided := rounds.decided(folder):
            plan = rounds.searched(plan, decided)
    later = {"confirm": Confirm(seconds=None), "profiled": {}, "explained": {}}
    return plan.model_copy(update={**later, "data_loader": "off"})
