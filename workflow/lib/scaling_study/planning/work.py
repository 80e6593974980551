"""What a launch makes of a script: its parameters, the work of a step, and another training.

Tables and reports compare equal work: a step is one of the default launch's. A launch whose step
processes four times as many samples does four such steps in each. Every rank of a group processes
the samples of a step, so that a step of four ranks has four times as many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaling_study.axes import ranks
from scaling_study.axes.table import AXES

if TYPE_CHECKING:
    from collections.abc import Mapping


def samples_per_step(workload: Mapping[str, Any], axes: Mapping[str, Any]) -> float | None:
    """Return the samples that a step of a launch processes, in all ranks; None if nobody says it.

    Args:
        workload: the plan's section.
        axes: the launch's values.
    """
    said = workload.get("samples_per_step")
    if said is None:
        return None
    return float(axes[said] if isinstance(said, str) else said) * ranks.processes(axes)


def _samples(workload: Mapping[str, Any], axes: Mapping[str, Any]) -> float:
    """Return the same, where nobody says it in steps of a single rank."""
    known = samples_per_step(workload, axes)
    return float(ranks.processes(axes)) if known is None else known


def parameters_of(workload: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a launch's values of the study's own axes, which plans of before do not have."""
    return {name: axes[name] for name in workload.get("parameters", {})}


def work_by_launch(plan: Mapping[str, Any]) -> dict[str, float]:
    """Return the work of a step, in steps of the default launch, by the id of the launch.

    Args:
        plan: plan.json, or what a race has made of it.
    """
    launches, workload = plan["launches"], plan["workload"]
    axes = {launch["id"]: launch["axes"] for launch in launches}
    default = axes.get(plan.get("default", ""), {})
    if not default:
        return dict.fromkeys(axes, 1.0)
    usual = _samples(workload, default)
    return {launch: _samples(workload, own) / usual for launch, own in axes.items()}


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
    return float(samples / (_samples(plan["workload"], default["axes"]) * steps_per_s))


def changed_training(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each launch changes of training itself, by launch: values by axis, or nothing.

    That is how many samples a step has, and axes that compute with coarser numbers. Whether the
    loss still falls alike is not known. A study whose baseline changes it accepts that.

    Args:
        plan: plan.json, or what a race has made of it.
    """
    axes = {launch["id"]: launch["axes"] for launch in plan["launches"]}
    usual = [axes.get(plan[one], {}) for one in ("default", "baseline")]
    coarser = [name for name, axis in AXES.items() if axis.numbers == "coarser"]
    of_samples = ["ranks", plan["workload"].get("samples_per_step")]
    known = {_samples(plan["workload"], other) for other in usual if other}

    def changed(own: Mapping[str, Any]) -> dict[str, Any]:
        found = {
            name: own[name]
            for name in coarser
            if name in own and all(own[name] != other.get(name) for other in usual)
        }
        if _samples(plan["workload"], own) not in known:
            found |= {
                name: own[name]
                for name in of_samples
                if name in own and any(own[name] != other.get(name) for other in usual)
            }
        return found

    return {launch: changed(own) for launch, own in axes.items()}
