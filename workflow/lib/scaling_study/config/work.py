"""The effect of a launch on a script: parameters, work of a step, steps of a model, training.

Tables and reports compare equal work: a step is one of the default launch's. A launch whose step
processes four times as many samples does four such steps in each. Every rank of a group processes
the samples of a step, so that a step of four ranks has four times as many; where the script says
its samples, they are what all ranks have said.
"""

import dataclasses
import math
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import chain

from scaling_study.common.axis_values import Axes, Value
from scaling_study.config.launches import Launch
from scaling_study.config.plan import Plan
from scaling_study.config.workload import Workload
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.launch.axes.build import as_interpreter
from scaling_study.member.iterations import MARK
from scaling_study.records.model_length import ModelLength, pool

SAME = 0.01
"""Samples of a step that differ by less, as a mean over few epochs may, train alike."""


def program(workload: Workload) -> list[str]:
    """Return the words that stand for the script after ``python``, without its arguments."""
    return ["-m", workload.module] if workload.module else [str(workload.script)]


def folder(workload: Workload) -> str:
    """Return the absolute path of the folder in which the script runs."""
    return os.path.abspath(os.path.expanduser(workload.cwd or ""))  # noqa: PTH100, PTH111


def interpreter(workload: Workload) -> str:
    """Return the absolute path of the interpreter that runs the script."""
    return as_interpreter(workload.python) if workload.python else sys.executable


def with_learnt(
    plan: Plan, samples: Mapping[str, float], length: ModelLength | None = None
) -> Plan:
    """Return a plan that knows what only measuring tells.

    Args:
        plan: The plan, or what a race has made of it.
        samples: Of a step in all ranks, by launch, as scripts have said them.
        length: How long scripts are; it counts where the config leaves a model's steps to them.
    """
    if plan.workload.steps_per_model != "auto":
        length = None
    return plan.model_copy(update={"samples": samples, "model_length": length})


def model_length(
    ended: Mapping[str, Sequence[ModelLength]], work: Mapping[str, float], default: str
) -> ModelLength:
    """Return how many steps train a model, in steps of the default launch.

    The default launch's own starts give the number, where some have ended, or else all do.

    Args:
        ended: Starts of each launch that have ended.
        work: Of a step of each launch, in steps of the default one.
        default: Id of the default launch.
    """
    equal = {launch: [one.times(work[launch]) for one in each] for launch, each in ended.items()}
    pooled = pool(chain.from_iterable(equal.values()))
    own = pool(equal.get(default, ()))
    return dataclasses.replace(pooled, steps=own.steps) if own.starts else pooled


def samples_per_step(plan: Plan, launch: Launch) -> float | None:
    """Return the samples that a step of a launch processes, in all ranks; None if nobody says it.

    Args:
        plan: With what was learnt.
        launch: One of its launches.
    """
    said = plan.workload.samples_per_step
    if said == MARK:
        return (plan.samples or {}).get(launch.id)
    if said is None:
        return None
    of_rank = launch.axes[said] if isinstance(said, str) else said
    return float(of_rank) * ranks.processes(launch.axes)  # type: ignore[arg-type]


def _work(plan: Plan, launch: Launch, usual: Launch) -> float:
    """Return the work of a launch's step, in steps of another launch.

    Where nobody says it, or not yet, each rank has a step's.
    """
    own, other = samples_per_step(plan, launch), samples_per_step(plan, usual)
    if own is None or other is None:
        return ranks.processes(launch.axes) / ranks.processes(usual.axes)
    return own / other


def marks(workload: Workload) -> bool:
    """Whether a script calls ``scaling_study.mark``, and so needs this package."""
    return MARK in (workload.step, workload.samples_per_step)


def parameters_of(workload: Workload, axes: Axes) -> dict[str, Value]:
    """Return a launch's values of the study's own axes."""
    return {name: axes[name] for name in workload.parameters}


def work_by_launch(plan: Plan) -> dict[str, float]:
    """Return the work of a step, in steps of the default launch, by the id of the launch."""
    default = plan.by_id[plan.default]
    return {launch.id: _work(plan, launch, default) for launch in plan.launches}


def epoch_s(plan: Plan, steps_per_s: float) -> float | None:
    """Return what an epoch takes (s); None where the study does not say how many samples it has.

    Args:
        plan: With what was learnt.
        steps_per_s: Of one member, in steps of the default launch.
    """
    samples = plan.workload.samples_per_epoch
    if samples is None or not steps_per_s > 0:
        return None
    of_step = samples_per_step(plan, plan.by_id[plan.default])
    return None if of_step is None else float(samples / (of_step * steps_per_s))


def changed_training(plan: Plan) -> dict[str, dict[str, Value]]:
    """Return what each launch changes of training itself, by launch: values by axis, or nothing.

    That is how many samples a step has, and axes that compute with coarser numbers. Whether the
    loss still falls alike is not known. A study whose baseline changes it accepts that.

    Args:
        plan: With what was learnt.
    """
    usual = [plan.by_id[plan.default], plan.by_id[plan.baseline]]
    coarser = [name for name, axis in AXES.items() if axis.numbers == "coarser"]
    said = plan.workload.samples_per_step
    # Which of its parameters it is that a script's own number follows is not known.
    of_samples = ["ranks", *(plan.workload.parameters if said == MARK else [str(said)])]

    def changed(launch: Launch) -> dict[str, Value]:
        own, others = launch.axes, [other.axes for other in usual]
        found = {
            name: own[name]
            for name in coarser
            if name in own and all(own[name] != other.get(name) for other in others)
        }
        works = [_work(plan, launch, other) for other in usual]
        if not any(math.isclose(one, 1, rel_tol=SAME) for one in works):
            found |= {
                name: own[name]
                for name in of_samples
                if name in own and any(own[name] != other.get(name) for other in others)
            }
        return found

    return {launch.id: changed(launch) for launch in plan.launches}
