"""A study as a whole: its lock, and what the terminal says before and after."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from scaling_study.common import storage
from scaling_study.planning import estimate, ladder
from scaling_study.probing import probe
from scaling_study.rendering.headline import write_headline
from scaling_study.rendering.headline_causes import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from scaling_study.planning.plan import Plan


class StudyInUseError(Exception):
    """Another process works in the study's folder."""


class StudyLock:
    """The right to write a study's folder, held until this process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # Kept open: the lock is the open file's, and the kernel lets go of it with the process.
        self._file = (folder / ".lock").open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            raise StudyInUseError(
                f"{folder} is being written by process {self._file.read() or 'unknown'}:"
                " wait for it, or stop it, then run again"
            ) from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()


def outline(plan: Plan, jobs: int, measured: int) -> str:
    """Say what a run will do on this machine.

    Args:
        plan: the plan.
        jobs: how many (launch, replicate) it has.
        measured: how many of them are measured already.
    """
    machine = probe.read_machine()
    counts = ladder.resolve(plan.processes, machine.usable, machine.quota_cpus)
    text = estimate.describe(plan, counts, estimate.estimate(plan, counts))
    return f"{text}\n  {measured} of {jobs} cohorts are measured already" if measured else text


def read_causes(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Targets of analysis/causes.json by machine; none in a study without experiments on causes."""
    path = results / "analysis/causes.json"
    if not path.exists():
        return {}
    return {entry["machine"]: entry["targets"] for entry in storage.read_json(path)["machines"]}


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


def conclusion(results: Path, report: Path) -> str:
    """Say what came out of a study, and where its report is."""
    recommendations = storage.read_json(results / "analysis/recommendation.json")["machines"]
    noises = storage.read_json(results / "analysis/noise.json")["machines"]
    noise = {entry["machine"]: entry for entry in noises}
    losses = storage.read_json(results / "analysis/failures.json")["machines"]
    lost = {entry["machine"]: entry for entry in losses}
    causes = read_causes(results)
    replicates = storage.read_json(results / "plan.json")["replicates"]
    lines = []
    for entry in recommendations:
        machine = entry["machine"]
        found = write_headline(
            entry, noise.get(machine), replicates=replicates, failures=lost.get(machine)
        )
        lines += [found.verdict, *(f"  {bar.text}: {bar.value} {bar.unit}" for bar in found.bars)]
        lines += [f"  Warning: {note.text}" for note in found.notes if note.warning]
        if entry["status"] == "ok":
            lines.append(f"  launch it: bash {results / 'launch/recommended.sh'}")
        else:
            lines.append(f"  {entry['reason']}")
        lines += _conclude_causes(causes.get(machine, []))
    return "\n".join([*lines, f"Report: {report}"])
