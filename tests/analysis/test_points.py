import numpy as np
import pandas as pd
import pytest

import synthetic
from made_records import summary
from scaling_study.analysis import points

STILL = synthetic.Noise(replicate=0, point=0, window=0, step=0)
NEAR = {"check_names": False, "check_index": False}


def collected(folder, law, **options):
    launch = synthetic.Launch({"intra_op": 1}, "baseline", law)
    return synthetic.collected(folder, launches=[launch], **options)[1]


def test_points_are_the_truth_where_there_is_no_noise(tmp_path):
    law = synthetic.hard_saturation(50.0, 150.0)
    points = collected(tmp_path, law, noise=STILL).points.set_index("n")
    truth = pd.Series({n: law(n) for n in points.index})
    n = points.index.to_series()
    for column, expected in {
        "steps_per_s": truth,
        "step_s": n / truth,
        "step_median_s": n / truth,
        "models_per_hour": truth * 3600 / 499,
        "speedup": truth / 50.0,
        "efficiency": truth / 50.0 / n,
        "cpu_use": 0.95 * n,
    }.items():
        pd.testing.assert_series_equal(points[column], expected, rtol=1e-4, check_names=False)
    assert points["member_spread"].max() < 1e-4
    assert points["minor_faults_per_step"].tolist() == pytest.approx([100.0] * 6)
    assert points["rss_bytes"].tolist() == pytest.approx([600 * 2**20 + (k - 1) / 2 for k in n])


def test_a_replicate_counts_once_however_many_windows_it_has(tmp_path):
    found = collected(tmp_path, synthetic.linear(50.0), ns=[1, 2], replicates=3)
    rates = found.replicates
    point = found.points.set_index("n").loc[2]
    own = rates.loc[rates["n"] == 2, "steps_per_s"]
    assert point["steps_per_s"] == pytest.approx(np.exp(np.log(own).mean()))
    windows = found.windows[(found.windows["n"] == 2) & (found.windows["replicate"] == 0)]
    took_s = (windows["steps"] * windows["step_mean_s"]).groupby(windows["slot"]).sum()
    steps = windows["steps"].groupby(windows["slot"]).sum()
    assert own.iloc[0] == pytest.approx((steps / took_s).sum())
    assert rates["windows"].tolist() == [3] * 6


def test_speedup_is_paired_by_replicate(tmp_path):
    noise = synthetic.Noise(replicate=0.3, point=0.001, window=0, step=0)
    points = collected(tmp_path, synthetic.linear(50.0), noise=noise, ns=[1, 4]).points
    point = points.set_index("n").loc[4]
    assert point["steps_per_s_high"] / point["steps_per_s_low"] > 1.2
    assert point["speedup_high"] / point["speedup_low"] < 1.04
    assert point["speedup_low"] <= 4.0 * 1.003
    assert point["speedup_high"] >= 4.0 * 0.997
    assert point["efficiency_high"] == pytest.approx(point["speedup_high"] / 4)


def test_what_cannot_be_known_is_empty(tmp_path):
    options = {"ns": [2, 4], "replicates": 1, "steps_per_model": None}
    points = collected(tmp_path, synthetic.linear(50.0), **options).points
    assert points["steps_per_s"].notna().all()
    for name in ("steps_per_s_low", "steps_per_s_high", "models_per_hour", "speedup", "efficiency"):
        assert points[name].isna().all()


def test_what_drifted_between_the_jobs_of_a_race_is_no_part_of_a_rate():
    """Two launches, equally fast, each met by jobs that all the machine made faster or slower."""
    jobs, rows, cohorts = {"a": 1.0, "b": 1.3, "c": 0.8}, [], []
    for launch, role in (("base", "baseline"), ("again", "repeat"), ("one", "one_change")):
        for replicate, job in enumerate("abc" if launch == "base" else "bc"):
            cohorts.append(summary(launch=launch, replicate=replicate, batch=job))
            for n in (1, 4):
                rate = 10.0 * n * jobs[job]
                rows.append(("m", launch, "", role, n, replicate, 3, rate, n / rate, 0.0))
    names = ["machine", "launch", "label", "role", "n", "replicate"]
    names += ["windows", "steps_per_s", "step_s", "non_step_share"]
    rates = pd.DataFrame(rows, columns=names)
    found = points.replicates(rates, cohorts, {"m": points.joint(rates, cohorts, 100, 1)}, 100)
    each = found["steps_per_s"] / found["n"]
    assert each.max() / each.min() < 1.02
    given = found["steps_per_s"] * found["drift"]
    pd.testing.assert_series_equal(given.sort_values(), rates["steps_per_s"].sort_values(), **NEAR)
    assert (found["steps_per_s"] * found["step_s"]).tolist() == pytest.approx(found["n"].tolist())
    alone = points.replicates(rates, [], {"m": points.joint(rates, [], 100, 1)}, 100)
    assert (alone["drift"] == 1).all()


def test_models_per_hour_hold_the_start_of_a_process(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "START_S", 6.0)
    points = collected(tmp_path, synthetic.linear(50.0), noise=STILL).points.set_index("n")
    assert points["start_s"].tolist() == pytest.approx([6.0] * 6)
    # 500 steps at 50 a second, the first of them in the 6 s of the start: in every slot.
    n = points.index.to_numpy()
    assert points["models_per_hour"].to_numpy() == pytest.approx(3600 * n / 15.98, rel=1e-4)
    assert (points["models_per_hour_low"] <= points["models_per_hour"]).all()
