"""Whether this node is the machine that a study measures under a name.

Several nodes of one kind may share a name, since their records are pooled only where they are the
same machine to the last fact that matters to speed (``probe.speed_facts``). What the first node of
the kind was is in machine.json; another one is refused before it measures.
"""

from pathlib import Path

from scaling_study.common import file_errors
from scaling_study.host import probe
from scaling_study.records.codec import read_file
from scaling_study.records.machine import Machine


class OtherMachineError(file_errors.UnusableError):
    """This node is not what its name in the config says; the text says how they differ."""


def require_cores(machine: Machine, cores: int | None) -> None:
    """Do nothing if a machine has as many CPUs as the config says, or the config does not say.

    Args:
        machine: this one.
        cores: of the config.

    Raises:
        OtherMachineError: it has another number.
    """
    found = len(machine.cpus)
    if cores is not None and found != cores:
        raise OtherMachineError(
            f"{machine.hostname} has {found} CPUs for this job, and the config says cores:"
            f" {cores}. Correct that, or what chooses the node (partition, constraint)"
        )


def require_probed(path: Path | None) -> None:
    """Do nothing if this machine is the one that was probed under its name.

    Args:
        path: machines/<name>/machine.json; None in a study of this machine alone.

    Raises:
        OtherMachineError: it is another.
    """
    if path is None:
        return
    there, here = read_file(path, Machine), probe.read_machine()
    if differences := probe.differences(here, there):
        name = path.parent.name
        raise OtherMachineError(
            f"{here.hostname} is not the machine that was probed as {name}, which was"
            f" {there.hostname}: {'; '.join(map(str, differences))}. Nodes that differ have names"
            f" of their own: narrow machines.{name} (constraint, partition). If all nodes of this"
            f" name were changed, delete {path.parent}: it is measured anew"
        )
