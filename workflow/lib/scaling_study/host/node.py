"""Checks that this node is the machine that a study means to measure: all of it, and no other.

A SLURM job must be allowed to use its whole node. Outside SLURM, a mask smaller than the machine is
the user's choice (a cpuset, taskset), and the study measures that part. Inside SLURM, it results
from a missing option of the allocation, and nobody has chosen it.

Several nodes of one kind may share a name, because their records are pooled only if they agree in
every fact that matters to speed (``probe.speed_facts``). machine.json describes the first node of
the name; a node that differs from it is refused before it measures.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scaling_study.common.file_errors import UnusableError
from scaling_study.common.topology import format_cpu_list
from scaling_study.host import limits, probe, system
from scaling_study.records.codec import read_file
from scaling_study.records.machine import Machine

# The controller answers in milliseconds. Without an answer, the machine's own count is used.
SCONTROL_LONGEST_S = 20.0

IN_PROFILE = "in profiles/slurm/config.yaml, under set-resources and this rule's name"


def require_whole_node() -> None:
    """Refuse a SLURM job that may not use all CPUs of its node; outside SLURM, do nothing.

    Raises:
        UnusableError: the job may use fewer; the text names the setting to change.
    """
    if "SLURM_JOB_ID" not in os.environ:
        return
    allowed_cpus, node_cpus = limits.read_allowed_cpus(), read_node_cpus(os.environ)
    if problem := missing_cpus(os.environ, allowed_cpus, node_cpus):
        raise UnusableError(problem)


def missing_cpus(
    env: Mapping[str, str], allowed_cpus: tuple[int, ...], node_cpus: int
) -> str | None:
    """Return a message that this job has too few CPUs, and what to set; None if it has all.

    Args:
        env: what SLURM has set for the job step (srun(1), output environment variables).
        allowed_cpus: CPUs that the job may run on.
        node_cpus: how many CPUs of the node are for jobs.
    """
    if len(allowed_cpus) >= node_cpus:
        return None
    node = env.get("SLURMD_NODENAME", "the node")
    has = (
        f"SLURM job {env['SLURM_JOB_ID']} may run on {len(allowed_cpus)} of the {node_cpus} CPUs of"
        f" {node} ({format_cpu_list(allowed_cpus)}); a measurement needs the whole node."
    )
    # SLURM writes several nodes as ``8(x2),4``.
    allocated = re.match(r"\d+", env.get("SLURM_JOB_CPUS_PER_NODE", ""))
    if allocated is None or int(allocated[0]) < node_cpus:
        return (
            f"{has} Its allocation is a part of the node. Set {IN_PROFILE}:"
            " slurm_extra: \"'--exclusive'\""
        )
    return (
        f"{has} Its allocation is the whole node, but its step has a part of it. Set {IN_PROFILE}:"
        f' cpus_per_task: "0 - 1" (no number), or {node_cpus} where the site wants a number'
    )


def read_node_cpus(env: Mapping[str, str]) -> int:
    """Return the number of this node's CPUs for jobs, without those that the site reserves.

    Args:
        env: what SLURM has set for the job step, such as the node's name.
    """
    online = len(system.read_online_cpus())
    scontrol = shutil.which("scontrol")
    if scontrol is None or "SLURMD_NODENAME" not in env:
        return online
    command = [scontrol, "show", "node", "--oneliner", env["SLURMD_NODENAME"]]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SCONTROL_LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return online
    return parse_effective_cpus(done.stdout) or online


def parse_effective_cpus(node: str) -> int | None:
    """Return the number of CPUs for jobs, from ``scontrol show node``; None before SLURM 22.05."""
    return system.find_number(r"\bCPUEfctv=(\d+)", node)


def require_cores(machine: Machine, cores: int | None) -> None:
    """Refuse a machine with another number of CPUs than the config's ``cores``, if that is set.

    Args:
        machine: this machine.
        cores: the config's value; None if it has none.

    Raises:
        UnusableError: it has another number.
    """
    found = len(machine.cpus)
    if cores is not None and found != cores:
        raise UnusableError(
            f"{machine.hostname} has {found} CPUs for this job, and the config says cores:"
            f" {cores}. Correct that, or what chooses the node (partition, constraint)"
        )


def require_probed(path: Path | None) -> None:
    """Refuse this machine if it is not the one that was probed under its name.

    Args:
        path: machines/<name>/machine.json; None in a study of this machine alone.

    Raises:
        UnusableError: it is another machine.
    """
    if path is None:
        return
    there, here = read_file(path, Machine), probe.read_machine()
    if differences := probe.differences(here, there):
        name = path.parent.name
        raise UnusableError(
            f"{here.hostname} is not the machine that was probed as {name}, which was"
            f" {there.hostname}: {'; '.join(map(str, differences))}. Nodes that differ have names"
            f" of their own: narrow machines.{name} (constraint, partition). If all nodes of this"
            f" name were changed, delete {path.parent}: it is measured anew"
        )
