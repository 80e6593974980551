"""Whether a process computes on a GPU, by the devices that it has open."""

import os
from collections.abc import Iterable
from contextlib import suppress
from glob import iglob

from scaling_study.host import kernel_counters

DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD")
"""Beginnings of the names of NVIDIA's, AMD's and Intel's devices."""


def opened(pids: Iterable[int]) -> str:
    """Return a GPU's device that a process or a descendant of it has open; empty without one."""
    for pid in (one for root in pids for one in kernel_counters.descendants(root)):
        for descriptor in iglob(f"/proc/{pid}/fd/*"):  # noqa: PTH207 (fast, as read_text)
            with suppress(OSError):  # it has just been closed
                device = os.readlink(descriptor)  # noqa: PTH115 (likewise)
                if device.startswith(DEVICES):
                    return device
    return ""
