"""What the machine could give to a loader, and how near to that a script came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scaling_study.common.quantities import (
    MISSING,
    format_bytes,
    format_count,
    format_number,
    format_percent,
    format_seconds,
)
from scaling_study.member.kernels import STREAM_BYTES
from scaling_study.report.report_rows import Row, number_cell

PETABYTE = 1e15
MANY = 1e9
"""Files."""
STREAMS = {"memory": "memory, a stream (scaled)", "llc": "the last-level cache, the same"}
DISK = "disk_in_order"
NEAR = 0.5
"""From this part of a ceiling on, it is said."""

Json = Mapping[str, Any]


def ceiling_rows(fingerprint: Json | None, disk_bytes_per_s: Mapping[str, float]) -> list[Row]:
    """Make the table's rows; none where the machine's ceilings were not measured.

    Args:
        fingerprint: fingerprint.json.
        disk_bytes_per_s: what the machine read from disks, by variant of the script.
    """
    if fingerprint is None or "ceilings" not in fingerprint:
        return []
    rows = [
        _row(f"{title}, {format_count(n, 'process', 'processes')}", per_s, "B", "", "")
        for kernel, title in STREAMS.items()
        for n, per_s in _streams(fingerprint["rows"], kernel)
    ]
    for one in fingerprint["ceilings"]:
        used = _used(one, disk_bytes_per_s) if one["name"] == DISK else ""
        rows.append(_row(one["title"], one["per_s"], one["unit"], one["note"], used))
    return rows


def near_ceilings(fingerprint: Json | None, disk_bytes_per_s: Mapping[str, float]) -> list[str]:
    """Say which of them the script as it is came near to."""
    known = fingerprint.get("ceilings", []) if fingerprint else []
    disk = next((one["per_s"] for one in known if one["name"] == DISK), None)
    read = disk_bytes_per_s.get("as_is")
    if not disk or read is None or read < NEAR * disk:
        return []
    said = (
        f"As it is, {format_bytes(read)} a second come from disks, {format_percent(read / disk)} of"
        " what one process can read here in order: the disk may be what limits."
    )
    return [said]


def _streams(rows: Sequence[Json], kernel: str) -> Iterator[tuple[int, float]]:
    """Bytes that a stream moves in a second, with one process and with the most."""
    own = [row for row in rows if row["kernel"] == kernel and row["valid"] and row["rates"]]
    counts = sorted({row["n"] for row in own})
    for n in dict.fromkeys([*counts[:1], *counts[-1:]]):
        yield n, STREAM_BYTES * float(np.mean([sum(row["rates"]) for row in own if row["n"] == n]))


def _row(title: str, per_s: float | None, unit: str, note: str, used: str) -> Row:
    if per_s is None:
        return {
            "label": title, "note": note, "used": "",
            **{name: number_cell(None, text=MISSING) for name in ("rate", "takes")},
        }  # fmt: skip
    files = unit != "B"
    whole_s = (MANY if files else PETABYTE) / per_s
    text = f"{format_number(per_s)} files" if files else format_bytes(per_s)
    return {
        "label": title,
        "note": note,
        "used": used,
        "rate": number_cell(per_s, text=f"{text}/s"),
        "takes": number_cell(whole_s, text=_long(whole_s) + (", 10⁹ files" if files else "")),
    }


def _long(seconds: float) -> str:
    days = seconds / 86400
    return f"{format_number(days)} days" if days >= 1 else format_seconds(seconds)


def _used(one: Json, disk_bytes_per_s: Mapping[str, float]) -> str:
    if not one["per_s"]:
        return ""
    words = {"as_is": "as it is", "cold": "files not in memory"}
    return "; ".join(
        f"{words[name]} {format_bytes(read)}/s ({format_percent(round(read / one['per_s'], 2))})"
        for name, read in disk_bytes_per_s.items()
    )
