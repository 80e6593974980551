"""The effect of a launch on a script: parameters, work of a step, steps of a model, training.

Tables and reports compare equal work: a step in them is a step of the default launch. A launch
whose step processes four times as many samples does four such steps in each of its own. Every rank
of a group processes the samples of a step, so a step of four ranks has four times as many. If the
script counts its samples, they are the sum over all ranks.
"""

import dataclasses
import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, dropwhile, takewhile

from scaling_study.common import placeholders
from scaling_study.common.axis_values import Axes, Value
from scaling_study.config.config import Config
from scaling_study.config.launches import Launch, differing
from scaling_study.config.plan import Plan
from scaling_study.config.workload import Workload
from scaling_study.launch.axes import ranks
from scaling_study.launch.axes.axis_table import AXES
from scaling_study.launch.axes.launcher import as_interpreter
from scaling_study.member.iterations import MARK
from scaling_study.queues.program import name as program_name
from scaling_study.records.model_length import ModelLength, pool

SAME = 0.01
"""A smaller relative difference in samples per step counts as none: means over a few epochs differ
by as much."""


def program(workload: Workload) -> list[str]:
    """Return the words of a process that are the same in all of them.

    They stand for the script after ``python``; of a command, they are those before the first word
    with a placeholder.
    """
    if workload.command:
        same = takewhile(lambda word: not any(placeholders.names(word)), workload.command)
        return [placeholders.fill(word, {}) for word in same]
    return ["-m", workload.module] if workload.module else [str(workload.script)]


def arguments(workload: Workload) -> list[str]:
    """Return the words after those of `program`, with their placeholders."""
    own = dropwhile(lambda word: not any(placeholders.names(word)), workload.command)
    return [*own, *workload.args]


def alike(workload: Workload) -> bool:
    """Return whether all copies of the program have the same words, so that none differs."""
    words = [*program(workload), *arguments(workload)]
    return not workload.starts_processes and f"{{{placeholders.MEMBER}}}" not in " ".join(words)


def name(workload: Workload) -> str:
    """Return the program's name for messages: its words without the arguments."""
    words = program(workload)
    return shlex.join(words) if workload.command else program_name(words)


def python_of(workload: Workload, python: str) -> str | None:
    """Return the interpreter that starts the program; None if it is a command of its own."""
    return None if workload.command else python


def first_command(plan: Plan, axes: Axes | None = None) -> list[str]:
    """Return the command line of a launch's first process, by default the default launch's."""
    workload = plan.workload
    own = parameters_of(workload, axes or plan.by_id[plan.default].axes)
    given = {**own, placeholders.MEMBER: 0, placeholders.N: f"{{{placeholders.N}}}"}
    filled = [placeholders.fill(text, given) for text in arguments(workload)]
    python = python_of(workload, interpreter(workload))
    return [*([python] if python else []), *program(workload), *filled]


def folder(workload: Workload) -> str:
    """Return the absolute path of the folder in which the script runs."""
    return os.path.abspath(os.path.expanduser(workload.cwd or ""))  # noqa: PTH100, PTH111


def interpreter(workload: Workload) -> str:
    """Return the absolute path of the interpreter that runs the script."""
    return as_interpreter(workload.python) if workload.python else sys.executable


def python_of_shell(workload: Workload) -> str | None:
    """Return the absolute path of the shell's ``python``, if that runs the program.

    It runs a command, whose own words may start ``python``, and a script if the study's own
    interpreter has no torch. Call this in the process that the user starts: jobs have another PATH.
    """
    if workload.python or (not workload.command and find_spec("torch") is not None):
        return None
    path = shutil.which("python") or shutil.which("python3")
    return None if path is None else behind_shim(path)


