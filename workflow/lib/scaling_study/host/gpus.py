"""Whether a process computes on a GPU, by the devices that it has open."""

import os
from collections.abc import Iterable
from contextlib import suppress

from scaling_study.host import kernel_counters

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD")
"""Beginnings of the names of NVIDIA's, AMD's and Intel's devices."""


def opened(pids: Iterable[int]) -> str:
    """Return a GPU's device that a process or a descendant of it has open; empty without one."""
    for pid in (one for root in pids for one in kernel_counters.descendants(root)):
        folder = f"/proc/{pid}/fd"
        with suppress(OSError):  # it has just ended
            for descriptor in os.listdir(folder):  # noqa: PTH208 (as in read_text)
                with suppress(OSError):
                    device = os.readlink(f"{folder}/{descriptor}")  # noqa: PTH115
                    if device.startswith(DEVICES):
                        return device
    return ""
