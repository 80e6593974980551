"""A CPU quota of the cgroup."""

import functools
import subprocess
import sys

from scaling_study.common.quantities import format_number
from scaling_study.diagnosis.agreement import Fact
from scaling_study.diagnosis.case import UNTHROTTLED
from scaling_study.diagnosis.causes.cause import Cause, Remedy, Route
from scaling_study.diagnosis.causes.plant import CPUS, FOLDER, Dose, Options, Plant
from scaling_study.diagnosis.measures import Account
from scaling_study.diagnosis.query import Asked
from scaling_study.diagnosis.recovered_share import AtLeast, ByRelief


def _quota(asked: Asked) -> tuple[bool | None, str]:
    case = asked.case
    quota = case.machine.quota_cpus
    if quota is None:
        return None, "No quota is set on the cgroups that can be seen from here."
    return True, (
        f"The cgroup's quota is {format_number(quota)} CPUs; the members used "
        f"{format_number(case.mean('cpu_use', case.n))}."
    )


THROTTLED = Account(("trainer_throttled_s_per_step",), "time held back by a quota")


def _bandwidth(dose: Dose) -> Options:
    return ("--quota-cpus", f"{0.6 * len(CPUS) / dose.strength:.3f}")


@functools.cache
def no_quota(version: int | None = None) -> str | None:
    """Say why no quota can be set here, by cgroups of this version if one is given."""
    from scaling_study.host import limits

    hierarchy = limits.read_hierarchy("cpu")
    if version is not None and hierarchy is not None and hierarchy.version != version:
        return f"cgroup v{hierarchy.version} governs CPU time here"
    command = [sys.executable, str(FOLDER / "outside.py"), "--quota-cpus", "1", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else None


PLANTS = {
    "quota": Plant(
        "CPU quota of a cgroup (v1)",
        ("cpu_quota",),
        outside=_bandwidth,
        missing=lambda: no_quota(1),
    ),
    "quota_v2": Plant(
        "CPU quota of a cgroup (v2)",
        ("cpu_quota",),
        outside=_bandwidth,
        missing=lambda: no_quota(2),
    ),
}

CAUSE = Cause(
    "A CPU quota of the cgroup",
    "a limit set on this container or service stops the processes for a part of the time",
    "The kernel counts throttled time; CPUs are idle while members are ready to run. In bursts "
    "that end before the quota holds anybody back, steps with many processes are as short as "
    "with one. The affinity mask shows nothing of it.",
    "CPU bandwidth control: Documentation/scheduler/sched-bwc.rst; cpu.stat in "
    "Documentation/admin-guide/cgroup-v2.rst",
    Remedy(
        "Raise or remove the quota, or start no more processes than it has CPUs for.",
        command="cat /sys/fs/cgroup/cpu.max  # then, as root, for the cgroup that has it: "
        "echo max > cpu.max",
    ),
    growth=(Route(AtLeast(THROTTLED, ByRelief((UNTHROTTLED,))), hints=(Fact(_quota),)),),
    level=(Route(THROTTLED, hints=(Fact(_quota),)),),
    plants=PLANTS,
    order=10,
)
