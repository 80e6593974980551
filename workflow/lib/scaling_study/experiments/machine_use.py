"""What a machine is used for while a launch trains: looked at now and then, in no measured window.

Counters are cumulative; whoever reads two looks takes the difference. As everything that looks at
running members does, this disturbs them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.experiments.experiment_windows import read_vmstat
from scaling_study.host import headroom, kernel_counters, machine_counters

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOKS, EVERY_S = 24, 0.125


@dataclass(slots=True)
class Watcher:
    """Takes looks at members and at the machine.

    Attributes:
        cpus: that the study may use.
        looks: so far; see ``record``.
    """

    cpus: frozenset[int]
    looks: list[dict[str, Any]] = field(default_factory=list)

    def look(self, threads: Mapping[int, tuple[int, int]]) -> None:
        """Look once.

        Args:
            threads: process and training thread of each member, by slot.
        """
        trainers_s = threads_s = workers_s = 0.0
        for pid, tid in threads.values():
            try:
                tree = kernel_counters.read_tree(pid, tid)
            except OSError:  # it has just ended
                return
            own = tree[pid]
            trainer_s = (own.trainer_user_s or 0.0) + (own.trainer_system_s or 0.0)
            trainers_s += trainer_s
            threads_s += own.cpu_s - trainer_s
            workers_s += kernel_counters.known_cpu_s(tree) - own.cpu_s
        machine = machine_counters.read_machine(self.cpus)
        self.looks.append(
            {
                "at_s": time.perf_counter(),
                "trainers_s": trainers_s,
                "threads_s": threads_s,
                "workers_s": workers_s,
                "busy_s": machine.busy_cpu_s,
                "stalled_cpu_s": machine.psi_cpu_some_s,
                "stalled_io_s": machine.psi_io_some_s,
                "disk_bytes": 1024 * read_vmstat().get("pgpgin", 0),
                "network_bytes": _network_bytes(Path("/proc/net/dev").read_text()),
                "memory_left_bytes": headroom.read_free_memory().free,
                "shared_left_bytes": headroom.read_free_shared().free,
            }
        )

    def record(self) -> dict[str, Any]:
        """Return what was seen as a record holds it.

        Times are CPU seconds since processes began: of training threads, of their processes' other
        threads, of processes below those, and of the CPUs in all. Bytes are those read from disks
        and received by network devices since the machine started, and those of memory and of
        /dev/shm that are left.
        """
        return {
            "kind": "use", "cpus": len(self.cpus), "shared_bytes": headroom.read_shared_bytes(),
            "looks": self.looks,
        }  # fmt: skip


def _network_bytes(text: str) -> int:
    """Return the bytes that all devices but the loopback have received, of /proc/net/dev."""
    rows = (line.partition(":") for line in text.splitlines()[2:])
    return sum(int(rest.split()[0]) for name, _, rest in rows if name.strip() != "lo")
