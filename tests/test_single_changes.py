"""What single changes of the baseline do, in numbers and in the words of the report."""

import pytest

import synthetic
from scaling_study.analysing.single_changes import single_changes
from scaling_study.collecting.collect import collect
from scaling_study.common.quantities import TIMES
from scaling_study.rendering.report_changes import view_changes

QUIET = synthetic.Noise(replicate=0.002, point=0.002, window=0.002, step=0.01)


def launch(arm, rate, **values):
    return synthetic.Launch(values, arm, synthetic.linear(rate))


STUDY = (
    launch("default", 15.0),
    launch("baseline", 20.0, intra_op=1),
    launch("repeat", 20.0, intra_op=1),
    launch("one_change", 22.0, intra_op=4),
    launch("one_change", 21.0, intra_op=2),
    launch("one_change", 40.0, intra_op=1, allocator="mimalloc"),
    launch("one_change", 30.0, intra_op=1, collector="frozen"),
    launch("combined", 55.0, intra_op=1, allocator="mimalloc", collector="frozen"),
)


def analysed(folder, launches=STUDY, **options):
    plan = synthetic.write_study(
        folder, launches=launches, **{"noise": QUIET, "ns": (1, 2), **options}
    )
    for one in plan["launches"]:
        one["axes"].setdefault("collector", "default")
    found = collect(folder, plan)
    return single_changes(found.points, found.replicates, found.cohorts["cohorts"], plan)


def test_each_single_change_is_compared_with_the_baseline_alone(tmp_path):
    found = analysed(tmp_path)
    assert found["n"] == 1
    assert found["baseline"]["label"] == "intra_op 1"
    assert [(one["axis"], one["value"]) for one in found["changes"]] == [
        ("intra_op", 2), ("intra_op", 4), ("intra_op", "default"), ("allocator", "mimalloc"),
        ("collector", "frozen"),
    ]  # fmt: skip
    gains = [one["gain"]["value"] for one in found["changes"]]
    assert gains == pytest.approx([1.05, 1.1, 0.75, 2.0, 1.5], rel=0.02)
    assert all(one["gain"]["low"] < one["gain"]["value"] for one in found["changes"])
    assert found["changes"][3]["step_s"] == pytest.approx(1 / 40, rel=0.02)


def test_the_way_to_the_best_combination_begins_with_what_gains_most(tmp_path):
    first, second = analysed(tmp_path)["steps"]
    assert (first["axis"], second["axis"]) == ("allocator", "collector")
    assert first["predicted"] == pytest.approx(2.0, rel=0.02)
    assert first["measured"]["value"] == pytest.approx(2.0, rel=0.02)
    # Both shorten every phase here: the stronger one counts, and not their product.
    assert second["predicted"] == pytest.approx(2.0, rel=0.02)
    assert second["measured"]["value"] == pytest.approx(2.75, rel=0.02)


def test_a_combination_on_the_way_that_was_not_measured_has_no_figure(tmp_path):
    three = launch("combined", 80.0, intra_op=2, allocator="mimalloc", collector="frozen")
    steps = analysed(tmp_path, (*STUDY[:7], three))["steps"]
    assert [one["measured"] is None for one in steps] == [False, True, False]


def test_without_a_baseline_nothing_is_compared(tmp_path):
    lost = synthetic.Launch({"intra_op": 1}, "baseline", ending="failed")
    found = analysed(tmp_path, (STUDY[0], lost))
    assert found == {"n": None, "baseline": None, "changes": [], "steps": []}
    assert view_changes(found, 2) is None
    assert view_changes(None, 2) is None


# ---- words


def row(label, gain=None, *, load=0.0, rest=0.010, axis="", value=None):
    found = {
        "launch": label, "label": label, "replicates": 2, "step_s": load + rest, "cpu_use": 1.0,
        "load": load, "forward": rest / 2, "backward": rest / 4, "optimizer": rest / 4,
    }  # fmt: skip
    if gain is None:
        return found
    ratio = {"value": gain, "low": gain * 0.98, "high": gain * 1.02}
    return {**found, "axis": axis, "value": value, "gain": ratio}


