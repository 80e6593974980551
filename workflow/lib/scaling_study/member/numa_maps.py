"""The memory policy of a process and where its pages are. Standard library only."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path


def memory_policy(pid: object = "self") -> tuple[str, dict[str, int]]:
    """Return a process's memory policy and its pages per NUMA node (numa_maps in proc(5)).

    The policy is that of the heap: ``default``, ``bind:0``, ``interleave:0-1``, ``prefer:0``.
    """
    text = ""
    with contextlib.suppress(FileNotFoundError):  # a kernel without NUMA
        text = Path(f"/proc/{pid}/numa_maps").read_text().replace("prefer (many)", "prefer")
    heap = re.search(r"^\S+ (\S+).* heap\b", text, re.MULTILINE) or re.match(r"\S+ (\S+)", text)
    pages: Counter[str] = Counter()
    for node, count in re.findall(r" N(\d+)=(\d+)", text):
        pages[node] += int(count)
    return heap[1] if heap else "default", pages
