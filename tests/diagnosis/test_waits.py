import numpy as np
import pandas as pd
import pytest

from scaling_study.diagnosis import waits

BUSY = 10e-3


def window(n, *, wait=0.0, user=BUSY, helper=0.0, helper_wait=0.0, throttled=0.0, blocked=0.0,
           **other):  # fmt: skip
    """Return a row of tables/experiments: a step of the training thread, and its helpers."""
    times_s = {
        "trainer_user": user, "trainer_system": 0.0, "trainer_runqueue": wait,
        "trainer_throttled": throttled, "trainer_blocked": blocked, "user": user + helper,
        "system": 0.0, "runqueue": wait + helper_wait + throttled,
    }  # fmt: skip
    cpus = {"foreign_cpus": 0.0, "steal_cpus": np.nan, "trainers_cpus": np.nan} | other
    return {"n": n} | {f"{name}_s_per_step": s for name, s in times_s.items()} | cpus


HALF = BUSY / 2


@pytest.mark.parametrize(
    ("row", "online", "expected"),
    [
        # Twice as many members as CPUs wait for each other.
        (window(4, wait=BUSY), 2, {"processes": BUSY}),
        # A larger machine would have CPUs for all of them, or for some.
        (window(4, wait=BUSY), 8, {"cpuset": BUSY}),
        (window(4, wait=BUSY), 3, {"cpuset": HALF, "processes": HALF}),
        # CPUs are idle.
        (window(2, wait=BUSY), 2, {"pileup": BUSY}),
        # They are so under a quota, too, unless the masks show a pile-up.
        (window(2, wait=1e-3, throttled=9e-3), 2, {"other": 1e-3}),
        (window(2, wait=1e-3, throttled=9e-3, trainers_cpus=1.0), 2, {"pileup": 1e-3}),
        # Two members and a hog share two CPUs: two thirds of a CPU each.
        (window(2, wait=HALF, foreign_cpus=2 / 3), 2, {"foreign": HALF}),
        # Four members and a hog: 0.4 each. Without the hog they would wait for two CPUs.
        (
            window(4, wait=1.5 * BUSY, foreign_cpus=0.4), 2,
            {"processes": 1.5 * BUSY * 2 / 2.4, "foreign": 1.5 * BUSY * 0.4 / 2.4},
        ),
        # Members alone would fit.
        (window(2, wait=BUSY, helper=BUSY, helper_wait=BUSY), 2, {"threads": BUSY}),
        # No CPU is idle, and nobody else ran.
        (window(2, wait=HALF, steal_cpus=2.0), 2, {"other": HALF}),
        # Members that outnumber the CPUs queue up now and then; no CPU is idle.
        (
            window(4, wait=0.2 * BUSY, user=0.4 * BUSY, blocked=0.4 * BUSY, steal_cpus=0.4), 2,
            {"processes": 0.2 * BUSY},
        ),
        # Members and half of a hog on one of two CPUs, the other half of the hog on the other.
        (
            window(2, wait=1.5 * BUSY, foreign_cpus=1.2, trainers_cpus=1.0), 2,
            {"pileup": 1.5 * BUSY / 1.2, "foreign": 1.5 * BUSY * 0.2 / 1.2},
        ),
    ],
)  # fmt: skip
def test_who_had_the_cpu_is_told_by_what_is_counted(row, online, expected):
    found = waits.split(pd.DataFrame([row]), allowed_cpus=2, online_cpus=online).iloc[0]
    assert found.sum() == pytest.approx(row["trainer_runqueue_s_per_step"])
    expected = {f"wait_{part}_s_per_step": s for part, s in expected.items()}
    assert {column: s for column, s in found.items() if s > 1e-9} == pytest.approx(expected)