def view(base, *changes, cpus=2):
    return view_changes({"n": 1, "baseline": base, "changes": list(changes), "steps": []}, cpus)


def test_threads_are_bounded_by_the_loader():
    found = view(
        row("intra_op 1", load=0.040),
        row("a", 1.02, load=0.040, rest=0.009, axis="intra_op", value=2),
        row("b", 0.9, load=0.040, rest=0.014, axis="intra_op", value=4),
    )
    (text,) = found.notes
    assert (
        f"the best of these, 2, makes training 1.02{TIMES} as fast (1.00{TIMES} to 1.04{TIMES})"
        in text
    )
    assert "80% of a step is time in the loader" in text
    assert f"1.25{TIMES} at most" in text
    assert "takes 10.0 ms with the baseline and 9.00 ms then" in text
    assert "More threads than the 2 CPUs take turns" in text


def test_threads_of_a_script_without_a_slow_loader():
    (text,) = view(
        row("intra_op 1"), row("a", 1.8, rest=0.0055, axis="intra_op", value=2), cpus=8
    ).notes
    assert "loader" not in text
    assert "take turns" not in text


def test_workers_take_the_loader_away_and_cost_the_rest():
    (text,) = view(
        row("intra_op 1", load=0.040),
        row("a", 2.5, load=0.008, rest=0.012, axis="loader_workers", value=2),
    ).notes
    assert "with 2 the training process spends 8.00 ms of a step on the loader" in text
    assert "40.0 ms as the script is" in text
    assert f"2.50{TIMES} as fast" in text
    assert "grows from 10.0 ms to 12.0 ms" in text
    assert "It still waits for 40% of the time" in text


def test_workers_that_cost_nothing_have_no_such_sentence():
    (text,) = view(
        row("intra_op 1", load=0.040),
        row("a", 4.9, load=0.0002, rest=0.010, axis="loader_workers", value=2),
    ).notes
    assert "grows" not in text
    assert "still waits" not in text


def test_ranks_say_what_they_change_and_whom_they_wait_for():
    one = row("a", 1.3, rest=0.007, axis="ranks", value=2) | {"work": 2.0, "ranks_wait": 0.002}
    (text,) = view(row("intra_op 1"), one, row("b", 0.9, axis="ranks", value=4)).notes
    assert f"the best of these, 2, gets through the same samples 1.30{TIMES} as fast" in text
    assert f"has 2.00{TIMES} the samples" in text
    assert "they wait 2.00 ms for the slowest" in text
    assert "More ranks than the 2 CPUs" in text


def test_ranks_that_divide_the_same_batch_change_nothing():
    one = row("a", 1.3, axis="ranks", value=2) | {"work": 1.0, "ranks_wait": 0.0}
    (text,) = view(row("intra_op 1"), one).notes
    assert "samples, so" not in text
    assert "slowest" not in text


@pytest.mark.parametrize(
    ("rest", "anew", "cached", "said"),
    [
        (0.009, 12.0, 3.0, "12.0 s with an empty cache and 3.00 s with what an earlier start"),
        (0.009, 12.0, None, "made up for after 12,000 steps"),
        (0.009, 12.0, 3.0, "made up for after 12,000 steps and 3,000 steps"),
        (0.011, None, 3.0, "nothing makes up for it"),
    ],
)
def test_compiling_is_paid_for_by_steps(rest, anew, cached, said):
    one = row("a", 1.1, rest=rest, axis="compile", value="default")
    one["compiled"] = {"anew_s": anew, "cached_s": cached}
    (text,) = view(row("intra_op 1"), one).notes
    assert said in text


def test_a_change_of_another_kind_has_a_row_and_no_sentence():
    found = view(row("intra_op 1"), row("a", 1.3, axis="blas", value="mkl"))
    assert found.notes == []
    assert [one["label"] for one in found.rows] == ["baseline", "blas mkl"]
    assert found.rows[1]["gain"].text == f"1.30{TIMES}"
