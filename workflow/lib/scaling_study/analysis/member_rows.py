"""Records of windows as rows of members, with the quantities that tables derive from them."""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
import pandas as pd

from scaling_study.analysis.accounts import accounts
from scaling_study.records.window import Life, Member, Taken, WindowMachine
from scaling_study.stats.interval import Floats, Integers

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
        windows: Windows of one file.
        fields: Fields of a window that its rows repeat.

    Returns:
        These fields; `flags` as text; the fields of `WindowMachine` and `Member` as float64
        columns, in which null is NaN; and the columns that the table of windows derives from them,
        NaN if measured over no step. Also `at`, the window's index in `windows`; `step_us`, an
        array of the counted steps; and `life`, the window's place among all steps of its member
        (None for bursts and older files).
    """
    at = np.repeat(np.arange(len(windows)), [len(one.members) for one in windows])
    members = [member for one in windows for member in one.members]
    values = np.array([member_values(one) for one in members], dtype=np.float64)
    machines = machine_rows(windows).to_numpy()[at]
    lives = [life_values(one) for one in members]
    step_us = [np.array(one.step_us, dtype=np.int64) for one in members]
    counts = dict(zip(MEMBER_FIELDS, values.reshape(-1, len(MEMBER_FIELDS)).T, strict=True))
    counts |= dict(zip(MACHINE_FIELDS, machines.T, strict=True))
    counts |= _step_times(step_us)
    counts |= accounts(counts, at)
    objects = {
        "step_us": step_us,
        "life": [None if None in life else Life(*life) for life in lives],
    }
    of_window = window_rows(windows, fields).loc[at].reset_index(drop=True).assign(at=at)
    return of_window.join(pd.DataFrame(counts)).join(pd.DataFrame(objects, dtype=object))


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


def _step_times(step_us: Sequence[Integers]) -> dict[str, Floats]:
    """Return the mean, the rate and the quantiles of the counted steps of each member."""
    steps = np.array([one.size for one in step_us], dtype=np.int64)
    counted_s = np.array([one.sum() for one in step_us]) / US_PER_S
    with np.errstate(divide="ignore", invalid="ignore"):
        found = {"step_mean_s": counted_s / steps, "steps_per_s": steps / counted_s}
    # Each quantile is interpolated between two sorted steps: np.quantile per member takes longer.
    ordered = np.concatenate([*map(np.sort, step_us), [np.nan]])
    first, last = np.cumsum(steps) - steps, np.maximum(steps - 1, 0)
    for name, level in STEP_QUANTILES.items():
        place = level * last
        below = place.astype(np.int64)
        low, high = ordered[first + below], ordered[first + np.minimum(below + 1, last)]
        quantile = low + (place - below) * (high - low)
        found[name] = np.where(steps > 0, quantile, np.nan) / US_PER_S
    return found
