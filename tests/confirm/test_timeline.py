"""What a round shows, from timelines that are made up."""

import random
import statistics

import pytest

from scaling_study.confirm import timeline
from timelines import PER_HOUR, TYPICAL, queue, record


def look(records, steps_per_model, **more):
    how = timeline.basis(records, steps_per_model, **more)
    return how, [timeline.look(one, steps_per_model, how) for one in records]


@pytest.mark.parametrize("cut_s", [8.1, 10.0, 13.5, 15.9, 16.1, 20.0, 97.3])
def test_whole_models_give_their_rate_wherever_the_cut_is(cut_s):
    how, (seen,) = look(
        [record([queue(slot, [TYPICAL] * 20, cut_s) for slot in (0, 1)], cut_s)], 500
    )
    assert how == timeline.Basis(ahead=False, whole=True)
    assert seen.value == pytest.approx(2 * PER_HOUR / 8, rel=0.01)
    assert seen.whole_models == 2 * int(cut_s / 8)
    assert seen.start_s == pytest.approx(5.0)
    assert (seen.iteration_s, seen.end_s) == (pytest.approx(0.005), pytest.approx(0.5))


@pytest.mark.parametrize("cut_s", [8.1, 15.9, 16.1, 97.3])
@pytest.mark.parametrize("way", ["fresh", "forked"])
def test_a_whole_run_is_the_only_iteration_of_its_model(cut_s, way):
    runs = [(0.0, 1, 4.0, 0.0)] * 40
    how, (seen,) = look([record([queue(0, runs, cut_s, way=way)], cut_s, way)], 1)
    assert how == timeline.Basis(ahead=way == "forked", whole=True)
    assert seen.value == pytest.approx(PER_HOUR / 4, rel=0.01)
    assert seen.whole_models == int(cut_s / 4) - (way == "forked")


def test_every_end_is_a_models_where_models_differ_in_length():
    models = [(5.0, iterations, 0.005, 0.5) for iterations in (300, 700, 500) * 5]
    records = [record([queue(0, models, 80.0)], 80.0)]
    how, _ = look(records, 500)
    assert not how.whole
    how, (seen,) = look(records, 500, any_end=True)
    assert how.whole
    assert (seen.whole_models, seen.value) == (10, pytest.approx(PER_HOUR / 8, rel=0.02))


def test_what_lies_between_processes_counts():
    runs = queue(0, [TYPICAL] * 9, 40.0, gap_s=1.0)
    _, (seen,) = look([record([runs], 40.0)], 500)
    assert (seen.gap_s, seen.value) == (pytest.approx(1.0), pytest.approx(PER_HOUR / 9, rel=0.03))


@pytest.mark.parametrize("model", [(5.0, 9000, 0.02, 1.0), (8.0, 500, 0.7, 0.5)])
def test_a_cut_model_gives_its_rate_from_start_and_iterations(model):
    """Few iterations are enough: a launch may be twenty times slower than another one."""
    start_s, iterations, iteration_s, _ = model
    how, (seen,) = look([record([queue(slot, [model], 12.0) for slot in (0, 1)], 12.0)], iterations)
    assert not how.whole
    assert seen.value == pytest.approx(2 * PER_HOUR / (start_s + iterations * iteration_s))
    assert seen.end_s is None
    assert seen.whole_models == 0


def test_a_slot_that_has_not_done_two_iterations_gives_no_figure():
    slow = [(8.0, 500, 30.0, 0.5)]
    _, (seen,) = look([record([queue(0, [TYPICAL], 12.0), queue(1, slow, 12.0)], 12.0)], 500)
    assert seen.value is None


def test_a_cut_favours_no_short_models():
    """Lengths that differ from model to model: the mean over many rounds is the long-run rate."""
    chance = random.Random(1)  # noqa: S311 (no secret)
    lengths, values, naive = [], [], []
    for _ in range(4000):
        models = [(3.0, 100, 0.05 * chance.lognormvariate(0, 0.5), 0.1) for _ in range(12)]
        lengths += [start + count * each + end for start, count, each, end in models]
        one = record([queue(0, models, 20.0)], 20.0)
        how = timeline.basis([one], 100)
        values.append(timeline.look(one, 100, how).value)
        ended = [each for each in one.runs if each.ended_s]
        naive += [PER_HOUR * len(ended) / ended[-1].ended_s] if ended else []
    truth = PER_HOUR / (sum(lengths) / len(lengths))
    assert statistics.geometric_mean(values) == pytest.approx(truth, rel=0.015)
    assert statistics.geometric_mean(naive) > 1.03 * truth  # so this test can fail


def test_a_script_without_an_end_is_counted_in_iterations():
    _, (seen,) = look(
        [record([queue(slot, [(2.0, 10**6, 0.1, 0)], 12.0) for slot in (0, 1)], 12)], None
    )
    assert (seen.value, seen.start_s) == (pytest.approx(2 / 0.1), pytest.approx(2.0))


def test_one_process_counts_the_starts_after_its_first():
    models = [(6.0, 100, 0.02, 0.0), *[(0.5, 100, 0.02, 0.0)] * 20]
    one = record([queue(0, models, 20.0, way="forked")], 20.0, "forked")
    how, (seen,) = look([one], 100)
    assert how == timeline.Basis(ahead=True, whole=True)
    assert seen.value == pytest.approx(PER_HOUR / 2.5, rel=0.01)
    assert seen.start_s == pytest.approx(0.5)
