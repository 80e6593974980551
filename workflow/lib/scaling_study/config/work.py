"""What a launch makes of a script: its parameters, the work of a step, a model's steps, training.

Tables and reports compare equal work: a step is one of the default launch's. A launch whose step
processes four times as many samples does four such steps in each. Every rank of a group processes
the samples of a step, so that a step of four ranks has four times as many; where the script says
its samples, they are what all ranks have said.
"""

from __future__ import annotations

import math
import os
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.launch.axes.build import as_interpreter
from scaling_study.member.iterations import MARK
from scaling_study.records.cohorts import ModelLength

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scaling_study.records.cohorts import Learnt
    from scaling_study.records.readback import Ended


SAME = 0.01
"""Samples of a step that differ by less, as a mean over few epochs may, train alike."""


SAME_LENGTH = 0.01
"""A script that ends this close to a model's steps ends with a model: epochs are rounded."""


def program(workload: Mapping[str, Any]) -> list[str]:
    """Return the words that stand for the script after ``python``, without its arguments."""
    return ["-m", workload["module"]] if workload.get("module") else [str(workload["script"])]


def folder(workload: Mapping[str, Any]) -> str:
    """Return the absolute path of the folder in which the script runs."""
    return os.path.abspath(os.path.expanduser(workload.get("cwd") or ""))  # noqa: PTH100, PTH111


def interpreter(workload: Mapping[str, Any]) -> str:
    """Return the absolute path of the interpreter that runs the script."""
    python = workload.get("python")
    return as_interpreter(python) if python else sys.executable


def is_model(steps: float, steps_per_model: float, same: float = SAME_LENGTH) -> bool:
    """Whether a start of the script that ended after so many steps has trained one model."""
    return abs(steps - steps_per_model) <= max(1, same * steps_per_model)


def differ(length: ModelLength | None) -> bool:
    """Whether models differ in length (see ``model_length``); None where the config says it."""
    if length is None or length.shortest is None or length.longest is None:
        return False
    return not is_model(length.shortest, length.longest)


def with_learnt(plan: Mapping[str, Any], learnt: Learnt) -> dict[str, Any]:
    """Return a plan that knows what only measuring tells: a step's samples, and a model's steps.

    Where the config leaves the steps to the script, ``model_length`` stands beside their number.

    Args:
        plan: plan.json, or what a race has made of it.
        learnt: Of cohorts.json.
    """
    workload = plan["workload"]
    if workload.get("steps_per_model") == "auto":
        length = learnt.model_length
        workload = {**workload, "steps_per_model": length.steps, "model_length": length}
    launches = [{**one, "samples": learnt.samples.get(one["id"])} for one in plan["launches"]]
    return {**plan, "launches": launches, "workload": workload}


def model_length(
    ended: Mapping[str, Sequence[Ended]], work: Mapping[str, float], default: str
) -> ModelLength:
    """Return how many steps train a model, from starts of the script that have ended.

    The default launch's own starts give the number, where some have ended, or else all do.

    Args:
        ended: starts that have ended, of each launch, as often as they were counted.
        work: of a step of each launch, in steps of the default one.
        default: id of the default launch.

    Returns:
        The same of all together, in steps of the default launch.
    """
    equal = {
        launch: [
            ModelLength(
                one.starts,
                one.steps * work[launch],
                one.shortest * work[launch],
                one.longest * work[launch],
            )
            for one in each
        ]
        for launch, each in ended.items()
    }
    pooled = pool(chain.from_iterable(equal.values()))
    return replace(pooled, steps=pool(equal[default]).steps) if equal.get(default) else pooled


def pool(ended: Iterable[ModelLength]) -> ModelLength:
    """Put together what was seen of starts that have ended (see ``model_length``)."""
    seen = [one for one in ended if one.starts]
    if not seen:
        return ModelLength()
    starts = sum(one.starts for one in seen)
    return ModelLength(
        starts,
        sum(one.starts * (one.steps or 0.0) for one in seen) / starts,
        min(one.shortest for one in seen if one.shortest is not None),
        max(one.longest for one in seen if one.longest is not None),
    )


