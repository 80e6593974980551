"""What jobs that experiment on one launch share: their machine, seed, first record and attempts."""

from __future__ import annotations

import hashlib
import logging
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scaling_study.common import private
from scaling_study.experiments import conditions
from scaling_study.host import probe
from scaling_study.records import codec
from scaling_study.runner import cohort, resolve
from scaling_study.runner.cohort_windows import MEMBER_RESTARTS
from scaling_study.runner.journal import Journal
from scaling_study.runner.measure import harness_digest, measured_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from scaling_study.runner.measure import Job

MODULES = ("experiments/why", "experiments/loader_experiment")
"""What decides, beside the harness, what experiments measure; with what they import."""

# What must be equal for windows of an interrupted run to stand beside new ones.
SAME = (
    *("schema_version", "launch", "replicate", "axes", "effort", "n", "seed", "measured_hash"),
    *("harness_hash", "machine_hash"),
)

DONE_BEFORE = "done before"
"""Status of experiments that an interrupted run has finished."""

NO_LAUNCH = {"id": "", "label": "none", "arm": "", "axes": {"launcher": "exec"}}
"""What stands in the records where no launch is recommended."""

Json = dict[str, Any]


class Experiment:
    """The running of one job.

    Args:
        kind: of its first record; also the name of its log.
        job: what it experiments on.
        target: what is called so in its seed.
        path: its record file.
        builds: folder of the environments that were made from requirements.
        effort: how much is tried.
    """

    def __init__(
        self, kind: str, job: Job, target: str, path: Path, *, builds: Path, effort: str
    ) -> None:
        self._kind = kind
        self._log = logging.getLogger(kind)
        self._job = job
        self._builds = builds
        self._effort_name = effort
        self._journal = Journal(path, codec.PLAIN, kind, SAME)
        self._machine = probe.read_machine().to_dict()
        self._starter = conditions.Starter(job.plan["measure"], self._machine)
        text = f"{job.plan['seed']} {target} {job.replicate}"
        self._seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        self._n = 1

    def _resolve(self, changed: Mapping[str, Any], *changes: str) -> resolve.Resolved:
        """Return the launch with some axes and things inside members changed, on this machine."""
        plan, axes = self._job.plan, {**self._job.launch["axes"], **changed}
        resolved = resolve.resolve(plan, axes, self._machine, self._builds, [self._n])
        running = replace(resolved.launch, change=changes)
        return replace(resolved, launch=running)

    def _heading(self, version: int, resolved: resolve.Resolved | None) -> Json:
        """Return what the first record of every kind of experiment holds.

        Args:
            version: of the schema.
            resolved: the launch; None where it cannot be.
        """
        plan, launch = self._job.plan, self._job.launch
        return {
            "kind": self._kind,
            "schema_version": version,
            "study": plan["study"],
            "launch": launch["id"],
            **{key: launch[key] for key in ("label", "arm", "axes")},
            "replicate": self._job.replicate,
            "effort": self._effort_name,
            "n": self._n,
            "seed": self._seed,
            "machine_hash": self._machine["hash"],
            "machine": self._machine,
            "measured_hash": measured_digest(plan["workload"], resolved.launch.python)
            if resolved
            else "",
            "harness_hash": harness_digest(*MODULES),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _attempt(
        self, once: Callable[[Path, ExitStack], tuple[str, str | None]], whose: str
    ) -> tuple[str, str | None]:
        """Do all of it, anew from where a member has ended.

        Args:
            once: does it in a private folder, and returns the status and its reason.
            whose: the members that must not end, after "member".
        """
        for left in reversed(range(MEMBER_RESTARTS + 1)):
            try:
                with private.folder() as folder, ExitStack() as stack:
                    return once(folder, stack)
            except cohort.MemberEndedError:
                if not left:
                    break
                self._log.info("a member%s ended: starting again from there", whose)
        return "partial", f"members{whose} ended again and again"

    def _write_events(self, name: str, events: list[Json]) -> None:
        """Write down what happened to a cohort's members."""
        for event in events:
            self._log.warning("%s, member %s: %s", name, event["slot"], event["reason"])
            self._journal.write({"kind": "event", "cohort": name, **event})
        events.clear()

    def _close(
        self,
        status: str,
        reason: str | None,
        remedy: str | None = None,
        wall_s: float = 0.0,
        **more: Any,
    ) -> None:
        """Write the last record, and give the file its name."""
        self._log.log(
            logging.WARNING if reason else logging.INFO,
            "%s%s",
            status,
            f": {reason}" if reason else "",
        )
        end = {"kind": "end", "status": status, "reason": reason, "remedy": remedy}
        self._journal.write({**end, "wall_s": wall_s, **more})
        self._journal.finish()
