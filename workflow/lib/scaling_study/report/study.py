"""A study as a whole: what the terminal says of it before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaling_study.common import storage
from scaling_study.common.objectives import OBJECTIVES
from scaling_study.common.printable import printable_lines
from scaling_study.config import estimate, process_counts
from scaling_study.config.plan import asked_replicates
from scaling_study.diagnosis.cause_file import read_causes
from scaling_study.host import probe
from scaling_study.report.busy import tell_lost_windows, warn_busy
from scaling_study.report.headline import tell_throughput, write_headline
from scaling_study.report.headline_causes import summarise
from scaling_study.report.report_machines import write_notes
from scaling_study.runner import foreign
from scaling_study.search import forecast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from scaling_study.config.plan import Plan


BLOCK_LINES, SHOWN_WARNINGS = 15, 3
"""Of what came out."""

# Of what a script has printed.
SHOWN_LINES, SHOWN_CHARACTERS = 15, 300


def outline(plan: Plan, jobs: int = 0, measured: int = 0, machines: Sequence[str] = ()) -> str:
    """Say what a run will do on this machine.

    Args:
        plan: the plan.
        jobs: how many (launch, replicate) it has.
        measured: how many of them are measured already.
        machines: names of those that are measured; none in a study of this machine alone.
    """
    machine = probe.read_machine()
    counts = process_counts.resolve(plan.processes, machine.usable, machine.quota_cpus)
    race = forecast.describe(plan.to_dict(), machine.usable, machine.quota_cpus)
    text = estimate.describe(plan, counts, estimate.estimate(plan, counts), race)
    if odd := machine.usable.oddities:
        text += f"\n  NUMA nodes of this machine: {'; '.join(odd)}"
    if machines:
        text += (
            f"\n  all of it on each machine: {', '.join(machines)} (counts and time as on this one)"
        )
    return f"{text}\n  {measured} of {jobs} cohorts are measured already" if measured else text


def tell_stopped(path: Path) -> str:
    """Say how the default launch's script ended before its first step.

    Args:
        path: measure/stopped.json.
    """
    found = storage.read_json(path)
    lines = found["log"].splitlines()[-SHOWN_LINES:]
    shown = "".join(f"  | {line[:SHOWN_CHARACTERS]}\n" for line in lines)
    return printable_lines(
        f"The study stopped: {found['script']} ended before its first step.\n"
        f"  Reason: {found['reason']}\nIts last lines were:\n{shown}"
        "No other launch was started. Put that right and run the same command again: it measures"
        " this launch first."
    )


def look_around() -> str:
    """Say who else is at work on this machine, which takes a second; empty if nobody is."""
    return warn_busy(foreign.look(frozenset(probe.read_machine().allowed_cpus)))


def read_confirmations(results: Path) -> dict[str, dict[str, Any]]:
    """Entries of analysis/confirmation.json by machine; none in a study that was not confirmed."""
    path = results / "analysis/confirmation.json"
    if not path.exists():
        return {}
    return {entry["machine"]: entry for entry in storage.read_json(path)["machines"]}


def _conclude_causes(targets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why each launch does not scale further, with what is left unexplained and what helps."""
    lines = []
    for because in summarise(targets):
        rest = [share for share in because.growth if share.kind == "unexplained"]
        left = f" ({rest[0].value} unexplained)" if rest and len(because.growth) > 1 else ""
        lines.append(f"  why, {because.launch}: {because.verdict}{left}")
        if because.question:
            lines.append(f"    {because.question}")
        lines += [f"    Warning: {note.text}" for note in because.notes if note.warning]
        if because.remedy:
            lines.append(f"    What helps: {because.remedy}")
    return lines


def _conclude_machines(
    results: Path, folder: Path, plan: Mapping[str, Any], name: str = "", main: str = ""
) -> list[str]:
    """What came out on the machines of a folder: one, unless nodes under its name differ."""
    recommendations, noise, lost, provenance = (
        {entry["machine"]: entry for entry in storage.read_json(path)["machines"]}
        for path in (
            folder / "analysis" / f"{analysis}.json"
            for analysis in ("recommendation", "noise", "failures", "provenance")
        )
    )
    causes, confirmed = read_causes(folder), read_confirmations(folder)
    lines = []
    for machine, entry in recommendations.items():
        found = write_headline(
            entry,
            noise.get(machine),
            replicates=asked_replicates(plan),
            failures=lost.get(machine),
            confirmation=confirmed.get(machine),
        )
        lines += [found.verdict, *(f"  {bar.text}: {bar.value} {bar.unit}" for bar in found.bars)]
        if entry["status"] == "ok" and OBJECTIVES[entry["objective"]].single:
            lines.append(f"  {tell_throughput(entry)}")
        if machine != main and main:
            lines.append("  measured on nodes that are another machine")
        elif entry["status"] == "ok":
            script = results / f"launch/recommended{f'-{name}' if name else ''}.sh"
            lines.append(f"  launch it: bash {script}")
        notes = (*tell_lost_windows(lost[machine], provenance[machine]), *found.notes)
        warnings = [f"  Warning: {note.text}" for note in notes if note.warning]
        lines += _first(warnings, SHOWN_WARNINGS)
        lines += _conclude_causes(causes.get(machine, []))
    return lines


def conclusion(results: Path, planned: Path, report: Path, *, compared: bool = False) -> str:
    """Say what came out of a study, in a few lines, and where its report is.

    Args:
        results: results/<study>.
        planned: its plan.json, or what a race has made of it.
        report: the report.
        compared: whether the study names machines, so that analysis/machines.json has them.
    """
    plan = storage.read_json(planned)
    if compared:
        content = storage.read_json(results / "analysis/machines.json")
        notes = write_notes(content)
        lines = [f"{'Warning: ' if note.warning else ''}{note.text}" for note in notes]
        for entry in content["machines"]:
            if entry["status"] == "measured":
                folder = results / "machines" / entry["name"]
                lines.append(f"{entry['name']} ({entry['cpu_model']}):")
                own = _conclude_machines(results, folder, plan, entry["name"], entry["machine"])
                lines += [f"  {line}" for line in own]
    else:
        lines = _conclude_machines(results, results, plan)
    shown = _first(lines, BLOCK_LINES - 1)
    return printable_lines("\n".join([*shown, f"Report: {report}"]))


def _first(lines: Sequence[str], most: int) -> list[str]:
    """Return so many lines at most; the last one says how many the report has besides."""
    if len(lines) <= most:
        return list(lines)
    left = len(lines) - most + 1
    return [*lines[: most - 1], f"  ({left} more lines: see the report)"]
