"""Running the experiments under a fault, and asking the verdict what it finds in their records."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_cases import Case
from fault_list import FAULTS, FOLDER, ROOT

from scaling_study.analysis.experiment_runs import read_run
from scaling_study.common import storage
from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.diagnosis import cause_file
from scaling_study.experiments import microbenchmarks
from scaling_study.host import probe
from scaling_study.records import codec
from scaling_study.records.experiment import Microbenchmarks
from scaling_study.runner import measure
from scaling_study.runner.supervisor import supervised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scaling_study.records.verdict import Target

LONGEST_S = 3600.0
"""A job takes one to four minutes; one that takes this has gone wrong, and the others go on."""
STOP_S = 60.0
PARTS = ("scaling_loss", "single_process_loss")

Entry = dict[str, Any]


def command(case: Case, folder: Path) -> list[str]:
    """Return the command that does a case's experiments, under its fault."""
    plan = make_plan(load_config(case.config(folder)))
    job = measure.job_text(measure.job_sections(plan, "why"), plan.by_id[plan.baseline])
    return [
        *(sys.executable, str(FOLDER / "outside.py"), *case.outside(folder), "--"),
        *supervised(),
        *(sys.executable, "-m", "scaling_study", "why"),
        *("--job", job, "--target", plan.baseline),
        *("--replicate", "0", "--builds", str(folder / "builds"), "--study-folder", str(folder)),
        *("--log", str(folder / "log"), "--output", str(folder / "0.jsonl")),
    ]


def stop_with_us(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it injected."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(arguments: Sequence[str]) -> str | None:
    """Run a command to its end; return why it failed, None if it did not."""
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        status = process.wait(LONGEST_S)
    except subprocess.TimeoutExpired:
        return f"not done after {LONGEST_S:g} s"
    finally:
        if process.poll() is None:
            stop_with_us(process)
    return f"ended with status {status}" if status else None


def experiment(case: Case, results: Path) -> Entry:
    """Do a case's experiments; return its entry, with what the verdict names."""
    about = leave_records(case, results)
    return about if "status" in about else {**diagnose(case, results), **about}


def leave_records(case: Case, results: Path) -> Entry:
    """Do a case's experiments; return its entry without a verdict, or why there are no records."""
    folder = results / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began, at = time.monotonic(), datetime.now(UTC)
    failure = run(command(case, folder))
    about = {
        "started": at.isoformat(timespec="seconds"),
        "wall_s": time.monotonic() - began,
        "machine": machine(),
    }
    if failure:
        log = folder / "log"
        last = log.read_text(encoding="utf-8").splitlines()[-1:] if log.exists() else []
        return {**asdict(case), "status": "failed", "reason": "; ".join([failure, *last]), **about}
    return about


@functools.cache
def machine() -> str:
    """Say on what runs are done here."""
    here = probe.read_machine()
    return (
        f"CPUs {here.allowed_cpus} ({here.cpu_model}), torch {here.versions['torch']}, "
        f"Linux {here.kernel}, cgroup v{here.cgroup_version}"
    )


def diagnose(case: Case, results: Path) -> Entry:
    """Ask the verdict about the records of a case."""
    own = results / "microbenchmarks.json"
    known = codec.read_file(own, Microbenchmarks) if own.exists() else None
    try:
        found = cause_file.judge([read_run(results / case.name / "0.jsonl")], known, None)
    except Exception as error:  # noqa: BLE001 (hours of records wait behind it: `--again` asks anew)
        return {**asdict(case), "status": "failed", "reason": f"the verdict: {error!r}"}
    codec.write_file(results / case.name / "verdict.json", found)
    return {**asdict(case), **summarise(found), "rules": rules()}


@functools.cache
def rules() -> str:
    """Return the digest of the code that gives verdicts."""
    files = sorted(Path(cause_file.__file__).parent.rglob("*.py"))
    return measure.digest([file.read_text(encoding="utf-8") for file in files])


def summarise(found: Target) -> Entry:
    """Return what of a target of causes.json the table needs; times in s."""
    step_1, step_n = (one.value if one else None for one in (found.step_1_s, found.step_n_s))
    named: list[dict[str, Any]] = []
    if step_1 is not None and step_n is not None:
        of = {"scaling_loss": step_n - step_1, "single_process_loss": step_1}
        named = [
            {"part": part, "cause": one.cause, "share": one.value,
             "seconds": (one.value or 0.0) * of[part]}
            for part in PARTS
            for one in getattr(found, part).named
        ]  # fmt: skip
    return {
        "status": found.status,
        "reason": found.reason,
        "n": found.n,
        "step_1_s": step_1,
        "step_n_s": step_n,
        "stolen_cpus": _stolen(found),
        "named": sorted(named, key=lambda one: -one["seconds"]),
    }


def _stolen(found: Target) -> float:
    """Return the CPUs that the hypervisor took, with one process or with all."""
    rows = [one for one in found.counts if one.name == "steal_cpus"]
    return max((side or 0.0 for one in rows for side in (one.low, one.high)), default=0.0)


def measure_microbenchmarks(results: Path) -> None:
    """Measure the machine's microbenchmarks once for all runs.

    Raises:
        RuntimeError: that failed.
    """
    path = results / "microbenchmarks.json"
    if path.exists() and microbenchmarks.quiet(codec.read_file(path, Microbenchmarks)):
        return
    results.mkdir(parents=True, exist_ok=True)
    failure = run(
        [
            *(sys.executable, "-m", "scaling_study", "microbenchmarks"),
            *("--code", measure.harness_digest(*microbenchmarks.MODULES)),
            *(
                "--kept",
                str(results / "microbenchmarks"),
                "--log",
                str(results / "microbenchmarks.log"),
            ),
            *("--output", str(path)),
        ]
    )
    if failure:
        raise RuntimeError(f"the machine's microbenchmarks: {failure}")


class Ledger:
    """The entries of all runs, one JSON object a line: what is there is not run again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[Case, Entry] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self._cut = bool(text) and not text.endswith("\n")
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # cut while it was written
                entry = json.loads(line)
                self._entries[case_of(entry)] = entry

    def __iter__(self) -> Iterator[Entry]:
        """Go through the entries, the newest of each case."""
        return iter(self._entries.values())

    def write(self) -> None:
        """Write the file anew, with the newest entry of each case only."""
        lines = [json.dumps(entry) + "\n" for entry in self]
        storage.write_whole(self._path, lambda path: path.write_text("".join(lines), "utf-8"))
        self._cut = False

    def add(self, entry: Entry) -> None:
        """Keep an entry; it replaces an earlier one of the same case."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write("\n" * self._cut + json.dumps(entry) + "\n")
        self._cut = False
        self._entries[case_of(entry)] = entry


def case_of(entry: Mapping[str, Any]) -> Case:
    """Return the case that an entry is of."""
    return Case(entry["workload"], entry["fault"], entry["run"], entry["control"])


def not_possible(names: Iterable[str]) -> dict[str, str]:
    """Return the faults that cannot be injected here, with the reason."""
    reasons = {name: FAULTS[name].missing() for name in names}
    return {name: reason for name, reason in reasons.items() if reason}
