"""One file of `feed/` as a table of its windows."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scaling_study.analysis import loader_schema
from scaling_study.analysis.experiment_runs import member_rows, per_window, refuse_contradictions
from scaling_study.analysis.record_schema import RecordError


@dataclasses.dataclass(frozen=True, slots=True)
class FeedRun:
    """One job: one start of all variants.

    Attributes:
        head: Its first record.
        attestations: What the first member of each variant reported, by the variant's name.
        windows: A row per valid window: `variant`, `replicate`, `block`, `dose`, `step_s`,
            everything per step that members count, `spread` (the step that one in twenty exceeds,
            over the median), `disk_bytes_per_s` (what the machine read from disks), and
            `resident_before` and `resident_after`.
        ways: Its record of other ways to load; None where the loader cannot be changed.
        invalid: How many windows were not valid.
        end: Its last record; None where the job was cut off.
        use: What the machine was used for meanwhile; None where it was not looked at.
    """

    head: loader_schema.Head
    attestations: dict[str, Any]
    windows: pd.DataFrame
    ways: loader_schema.Ways | None
    invalid: int
    end: loader_schema.End | None
    use: loader_schema.Use | None = None


def read_run(path: Path) -> FeedRun:
    """Read one file.

    Args:
        path: feed/<replicate>.jsonl.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    by_kind: dict[str, list[Any]] = {}
    for line, record in loader_schema.read(path):
        if record["kind"] == "window":
            refuse_contradictions(path, line, record)
        by_kind.setdefault(record["kind"], []).append(record)
    if not by_kind.get("feed"):
        raise RecordError(f"{path}: it has no first record: delete it and run the study again")
    taken = by_kind.get("window", [])
    return FeedRun(
        head=by_kind["feed"][0],
        attestations={one["cohort"]: one["members"][0] for one in by_kind.get("attestation", [])},
        windows=_rows(by_kind["feed"][0]["replicate"], taken),
        ways=by_kind["ways"][-1] if "ways" in by_kind else None,
        invalid=sum(not window["valid"] for window in taken),
        end=by_kind["end"][-1] if "end" in by_kind else None,
        use=by_kind["use"][-1] if "use" in by_kind else None,
    )


def _rows(replicate: int, taken: list[loader_schema.Window]) -> pd.DataFrame:
    valid = [window for window in taken if window["valid"]]
    if not valid:
        return pd.DataFrame()
    names = pd.DataFrame(
        {
            "variant": [window["name"] for window in valid],
            "replicate": replicate,
            "block": [window["block"] for window in valid],
            "dose": [np.nan if window["dose"] is None else window["dose"] for window in valid],
            "disk_bytes_per_s": [_disk_bytes_per_s(window) for window in valid],
            "spread": [_spread(window) for window in valid],
            **{
                name: [np.nan if window.get(name) is None else window[name] for window in valid]
                for name in ("resident_before", "resident_after")
            },
        }
    )
    return names.join(per_window(member_rows(valid)))


def _disk_bytes_per_s(window: loader_schema.Window) -> float:
    read = window["vmstat"].get("pgpgin")
    return np.nan if read is None else 1024 * read / window["window_s"]


def _spread(window: loader_schema.Window) -> float:
    steps = [us for member in window["members"] for us in member["step_us"]]
    middle, long = np.quantile(steps, [0.5, 0.95]) if steps else (np.nan, np.nan)
    return float(long / middle)
