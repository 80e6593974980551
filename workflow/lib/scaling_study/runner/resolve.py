"""Resolves a launch on this machine: interpreter, environment, members and their slots.

Measuring and profiling start their cohorts from the same resolved launch.
"""

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scaling_study.common import placeholders
from scaling_study.common.axis_values import Axes
from scaling_study.common.topology import Topology, parse_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config import process_counts, work
from scaling_study.config.plan import JobPlan
from scaling_study.config.workload import Workload
from scaling_study.launch.axes import axis_table, placement, ranks
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec, describe_exit
from scaling_study.member import iterations
from scaling_study.records.machine import Machine
from scaling_study.records.window import Slot
from scaling_study.runner import environment, headroom, member_processes
from scaling_study.runner.headroom import UNKNOWN, Footprint
from scaling_study.runner.switch_script import switched

COMPILE_CACHE = "TORCHINDUCTOR_CACHE_DIR"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A launch on this machine.

    Attributes:
        launch: the specification that all members share; the cohort sets its folder.
        members: the members of the largest cohort, by slot.
        slots: their slots, as they are recorded.
        requested_env: the variables that the launch and ``workload.env`` set.
        need: the resources that all members need.
        counts: process counts that this machine has room for.
        missing: why there is no room for others that were asked for; None if all fit.
    """

    launch: LaunchSpec
    members: tuple[MemberSpec, ...]
    slots: tuple[Slot, ...]
    requested_env: dict[str, str]
    need: headroom.Need
    counts: tuple[int, ...]
    missing: UnavailableError | None


def counts(plan: JobPlan, machine: Machine) -> list[int]:
    """Return the process counts of a plan on this machine."""
    return list(process_counts.resolve(plan.processes, machine.usable, machine.quota_cpus))


def resolve(
    plan: JobPlan,
    axes: Axes,
    machine: Machine,
    builds: Path,
    counts: Sequence[int],
    *,
    member: Footprint = UNKNOWN,
) -> Resolved:
    """Resolve a launch.

    Slots are those of a cohort of the largest count, even if there is no room for it.

    Args:
        plan: the part of plan.json that the job depends on.
        axes: the launch's axes.
        machine: machine.json.
        builds: folder of the environments that were made from requirements.
        counts: the process counts, one or several.
        member: the memory that a member was seen to take.

    Raises:
        UnavailableError: this machine cannot run the launch at any of these counts.
    """
    workload = plan.workload
    if workload.command and (inside := switched(axes)):
        raise UnavailableError(
            f"{', '.join(inside)} changes a Python process from inside, and workload.command starts"
            " a program as it is",
            "workload.script or workload.module, or launches without it",
        )
    effects = axis_table.prepare(axes, Where(machine, builds))
    topology = machine.usable
    slots = tuple(map(axis_table.recorded, axis_table.place(axes, topology, max(counts))))
    values = work.parameters_of(workload, axes)
    if workload.starts_processes:  # one program; a window fills in its count (``pool.whole``)
        values[placeholders.N] = f"{{{placeholders.N}}}"
    members = [_member(workload, values, slot) for slot in slots]
    python = effects.python or work.interpreter(workload)
    variables = {name: placeholders.fill_known(text, values) for name, text in workload.env.items()}
    threads = _threads(axes, members, topology)
    need = headroom.Need(
        max(counts), threads, str(axes["launcher"]), member, processes=ranks.processes(axes)
    )
    fitting, missing = headroom.fitting(need, counts)
    return Resolved(
        launch=LaunchSpec(
            folder=Path(),
            python=python,
            cwd=work.folder(workload),
            env=environment.member_environment(
                os.environ | environment.activated(python, os.environ),
                effects.environment() | compile_cache(plan, axes, machine, builds),
                variables,
                workload.pass_env,
            ),
            step=iterations.encode(workload.step),
            launcher=str(axes["launcher"]),
            switches=axis_table.switches(axes),
            passed=frozenset(workload.pass_env),
            ranks=ranks.asked(axes),
            loader=workload.loader or "",
            fresh_folder=workload.fresh_folder,
        ),
        members=tuple(members),
        slots=slots,
        requested_env=effects.environment() | variables,
        need=need,
        counts=tuple(fitting),
        missing=missing,
    )


def can(plan: JobPlan, axes: Axes, machine: Machine, builds: Path) -> bool:
    """Return whether this machine can start a launch now; arguments are those of ``resolve``."""
    try:
        resolved = resolve(plan, axes, machine, builds, counts(plan, machine))
        versions(resolved.launch.python, runs=plan.workload.runs)
    except UnavailableError:
        return False
    return True


def compile_cache(plan: JobPlan, axes: Axes, machine: Machine, builds: Path) -> dict[str, str]:
    """Return the variable of a launch's own torch.compile cache; empty if it compiles nothing.

    With a cache of its own, the launch's starts depend on this study alone.

    Args:
        plan: the part of plan.json that the job depends on.
        axes: the launch's axes.
        machine: machine.json.
        builds: folder of the environments that were made from requirements.
    """
    if axes["compile"] == "off":
        return {}
    program = work.program(plan.workload)
    key = [plan.study, plan.workload.cwd, *program, machine.hash, dict(axes)]
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return {COMPILE_CACHE: str((builds / "compiled" / name).absolute())}


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of an interpreter and of its torch."""

    python: str
    torch: str


