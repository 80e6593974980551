"""Whether the loss of a launch with other numerics falls like the baseline's.

The baseline and the launch train some steps three times each, with another seed for the script's
random numbers each time. Their losses fall alike if the mean of the launch's runs is no worse than
the worst of the baseline's. A run's loss is the mean over the second half of its steps. Nothing is
timed.
"""

import json
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from scaling_study.common import printable
from scaling_study.common.axis_values import Axes
from scaling_study.config.launches import Launch, differing
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.launch.launchers.launcher import bind_command, split_preload
from scaling_study.queues import program
from scaling_study.records.analysis import Changed, Recommendation
from scaling_study.records.confirmation import Losses
from scaling_study.runner.resolve import Resolved

SEEDS = 3
MOST_STEPS, FEWEST_STEPS = 300, 20
STEPS_S = 20.0
"""Rough training time of a run."""
LIMIT_S = 300.0
"""A run that takes longer, its start included, has failed."""


class RunError(Exception):
    """A run gives no loss, for this reason."""


def to_compare(entry: Recommendation, baseline: Axes, launches: Mapping[str, Launch]) -> list[str]:
    """Return the finalists with numerics other than the baseline's, on the same samples.

    Args:
        entry: the machine's entry of recommendation.json.
        baseline: the baseline's axes.
        launches: plan.json's launches by id.
    """
    coarser = {name for name, axis in AXES.items() if axis.numbers == "coarser"}
    finalists = []
    for finalist in filter(None, (entry.recommended, entry.changed)):
        different = differing(launches[finalist.launch].axes, baseline)
        switched = any(name in AXES and AXES[name].numbers != "same" for name in different)
        changed = finalist.what if isinstance(finalist, Changed) else {}
        if switched and changed.keys() <= coarser:
            finalists.append(finalist.launch)
    return finalists


def steps_for(step_s: float | None) -> int:
    """Return the number of steps of a run."""
    return int(min(MOST_STEPS, max(FEWEST_STEPS, STEPS_S / step_s))) if step_s else FEWEST_STEPS


def train(resolved: Resolved, steps: int, seed: int, folder: Path) -> float:
    """Train with one member's process; return its loss.

    Raises:
        RunError: the run failed or took too long, or calls backward on no single number.
    """
    launch, member = resolved.launch, resolved.members[0]
    file = folder / f"losses-{seed}.json"
    env, preload = split_preload(launch.env)
    command = [
        *bind_command(
            member.cpus, member.mempolicy, preload, [*launch.group, *launch.fresh(folder)]
        ),
        *program.harness(launch.python, "scaling_study.member.losses"),
        *(str(file), str(steps), str(seed), json.dumps(launch.switches), *member.command),
    ]
    log, errors = (folder / f"losses-{seed}.{kind}" for kind in ("log", "errors"))
    with log.open("wb") as output, errors.open("wb") as apart:
        try:
            done = subprocess.run(
                command, env=env, cwd=launch.cwd, stdin=subprocess.DEVNULL, stdout=output,
                stderr=apart, timeout=LIMIT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise RunError(f"{steps} steps took longer than {LIMIT_S:g} s") from None
    if done.returncode or not file.exists():
        words = printable.words_of(errors, log)
        raise RunError(f"ended with status {done.returncode}: {words}")
    losses = json.loads(file.read_text(encoding="utf-8"))["losses"]
    if not losses:
        raise RunError("the script calls backward on no single number")
    return float(np.mean(losses[len(losses) // 2 :]))


def failed(launch: str, reason: str) -> Losses:
    """Return the record of a comparison that failed."""
    return Losses(
        launch=launch, status="failed", reason=reason, steps=0, baseline=[], losses=[], alike=None
    )


def compare(
    launch: str, baseline: Resolved, other: Resolved, steps: int, folder: Path, *, at_once: int
) -> Losses:
    """Compare a launch's loss with the baseline's.

    Args:
        launch: its id.
        baseline: the baseline, resolved for one process.
        other: the launch, likewise.
        steps: number of steps of each run.
        folder: private.
        at_once: most runs side by side: this many members ran together before.

    Raises:
        RunError: a run has failed.
    """

    def run(number: int) -> float:
        run_folder = folder / f"run-{number}"
        run_folder.mkdir()
        return train(baseline if number < SEEDS else other, steps, number % SEEDS, run_folder)

    with ThreadPoolExecutor(max_workers=min(at_once, 2 * SEEDS)) as pool:
        losses = list(pool.map(run, range(2 * SEEDS)))
    usual, others = losses[:SEEDS], losses[SEEDS:]
    alike = bool(np.mean(others) <= max(usual))  # False if a loss is NaN
    return Losses(
        launch=launch, status="ok", reason=None, steps=steps, baseline=usual, losses=others,
        alike=alike,
    )  # fmt: skip
