"""Records of windows as rows of members, with what tables derive from them."""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import pandas as pd

from scaling_study.analysis.accounts import add_per_step
from scaling_study.records.window import Life, Member, Taken, WindowMachine

US_PER_S = 1e6
STEP_QUANTILES = {"step_median_s": 0.5, "step_p95_s": 0.95, "step_p99_s": 0.99}
MACHINE_FIELDS = WindowMachine.__struct_fields__
LIFE_FIELDS = Life.__struct_fields__
MEMBER_FIELDS = tuple(
    name for name in Member.__struct_fields__ if name not in {"step_us", *LIFE_FIELDS}
)
member_values, life_values = attrgetter(*MEMBER_FIELDS), attrgetter(*LIFE_FIELDS)


def member_rows(windows: Sequence[Taken], fields: Sequence[str]) -> pd.DataFrame:
    """Return what was counted in some windows, a row per member and window.

    Args:
        windows: Of one file.
        fields: Fields of a window that its rows repeat.

    Returns:
        These fields; `flags` as text; the fields of `WindowMachine` and `Member` as float64
        columns, in which null is NaN; and what the table of windows derives from them: what was
        measured over no step is NaN. Further `at`, the place of the window; `step_us`, an array of
        the counted steps; and `life`, where they stand in the member's life (None of a burst).
    """
    at = np.repeat(np.arange(len(windows)), [len(one.members) for one in windows])
    members = [member for one in windows for member in one.members]
    values = np.array([member_values(one) for one in members], dtype=np.float64)
    counts = pd.DataFrame(values.reshape(-1, len(MEMBER_FIELDS)), columns=[*MEMBER_FIELDS])
    of_window = window_rows(windows, fields).join(machine_rows(windows))
    lives = [life_values(one) for one in members]
    objects = {
        "step_us": [np.array(one.step_us, dtype=np.int64) for one in members],
        "life": [None if None in life else Life(*life) for life in lives],
    }
    rows = of_window.loc[at].reset_index(drop=True).join(counts).assign(at=at)
    rows = rows.join(pd.DataFrame(objects, dtype=object))
    _add_step_times(rows)
    add_per_step(rows)
    return rows


def window_rows(windows: Sequence[Taken], fields: Sequence[str]) -> pd.DataFrame:
    """Return some fields of windows and their `flags`, a row per window."""
    rows = pd.DataFrame(map(attrgetter(*fields), windows), columns=[*fields])
    return rows.assign(flags=[";".join(one.flags) for one in windows])


def machine_rows(windows: Sequence[Taken]) -> pd.DataFrame:
    """Return the readings of the machine, a row per window; null is NaN."""
    machines = [one.machine for one in windows]
    return pd.DataFrame(
        map(attrgetter(*MACHINE_FIELDS), machines), columns=[*MACHINE_FIELDS], dtype=np.float64
    )


def _add_step_times(rows: pd.DataFrame) -> None:
    """Add the mean, the rate and the quantiles of the counted steps of each row."""
    steps = rows["steps"].to_numpy(dtype=np.int64)
    row_of_step = np.repeat(np.arange(len(rows)), steps)
    step_us = np.concatenate([np.empty(0, dtype=np.int64), *rows["step_us"]])
    counted_s = np.bincount(row_of_step, weights=step_us, minlength=len(rows)) / US_PER_S
    with np.errstate(divide="ignore", invalid="ignore"):
        rows["step_mean_s"], rows["steps_per_s"] = counted_s / steps, steps / counted_s
    levels = np.array([*STEP_QUANTILES.values()])
    quantiles = pd.Series(step_us).groupby(row_of_step).quantile(levels)
    by_row = quantiles.unstack().reindex(index=range(len(rows)), columns=levels)  # noqa: PD010 (pivot_table costs five times as much)
    rows[[*STEP_QUANTILES]] = by_row.to_numpy() / US_PER_S
