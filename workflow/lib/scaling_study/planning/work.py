"""What a launch makes of a script: its parameters, the work of a step, and another training.

Tables and reports compare equal work: a step is one of the default launch's. A launch whose step
processes four times as many samples does four such steps in each. Every rank of a group processes
the samples of a step, so that a step of four ranks has four times as many; where the script says
its samples, they are what all ranks have said.
"""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any

from scaling_study.axes import ranks
from scaling_study.axes.build import as_interpreter
from scaling_study.axes.table import AXES
from scaling_study.member.iterations import MARK

if TYPE_CHECKING:
    from collections.abc import Mapping


SAME = 0.01
"""Samples of a step that differ by less, as a mean over few epochs may, train alike."""


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


def with_samples(plan: Mapping[str, Any], samples: Mapping[str, float]) -> dict[str, Any]:
    """Return a plan whose launches know how many samples a step has.

    Args:
        plan: plan.json, or what a race has made of it.
        samples: those that scripts have said, of a step in all ranks, by launch (cohorts.json).
    """
    launches = [{**one, "samples": samples.get(one["id"])} for one in plan["launches"]]
    return {**plan, "launches": launches}


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
