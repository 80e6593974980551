"""One file of `data_loader/` as a table of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from scaling_study.analysis.experiment_runs import (
    last,
    member_rows,
    of_kind,
    or_nan,
    per_window,
    read_records,
)
from scaling_study.records import experiment

if TYPE_CHECKING:
    from pathlib import Path

    from scaling_study.records.readback import Readback


@dataclass(frozen=True, slots=True)
class LoaderRun:
    """One job: one start of all variants.

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

    head: experiment.LoaderExperiment
    readbacks: dict[str, Readback]
    windows: pd.DataFrame
    ways: experiment.Ways | None
    invalid: int
    end: experiment.End | None
    use: experiment.Use | None = None


def read_run(path: Path) -> LoaderRun:
    """Read one file.

    Args:
        path: data_loader/<replicate>.jsonl.

    Raises:
        RecordError: A record cannot be read or contradicts the ones before it.
    """
    head, records = read_records(path, experiment.LoaderExperiment)
    taken = of_kind(records, experiment.Window)
    return LoaderRun(
        head=head,
        readbacks={one.cohort: one.members[0] for one in of_kind(records, experiment.Readbacks)},
        windows=_rows(head.replicate, taken),
        ways=last(records, experiment.Ways),
        invalid=sum(not window.valid for window in taken),
        end=last(records, experiment.End),
        use=last(records, experiment.Use),
    )


def _rows(replicate: int, taken: list[experiment.Window]) -> pd.DataFrame:
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


def _disk_bytes_per_s(window: experiment.Window) -> float:
    read = window.vmstat.get("pgpgin")
    return np.nan if read is None else 1024 * read / window.window_s


def _spread(window: experiment.Window) -> float:
    steps = [us for member in window.members for us in member.step_us]
    middle, long = np.quantile(steps, [0.5, 0.95]) if steps else (np.nan, np.nan)
    return float(long / middle)
