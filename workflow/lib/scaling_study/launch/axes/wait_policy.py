"""Spinning or sleeping: how an OpenMP thread waits.

libgomp spins GOMP_SPINCOUNT times, libiomp5 and libomp KMP_BLOCKTIME milliseconds before it sleeps;
OMP_WAIT_POLICY is what all derive their defaults from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.launch.axes.axis import Axis, Effects

if TYPE_CHECKING:
    from scaling_study.common.axis_values import Value
    from scaling_study.records import window
    from scaling_study.records.readback import Readback

PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}

# A member is watched for 20 ms after parallel work. Threads that sleep at once use far less than
# this of it; a default libgomp spins for several ms.
SPIN_LIMIT_S = 0.002


def _effective(_value: Value, readback: Readback) -> str:
    spin_s = readback.spin_s
    if spin_s is None:
        return "one thread, nothing to wait for"
    runtime = Path(readback.parallel or "no known runtime").name
    return f"{spin_s * 1e3:.1f} ms of CPU time spent waiting after a parallel region ({runtime})"


def _holds(value: str, readback: Readback, _slot: window.Slot) -> bool:
    spin_s = readback.spin_s
    return value == "default" or spin_s is None or spin_s < SPIN_LIMIT_S


AXIS = Axis(
    "what an OpenMP thread does while it waits",
    {
        "default": "what the OpenMP runtime chooses: it spins first",
        "passive": "it sleeps at once, under each runtime of axis openmp",
    },
    variables=(*PASSIVE, "KMP_LIBRARY"),
    order=50,
    prepare=lambda _value, _where: Effects(PASSIVE),
    effective=_effective,
    holds=_holds,
)
