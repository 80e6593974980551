"""The ledger of a benchmark: each run is a line of JSON, and says on which machine it was done."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaling_study.common import storage
from scaling_study.host import probe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scaling_study.records.machine import Machine
    from scaling_study.stats.interval import Interval

ROOT = Path(__file__).parent.parent

Entry = dict[str, Any]


def read(path: Path) -> list[Entry]:
    """Return the runs of a ledger; none where there is no file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def write(path: Path, entries: Iterable[Entry]) -> None:
    """Write a ledger as a whole: a kill leaves either the runs before or all of them."""
    lines = [json.dumps(entry) + "\n" for entry in entries]
    storage.write_whole(path, lambda new: new.write_text("".join(lines), encoding="utf-8"))


@functools.cache
def machine() -> str:
    """Describe this machine."""
    return describe_machine(probe.read_machine())


def describe_machine(machine: Machine) -> str:
    """Describe a machine."""
    return (
        f"CPUs {machine.allowed_cpus} ({machine.cpu_model}), torch {machine.versions['torch']}, "
        f"Linux {machine.kernel}, cgroup v{machine.cgroup_version}"
    )


def describe(found: Interval | None, decimals: int = 3) -> str:
    """Write a value with its interval; an empty text where there is none."""
    if found is None or math.isnan(found.value):
        return ""
    text = f"{found.value:.{decimals}f}"
    if found.low is None or found.high is None:
        return text
    return f"{text} ({found.low:.{decimals}f} to {found.high:.{decimals}f})"
