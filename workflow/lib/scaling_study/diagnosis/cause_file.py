"""analysis/causes.json: the verdicts on all targets of a study, with the numbers behind them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec import structs

from scaling_study.analysis import experiment_runs
from scaling_study.analysis.experiment_runs import WhyRun
from scaling_study.analysis.laws import coinciding, read_law
from scaling_study.diagnosis.case import REFERENCE, Case, make_case, or_none
from scaling_study.diagnosis.shares import recovered_share, saved_share
from scaling_study.diagnosis.stressors import reactions
from scaling_study.diagnosis.verdict import judge_scope
from scaling_study.host.perf_events import EVENTS
from scaling_study.records import verdict
from scaling_study.records.analysis import Machines
from scaling_study.records.codec import RecordError, read_file
from scaling_study.records.columns import POINTS
from scaling_study.records.experiment import ForeignProcess, Microbenchmarks
from scaling_study.records.tables import read_table
from scaling_study.records.window import KERNEL_COUNTS
from scaling_study.stats import ratios
from scaling_study.stats.interval import Interval
from scaling_study.stats.thresholds import grows

ACCOUNTS: Mapping[str, str] = {
    "user": "CPU time in user mode",
    "system": "CPU time in the kernel",
    "runqueue": "waiting for a CPU (run queue)",
    "throttled": "held back by a quota",
    "blocked": "blocked",
    "residual": "not accounted for",
}
"""The training thread's accounts (`trainer_<account>_s_per_step`); they add up to the step."""
HARDWARE = {event.name for event in EVENTS}
KERNEL = {
    count.name: (f"{count.name}_per_step", f"{count.title} per step") for count in KERNEL_COUNTS
}
COUNTS: Mapping[str, tuple[str, str]] = {
    **{name: row for name, row in KERNEL.items() if name not in HARDWARE},
    "threads": ("threads", "threads alive per member"),
    "runnable_threads": ("runnable_threads", "threads that run or wait for a CPU, per member"),
    "members_cpus": ("members_cpus", "CPUs that the members may use"),
    "cpu_use": ("cpu_use", "CPUs kept busy by all members"),
    "foreign_cpus": ("foreign_cpus", "CPUs kept busy by other programs"),
    "steal_cpus": ("steal_cpus", "CPUs taken by the hypervisor"),
    "psi_cpu": ("psi_cpu_share", "pressure on CPUs (PSI), share of the time"),
    "psi_memory": ("psi_memory_share", "pressure on memory (PSI), share of the time"),
    "psi_io": ("psi_io_share", "pressure on devices (PSI), share of the time"),
    "frequency": ("frequency_mhz", "CPU frequency in MHz"),
    "clock": ("clock_mhz", "clock while computing in MHz"),
    **{name: row for name, row in KERNEL.items() if name in HARDWARE},
}
"""Column and title of each count, in the order of the report."""
MOST_WAITS = 8
OF_HEAD = ("target", "launch", "label", "role", "n", "effort", "same_as")
"""Fields of a run's first record that its verdict copies."""


def gather(
    paths: Sequence[Path], study_folder: Path, microbenchmarks: Path | None
) -> tuple[pd.DataFrame, Machines[verdict.Causes]]:
    """Read and judge all experiments of a study.

    Args:
        paths: why/<target>/<replicate>.jsonl of all targets.
        study_folder: results/<study>, whose analysis has the knees of its launches.
        microbenchmarks: microbenchmarks.json of the machine; None without one.

    Returns:
        tables/experiments and the content of analysis/causes.json, in the order of the paths.

    Raises:
        RecordError: A file cannot be read, or files must not be pooled.
    """
    by_target: dict[tuple[str, str], list[WhyRun]] = {}
    for path in paths:
        run = experiment_runs.read_run(path)
        others = by_target.setdefault((run.head.machine_hash, run.head.target), [])
        if any(other.head.measured_hash != run.head.measured_hash for other in others):
            raise RecordError(
                f"{path}: the workload (script, arguments, environment, inputs or build) changed "
                "since the other replicates: delete the older ones and run the study again"
            )
        others.append(run)
    known = None
    if microbenchmarks is not None and microbenchmarks.exists():
        known = read_file(microbenchmarks, Microbenchmarks)
    machines: dict[str, list[verdict.Target]] = {}
    for (machine, _), runs in by_target.items():
        benchmarks = known if known and known.machine == machine else None
        target = judge(runs, benchmarks, _knee(study_folder, runs[0]))
        machines.setdefault(machine, []).append(target)
    causes = (
        verdict.Causes(machine=machine, targets=tuple(targets))
        for machine, targets in machines.items()
    )
    windows = experiment_runs.frame(run for runs in by_target.values() for run in runs)
    return windows, Machines(tuple(causes))


