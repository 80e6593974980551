"""What a launch becomes on this machine: interpreter, environment, members and their slots.

Measuring and profiling start their cohorts from the same resolved launch.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.common import placeholders, workload_env
from scaling_study.common.topology import format_cpu_list, parse_cpu_list
from scaling_study.common.unavailable import UnavailableError
from scaling_study.measuring import capacity, cohort, environment
from scaling_study.measuring.launchers import Launch, Member
from scaling_study.member import iterations
from scaling_study.planning import ladder
from scaling_study.probing import axes, placement, probe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scaling_study.common.topology import Topology


@dataclass(frozen=True, slots=True)
class Resolved:
    """A launch on this machine.

    Attributes:
        launch: what all members share; its folder is the cohort's to set.
        members: of the largest cohort, by slot.
        slots: the same as they are recorded.
        requested_env: the variables that the launch itself sets, with masks for values of
            ``workload.env``.
        need: what all members take of the machine's limits.
        counts: process counts that this machine has room for.
        missing: why it has none for others that were asked for; None where there are none.
    """

    launch: Launch
    members: tuple[Member, ...]
    slots: tuple[dict[str, Any], ...]
    requested_env: dict[str, str]
    need: capacity.Need
    counts: tuple[int, ...]
    missing: UnavailableError | None


def counts(plan: Mapping[str, Any], machine: Mapping[str, Any]) -> list[int]:
    """Return the ladder of a plan on this machine."""
    topology = probe.usable_topology(machine)
    return list(ladder.resolve(plan["processes"], topology, machine["quota_cpus"]))


def resolve(
    plan: Mapping[str, Any],
    asked: Mapping[str, Any],
    machine: dict[str, Any],
    builds: Path,
    counts: Sequence[int],
    *,
    member_bytes: int = 0,
) -> Resolved:
    """Resolve a launch.

    Slots are those of a cohort of the largest count, also where there is no room for so many.

    Args:
        plan: what of plan.json the job depends on.
        asked: the launch's axes.
        machine: machine.json; gets the path of a library that had to be compiled.
        builds: folder of the environments that were made from requirements.
        counts: how many processes there will be: one count or several.
        member_bytes: memory that a member was seen to take; 0 where none was.

    Raises:
        UnavailableError: this machine cannot do it, at none of these counts.
    """
    if asked["launcher"] == "dask" and asked["membind"] != "none":
        raise UnavailableError(
            "Dask starts its workers itself: a memory policy cannot be set before",
            "exclude: [{launcher: dask, membind: " + str(asked["membind"]) + "}]",
        )
    if asked["membind"] != "none":
        axes.library("numa", machine)  # py-libnuma loads it
    if asked["blas"] == "bundled-intel-path":
        machine["libraries"]["intel-path"] = intel_path_library(builds, machine["hash"])
    workload = plan["workload"]
    effects = axes.prepare(asked, machine)
    topology = probe.usable_topology(machine)
    members, slots = _members(workload, asked, topology, max(counts))
    threads = _threads(asked["intra_op"], members, topology)
    need = capacity.Need(max(counts), threads, asked["launcher"], member_bytes)
    fitting, missing = capacity.fitting(need, counts)
    inter_op = asked["inter_op"]
    return Resolved(
        launch=Launch(
            folder=Path(),
            python=build_python(asked["build"], builds),
            env=environment.member_environment(os.environ, effects.environment(), workload["env"]),
            step=iterations.encode(workload["step"]),
            inter_op=inter_op if isinstance(inter_op, int) else None,
            masked=frozenset(workload["env"]),
        ),
        members=tuple(members),
        slots=tuple(slots),
        requested_env=effects.environment() | workload_env.masked(workload["env"]),
        need=need,
        counts=tuple(fitting),
        missing=missing,
    )


def build_versions(python: str) -> str:
    """Return the versions of an interpreter and of its torch.

    Raises:
        UnavailableError: the interpreter does not run, or has no torch.
    """
    code = "import sys, importlib.metadata as m; print(sys.version, m.version('torch'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{python}: {error.strerror}", "name another build") from error
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise UnavailableError(
            f"{python} has no torch ({''.join(last)})", f"{python} -m pip install torch"
        )
    return done.stdout.strip()


def build_python(build: str, folder: Path) -> str:
    """Return the interpreter of a build: this one, a path, or one made from requirements."""
    if build == "default":
        return sys.executable
    if build.endswith(".txt"):
        return str((folder / Path(build).stem / "bin" / "python").absolute())
    return build


def intel_path_library(folder: Path, machine: str) -> str:
    """Return the library for ``blas: bundled-intel-path``, compiled once for each machine.

    Jobs that compile it at the same time each do so apart; a member never sees half a file, nor one
    that changes while it is mapped.

    Args:
        folder: where all machines have theirs.
        machine: the machine's hash.

    Raises:
        UnavailableError: there is no C compiler, or it cannot make it.
    """
    source = Path(__file__).with_name("intel_path.c")
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    library = folder / f"libintel_path-{machine}-{version}.so"
    if library.exists():
        return str(library)
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnavailableError("there is no C compiler (cc)", axes.INSTALL["intel-path"])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".intel_path-", dir=folder) as own:
        made = Path(own) / library.name
        command = [compiler, "-shared", "-fPIC", "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = "".join(done.stderr.strip().splitlines()[-1:])
            raise UnavailableError(f"{compiler} failed: {last}", axes.INSTALL["intel-path"])
        made.replace(library)
    return str(library)


def _members(
    workload: Mapping[str, Any], asked: Mapping[str, Any], topology: Topology, most: int
) -> tuple[list[Member], list[dict[str, Any]]]:
    """Return the members of the largest cohort, and their slots as they are recorded.

    Raises:
        UnavailableError: the machine has no such CPUs or nodes.
    """
    width = asked["intra_op"] if isinstance(asked["intra_op"], int) else 1
    specs, records = [], []
    for slot in placement.slots(asked["placement"], topology, most, width):
        policy = placement.memory_policy(asked["membind"], slot, topology)
        cpus = None if slot.cpus is None else format_cpu_list(slot.cpus)
        mempolicy = str(policy)
        arguments = [placeholders.fill(text, slot.slot) for text in workload["args"]]
        command = (str(Path(workload["script"]).resolve()), *arguments)
        specs.append(Member(slot.slot, cpus, mempolicy, command))
        records.append(
            {"slot": slot.slot, "cpus": cpus, "policy": mempolicy,
             "oversubscribed": slot.oversubscribed}
        )  # fmt: skip
    return specs, records


def _threads(intra_op: int | str, members: Sequence[Member], topology: Topology) -> int:
    """Return how many threads operators start in all members: by default one for each core."""
    if isinstance(intra_op, int):
        return intra_op * len(members)
    core_of = {cpu.cpu: cpu.core for cpu in topology.cpus}
    masks = [core_of if one.cpus is None else parse_cpu_list(one.cpus) for one in members]
    return sum(len({core_of[cpu] for cpu in mask}) for mask in masks)


def _placement_checks(
    slots: Sequence[Mapping[str, Any]], reports: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Compare each slot's CPUs and memory policy with what its member reports."""
    asked = {slot["slot"]: slot for slot in slots}
    rows = []
    for axis, requested, got in (
        ("placement", "cpus", lambda report: format_cpu_list(report["cpus"])),
        ("membind", "policy", lambda report: report["policy"]),
    ):
        wrong = [
            report
            for report in reports
            if asked[report["slot"]][requested] not in {None, got(report)}
        ]
        shown = (wrong or list(reports))[0]
        wanted = asked[shown["slot"]][requested]
        rows.append(
            {
                "axis": axis,
                "requested": "not bound" if wanted is None else f"slot {shown['slot']}: {wanted}",
                "effective": f"slot {shown['slot']}: {got(shown)}",
                "ok": not wrong,
            }
        )
    return rows


def checks(
    asked: Mapping[str, Any],
    slots: Sequence[Mapping[str, Any]],
    reports: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Compare all that a launch asks for with what its members report."""
    return [*axes.checks(asked, reports), *_placement_checks(slots, reports)]


def wrong(found: Sequence[Mapping[str, Any]]) -> str:
    """Say which of a launch's intents did not take effect; empty if all did."""
    return "; ".join(
        f"{check['axis']} {check['requested']} did not take effect: {check['effective']}"
        for check in found
        if not check["ok"]
    )


def host(machine: Mapping[str, Any]) -> cohort.Host:
    """Return what a coordinator must know of this machine."""
    cpus = parse_cpu_list(machine["allowed_cpus"])
    files = [
        (cpu, Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")) for cpu in cpus
    ]
    whole_bytes = machine["memory_bytes"]
    return cohort.Host(
        cpus=frozenset(cpus),
        memory_bytes=min(machine["memory_limit_bytes"] or whole_bytes, whole_bytes),
        frequency=tuple((cpu, file) for cpu, file in files if os.access(file, os.R_OK)),
    )
