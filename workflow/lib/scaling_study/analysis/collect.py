"""From record files to tables.

Reading is strict: a record that cannot be read, contradicts itself or was measured differently from
the rest is an error, which names the files and the remedy. Files that the plan does not name are
left out and listed.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec.structs import replace

from scaling_study.analysis import points
from scaling_study.analysis.points import Drawn
from scaling_study.analysis.rates import rates
from scaling_study.analysis.record_rows import STEP_QUANTILES, FileRows, read_rows
from scaling_study.config.launches import Launch
from scaling_study.config.plan import Plan
from scaling_study.config.work import model_length, with_learnt, work_by_launch
from scaling_study.launch.axes import ranks
from scaling_study.member.iterations import MARK
from scaling_study.records.codec import RecordError, read_file
from scaling_study.records.cohorts import Cohorts, CohortSummary, Replicate
from scaling_study.records.columns import BETWEEN, REPLICATES, WINDOWS
from scaling_study.records.confirmation import FIRST_MODELS, FirstModels
from scaling_study.records.machine import Machine
from scaling_study.records.model_length import ModelLength

SHOWN_FILES = 3  # enough to find the rest; a study may have thousands
STEP_TIMES = {"step_s", "step_mean_s", *STEP_QUANTILES}

CHANGED = {
    "measured_hash": "workload (script, arguments, environment, inputs or build)",
    "harness_hash": "measuring code",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Collected:
    """A study's measurements.

    Attributes:
        windows: One row per member and window.
        replicates: One row per process count and replicate.
        between: One row per process count and kind of phase between steps.
        points: One row per machine, launch and process count.
        cohorts: The content of cohorts.json.
        drawn: Joint draws of each machine's rates.
    """

    windows: pd.DataFrame
    replicates: pd.DataFrame
    between: pd.DataFrame
    points: pd.DataFrame
    cohorts: Cohorts
    drawn: Mapping[str, Drawn]


def collect(study_folder: Path, plan: Plan) -> Collected:
    """Read all record files that a plan names.

    Args:
        study_folder: results/<study>.
        plan: plan.json.

    Returns:
        Tables and cohorts, in the plan's order.

    Raises:
        RecordError: A file cannot be used, or files must not be pooled.
    """
    unread = set((study_folder / "measure").glob("*/*.jsonl"))
    records = _Records(study_folder, unread, plan.workload.samples_per_step == MARK)
    for launch in plan.launches:
        records.add(launch, plan.replicates_of(launch.id))
    if not records.cohorts:
        raise RecordError(
            f"no record file of the plan in {study_folder / 'measure'}: measure first"
        )
    _refuse_mixtures(records.cohorts)
    _refuse_unsaid(records.samples)
    work = work_by_launch(with_learnt(plan, records.samples))
    length = model_length(records.ended, work, plan.default)
    windows = WINDOWS.frame(records.table("windows", WINDOWS.names, work))
    steps = with_learnt(plan, records.samples, length).steps_per_model
    rows = records.table("replicates", REPLICATES.names, work)
    file = study_folder / "measure" / FIRST_MODELS
    cohorts = Cohorts(
        schema_version=1,
        first_models=read_file(file, FirstModels) if file.exists() else None,
        samples=records.samples,
        model_length=length,
        machines=records.machines,
        cohorts=tuple(records.cohorts),
        missing=tuple(records.missing),
        left_out=tuple(sorted(str(path.relative_to(study_folder)) for path in unread)),
    )
    drawn = {
        machine: points.joint(
            rows[rows["machine"] == machine],
            cohorts.of(machine),
            steps,
            plan.seed,
            cohorts.first_of(machine),
        )
        for machine in cohorts.machines
    }
    replicates = points.replicates(rows, records.cohorts, drawn, steps)
    return Collected(
        windows,
        replicates,
        BETWEEN.frame(records.table("between", BETWEEN.names, work)),
        points.points(windows, replicates, _extra(records, work), drawn),
        cohorts,
        drawn,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Records:
    """The records that were read so far.

    Attributes:
        folder: results/<study>.
        unread: All record files that were not read yet.
        marked: Whether the script marks the samples of its steps, which launches are compared by.
        tables: By name, a table for each launch, or for each machine of a launch.
        samples: Samples of a step by launch; 0 if the script has marked none.
        ended: Steps of the script's starts that have ended, by launch.
    """

    folder: Path
    unread: set[Path]
    marked: bool
    tables: dict[str, list[pd.DataFrame]] = dataclasses.field(
        default_factory=lambda: defaultdict(list)
    )
    machines: dict[str, Machine] = dataclasses.field(default_factory=dict)
    cohorts: list[CohortSummary] = dataclasses.field(default_factory=list)
    missing: list[Replicate] = dataclasses.field(default_factory=list)
    samples: dict[str, float] = dataclasses.field(default_factory=dict)
    ended: dict[str, list[ModelLength]] = dataclasses.field(default_factory=dict)

    def add(self, launch: Launch, replicates: int) -> None:
        """Read the files of a launch's replicates; single step times are not kept."""
        frames, names = [], {"launch": launch.id, "label": launch.label, "role": launch.role}
        for replicate in range(replicates):
            path = self.folder / "measure" / launch.id / f"{replicate}.jsonl"
            if path not in self.unread:
                self.missing.append(Replicate(**names, replicate=replicate))
                continue
            self.unread.remove(path)
            file = _read(path, launch, replicate)
            if len(file.rows):
                frames.append(file.rows.assign(replicate=replicate))
            for hash_, described in file.machines.items():
                self.machines.setdefault(hash_, described)
            place = str(path.relative_to(self.folder))
            self.cohorts.extend(replace(cohort, file=place, **names) for cohort in file.cohorts)
            self.ended.setdefault(launch.id, []).extend(file.ended)
        if not frames:
            return
        rows = pd.concat(frames, ignore_index=True).assign(work=1.0, **names)
        if self.marked:
            rows["work"], per_step = work_of_rows(rows)
            if per_step is not None:
                self.samples[launch.id] = float(per_step)
        self.tables["windows"].append(of_equal_work(rows[WINDOWS.names], rows["work"]))
        for machine, own_rows in rows.groupby("machine", sort=False):
            for name, table in rates(own_rows).items():
                self.tables[name].append(table.assign(machine=machine, **names))

    def table(self, name: str, columns: Sequence[str], work: Mapping[str, float]) -> pd.DataFrame:
        """Return all rows of a name's tables, per step of the default launch.

        Without any table, the columns are there without a row.
        """
        tables = self.tables[name] or [pd.DataFrame(columns=[*columns])]
        rows = pd.concat(tables, ignore_index=True)
        return of_equal_work(rows, rows["launch"].map(work).astype(float))


