import re

import pytest

import synthetic_causes as made
from scaling_study.report import svg
from scaling_study.report.figure_causes import (
    ACCOUNT_COLOURS,
    FARTHEST,
    Dot,
    ReliefRow,
    choose_accounts,
    draw_accounts,
    draw_reliefs,
)
from scaling_study.report.figure_multiples import Curve, describe_largest, draw_multiples
from scaling_study.report.report_cause_figures import (
    draw_accounts_figure,
    draw_fingerprint_figure,
    draw_reliefs_figure,
    draw_sensitivities_figure,
)


def texts(drawn):
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawn)


def curve(title, ys, *, sure=True):
    xs = tuple(float(n) for n in range(1, len(ys) + 1))
    nothing = (None,) * len(ys)
    return Curve(title, xs, tuple(ys), nothing, nothing, sure)


def multiples(curves, control=None, *, counts=True):
    return draw_multiples(curves, control, name="f", title="t", alt="what it shows", counts=counts)


def test_accounts_of_nothing_have_no_row_but_the_residual_has():
    names = [account.name for account in choose_accounts(made.accounts())]
    assert "throttled" not in names
    assert names[-1] == "residual"
    assert {"user", "runqueue", "blocked"} <= set(names)


def test_unknown_accounts_are_left_out():
    unknown = {"account": "throttled", "title": "t", "low_s": None, "high_s": None}
    assert choose_accounts([unknown]) == ()


def test_the_accounts_lead_from_one_step_to_the_other():
    accounts = choose_accounts(made.accounts())
    drawn = draw_accounts(accounts, 2, name="f", title="t", alt="a")
    shown = texts(drawn)
    assert {"a step of 1 process", "9.70 ms", "a step of 2 processes", "+125 ms"} <= set(shown)
    high_s = sum(account.high_s for account in accounts)
    low_s = sum(account.low_s for account in accounts)
    assert high_s - low_s == pytest.approx(sum(account.added_s for account in accounts))
    order = [shown.index(title) for title in ("waiting for a CPU (run queue)", "blocked")]
    assert order == sorted(order)


def test_every_account_has_a_colour_of_its_own():
    assert len(set(ACCOUNT_COLOURS.values())) == len(ACCOUNT_COLOURS)
    assert set(ACCOUNT_COLOURS.values()) <= set(svg.THEME)


def test_a_relief_far_away_does_not_squeeze_the_others():
    rows = [
        ReliefRow("near", Dot(0.5, 0.4, 0.6), None),
        ReliefRow("far", Dot(-40.0, -4e3, 90.0), Dot(0.1, None, None)),
    ]
    shown = texts(draw_reliefs(rows, name="f", title="t", alt="a"))
    ticks = [text for text in shown if text.endswith("%")]
    assert {"−100%", "0%", "100%"} <= set(ticks)  # noqa: RUF001 (a minus sign)
    assert "50%" not in ticks  # there is no room
    assert max(float(text.strip("−%")) for text in ticks) <= 100 * FARTHEST  # noqa: RUF001


def test_reliefs_name_both_sides():
    figure = draw_reliefs_figure(made.target(), "f")
    shown = texts(figure.svg)
    assert {"passive waiting", "of the growth with n", "of a step alone (n = 1)"} <= set(shown)
    assert "OpenBLAS" not in shown  # it failed
    assert "one thread per operator, 96%" in figure.svg  # the alternative text
    assert shown.index("one thread per operator") < shown.index("passive waiting")


def test_without_reliefs_or_doses_there_is_no_figure():
    assert draw_reliefs_figure(made.ended(), "f") is None
    assert draw_sensitivities_figure(made.ended(), "f") is None
    assert draw_accounts_figure(made.ended(), "f") is None


def test_the_control_has_a_plot_of_its_own_and_is_in_each():
    alone = multiples([curve("a", [1.0, 2.0])])
    controlled = multiples([curve("a", [1.0, 2.0])], curve("register", [1.0, 1.0]))
    assert texts(alone).count("processes") == 1
    assert texts(controlled).count("processes") == 2
    assert "control: register" in texts(controlled)


def test_what_was_not_verified_is_dashed_and_named():
    sure = multiples([curve("a", [1.0, 2.0])])
    doubtful = multiples([curve("a", [1.0, 2.0], sure=False)])
    assert "stroke-dasharray" not in sure
    assert "stroke-dasharray" in doubtful
    assert "dashed: not verified" in texts(doubtful)


def test_a_wide_range_is_logarithmic_and_a_small_one_is_no_mountain():
    assert "1.4×" in texts(multiples([curve("a", [1.0, 1.02])]))  # noqa: RUF001
    assert {"1×", "10×", "50×"} <= set(texts(multiples([curve("a", [1.0, 60.0])])))  # noqa: RUF001


def test_nothing_at_all_can_be_drawn():
    assert "Nothing was measured" in texts(multiples([]))
    assert describe_largest([]) == "Nothing was measured."
    assert "No relief was measured" in texts(draw_reliefs([], name="f", title="t", alt="a"))


def test_a_name_cannot_break_out_of_a_figure():
    name = "<script>$x$"
    for drawn in (
        multiples([curve(name, [1.0, 2.0])]),
        draw_reliefs([ReliefRow(name, Dot(0, 0, 0), None)], name="f", title="t", alt=name),
    ):
        assert "<script" not in drawn
        assert "$x$" in drawn


def test_doses_are_fractions_and_the_largest_effect_is_in_the_alternative_text():
    figure = draw_sensitivities_figure(made.target(), "f")
    assert {"0", "⅓", "⅔", "1"} <= set(texts(figure.svg))
    assert "Largest: a stream in memory, 1.35 times." in figure.svg


def test_the_fingerprint_compares_each_block_with_its_own_rate_alone():
    content = made.fingerprint("m")
    for row in content["rows"]:  # a machine that slows down while it is measured
        row["rates"] = [rate / (1 + row["block"]) for rate in row["rates"]]
    figure = draw_fingerprint_figure(content, "")
    assert "Largest: two threads that wake one another, 4.92 times." in figure.svg


def test_what_was_disturbed_is_not_in_the_fingerprint():
    content = made.fingerprint("m")
    for row in content["rows"]:
        if row["kernel"] == "wake":
            row["valid"] = False
    assert "two threads" not in draw_fingerprint_figure(content, "").svg
    for row in content["rows"]:
        row["valid"] = row["n"] > 1
    assert draw_fingerprint_figure(content, "") is None
    content["rows"] = []
    assert draw_fingerprint_figure(content, "") is None


def test_a_placement_is_never_mixed_with_another():
    content = made.fingerprint("m")
    spread = [{**row, "placement": "spread", "rates": [9e9]} for row in content["rows"]]
    mixed = draw_fingerprint_figure({**content, "rows": content["rows"] + spread}, "")
    assert mixed == draw_fingerprint_figure(content, "")
