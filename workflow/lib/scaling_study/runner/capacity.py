"""Whether so many members can be started here, asked before the first one is.

On a machine with hundreds of CPUs the first limits met are not the machine's but the user's:
descriptors of the coordinator, processes and threads of a container, memory of a cgroup. Running
into one of them half-way would look like members that crash.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scaling_study.common.unavailable import UnavailableError
from scaling_study.host import headroom
from scaling_study.host.perf_events import SPARE_DESCRIPTORS
from scaling_study.launch.launchers.launcher_table import LAUNCHERS
from scaling_study.runner.footprint import UNKNOWN, Footprint

if TYPE_CHECKING:
    from collections.abc import Sequence

# The coordinator and its keeper, a launcher's host, and what they start now and then.
SPARE_TASKS = 16


@dataclass(frozen=True, slots=True)
class Need:
    """What a cohort takes of the limits.

    Attributes:
        members: how many it has.
        threads: of all members together, at least.
        launcher: how they are started.
        member: what of the memory each was seen to take.
        processes: of each member.
    """

    members: int
    threads: int
    launcher: str
    member: Footprint = UNKNOWN
    processes: int = 1

    @property
    def memory_bytes(self) -> int:
        """What all members take of the memory, at least."""
        least_bytes = self.processes * LAUNCHERS[self.launcher].least_bytes
        return self.members * max(self.member.memory, least_bytes)

    def of(self, members: int) -> Self:
        """Return the need of a cohort with fewer of these members."""
        return replace(self, members=members, threads=self.threads * members // self.members)


def check(needs: Sequence[Need]) -> None:
    """Check that cohorts can live beside each other, and beside all that lives already.

    Raises:
        UnavailableError: They cannot; it says which limit is in the way.
    """
    members = sum(need.members for need in needs)
    _check_descriptors(members, sum(need.members * need.processes for need in needs))
    _check_tasks(members, sum(need.threads for need in needs), SPARE_TASKS * len(needs))
    memory_bytes = sum(need.memory_bytes for need in needs)
    _check_memory(members, memory_bytes, headroom.read_free_memory())
    shared_bytes = sum(need.members * need.member.shared for need in needs)
    _check_memory(members, shared_bytes, headroom.read_free_shared())


def fitting(need: Need, counts: Sequence[int]) -> tuple[list[int], UnavailableError | None]:
    """Return the process counts that a launch can have, and what keeps it from the others.

    Args:
        need: of so many members as the largest count.
        counts: those that are asked for.

    Raises:
        UnavailableError: not even the smallest fits.
    """
    missing = None
    for most in sorted(counts, reverse=True):
        try:
            check([need.of(most)])
        except UnavailableError as error:
            missing = missing or error
            unfit = error
        else:
            return [n for n in counts if n <= most], missing
    raise unfit


def together(needs: Sequence[Need], most: int) -> list[int]:
    """Divide cohorts, in their order, into groups that can live beside each other.

    Args:
        needs: of each; each of them alone can live.
        most: cohorts of a group at most.

    Returns:
        How many cohorts each group has.
    """
    sizes: list[int] = []
    group: list[Need] = []
    for need in needs:
        if group and (len(group) == most or not _fit([*group, need])):
            sizes.append(len(group))
            group = []
        group.append(need)
    return [*sizes, len(group)] if group else sizes


def _fit(needs: Sequence[Need]) -> bool:
    try:
        check(needs)
    except UnavailableError:
        return False
    return True


def _check_descriptors(members: int, processes: int) -> None:
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    used = sum(1 for _ in Path("/proc/self/fd").iterdir()) + SPARE_DESCRIPTORS
    # A gate of each process, and the member itself; hardware counters take what is left.
    needed = used + members + processes
    if needed > limit:
        fit = max(0, limit - used) * members // (members + processes)
        raise UnavailableError(
            f"{members} members need {needed} open files, and the limit is {limit} (ulimit -n)",
            f"ulimit -n {needed} in the shell that starts the study"
            + (f" (the hard limit is {hard}: as root)" if needed > hard >= 0 else "")
            + f", or processes of at most {fit}",
        )


def _check_tasks(members: int, threads: int, spare: int) -> None:
    left = headroom.read_free_tasks()
    needed = threads + spare
    if needed > left.free:
        fit = max(0, left.free - spare) * members // threads
        raise UnavailableError(
            f"{members} members of {threads // members} threads or more each need {needed} tasks,"
            f" and {left.free} are left ({left.limit})",
            f"raise that limit, set intra_op to 1, or processes to at most {fit}",
        )


def _check_memory(members: int, needed_bytes: int, left: headroom.Room) -> None:
    if needed_bytes > left.free:
        raise UnavailableError(
            f"{members} members need {needed_bytes / 1024**3:.1f} GiB or more,"
            f" and {left.free / 1024**3:.1f} GiB are left ({left.limit})",
            f"raise that limit, or set processes to at most {left.free * members // needed_bytes}",
        )
