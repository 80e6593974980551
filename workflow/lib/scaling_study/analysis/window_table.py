"""From the rows of a launch's record files to the table of windows and pooled step times."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from scaling_study.analysis.accounts import add_per_step
from scaling_study.analysis.record_rows import FileRows
from scaling_study.stats.intervals import STEP_BITS, Integers, grouped_quantiles

US_PER_S = 1e6
STEP_QUANTILES = {"step_median_s": 0.5, "step_p95_s": 0.95, "step_p99_s": 0.99}
STEP_TIMES = {"step_s", "step_mean_s", *STEP_QUANTILES}
WINDOW = ("replicate", "cohort", "window", "attempt")
"""What tells a window of a launch from its others."""


def window_rows(files: Sequence[FileRows]) -> pd.DataFrame:
    """What the table of windows holds of one launch, besides its names.

    Args:
        files: The launch's record files, one per replicate, with a column `replicate`.

    Returns:
        A row per member and window. What was measured over no step is NaN.
    """
    rows = pd.concat([file.rows for file in files], ignore_index=True)
    steps = rows["steps"].to_numpy(dtype=np.int64)
    row_of_step = np.repeat(np.arange(len(rows)), steps)
    step_us = _step_us(files)
    counted_s = np.bincount(row_of_step, weights=step_us, minlength=len(rows)) / US_PER_S
    with np.errstate(divide="ignore", invalid="ignore"):
        rows["step_mean_s"] = counted_s / steps
        rows["steps_per_s"] = steps / counted_s
    quantiles = grouped_quantiles(row_of_step, step_us, len(rows), [*STEP_QUANTILES.values()])
    rows[[*STEP_QUANTILES]] = quantiles / US_PER_S
    add_per_step(rows, WINDOW)
    return rows


def pooled_quantiles(rows: pd.DataFrame, files: Sequence[FileRows]) -> pd.DataFrame:
    """Quantiles of all counted steps of a launch's valid windows.

    Args:
        rows: As `window_rows` returned them for `files`, and `work`: of a step, by which its time
            is divided.
        files: The launch's record files.

    Returns:
        `STEP_QUANTILES` by machine, launch, n.
    """
    names = rows[["machine", "launch", "n"]]
    group = names.groupby(["machine", "launch", "n"], sort=False).ngroup()
    kept = np.repeat(rows["valid"].to_numpy(), rows["steps"].to_numpy(dtype=np.int64))
    group_of_step = np.repeat(group.to_numpy(), rows["steps"].to_numpy(dtype=np.int64))[kept]
    index = pd.MultiIndex.from_frame(names[~group.duplicated()].astype({"n": np.int64}))
    step_us = _step_us(files) / np.repeat(rows["work"], rows["steps"].to_numpy(dtype=np.int64))
    quantiles = grouped_quantiles(
        group_of_step,
        np.rint(np.minimum(step_us, 2**STEP_BITS - 1)).to_numpy(dtype=np.int64)[kept],
        len(index),
        [*STEP_QUANTILES.values()],
    )
    return pd.DataFrame(quantiles / US_PER_S, index=index, columns=[*STEP_QUANTILES])


def work_of_rows(rows: pd.DataFrame) -> tuple["pd.Series[float]", float | None]:
    """Return the work of a step in each row of a launch whose script says its samples.

    Args:
        rows: As `window_rows` returned them.

    Returns:
        Samples of a step over those of the launch's mean step, 1 where a row has none; and the
        latter, None where no valid window tells.
    """
    said = rows[rows["valid"] & rows["samples_active"].notna()]
    per_step = said["samples_active"].sum() / said["steps_active"].sum() if len(said) else None
    own = rows["samples_active"] / rows["steps_active"] / (per_step or np.nan)
    return own.where((own > 0) & np.isfinite(own), 1.0), per_step


def of_equal_work(rows: pd.DataFrame, work: "float | pd.Series[float]") -> pd.DataFrame:
    """Return rows of a launch per step of the default launch, where its own steps do other work.

    Args:
        rows: Of any table.
        work: Of a step, in steps of the default launch; of all rows, or of each.
    """
    times = [name for name in rows if name in STEP_TIMES or str(name).endswith("_per_step")]
    rates = [name for name in rows if name == "steps_per_s"]
    return rows.assign(
        **{str(name): rows[name] / work for name in times},
        **{str(name): rows[name] * work for name in rates},
    )


def _step_us(files: Sequence[FileRows]) -> Integers:
    return np.concatenate([file.step_us for file in files])