def behind_shim(path: str) -> str:
    """Return the interpreter that a path starts.

    A shim of pyenv or asdf is a shell script, which a launch's preloads must not reach.
    """
    command = [path, "-I", "-c", "import sys; print(sys.executable)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or path


def with_interpreter(config: Config, python: str | None) -> Config:
    """Return a config that names this interpreter, if there is one and the config names none."""
    workload = config.workload
    if python is None or workload.python:
        return config
    return config.model_copy(update={"workload": workload.model_copy(update={"python": python})})


def with_learnt(
    plan: Plan, samples: Mapping[str, float], length: ModelLength | None = None
) -> Plan:
    """Return a plan completed with values that only measuring shows.

    Args:
        plan: The plan, with the launches that a race has added.
        samples: Samples of a step in all ranks, by launch, as scripts have counted them.
        length: Length of a model; used if the config leaves its steps to the script.
    """
    if plan.workload.steps_per_model != "auto":
        length = None
    return plan.model_copy(update={"samples": samples, "model_length": length})


def model_length(
    ended: Mapping[str, Sequence[ModelLength]], work: Mapping[str, float], default: str
) -> ModelLength:
    """Return how many steps train a model, in steps of the default launch.

    The number comes from the default launch's own starts if some have ended, else from all.

    Args:
        ended: Lengths of the starts that have ended, by launch.
        work: Work of a step of each launch, in steps of the default one.
        default: Id of the default launch.
    """
    equal = {launch: [one.times(work[launch]) for one in each] for launch, each in ended.items()}
    pooled = pool(chain.from_iterable(equal.values()))
    own = pool(equal.get(default, ()))
    return dataclasses.replace(pooled, steps=own.steps) if own.starts else pooled


def samples_per_step(plan: Plan, launch: Launch) -> float | None:
    """Return the samples that a step of a launch processes, in all ranks; None if not known.

    Args:
        plan: Plan of ``with_learnt``.
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

    If samples are not known, or not yet, each rank has the work of one step.
    """
    own, other = samples_per_step(plan, launch), samples_per_step(plan, usual)
    if own is None or other is None:
        return ranks.processes(launch.axes) / ranks.processes(usual.axes)
    return own / other


def marks(workload: Workload) -> bool:
    """Return whether a script calls ``scaling_study.mark``, and so needs this package."""
    return MARK in (workload.step, workload.samples_per_step)


def parameters_of(workload: Workload, axes: Axes) -> dict[str, Value]:
    """Return a launch's values of the study's own axes."""
    return {name: axes[name] for name in workload.parameters}


def work_by_launch(plan: Plan) -> dict[str, float]:
    """Return the work of a step, in steps of the default launch, by the id of the launch."""
    default = plan.by_id[plan.default]
    return {launch.id: _work(plan, launch, default) for launch in plan.launches}


def epoch_s(plan: Plan, steps_per_s: float) -> float | None:
    """Return the time of an epoch (s); None if its samples, a step's or the rate are not known.

    Args:
        plan: Plan of ``with_learnt``.
        steps_per_s: Rate of one member, in steps of the default launch.
    """
    samples = plan.workload.samples_per_epoch
    if samples is None or not steps_per_s > 0:
        return None
    of_step = samples_per_step(plan, plan.by_id[plan.default])
    return None if of_step is None else float(samples / (of_step * steps_per_s))


def changed_training(plan: Plan) -> dict[str, dict[str, Value]]:
    """Return each launch's changes of training itself, by launch: values by axis, perhaps none.

    Such changes are another number of samples per step, and axes that compute with coarser numbers.
    Their effect on the loss is not known. Changes that the baseline has too are left out.

    Args:
        plan: Plan of ``with_learnt``.
    """
    usual = [plan.by_id[plan.default], plan.by_id[plan.baseline]]
    coarser = [name for name, axis in AXES.items() if axis.numbers == "coarser"]
    said = plan.workload.samples_per_step
    # It is not known which of its parameters change the samples that a script counts.
    of_samples = ["ranks", *(plan.workload.parameters if said == MARK else [str(said)])]

    def changed(launch: Launch) -> dict[str, Value]:
        first, second = (differing(launch.axes, other.axes) for other in usual)
        changes = {name: first[name] for name in coarser if name in first and name in second}
        works = [_work(plan, launch, other) for other in usual]
        if not any(math.isclose(work, 1, rel_tol=SAME) for work in works):
            either = first | second
            changes |= {name: either[name] for name in of_samples if name in either}
        return changes

    return {launch.id: changed(launch) for launch in plan.launches}
