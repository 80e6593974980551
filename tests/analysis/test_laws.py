import numpy as np
import pytest

from scaling_study.analysis import laws

COUNTS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48])


def noisy(throughput, seed):
    rng = np.random.default_rng(seed)
    return throughput * np.exp(rng.normal(0.0, 0.02, len(throughput)))


def chosen_law(n, throughput, further=(), scatter=0.02):
    return laws.choose(n, throughput, np.full(len(n), scatter), further)


def saturating(n):
    return np.minimum(5.0 * n, 60.0)


def test_a_purely_saturating_system_is_called_that_and_never_usl():
    chosen = [chosen_law(COUNTS, noisy(saturating(COUNTS), seed)) for seed in range(60)]
    names = [each.best for each in chosen]
    assert names.count("hard_saturation") >= 57
    assert set(names) <= {"hard_saturation", "smooth_saturation"}
    for each in chosen:
        assert each.knee.value == pytest.approx(12.0, rel=0.1)
        assert each.knee.low < each.knee.value < each.knee.high
        usl = next(law for law in each.candidates if law.law == "usl")
        assert usl.r2 > 0.9  # it looks good on its own
        assert usl.weight < 0.01


@pytest.mark.parametrize(
    ("truth", "name"),
    [
        (lambda n: 5.0 * n, "linear"),
        (lambda n: 5.0 * n / (1 + 0.05 * (n - 1) + 0.002 * n * (n - 1)), "usl"),
        (lambda n: 5.0 * n / np.sqrt(1 + (5.0 * n / 60.0) ** 2), "smooth_saturation"),
    ],
)
def test_other_truths_are_found_too(truth, name):
    names = [chosen_law(COUNTS, noisy(truth(COUNTS), seed)).best for seed in range(20)]
    assert names.count(name) >= 17


def test_the_knees_interval_holds_it_and_grows_with_the_scatter():
    found = [chosen_law(COUNTS, noisy(saturating(COUNTS), seed)).knee for seed in range(80)]
    assert np.mean([knee.low <= 12.0 <= knee.high for knee in found]) >= 0.9
    steady, wild = (
        chosen_law(COUNTS, saturating(COUNTS), scatter=scatter).knee for scatter in (0.01, 0.05)
    )
    assert wild.high / wild.low > (steady.high / steady.low) ** 3


def test_a_knee_without_an_interval_is_not_reported():
    assert chosen_law(COUNTS, saturating(COUNTS), scatter=np.nan).knee is None
    assert chosen_law(COUNTS, saturating(COUNTS), scatter=1.0).knee is None


def test_a_knee_that_was_not_reached_is_not_reported():
    found = chosen_law(COUNTS, noisy(5.0 * COUNTS, 1))
    assert found.best == "linear"
    assert found.knee is None
    usl = chosen_law(COUNTS, 5.0 * COUNTS / (1 + 0.02 * (COUNTS - 1) + 1e-4 * COUNTS**2))
    assert usl.knee is None  # its peak would be near n = 99


def test_the_three_points_of_the_reference_are_refused():
    n = np.array([4, 32, 64])
    found = chosen_law(n, n / np.array([0.0288, 0.0504, 0.1045]))
    assert found.status == "refused"
    assert found.reason == "process counts measured: 3; a choice needs 5"
    assert found.best is None
    assert found.candidates == ()


def test_a_law_is_fitted_only_where_its_aicc_is_defined():
    n = np.array([1, 2, 3, 4, 6])
    found = chosen_law(n, np.minimum(5.0 * n, 10.0))
    assert [each.law for each in found.candidates] == ["hard_saturation", "linear"]
    assert chosen_law(n[:4], np.minimum(5.0 * n[:4], 10.0)).status == "refused"


def test_domains_that_fill_one_after_another_saturate_one_after_another():
    # Two caches of 8 CPUs, filled in turn, 3 members saturate each.
    counts = np.array([1, 2, 3, 4, 6, 8, 9, 10, 12, 14, 16])
    members = np.arange(1, 17)
    occupancy = np.column_stack([np.minimum(members, 8), np.maximum(members - 8, 0)]).astype(float)
    law = laws.domain_saturation("l3", occupancy)
    truth = np.minimum(5.0 * occupancy, 15.0).sum(axis=1)[counts - 1]
    found = chosen_law(counts, noisy(truth, 1), [law])
    assert (found.best, found.candidates[0].domain) == ("domain_saturation", "l3")
    parameters = {"rate": 5.0, "ceiling": 15.0}
    assert found.candidates[0].parameters == pytest.approx(parameters, rel=0.05)
    assert found.knee.value in {3.0, 4.0}
    assert "(l3)" in found.text
