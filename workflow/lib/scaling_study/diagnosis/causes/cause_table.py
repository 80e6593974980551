"""The causes that are looked for, in the order in which they are judged.

Specific causes come before general ones, and counted shares before compared ones: a cause's shares
and checks can depend on the causes that are named before it.
"""

import dataclasses

from scaling_study.common import entries
from scaling_study.diagnosis.cause import Cause
from scaling_study.diagnosis.causes import cpu, loader, machine, memory, program

ORDER = (
    *("cpu_quota", "stopped", "affinity_pileup", "foreign_load", "steal", "communication"),
    *("imbalance", "lock_contention", "file_io", "pauses", "spinning", "too_many_threads"),
    *("cpuset", "cpu_oversubscription", "loader_starts", "slow_blas", "loader_lock"),
    *("loader_snapshots", "loader_rows", "loader_copies", "loader_interference"),
    *("helper_threads", "denormals", "loader_storage", "too_few_workers", "loader_preparation"),
    *("data_loading", "compilation", "interpreter", "swap", "page_faults", "thp"),
    *("numa_balancing", "remote_memory", "frequency", "smt", "migrations", "last_level_cache"),
    *("memory_bandwidth", "shell"),
)
"""The causes of `OWN` in order: the first one has order 10, the next one 20."""
OWN = {**cpu.CAUSES, **machine.CAUSES, **memory.CAUSES, **loader.CAUSES, **program.CAUSES}


def _all() -> tuple[Cause, ...]:
    ordered = {
        name: dataclasses.replace(OWN[name], order=10 * place)
        for place, name in enumerate(ORDER, start=1)
    }
    known = entries.found("diagnosis.causes", "CAUSE", Cause, ordered)
    named = [dataclasses.replace(cause, id=name) for name, cause in known.items()]
    return tuple(sorted(named, key=lambda cause: (cause.order, cause.id)))


CAUSES: tuple[Cause, ...] = _all()