def read_targets(results: Path, machine: str) -> tuple[verdict.Target, ...]:
    """Return a machine's targets of analysis/causes.json; none without the file."""
    path = results / "analysis/causes.json"
    causes = read_file(path, Machines[verdict.Causes]).of(machine) if path.exists() else None
    return causes.targets if causes else ()


def _knee(study_folder: Path, run: WhyRun) -> verdict.Knee | None:
    """Return the knee of a run's launch, and the boundary of the machine that it coincides with."""
    launch, machine = run.head.launch, run.head.machine_hash
    law = read_law(study_folder, machine, launch)
    if law is None or law.knee is None:
        return None
    points = read_table(study_folder / "tables", POINTS)
    rows = points[(points["launch"] == launch) & (points["machine"] == machine)]
    read_back = run.readbacks.get(REFERENCE)
    threads = read_back.members[0].intra_op if read_back else None
    boundary = coinciding(law, rows, run.head.machine, threads)
    return verdict.Knee(**structs.asdict(law.knee), boundary=boundary)


def judge(
    runs: Sequence[WhyRun], microbenchmarks: Microbenchmarks | None, knee: verdict.Knee | None
) -> verdict.Target:
    """Return the verdict on one target.

    Args:
        runs: Its replicates, at least one.
        microbenchmarks: microbenchmarks.json of the machine; None without one.
        knee: Where throughput bends, with the machine's boundary there; None without one.
    """
    usable = [run for run in runs if not run.windows.empty]
    case = make_case(usable, microbenchmarks) if usable else None
    head = {name: getattr(runs[0].head, name) for name in OF_HEAD}
    target = verdict.Target(**head, status="failed", foreign=_foreign(runs), knee=knee)
    return _unusable(target, runs) if case is None else _judged(target, case, runs)


def _unusable(target: verdict.Target, runs: Sequence[WhyRun]) -> verdict.Target:
    """Return a target without a verdict, with the reason."""
    if same := next((run.head.same_as for run in runs if run.head.same_as), None):
        reason = f"the same launch as {same}"
        return structs.replace(target, same_as=same, status="skipped", reason=reason)
    ends = [run.end for run in runs if run.end is not None]
    status = "skipped" if ends and all(end.status == "skipped" for end in ends) else "failed"
    unusable = "no usable window of the launch itself, alone and together"
    reason = next((end.reason for end in ends if end.reason), unusable)
    return structs.replace(target, status=status, reason=reason)


def _judged(target: verdict.Target, case: Case, runs: Sequence[WhyRun]) -> verdict.Target:
    """Return the verdict on a target with windows."""
    pairs = case.measurements.pair(case.step(case.n), case.step(1))
    ratio = ratios.geometric_ratio(pairs)
    slower = case.n > 1 and ratio is not None and grows(ratio.value, ratio.low)
    scaling_loss = judge_scope(case, "scaling_loss") if slower else verdict.Judged()
    single_process_loss = judge_scope(case, "single_process_loss")
    if scaling_loss.named or single_process_loss.named:
        status = "explained"
    elif slower or (case.n > 1 and (ratio is None or ratio.low is None)):
        status = "inconclusive"
    else:
        status = "nothing_to_explain"
    return structs.replace(
        target,
        status=status,
        reason=_incomplete(runs),
        units=case.measurements.units,
        unit_count=len(pairs),
        start_sd=case.start_sd if case.measurements.units == "blocks" else None,
        step_1_s=_mean_step(case, 1),
        step_n_s=_mean_step(case, case.n),
        growth_ratio=ratio,
        scaling_loss=scaling_loss,
        single_process_loss=single_process_loss,
        accounts=tuple(_accounts(case)),
        counts=tuple(_counts(case)),
        interventions=tuple(_intervention(case, name, slower=slower) for name in case.titles),
        sensitivities=tuple(reaction.shown for reaction in reactions(case).values()),
        waits=_waits(case),
    )


