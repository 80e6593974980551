import itertools

import numpy as np
import pandas as pd
import pytest

import synthetic
from made_records import slot
from scaling_study.analysis.analyse import FILES, PACE_COLUMNS, analyse, domain_laws, pace
from scaling_study.common.topology import Cpu, Topology
from scaling_study.records.analysis import Noise, NoisePoint

TOPOLOGY = Topology(tuple(Cpu(cpu, cpu, 0, cpu // 4, cpu // 4 * 4) for cpu in range(8)), ())


def analysed(folder, **options):
    plan, found = synthetic.collected(folder, **options)
    return analyse(found, plan)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return analysed(tmp_path_factory.mktemp("study"))


def test_scaling_has_the_law_of_every_measured_launch(study):
    (found,) = study
    launches = {each.launch: each.laws for each in found.scaling.launches}
    assert set(launches) == {launch.id for launch in synthetic.LAUNCHES[:-2]}
    baseline = launches[synthetic.LAUNCHES[1].id]
    assert (baseline.best, baseline.knee.value) == ("hard_saturation", pytest.approx(3.0, rel=0.05))
    assert baseline.knee.low < 3.0 < baseline.knee.high


def test_the_threshold_of_a_count_is_its_own_and_else_the_largest():
    points = NoisePoint(n=1, ratio=0.99), NoisePoint(n=4, ratio=1.1)
    noise = Noise(points=points, spread=0.1)
    assert noise.at(1) == pytest.approx(0.01)
    assert noise.at(1, 4) == pytest.approx(0.1)
    assert noise.at(3) == 0.1
    assert Noise().at(1) is None


def test_a_study_without_a_repeat_has_no_spread(tmp_path):
    (found,) = analysed(tmp_path, launches=synthetic.LAUNCHES[:2])
    assert found.noise == Noise(machine=found.noise.machine)


def test_readback_shows_what_took_effect_and_what_did_not(study):
    (found,) = study
    launches = {each.label: each for each in found.readback.launches}
    assert [check.axis for check in launches["intra_op 1, blas blis"].wrong] == ["blas"]
    assert launches["default"].member.slot == 0
    assert "intra_op 1, blas mkl" not in launches  # skipped: no member ever ran


def test_machines_are_compared_never_pooled(tmp_path):
    machines = [synthetic.machine(), synthetic.machine(name="host-b", cpus=2)]
    both = analysed(tmp_path, machines=machines)
    (single,) = analysed(tmp_path / "alone", machines=machines[:1])
    for name in FILES:
        hashes = [getattr(one, name).machine for one in both]
        assert hashes == [machine["hash"] for machine in machines]
    ours, theirs = (one.recommendation.ranking for one in (both[0], single))
    assert [one.replicates for one in ours] == [one.replicates for one in theirs]


def test_domains_are_no_law_where_members_are_free_or_spread_over_all():
    for cpus in (None, "0-7"):
        assert domain_laws([slot(slot=at, cpus=cpus) for at in range(2)], TOPOLOGY) == []


# ---- whether a step takes longer in later windows


def windows(slower, *, count=6, replicates=3):
    """Windows of a launch whose last third takes `slower` times as long as its first."""
    draw, rows = np.random.default_rng(1), []
    for replicate, n, window in itertools.product(range(replicates), (1, 2), range(count)):
        usual_s = 0.01 * n * slower ** (window >= count / 2)
        rows += [(replicate, n, window, usual_s * draw.lognormal(0, 0.01)) for _ in range(n)]
    frame = pd.DataFrame(rows, columns=["replicate", "n", "window", "step_median_s"])
    return frame.assign(machine="m", launch="b", cohort=0, attempt=0, valid=True)[PACE_COLUMNS]


@pytest.mark.parametrize("slower", [0.8, 1.0, 1.15])
@pytest.mark.parametrize("count", [2, 3, 12])
def test_the_change_is_found_with_its_interval(slower, count):
    found = pace(windows(slower, count=count))["b"]
    assert found.value == pytest.approx(slower, rel=0.02)
    assert found.low < slower < found.high


def test_invalid_windows_do_not_count():
    frame = windows(1.0)
    frame.loc[frame["window"] == 5, ["valid", "step_median_s"]] = [False, 9.0]
    assert pace(frame)["b"].value == pytest.approx(1.0, rel=0.02)


def test_one_replicate_has_no_interval_and_one_window_no_pace():
    assert pace(windows(1.1, replicates=1))["b"].low is None
    assert pace(windows(1.1, count=1)) == {}
    assert pace(windows(1.1).iloc[:0]) == {}