def samples_per_step(workload: Mapping[str, Any], launch: Mapping[str, Any]) -> float | None:
    """Return the samples that a step of a launch processes, in all ranks; None if nobody says it.

    Args:
        workload: the plan's section.
        launch: its entry.
    """
    said, axes = workload.get("samples_per_step"), launch["axes"]
    if said == MARK:
        return launch.get("samples")
    if said is None:
        return None
    return float(axes[said] if isinstance(said, str) else said) * ranks.processes(axes)


def _work(
    workload: Mapping[str, Any], launch: Mapping[str, Any], usual: Mapping[str, Any]
) -> float:
    """Return the work of a launch's step, in steps of another launch.

    Where nobody says it, or not yet, each rank has a step's.
    """
    own, other = samples_per_step(workload, launch), samples_per_step(workload, usual)
    if own is None or other is None:
        return ranks.processes(launch["axes"]) / ranks.processes(usual["axes"])
    return own / other


def marks(workload: Mapping[str, Any]) -> bool:
    """Whether a script calls ``scaling_study.mark``, and so needs this package."""
    return MARK in (workload["step"], workload.get("samples_per_step"))


def parameters_of(workload: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a launch's values of the study's own axes, which plans of before do not have."""
    return {name: axes[name] for name in workload.get("parameters", {})}


def work_by_launch(plan: Mapping[str, Any]) -> dict[str, float]:
    """Return the work of a step, in steps of the default launch, by the id of the launch.

    Args:
        plan: plan.json, or what a race has made of it.
    """
    launches = {launch["id"]: launch for launch in plan["launches"]}
    default = launches.get(plan.get("default", ""))
    if default is None:
        return dict.fromkeys(launches, 1.0)
    return {id_: _work(plan["workload"], own, default) for id_, own in launches.items()}


def epoch_s(plan: Mapping[str, Any], steps_per_s: float) -> float | None:
    """Return what an epoch takes (s); None where the study does not say how many samples it has.

    Args:
        plan: plan.json, or what a race has made of it.
        steps_per_s: of one member, in steps of the default launch.
    """
    samples = plan["workload"].get("samples_per_epoch")
    default = next((one for one in plan["launches"] if one["id"] == plan.get("default")), None)
    if samples is None or default is None or not steps_per_s > 0:
        return None
    of_step = samples_per_step(plan["workload"], default)
    return None if of_step is None else float(samples / (of_step * steps_per_s))


def changed_training(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each launch changes of training itself, by launch: values by axis, or nothing.

    That is how many samples a step has, and axes that compute with coarser numbers. Whether the
    loss still falls alike is not known. A study whose baseline changes it accepts that.

    Args:
        plan: plan.json, or what a race has made of it.
    """
    launches = {launch["id"]: launch for launch in plan["launches"]}
    usual = [launches[plan[one]] for one in ("default", "baseline") if plan[one] in launches]
    coarser = [name for name, axis in AXES.items() if axis.numbers == "coarser"]
    said = plan["workload"].get("samples_per_step")
    # Which of its parameters it is that a script's own number follows is not known.
    of_samples = ["ranks", *(plan["workload"].get("parameters", {}) if said == MARK else [said])]

    def changed(launch: Mapping[str, Any]) -> dict[str, Any]:
        own, others = launch["axes"], [other["axes"] for other in usual]
        found = {
            name: own[name]
            for name in coarser
            if name in own and all(own[name] != other.get(name) for other in others)
        }
        works = [_work(plan["workload"], launch, other) for other in usual]
        if not any(math.isclose(one, 1, rel_tol=SAME) for one in works):
            found |= {
                name: own[name]
                for name in of_samples
                if name in own and any(own[name] != other.get(name) for other in others)
            }
        return found

    return {id_: changed(launch) for id_, launch in launches.items()}