def _incomplete(runs: Sequence[WhyRun]) -> str | None:
    """Return why a run is not complete; None where all are."""
    if any(run.end is None for run in runs):
        return "a job was cut off; what it had measured is used"
    ends = [run.end for run in runs if run.end and run.end.status != "complete"]
    return ends[0].reason if ends else None


def _mean_step(case: Case, n: int) -> Interval | None:
    """Return the geometric mean step (s) over blocks that have both counts.

    The ratio of the means at n and at 1 is then the growth ratio.
    """
    both = ~np.isnan(case.step(1) + case.step(case.n))
    step = np.where(both | ~both.any(), case.step(n), np.nan)
    return ratios.geometric_ratio(case.measurements.pair(step, step / step))


def _accounts(case: Case) -> Iterator[verdict.AccountTime]:
    """Yield the training thread's time accounts with one process and with n."""
    added_s = ratios.mean(case.step(case.n) - case.step(1))
    for name, title in ACCOUNTS.items():
        times_s = [or_none(case.mean(f"trainer_{name}_s_per_step", n)) for n in (1, case.n)]
        if times_s == [None, None]:
            continue  # the machine does not count it
        low_s, high_s = (time_s or 0.0 for time_s in times_s)
        yield verdict.AccountTime(
            account=name,
            title=title,
            low_s=low_s,
            high_s=high_s,
            difference_s=high_s - low_s,
            share=(high_s - low_s) / added_s if added_s else 0.0,
        )


def _counts(case: Case) -> Iterator[verdict.CountPerStep]:
    """Yield counts per step or on average, where the kernel counts them."""
    for name, (column, title) in COUNTS.items():
        low, high = (or_none(case.mean(column, n)) for n in (1, case.n))
        if low is not None or high is not None:
            yield verdict.CountPerStep(name=name, title=title, low=low, high=high)


def _intervention(case: Case, name: str, *, slower: bool) -> verdict.InterventionResult:
    """Return what an intervention recovered, or why it has no result.

    Args:
        case: The target.
        name: The intervention.
        slower: Whether a step takes longer with n than with 1: otherwise there is no added time.
    """
    alone = case.measured(name, "single_process_loss")
    together = case.measured(name, "scaling_loss")
    known = verdict.InterventionResult(
        intervention=name, title=case.titles[name], status="measured", units=0
    )
    if not (alone or together):
        status = "not_applicable" if name in case.left_out else "failed"
        reason = case.left_out.get(name, case.failed.get(name, "it has no usable window"))
        return structs.replace(known, status=status, reason=reason)
    added = together and slower
    return structs.replace(
        known,
        units=len(case.measurements.pair(case.step(1, name), case.step(1))),
        single_process_loss=recovered_share(case, "single_process_loss", name) if alone else None,
        comes_back=saved_share(case, name) if added and alone else None,
        scaling_loss=recovered_share(case, "scaling_loss", name) if added else None,
    )


def _foreign(runs: Sequence[WhyRun]) -> tuple[ForeignProcess, ...]:
    """Return other programs that ran, with their CPU time in all jobs and their mean share."""
    by_process: dict[tuple[str, int], list[ForeignProcess]] = {}
    for run in runs:
        for process in run.foreign:
            by_process.setdefault((process.name, process.pid), []).append(process)
    rows = [
        structs.replace(
            processes[0],
            cpu_s=sum(process.cpu_s for process in processes),
            share=sum(process.share for process in processes) / len(runs),
        )
        for processes in by_process.values()
    ]
    return tuple(sorted(rows, key=lambda row: -row.share))


def _waits(case: Case) -> tuple[verdict.TrainerWait, ...]:
    """Return the most frequent system calls that training threads waited in, by share of looks."""
    rows = [
        verdict.TrainerWait(n=n, syscall=syscall, on=on, share=count / sampled.samples)
        for n, sampled in case.sampled.items()
        for (syscall, on), count in sampled.calls.items()
        if sampled.samples
    ]
    return tuple(sorted(rows, key=lambda row: -row.share)[:MOST_WAITS])
