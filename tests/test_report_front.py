"""The report's section on one model soon against many in an hour, and its figure."""

import re

import pytest

import rendering
import synthetic
from scaling_study.report.report_front import view_front
from scaling_study.report.study import conclusion
from synthetic import Launch, hard_saturation

LAUNCHES = (
    Launch({}, "default", lambda n: 60.0 + n),
    Launch({"intra_op": 1}, "baseline", hard_saturation(50.0, 150.0)),
    Launch({"intra_op": 2}, "grid", hard_saturation(90.0, 120.0)),
)


def entry(*pairs, rate="models_per_hour", **changes):
    points = [
        {"launch": "x", "label": "<b>x</b>", "n": n, "time_s": time_s, "rate": value,
         "changes_training": False, **changes}
        for n, (time_s, value) in enumerate(pairs, 1)
    ]  # fmt: skip
    front = [] if changes.get("changes_training") else points
    return {"rate": rate, "points": points, "front": front}


def view(found, *, raced=False):
    return view_front(found, suffix="", raced=raced)


def drawn_texts(shown):
    return re.findall(r"<text[^>]*>([^<]*)</text>", shown.figure.svg)


def test_both_ends_are_named_with_their_numbers():
    shown = view(entry((144.0, 25.0), (180.0, 40.0), (360.0, 60.0)))
    assert shown.heading == "One model soon, or many per hour"
    assert shown.ends == (
        "One model soonest: 2.40 minutes, with 1 process of <b>x</b> (25.0 models/hour).",
        "Most models per hour: 60.0, with 3 processes of <b>x</b> (one model takes 6.00 minutes).",
    )
    assert [label for label, _ in shown.rows] == 3 * ["<b>x</b>"]
    assert [cell.text for cell in shown.rows[0][1]] == ["1", "2.40 minutes", "25.0"]
    texts = drawn_texts(shown)
    assert {"time of one model, minutes", "models/hour", "n = 1", "n = 3"} <= set(texts)
    assert "One model soonest: 2.40 minutes" in shown.figure.svg  # for those who cannot see it
    assert "<b>" not in shown.figure.svg


def test_a_front_of_one_point_is_best_at_both():
    shown = view(entry((144.0, 25.0)))
    (both,) = shown.ends
    assert both == (
        "One model soonest: 2.40 minutes, with 1 process of <b>x</b>. "
        "It gives most models per hour, too: 25.0."
    )
    assert any(text.startswith("soonest, and most") for text in drawn_texts(shown))


def test_wide_ranges_are_logarithmic():
    texts = drawn_texts(view(entry((1.0, 10.0), (100.0, 1000.0))))
    assert {"models/hour (logarithmic)", "time of one model, s (logarithmic)"} <= set(texts)


def test_steps_stand_for_models_of_unknown_length():
    shown = view(entry((0.01, 100.0), (0.02, 150.0), rate="steps_per_s"))
    assert shown.heading == "One step soon, or many per second"
    assert shown.ends[0].startswith("One step soonest: 10.0 ms, with 1 process")
    assert {"time of one step, ms", "steps/s"} <= set(drawn_texts(shown))


def test_where_all_launches_change_training_the_front_is_empty():
    shown = view(entry((1.0, 10.0), changes_training=True))
    assert (shown.ends, shown.rows) == ((), ())
    assert "1 point is of launches that change training" in shown.text
    assert "changes training" in drawn_texts(shown)


def test_a_race_measured_only_part_of_it():
    assert "The race measured only" in view(entry((1.0, 10.0)), raced=True).text
    assert "The race measured only" not in view(entry((1.0, 10.0))).text


def test_without_a_point_there_is_no_section():
    assert view(entry()) is None


@pytest.mark.parametrize("steps", [500, None])
@pytest.mark.parametrize("objective", ["models_per_hour", "one_model"])
def test_the_report_of_either_objective_has_the_front(tmp_path, objective, steps):
    folder = rendering.make_study(
        tmp_path, launches=LAUNCHES, ns=(1, 2, 4), replicates=2, windows=1, objective=objective,
        steps_per_model=steps, noise=synthetic.Noise(0.002, 0.002, 0.002, 0.01),
    )  # fmt: skip
    text = rendering.render(folder).read_text(encoding="utf-8")
    assert (folder / "figures/front.svg").exists()
    thing = "model" if steps else "step"
    assert f"One {thing} soon, or many per {'hour' if steps else 'second'}" in text
    assert f"One {thing} soonest: " in text
    assert 'href="#m1-front"' in text
    assert ("time of one" in text.split('id="m1-ranking"')[1]) == (objective == "one_model")
    said = conclusion(folder, folder / "plan.json", folder / "report.html")
    if objective == "one_model":
        assert said.startswith(f"intra_op 2: one {thing} in ")
        assert "as fast as the default launch" in said
        assert f"Most {'models per hour' if steps else 'steps per second'} of all points" in said
    else:
        assert "one model in" not in said


def test_a_study_without_a_valid_window_has_no_front(tmp_path):
    folder = rendering.make_study(
        tmp_path, launches=[Launch({}, "default", ending="failed")], ns=(1,), replicates=1
    )
    assert "m1-front" not in rendering.render(folder).read_text(encoding="utf-8")
