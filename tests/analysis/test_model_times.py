import numpy as np
import pytest

from made_records import first_models, reported, summary
from scaling_study.analysis.model_times import model_times
from scaling_study.launch.axes.axis_table import DEFAULTS
from scaling_study.records.cohorts import Compiled

AXES = {"launcher": "exec", "intra_op": 1, "build": "current"}


def cohort(launch, *start_s, **axes):
    return summary(launch=launch, axes=AXES | axes, readback=reported(start_s=start_s))


def means(cohorts):
    """The mean time of a start, by launch."""
    times = model_times(cohorts)
    return {launch: mean(times.start_s(launch, 1)) for launch in times.starts}


def mean(draws):
    return np.exp(np.log(draws).mean())


def test_launches_that_differ_like_starts_of_one_launch_have_one_start():
    cohorts = [cohort("a", 4.1, 4.3), cohort("a", 5.0), cohort("b", 4.9), cohort("c", 4.5)]
    found = means(cohorts)
    assert set(found) == {"a", "b", "c"}
    assert max(found.values()) / min(found.values()) < 1.06


def test_a_launch_that_starts_in_another_way_keeps_its_own():
    quick = [cohort("dask", 0.5, launcher="dask"), cohort("threads", 9.0, intra_op=16)]
    found = means([cohort("a", 4.0), cohort("b", 4.0), *quick])
    assert found["dask"] == pytest.approx(0.5)
    assert found["threads"] == pytest.approx(9.0)
    assert found["a"] == pytest.approx(4.0)


def test_what_is_certainly_slower_stays_slower():
    cohorts = [cohort(name, s) for name in "ab" for s in (4.0, 4.1, 3.9, 4.0)]
    found = means([*cohorts, *(cohort("c", s) for s in (8.0, 8.1, 7.9, 8.0))])
    assert found["c"] == pytest.approx(8.0, rel=0.02)
    assert found["a"] == pytest.approx(4.0, rel=0.02)


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
    assert model_times([cohort("a")]).start_s("a", 1) is None


def compiles(launch, start_s, seconds, *, anew):
    one = Compiled(times=1, seconds=2 * seconds, warm_up_s=seconds, anew=anew, cached=0)
    readback = reported(start_s=(start_s,), compiled=(one,))
    return summary(launch=launch, axes=AXES | {"compile": "default"}, readback=readback)


def test_what_is_compiled_belongs_to_the_start_and_is_mostly_found_in_a_cache():
    anew, again = compiles("c", 4.0, 12.0, anew=3), compiles("c", 4.0, 2.0, anew=0)
    assert means([anew])["c"] == pytest.approx(16.0)
    assert means([anew, again])["c"] == pytest.approx(6.0)
    found = means([cohort("a", 4.0), anew, again])
    assert found["a"] == pytest.approx(4.0)


def crowd():
    """Cohorts of eight members, which take twice as long to start as one alone."""
    compiled = Compiled(times=1, seconds=3.0, warm_up_s=2.0, anew=0, cached=1)
    told = {"a": {}, "b": {}, "c": {"compiled": (compiled,)}, "r": {}}
    axes = {"c": {"compile": "default"}, "r": {"ranks": 2}}
    return [
        summary(
            launch=launch, axes=DEFAULTS | AXES | axes.get(launch, {}), process_counts=[1, 8],
            readback=reported(start_s=(8.0,), **more),
        )
        for launch, more in told.items()
    ]  # fmt: skip


FORKED = (20.0, 20.3, 30.8)


def test_first_models_show_the_start_alone_and_the_end():
    times = model_times(crowd(), first_models((0.0, 4.0, 14.5), FORKED))
    for launch in "ab":
        assert mean(times.start_s(launch, 1)) == pytest.approx(4.0, rel=0.02)
        assert mean(times.start_s(launch, 8)) == pytest.approx(8.0, rel=0.02)
    assert mean(times.beside_s("a", 1)) == pytest.approx(4.5, rel=0.02)
    assert mean(times.beside_s("a", 8)) == pytest.approx(9.0, rel=0.02)
    spread = np.log(times.start_s("a", 1)).std()
    assert spread > np.log(times.start_s("a", 8)).std()  # a single process showed it
    assert model_times(crowd()).start_s("a", 1).mean() == pytest.approx(8.0, rel=0.02)


def test_alone_a_launch_with_more_threads_starts_like_others():
    """Many threads of many members wait for each other in the first step."""
    threads = summary(
        launch="t", axes=DEFAULTS | AXES | {"intra_op": 16}, process_counts=[1, 8],
        readback=reported(start_s=(20.0,)),
    )  # fmt: skip
    times = model_times([*crowd(), threads], first_models())
    assert mean(times.start_s("t", 8)) == pytest.approx(20.0, rel=0.02)
    assert mean(times.start_s("t", 1)) == pytest.approx(4.0, rel=0.05)


def test_forked_starts_are_those_of_one_model_but_what_a_launch_compiles():
    times = model_times(crowd(), first_models((0.0, 4.0, 14.5), FORKED))
    start_s = {one: mean(times.start_s(one, 1, forked=True)) for one in times.starts}
    assert [start_s["a"], start_s["b"]] == pytest.approx([0.3, 0.3], rel=0.02)
    assert start_s["c"] == pytest.approx(3.3, rel=0.02)
    assert start_s["r"] == mean(times.start_s("r", 1))  # a group of ranks is not forked
    assert mean(times.start_s("a", 8, forked=True)) == pytest.approx(0.6, rel=0.05)


def test_without_a_forked_model_all_starts_are_fresh():
    times = model_times(crowd(), first_models())
    assert (times.start_s("a", 8, forked=True) == times.start_s("a", 8)).all()


def test_first_models_that_did_not_end_show_nothing():
    times, without = model_times(crowd(), first_models((0.0, 4.0, None))), model_times(crowd())
    assert (times.beside_s("a", 8) == without.start_s("a", 8)).all()
