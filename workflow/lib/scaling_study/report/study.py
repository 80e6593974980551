"""Texts about a whole study for the terminal: an outline before it, a conclusion after it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from scaling_study.common.printable import printable_lines
from scaling_study.config import estimate, process_counts
from scaling_study.config.plan import Plan, read_plan
from scaling_study.host import probe
from scaling_study.records.analysis import Compared
from scaling_study.records.codec import read_file
from scaling_study.records.window import Stopped
from scaling_study.report import model, sections, words
from scaling_study.runner import foreign
from scaling_study.search import forecast

BLOCK_LINES, SHOWN_WARNINGS = 15, 3
"""Lines of the result, and warnings among them."""

SHOWN_LINES, SHOWN_CHARACTERS = 15, 300
"""Lines of a script's output that are shown, and characters of each."""


def outline(plan: Plan, jobs: int = 0, measured: int = 0, machines: Sequence[str] = ()) -> str:
    """Say what a run will do on this machine.

    Args:
        plan: the plan.
        jobs: number of its jobs: a launch and a replicate each.
        measured: number of jobs that are measured already.
        machines: names of the machines to measure; none in a study of this machine alone.
    """
    machine = probe.read_machine()
    counts = process_counts.resolve(plan.processes, machine.usable, machine.quota_cpus)
    race = forecast.describe(plan, machine.usable, machine.quota_cpus)
    text = estimate.describe(plan, counts, race)
    if (mine := len(machine.cpus)) < (whole := len(machine.topology.cpus)):
        more = "srun --cpus-per-task" if "SLURM_JOB_ID" in os.environ else "taskset --cpu-list"
        text += f"\n  this shell may use {mine} of {whole} CPUs: {more} gives it others"
    if not {launch.role for launch in plan.launches} - {"default", "repeat", "today"}:
        text += (
            "\n  Warning: the config names no other launch, so none is looked for; one thread per"
            " process is launches: {baseline: {intra_op: 1}}"
        )
    if plan.profiled and not estimate.chosen_counts(plan.profile.processes, counts):
        text += "\n  Warning: no count in profile.processes is measured, so nothing is profiled"
    if odd := machine.usable.oddities:
        text += f"\n  NUMA nodes of this machine: {'; '.join(odd)}"
    if machines:
        text += (
            f"\n  all of it on each machine: {', '.join(machines)} (counts and time as on this one)"
        )
    return f"{text}\n  {measured} of {jobs} cohorts are measured already" if measured else text


def tell_stopped(path: Path) -> str:
    """Say why the default launch's script cannot be measured.

    Args:
        path: measure/stopped.json.
    """
    stopped = read_file(path, Stopped)
    lines = stopped.log.splitlines()[-SHOWN_LINES:]
    shown = "".join(f"  | {line[:SHOWN_CHARACTERS]}\n" for line in lines)
    last = f"Its last lines were:\n{shown}" if lines else ""
    return printable_lines(
        f"The study stopped: {stopped.script} cannot be measured.\n  Reason: {stopped.reason}\n"
        f"{last}No other launch was started. Put that right and run the same command again: it"
        " measures this launch first."
    )


def look_around() -> str:
    """Warn of other programs that keep this machine busy, after a second's look; empty if none."""
    return words.warn_busy(foreign.look(frozenset(probe.read_machine().cpus)))


def _conclude_machine(machine: model.MachineReport, results: Path) -> Iterator[str]:
    """Yield a machine's result, its launch command, and why it does not scale further."""
    headline = words.headline(machine)
    yield f"{headline.verdict} ({headline.detail})"
    for bar in headline.bars:
        yield f"  {bar.text}: {bar.value} {bar.unit}"
    if machine.recommendation.single and (most := sections.throughput(machine.recommendation)):
        yield f"  {most}"
    warnings = [f"  Warning: {mark.text}: {mark.tip}" for mark in headline.marks if mark.bad]
    yield from _first(warnings, SHOWN_WARNINGS)
    if machine.name.endswith(model.OTHER_NODES):
        yield "  measured on nodes that are another machine"
    elif machine.recommendation.ok:
        command = f"bash {results}/launch/recommended{machine.suffix}.sh{machine.queued}"
        yield f"  launch it: {command}"
    for target in machine.targets:
        yield f"  why, {target.title}: {words.why(target)}"


def conclusion(results: Path, planned: Path, report: Path, *, compared: bool = False) -> str:
    """Write the result of a study in a few lines, and the place of its report.

    Args:
        results: results/<study>.
        planned: its plan.json, or the plan that a race has made of it.
        report: the report.
        compared: whether the study names machines, and so has an analysis/machines.json.
    """
    plan = read_plan(planned)
    content = read_file(results / "analysis/machines.json", Compared) if compared else None
    notes = sections.compared_notes(content) if content else []
    lines = [f"Warning: {note}" for note in notes]
    for machine in model.read_study(results, plan, content):
        if machine.name and not machine.name.endswith(model.OTHER_NODES):
            lines.append(f"{machine.name} ({machine.hardware.cpu_model}):")
        indent = "  " if machine.name else ""
        lines += [f"{indent}{line}" for line in _conclude_machine(machine, results)]
    return printable_lines("\n".join([*_first(lines, BLOCK_LINES - 1), f"Report: {report}"]))


def _first(lines: Sequence[str], most: int) -> list[str]:
    """Return at most this many lines; if some are left out, the last one gives their number."""
    if len(lines) <= most:
        return list(lines)
    left = len(lines) - most + 1
    return [*lines[: most - 1], f"  ({left} more lines: see the report)"]