def versions(python: str, *, runs: bool = False) -> Versions:
    """Return the versions of an interpreter that can run members.

    Args:
        python: the interpreter.
        runs: whether whole runs are measured, which need neither torch nor the harness.

    Raises:
        UnavailableError: it does not run, is too old, has no torch, or cannot import the harness.
    """
    answer = _ask(python, VERSIONS, str(environment.LIBRARY_FOLDER))
    if not answer.stdout:
        raise UnavailableError(f"{python} does not run: {_words(answer)}", ANOTHER)
    version, number, torch = answer.stdout.splitlines()
    if runs:
        return Versions(version, torch)
    if json.loads(number) < [*OLDEST_PYTHON]:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        reason = f"{python} is Python {version.split()[0]}; {oldest} or newer is needed"
        raise UnavailableError(reason, ANOTHER)
    if not torch:
        remedy = f"{python} -m pip install torch, or {ANOTHER}"
        raise UnavailableError(f"{python} has no torch", remedy)
    if answer.returncode:
        reason = f"{python} cannot import what measures: {_words(answer)}"
        raise UnavailableError(reason, ANOTHER)
    return Versions(version, torch)


def require_module(python: str, module: str, folder: str) -> None:
    """Check that ``python -m MODULE`` would find its module; this imports the module's packages.

    Raises:
        UnavailableError: it would not.
    """
    answer = _ask(python, FIND, module, folder=folder)
    if answer.returncode:
        why = _words(answer) if answer.stderr else f"No module named {module}"
        raise UnavailableError(
            f"workload.module = '{module}': {python} finds no such module in {folder}: {why}",
            "correct workload.module or workload.cwd, or install the package that has it",
        )


def check_workload(workload: Workload) -> str:
    """Check that a workload can start here; return a description of its interpreter.

    Args:
        workload: the plan's section.

    Raises:
        UnavailableError: its interpreter cannot run members, or its module is not found.
    """
    python = work.interpreter(workload)
    if workload.command:
        return f"a command of its own: {shlex.join(workload.command)}"
    version = versions(python, runs=workload.runs)
    if workload.module:
        require_module(python, workload.module, work.folder(workload))
    torch = f", torch {version.torch}" if version.torch else ""
    return f"{python}: Python {version.python.split()[0]}{torch}"


OLDEST_PYTHON = (3, 9)
ANOTHER = "name another interpreter (workload.python)"
VERSIONS = """
import sys
sys.path[:] = filter(None, sys.path)  # without the folder of this process
print(sys.version.replace("\\n", " "))
print(list(sys.version_info[:2]))
try:
    from importlib.metadata import version
    print(version("torch"))
except ImportError:
    print("")
sys.path.insert(0, sys.argv[1])
import scaling_study.member.worker
"""
FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def _ask(
    python: str, code: str, *words: str, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a line of Python in an interpreter.

    Raises:
        UnavailableError: it cannot be started.
    """
    try:
        return subprocess.run(
            [python, "-c", code, *words], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UnavailableError(f"{python}: {error.strerror}", ANOTHER) from error


def _words(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of a failed process, or how it ended if it printed none."""
    return "".join(ended.stderr.strip().splitlines()[-1:]) or describe_exit(ended.returncode)


def _member(workload: Workload, parameters: Mapping[str, object], slot: Slot) -> MemberSpec:
    """Return the member of a slot, with the launch's values of the study's own axes."""
    values = {**parameters, placeholders.MEMBER: slot.slot}
    arguments = [placeholders.fill(text, values) for text in work.arguments(workload)]
    return MemberSpec(slot.slot, slot.cpus, slot.policy, (*work.program(workload), *arguments))


def _threads(axes: Axes, members: Sequence[MemberSpec], topology: Topology) -> int:
    """Return how many threads operators start in all members: by default one for each core."""
    each = placement.threads(axes)
    if each is not None:
        return each * len(members)
    core_of = {cpu.cpu: cpu.core for cpu in topology.cpus}
    masks = [core_of if member.cpus is None else parse_cpu_list(member.cpus) for member in members]
    return sum(len({core_of[cpu] for cpu in mask}) for mask in masks)


def host(machine: Machine) -> member_processes.HostFacts:
    """Return the facts about this machine that a coordinator needs."""
    cpus = machine.cpus
    files = [
        (cpu, Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")) for cpu in cpus
    ]
    whole_bytes = machine.memory_bytes
    return member_processes.HostFacts(
        cpus=frozenset(cpus),
        memory_bytes=min(machine.memory_limit_bytes or whole_bytes, whole_bytes),
        frequency=tuple((cpu, file) for cpu, file in files if os.access(file, os.R_OK)),
    )
