import numpy as np
import pytest

from made_records import reported, summary
from scaling_study.analysis.process_starts import process_starts
from scaling_study.records.cohorts import Compiled

AXES = {"launcher": "exec", "intra_op": 1, "build": "current"}


def cohort(launch, *start_s, **axes):
    return summary(launch=launch, axes=AXES | axes, readback=reported(start_s=start_s))


def means(cohorts):
    """The mean time of a start, by launch."""
    return {key: np.exp(np.log(own).mean()) for key, own in process_starts(cohorts).items()}


def test_launches_that_differ_like_starts_of_one_launch_have_one_start():
    cohorts = [cohort("a", 4.1, 4.3), cohort("a", 5.0), cohort("b", 4.9), cohort("c", 4.5)]
    found = means(cohorts)
    assert set(found) == {("m", "a"), ("m", "b"), ("m", "c")}
    assert max(found.values()) / min(found.values()) < 1.06


def test_a_launch_that_starts_in_another_way_keeps_its_own():
    quick = [cohort("dask", 0.5, launcher="dask"), cohort("threads", 9.0, intra_op=16)]
    found = means([cohort("a", 4.0), cohort("b", 4.0), *quick])
    assert found["m", "dask"] == pytest.approx(0.5)
    assert found["m", "threads"] == pytest.approx(9.0)
    assert found["m", "a"] == pytest.approx(4.0)


def test_what_is_certainly_slower_stays_slower():
    cohorts = [cohort(name, s) for name in "ab" for s in (4.0, 4.1, 3.9, 4.0)]
    found = means([*cohorts, *(cohort("c", s) for s in (8.0, 8.1, 7.9, 8.0))])
    assert found["m", "c"] == pytest.approx(8.0, rel=0.02)
    assert found["m", "a"] == pytest.approx(4.0, rel=0.02)


def test_together_they_are_nearer_to_the_truth_than_each_alone():
    rng = np.random.default_rng(1)
    alone, together = [], []
    for _ in range(20):
        own = np.exp(rng.normal(np.log(4), 0.1, 6))
        cohorts = [cohort(str(at), s) for at, s in enumerate(own)]
        found = means(cohorts)
        alone += [abs(np.log(own / 4)).mean()]
        together += [np.mean([abs(np.log(s / 4)) for s in found.values()])]
    assert np.mean(together) < 0.75 * np.mean(alone)


def test_a_cohort_that_tells_no_start_is_left_out():
    assert process_starts([cohort("a")]) == {}


def compiles(launch, start_s, seconds, *, anew):
    one = Compiled(times=1, seconds=2 * seconds, warm_up_s=seconds, anew=anew, cached=0)
    readback = reported(start_s=(start_s,), compiled=(one,))
    return summary(launch=launch, axes=AXES | {"compile": "default"}, readback=readback)


def test_what_is_compiled_belongs_to_the_start_and_is_mostly_found_in_a_cache():
    anew, again = compiles("c", 4.0, 12.0, anew=3), compiles("c", 4.0, 2.0, anew=0)
    assert means([anew])["m", "c"] == pytest.approx(16.0)
    assert means([anew, again])["m", "c"] == pytest.approx(6.0)
    found = means([cohort("a", 4.0), anew, again])
    assert found["m", "a"] == pytest.approx(4.0)
