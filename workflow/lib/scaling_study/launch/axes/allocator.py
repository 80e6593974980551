"""The library that hands out memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.launch.axes import libraries
from scaling_study.launch.axes.axis import Axis, Effects, Library
from scaling_study.launch.axes.values import LIBRARY
from scaling_study.launch.launchers.launcher_table import LAUNCHERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scaling_study.common.axis_values import Value
    from scaling_study.launch.axes.axis import Where
    from scaling_study.records import window
    from scaling_study.records.readback import Readback

LIBRARIES = {
    "jemalloc": Library(patterns=("libjemalloc.so.[0-9]*",), install="apt install libjemalloc2"),
    # The minimal build has no heap profiler, whose hooks cost time.
    "tcmalloc": Library(
        patterns=("libtcmalloc_minimal.so.[0-9]*", "libtcmalloc.so.[0-9]*"),
        install="apt install libtcmalloc-minimal4",
    ),
    "mimalloc": Library(
        patterns=("libmimalloc.so.[0-9]*",),
        install="pip install cmeel-mimalloc",
    ),
}

# glibc refuses an M_MMAP_THRESHOLD above half of its largest heap, 32 MiB on 64 bits (mallopt(3)).
LARGE_MMAP_BYTES = 32 * 1024**2
# Never give memory back to the kernel between steps: any figure above a step's garbage does.
LARGE_TRIM_BYTES = 4 * 1024**3
LARGE_THRESHOLDS = {
    "MALLOC_MMAP_THRESHOLD_": str(LARGE_MMAP_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(LARGE_TRIM_BYTES),
}

# The settings of PyTorch's tuning guide, which torch.backends.xeon.run_cpu sets too. Memory goes
# back to the kernel after so many milliseconds: never.
JEMALLOC_DECAY_MS = 9_000_000_000
JEMALLOC = {
    "MALLOC_CONF": "oversize_threshold:1,background_thread:true,metadata_thp:auto,"
    f"dirty_decay_ms:{JEMALLOC_DECAY_MS},muzzy_decay_ms:{JEMALLOC_DECAY_MS}"
}

# The file of glibc, with its version in the name before glibc 2.34.
_GLIBC = re.compile(r"libc[.-]")


def _prepare(value: str, where: Where) -> Effects:
    if value == "glibc-large-thresholds":
        return Effects(LARGE_THRESHOLDS)
    tuned = Effects(JEMALLOC if value == "jemalloc" else {})
    return libraries.preload(value, where.machine, LIBRARIES) | tuned


def _thresholds(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in LARGE_THRESHOLDS if name in env}


def _effective(_value: Value, readback: Readback) -> str:
    found = _thresholds(readback.env)
    decay_ms = readback.jemalloc_decay_ms
    kept = [] if decay_ms is None else [f"dirty_decay_ms:{decay_ms}"]
    return " ".join([str(readback.allocator), *map("=".join, found.items()), *kept])


def _holds(value: str, readback: Readback, _slot: window.Slot) -> bool:
    owner = readback.allocator
    if value not in {"glibc", "glibc-large-thresholds"}:
        if value == "jemalloc" and readback.jemalloc_decay_ms != JEMALLOC_DECAY_MS:
            return False
        return libraries.is_preloaded(owner, readback) and libraries.is_named(value, owner)
    found = _thresholds(readback.env)
    # A launcher may set a threshold of its own, which glibc alone leaves as it is.
    wanted = (
        found == LARGE_THRESHOLDS
        if value == "glibc-large-thresholds"
        else not found or found == _thresholds(LAUNCHERS[readback.launcher].environment())
    )
    return wanted and bool(_GLIBC.match(Path(owner or "").name))


AXIS = Axis(
    "the library that hands out memory",
    {
        "glibc": "the system's malloc",
        "glibc-large-thresholds": "the system's malloc, which keeps large blocks",
        "jemalloc": "jemalloc, preloaded, with the settings of PyTorch's tuning guide",
        "tcmalloc": "tcmalloc, preloaded",
        "mimalloc": "mimalloc, preloaded",
    },
    LIBRARY,
    variables=(
        "LD_PRELOAD",
        "MALLOC_CONF",
        "MALLOC_TRIM_THRESHOLD_",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_MMAP_MAX_",
        "MALLOC_TOP_PAD_",
    ),
    libraries=LIBRARIES,
    order=80,
    prepare=_prepare,
    effective=_effective,
    holds=_holds,
)