def _read(path: Path, launch: Launch, replicate: int) -> FileRows:
    """Read a record file of a replicate."""
    file = read_rows(path)
    for cohort in file.cohorts:
        held = cohort.launch, cohort.replicate
        if held != (launch.id, replicate):
            raise RecordError(
                f"{path}: it holds launch {held[0]}, replicate {held[1]}: "
                "was it copied or renamed? Delete it and measure again"
            )
    return file


def _refuse_mixtures(cohorts: Iterable[CohortSummary]) -> None:
    """Raise if windows were not all taken by the same measuring code of the same workload.

    The workload's hash covers the versions of its build, which differ between builds and machines.
    """
    files: dict[tuple[str, ...], dict[str, dict[str, None]]] = {}
    for cohort in cohorts:
        if cohort.measured:
            workload = "measured_hash", cohort.machine, str(cohort.axes["build"])
            for group in (workload, ("harness_hash",)):
                by_hash = files.setdefault(group, {})
                by_hash.setdefault(getattr(cohort, group[0]), {})[cohort.file] = None
    for (key, *_), by_hash in files.items():
        if len(by_hash) > 1:
            lines = [f"  {key} {value}: {_shown([*names])}" for value, names in by_hash.items()]
            raise RecordError(
                f"the {CHANGED[key]} changed between these files, so they must not be pooled:\n"
                + "\n".join(lines)
                + "\nDelete the older ones and run the study again: it measures what is missing"
            )


def _refuse_unsaid(samples: Mapping[str, float]) -> None:
    """Raise if a script should mark its samples and has marked none."""
    for launch, per_step in samples.items():
        if not per_step:
            raise RecordError(
                f"workload.samples_per_step is {MARK}, and the script has said no samples in"
                f" launch {launch}: let it call scaling_study.mark(samples=...) in each step. Where"
                " samples_per_step is left out, a number or a parameter, what was measured stays"
                " valid"
            )


def _shown(files: Sequence[str]) -> str:
    more = len(files) - SHOWN_FILES
    return ", ".join(files[:SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")


def _extra(records: _Records, work: Mapping[str, float]) -> pd.DataFrame:
    """Return the columns of points that are not means of windows, by machine, launch, n."""
    point = ["machine", "launch", "n"]
    quantiles = records.table("quantiles", [*point, *STEP_QUANTILES], work)
    extra = quantiles.set_index(point)[[*STEP_QUANTILES]]
    invalid: Counter[tuple[str, str, int]] = Counter()
    crowded: set[tuple[str, str, int]] = set()
    for cohort in records.cohorts:
        where = cohort.machine, cohort.launch
        invalid.update((*where, window.n) for window in cohort.windows_invalid)
        cpus = records.machines[cohort.machine].usable_cpus
        crowded.update(
            (*where, n) for n in cohort.process_counts if oversubscribed(cohort, n, cpus)
        )
    extra["windows_invalid"] = [invalid[point] for point in extra.index]
    extra["oversubscribed"] = [point in crowded for point in extra.index]
    return extra


def work_of_rows(rows: pd.DataFrame) -> tuple["pd.Series[float]", float | None]:
    """Return the work of a step in each row of a launch whose script marks its samples.

    Args:
        rows: The launch's rows, as `record_rows.read_rows` returns them.

    Returns:
        Samples of a step over those of the launch's mean step, 1 where a row has none; and the
        samples of the mean step, None if no valid window has any.
    """
    said = rows[rows["valid"] & rows["samples_active"].notna()]
    per_step = said["samples_active"].sum() / said["steps_active"].sum() if len(said) else None
    work = rows["samples_active"] / rows["steps_active"] / (per_step or np.nan)
    return work.where((work > 0) & np.isfinite(work), 1.0), per_step


def of_equal_work(rows: pd.DataFrame, work: "pd.Series[float]") -> pd.DataFrame:
    """Return rows per step of equal work.

    Args:
        rows: Rows of any table.
        work: Work of a step of each row, in steps of the default launch or the launch's mean steps.
    """
    times = [name for name in rows if name in STEP_TIMES or str(name).endswith("_per_step")]
    rates = [name for name in rows if name == "steps_per_s"]
    return rows.assign(
        **{str(name): rows[name] / work for name in times},
        **{str(name): rows[name] * work for name in rates},
    )


def oversubscribed(cohort: CohortSummary, n: int, cpus: float) -> bool:
    """Return whether the first n members have more intra-op threads than CPUs, or share CPUs.

    Args:
        cohort: The cohort.
        n: Process count.
        cpus: CPUs that its machine can keep busy.
    """
    threads = sum(cohort.readback.intra_op[:n]) if cohort.readback else 0
    threads *= ranks.processes(cohort.axes)
    return threads > cpus or any(slot.oversubscribed for slot in cohort.slots[:n])
