"""The memory policy of a process and where its pages are. Standard library only."""

from __future__ import annotations

import re
from pathlib import Path


def memory_policy(pid: object = "self") -> tuple[str, dict[str, int]]:
    """Return a process's memory policy and its pages per NUMA node (numa_maps in proc(5)).

    The policy is that of the heap: ``default``, ``bind:0``, ``interleave:0-1``.
    """
    try:
        lines = Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
    except FileNotFoundError:  # a kernel without NUMA
        return "default", {}
    pages: dict[str, int] = {}
    policy = lines[0].split()[1] if lines else "default"
    for line in lines:
        fields = line.split()
        if "heap" in fields:
            policy = fields[1]
        for node, count in re.findall(r" N(\d+)=(\d+)", line):
            pages[node] = pages.get(node, 0) + int(count)
    return policy, pages
