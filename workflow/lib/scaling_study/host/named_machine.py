"""Whether this node is the machine that a study measures under a name.

Several nodes of one kind may share a name, since their records are pooled only where they are the
same machine to the last fact that matters to speed (``probe.speed_facts``). What the first node of
the kind was is in machine.json; another one is refused before it measures.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scaling_study.common import file_errors, storage
from scaling_study.common.topology import parse_cpu_list
from scaling_study.host import probe


class OtherMachineError(file_errors.UnusableError):
    """This node is not what its name in the config says; the text says how they differ."""


def require_cores(machine: Mapping[str, Any], cores: int | None) -> None:
    """Do nothing if a machine has as many CPUs as the config says, or the config does not say.

    Args:
        machine: the content of machine.json.
        cores: of the config.

    Raises:
        OtherMachineError: it has another number.
    """
    found = len(parse_cpu_list(machine["allowed_cpus"]))
    if cores is not None and found != cores:
        raise OtherMachineError(
            f"{machine['hostname']} has {found} CPUs for this job, and the config says cores:"
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
    there, here = storage.read_json(path), probe.read_machine().to_dict()
    try:
        differences = probe.differences(here, there)
        host = str(there["hostname"])
    except (KeyError, TypeError, ValueError) as error:
        raise file_errors.unreadable(path, error) from error
    if differences:
        name = path.parent.name
        raise OtherMachineError(
            f"{here['hostname']} is not the machine that was probed as {name}, which was"
            f" {host}: {'; '.join(map(str, differences))}. Nodes that differ have names"
            f" of their own: narrow machines.{name} (constraint, partition). If all nodes of this"
            f" name were changed, delete {path.parent}: it is measured anew"
        )
