"""One file of `data_loader/` as a table of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scaling_study.analysis.experiment_runs import (
    member_rows,
    of_kind,
    or_nan,
    per_window,
    read_records,
)
from scaling_study.records import experiment
from scaling_study.records.codec import REMEDY, RecordError, plain

if TYPE_CHECKING:
    from pathlib import Path

    from msgspec import Struct

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LoaderRun:
    """One job: one start of all variants. Records are as their lines hold them.

    Attributes:
        head: Its first record.
        readbacks: What the first member of each variant reported, by the variant's name.
        windows: A row per valid window: `variant`, `replicate`, `block`, `dose`, `step_s`,
            everything per step that members count, `spread` (the step that one in twenty exceeds,
            over the median), `disk_bytes_per_s` (what the machine read from disks), and
            `resident_before` and `resident_after`.
        ways: Its record of other ways to load; None where the loader cannot be changed.
        invalid: How many windows were not valid.
        end: Its last record; None where the job was cut off.
        use: What the machine was used for meanwhile; None where it was not looked at.
    """

    head: Json
    readbacks: dict[str, Json]
    windows: pd.DataFrame
    ways: Json | None
    invalid: int
    end: Json | None
    use: Json | None = None


def read_run(path: Path) -> LoaderRun:
    """Read one file.

    Args:
        path: data_loader/<replicate>.jsonl.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    records = read_records(path, experiment.DATA_LOADER)
    heads, taken = (
        of_kind(records, experiment.LoaderExperiment),
        of_kind(records, experiment.LoaderWindow),
    )
    if not heads:
        raise RecordError(f"{path}: it has no first record; {REMEDY}")
    ways, use, end = (
        _last(of_kind(records, kind))
        for kind in (experiment.Ways, experiment.Use, experiment.LoaderEnd)
    )
    return LoaderRun(
        head=plain(heads[0]),
        readbacks={
            one.cohort: plain(one.members[0])
            for one in of_kind(records, experiment.LoaderReadbacks)
        },
        windows=_rows(heads[0].replicate, taken),
        ways=ways,
        invalid=sum(not window.valid for window in taken),
        end=end,
        use=use,
    )


def _last(records: list[Struct]) -> Json | None:
    return plain(records[-1]) if records else None


def _rows(replicate: int, taken: list[experiment.LoaderWindow]) -> pd.DataFrame:
    valid = [window for window in taken if window.valid]
    if not valid:
        return pd.DataFrame()
    names = pd.DataFrame(
        {
            "variant": [window.name for window in valid],
            "replicate": replicate,
            "block": [window.block for window in valid],
            "disk_bytes_per_s": [_disk_bytes_per_s(window) for window in valid],
            "spread": [_spread(window) for window in valid],
            **{
                name: [or_nan(getattr(window, name)) for window in valid]
                for name in ("dose", "resident_before", "resident_after")
            },
        }
    )
    return names.join(per_window(member_rows(valid)))


def _disk_bytes_per_s(window: experiment.LoaderWindow) -> float:
    read = window.vmstat.get("pgpgin")
    return np.nan if read is None else 1024 * read / window.window_s


def _spread(window: experiment.LoaderWindow) -> float:
    steps = [us for member in window.members for us in member.step_us]
    middle, long = np.quantile(steps, [0.5, 0.95]) if steps else (np.nan, np.nan)
    return float(long / middle)
