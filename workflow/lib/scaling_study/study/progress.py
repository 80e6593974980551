"""The progress of a run, as the one line that a terminal shows while jobs run."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scaling_study.common.printable import printable, tail
from scaling_study.config import estimate
from scaling_study.config.plan import Plan
from scaling_study.records.codec import read_file, write_file

LEAST_WIDTH = 30
"""Characters that the running job has at least in the line."""

MEASURING = (
    *("measure", "race", "confirm", "profile", "why", "microbenchmarks"),
    "loader_experiment",
)
"""Rules whose jobs write their progress into their logs."""

NUMBERED = ("measure", "profile", "why", "loader_experiment")
"""Rules with several jobs whose logs do not name the job."""

SHORT = ("plan", "all", "study", "searched", "race")
"""Rules whose end gets no line: they take no time, or `decide` writes a line for each round."""

TITLES = {
    "probe": "describe this machine",
    "decide": "choose the next round",
    "loader_experiment": "data loader experiment",
    "judge": "diagnose",
    "render": "write the report",
}
"""Titles of rules whose names are less clear."""


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that runs.

    Attributes:
        log: its log file.
        since_s: when it started, by the clock of `Progress`.
        started: when it started, in seconds since the epoch, to compare with files' time stamps.
    """

    rule: str
    log: Path | None
    since_s: float
    started: float


class Progress:
    """Progress of a run: jobs that ended, run, and are left.

    Args:
        planned: how many jobs each rule has in this run, as far as that is known at its start.
        expected_s: expected time of a job of each rule; for `race`, the time left for all its jobs.
        best: returns the best launch so far, as text; empty if it is not known.
        times: the file of the stages' times (``STAGE_TIMES``).
        clock: returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        planned: Mapping[str, int],
        expected_s: Mapping[str, float],
        best: Callable[[], str],
        times: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planned = Counter(planned)
        self._expected_s = expected_s
        self._find_best = best
        self._best = ""
        self._times = times
        self._clock = clock
        self._running: dict[int, _Job] = {}
        self._ended: Counter[str] = Counter()
        self._took_s: dict[str, float] = {}
        self._race_since_s: float | None = None

    def start(self, job: int, rule: str, log: str | None) -> None:
        """Note that a job starts."""
        now = self._clock()
        self._running[job] = _Job(rule, Path(log) if log else None, now, time.time())
        started = self._ended[rule] + sum(
            running.rule == rule for running in self._running.values()
        )
        self._planned[rule] = max(self._planned[rule], started)  # later rounds are not planned
        if rule == "decide" and self._race_since_s is None:
            self._race_since_s = now

    def end(self, job: int) -> str:
        """Note that a job has ended; return a line if that ends a stage or a round, else empty."""
        ended = self._running.pop(job, None)
        if ended is None:
            return ""
        rule = ended.rule
        self._ended[rule] += 1
        took_s = self._clock() - ended.since_s
        self._took_s[rule] = self._took_s.get(rule, 0.0) + took_s
        if rule in MEASURING:
            add_time(self._times, rule, took_s)
        if rule == "decide":
            self._best = self._find_best()
            return _last_line(ended)
        if rule in SHORT or self._ended[rule] < self._planned[rule]:
            return ""
        count = self._ended[rule]
        jobs = f", {count} jobs" if count > 1 else ""
        return f"{TITLES.get(rule, rule)}: done in {describe_s(self._took_s[rule])}{jobs}"

    def line(self, width: int) -> str:
        """Return what runs now, how much is left, and the best launch so far.

        Args:
            width: characters that a line may have; what runs now is cut first.
        """
        if not self._running:
            return ""
        # The run waits for jobs that measure; the others take seconds.
        job = max(
            self._running.values(), key=lambda running: self._expected_s.get(running.rule, 0.0)
        )
        rule = job.rule
        now = TITLES.get(rule, rule)
        if rule in MEASURING:
            now = _last_line(job) or now
        if rule in NUMBERED and self._planned[rule] > 1:
            now = f"{self._ended[rule] + 1} of {self._planned[rule]}, {now}"
        left_s = self.left_s()
        rest = f" · about {describe_s(left_s)} left" if left_s >= 1 else ""
        rest += f" · best so far: {self._best}" if self._best else ""
        return cut(
            cut(printable(now), max(LEAST_WIDTH, width - len(rest))) + printable(rest), width
        )

    def left_s(self) -> float:
        """Return about how long the measuring jobs that are left take; for a race, at most."""
        return sum(self._left_s(rule) for rule in self._expected_s)

    def _left_s(self, rule: str) -> float:
        now, each_s, ended = self._clock(), self._expected_s[rule], self._ended[rule]
        if rule == "race":
            over = self._ended["searched"] or not self._planned["searched"]
            since_s = now if self._race_since_s is None else self._race_since_s
            return 0.0 if over else max(0.0, each_s - (now - since_s))
        each_s = self._took_s[rule] / ended if ended else each_s
        running = [job for job in self._running.values() if job.rule == rule]
        waiting = self._planned[rule] - ended - len(running)
        return waiting * each_s + sum(max(0.0, each_s - (now - job.since_s)) for job in running)


def add_time(path: Path, stage: str, seconds: float) -> None:
    """Add to the time that a stage has taken in all runs (``STAGE_TIMES``)."""
    times = read_file(path, dict[str, float]) if path.exists() else {}
    write_file(path, {**times, stage: times.get(stage, 0.0) + seconds})


def cut(text: str, most: int) -> str:
    """Return a text of at most this many characters; an ellipsis marks a cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def expected_s(
    plan: Plan, counts: Sequence[int], jobs: Mapping[str, int], spent_s: float
) -> dict[str, float]:
    """Return the expected time (s) of a job of each rule that measures.

    Args:
        plan: the plan.
        counts: the process counts.
        jobs: how many jobs these rules have in the whole study.
        spent_s: time that a race has taken in earlier runs.
    """
    times_s = estimate.Estimate(plan, counts).stages_s
    expected = {rule: sum(span) / 2 / max(1, jobs.get(rule, 0)) for rule, span in times_s.items()}
    if "race" in expected:
        expected["race"] = max(0.0, expected["race"] - spent_s)
    return expected


def _last_line(job: _Job) -> str:
    """Return the last line of a job's log; empty if an earlier run wrote it, or on an error."""
    try:
        if job.log is None or job.log.stat().st_mtime < job.started - 1:
            return ""
        lines = tail(job.log).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def describe_s(seconds: float) -> str:
    """Write a time in seconds, minutes or hours, rounded for a progress line."""
    if seconds < estimate.MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * estimate.HOUR_S:
        return f"{seconds / estimate.MINUTE_S:.0f} min"
    return f"{seconds / estimate.HOUR_S:.1f} h"
