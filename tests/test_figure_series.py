from scaling_study.report.figure_series import (
    LABEL_CHARACTERS,
    MOST_COLOURED,
    Series,
    choose_series,
)


def series(label, *roles):
    return Series("id", label, roles, "series-1", "o")


def test_launches_with_a_role_come_first_and_then_the_best():
    labels = {name: name for name in "abcdefghij"}
    roles = {"recommended": "j", "default": "c", "baseline": "c"}
    chosen = choose_series(labels, roles, list("abcdefghij"))
    assert [one.launch for one in chosen] == ["j", "c", "a", "b", "d", "e"]
    assert len(chosen) == MOST_COLOURED
    assert [one.roles for one in chosen[:3]] == [("recommended",), ("default", "baseline"), ()]
    assert len({one.colour for one in chosen}) == len({one.marker for one in chosen}) == len(chosen)


def test_a_launch_without_points_is_not_drawn():
    roles = {"recommended": None, "default": "gone", "baseline": "b"}
    assert [one.launch for one in choose_series({"a": "a", "b": "b"}, roles, ["a"])] == ["b", "a"]


def test_a_role_that_is_the_label_is_not_said_twice():
    assert series("default", "default").title == "default"
    assert series("default", "recommended", "default").title == "default (recommended)"
    assert series("intra_op 1", "baseline").title == "intra_op 1 (baseline)"


def test_a_legend_has_two_lines_at_most():
    for label in ("word " * 60, "x" * 500, "blas /opt/a-very/long-path/" + "lib" * 40 + ".so"):
        lines = series(label, "recommended").legend.split("\n")
        assert len(lines) <= 2
        assert max(map(len, lines)) <= LABEL_CHARACTERS
        assert len(series(label).line) <= LABEL_CHARACTERS


def test_the_end_of_a_long_label_stays_visible():
    assert series("blas /" + "a" * 200 + "/libfast.so").line.endswith("libfast.so")


def test_what_cannot_be_printed_is_made_visible():
    assert series("a\u202eb\x00").line == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
