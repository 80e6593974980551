"""Whether a job of SLURM may use its whole node: what is measured is a machine, not a part of one.

Outside SLURM a mask that is smaller than the machine is the user's choice (a cpuset, taskset): the
study is then one of that part. Inside, it is what a missing option of the allocation leaves, and
nobody has chosen it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from scaling_study.common import file_errors
from scaling_study.common.topology import format_cpu_list
from scaling_study.host import limits, system

# The controller answers in milliseconds; one that does not leaves the machine's own count.
SCONTROL_LONGEST_S = 20.0

IN_PROFILE = "in profiles/slurm/config.yaml, under set-resources and this rule's name"


class PartOfNodeError(file_errors.UnusableError):
    """SLURM has given a measurement less than its node; the text names the setting to change."""


def require_whole_node() -> None:
    """Do nothing outside SLURM, and in a job that may use all CPUs of its node.

    Raises:
        PartOfNodeError: the job may use fewer.
    """
    if "SLURM_JOB_ID" in os.environ:
        problem = missing_cpus(os.environ, limits.read_allowed_cpus(), read_node_cpus(os.environ))
        if problem:
            raise PartOfNodeError(problem)


def missing_cpus(
    env: Mapping[str, str], allowed_cpus: tuple[int, ...], node_cpus: int
) -> str | None:
    """Say that this job has too few CPUs and what to set; None if it has all.

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
    if _allocated_cpus(env) < node_cpus:
        return (
            f"{has} Its allocation is a part of the node. Set {IN_PROFILE}:"
            " slurm_extra: \"'--exclusive'\""
        )
    return (
        f"{has} Its allocation is the whole node, but its step has a part of it. Set {IN_PROFILE}:"
        f' cpus_per_task: "0 - 1" (no number), or {node_cpus} where the site wants a number'
    )


def read_node_cpus(env: Mapping[str, str]) -> int:
    """The number of this node's CPUs for jobs, without those that the site keeps for itself.

    Args:
        env: holds the node's name.
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
    """CPUs for jobs, from ``scontrol show node``; None before SLURM 22.05, which does not say."""
    match = re.search(r"\bCPUEfctv=(\d+)", node)
    return int(match[1]) if match else None


def _allocated_cpus(env: Mapping[str, str]) -> int:
    """CPUs of the allocation on its one node; SLURM writes several nodes as ``8(x2),4``."""
    match = re.match(r"\d+", env.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return int(match[0]) if match else 0
