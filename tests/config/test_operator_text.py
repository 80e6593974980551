"""Text tables of torch's profiler, as torch prints them and as people save them."""

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaling_study.common.problems import ConfigError
from scaling_study.config.operator_text import parse_table

DATA = Path(__file__).parents[1] / "data/profiler"
SHIPPED = Path(__file__).parents[2] / "config/tables"

RULED = """\
--------  ------------  ------------  ------------  ------------  ------------  ------------
    Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
--------  ------------  ------------  ------------  ------------  ------------  ------------
aten::mm        75.00%      30.000ms        80.00%      32.000ms     320.000us           100
aten::mul       25.00%      10.000ms        25.00%      10.000ms       1.000ms            10
--------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 40.000ms
"""


def text_of(name):
    folder = SHIPPED if name.startswith("tsmixerx") else DATA
    return (folder / f"{name}.txt").read_text(encoding="utf-8")


def mistakes(text):
    with pytest.raises(ConfigError) as caught:
        parse_table(text)
    return [each.what for each in caught.value.problems]


def test_a_table_saved_without_ruled_lines():
    table = parse_table(text_of("tsmixerx-64"))
    rows = {row.operator: row for row in table.rows}
    mm, optimizer = rows["aten::mm"], rows["Optimizer.step#AdamW.step"]
    assert (mm.calls, mm.total_s / mm.calls) == (34760, pytest.approx(259.732e-6))
    assert mm.flops == pytest.approx(74743.071e6)
    assert rows["aten::copy_"].flops is None
    assert (optimizer.calls, optimizer.total_s) == (1050, pytest.approx(1050 * 104508e-6))


@pytest.mark.parametrize(
    ("name", "rows", "self_s", "unread"),
    [
        ("tsmixerx-4", 10, 16.041, ()),
        ("tsmixerx-64", 10, 110.551, ()),
        ("torch-2.13-memory-flops", 70, None, ("CPU Mem", "Self CPU Mem")),
        ("torch-2.13-shapes-stack", 8, None, ("Input Shapes", "Source Location")),
    ],
)
def test_every_row_and_column_of_a_real_table(name, rows, self_s, unread):
    table = parse_table(text_of(name))
    assert (len(table.rows), table.unread) == (rows, unread)
    assert self_s in {None, table.self_s}


def same(*names):
    """Whether names are equal as far as neither of them is cut."""
    length = min((len(name) - 3 for name in names if name.endswith("...")), default=None)
    return len({name[:length] for name in names}) == 1


@pytest.mark.parametrize("name", ["torch-1.8-cuda-flops", "torch-2.1-cuda-flops"])
def test_other_versions_of_torch_print_the_same(name):
    now = parse_table(text_of("torch-2.13-memory-flops")).rows
    rows = parse_table(text_of(name)).rows
    assert len(rows) >= 30
    for row in rows:
        (known,) = [one for one in now if same(one.operator, row.operator)]
        assert row.calls == known.calls
        for mine, theirs in ((row.self_s, known.self_s), (row.total_s, known.total_s)):
            assert mine == pytest.approx(theirs, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    [
        RULED,
        f"\ufeff# My notes\n\nProfile stats for: records\n{RULED}\nThat was slow: 3 of 4.\n",
        RULED.replace("\n", "\r\n"),
        re.sub(r"-{3,}.*\n", "", RULED),
        re.sub(r"-{3,}.*\n", "\n", RULED),
        RULED.replace("\n", "\n\n"),
        "".join(f"    {line}\n" for line in RULED.splitlines()),
        RULED.rsplit("-----", 1)[0].rsplit("\n", 1)[0],
        f"```\n{RULED}```\n",
    ],
)  # fmt: skip
def test_text_around_a_table_and_missing_lines(text):
    rows = parse_table(text).rows
    assert [(row.operator, row.calls, pytest.approx(row.self_s)) for row in rows] == [
        ("aten::mm", 100, 0.03),
        ("aten::mul", 10, 0.01),
    ]


def test_only_names_calls_and_self_times_are_needed():
    text = "Name  Self CPU  # of Calls\naten::mm  30.000ms  100\n"
    (row,) = parse_table(text).rows
    assert (row.calls, row.self_s, row.total_s) == (100, 0.03, None)
    for needed in ("Name", "Self CPU", "# of Calls"):
        assert mistakes(text.replace(needed, "Other")) == ["has no table of torch's profiler"]


def test_without_its_last_line_a_table_does_not_know_the_whole():
    assert parse_table(RULED).self_s == pytest.approx(0.04)
    assert parse_table(RULED.replace("Self CPU time total: 40.000ms\n", "")).self_s is None


def test_names_may_be_any_text():
    name = "my  own: [step] 12.5% done, 3 of 4 <b>"
    row = re.sub("aten::mul ", f"{name} ", text_of("tsmixerx-4"), count=1)
    assert name in [each.operator for each in parse_table(row).rows]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("aten::mm        75.00%", "INFO: epoch 2 done\naten::mm        75.00%", "line 4: ''"),
        ("aten::mul  ", "\nINFO: epoch 2 done\n\naten::mul  ", "line 6: ''"),
        (RULED[RULED.index("aten::mul"):], "aten::mul       25.00%      10.0", "line 5: ''"),
        ("     30.000ms", "", "line 4: ''"),
        (RULED.splitlines()[1], "Name  Age  Height", "has no table"),
        (RULED[RULED.index("aten::mm"):RULED.rindex("---")], "", "has no row"),
        ("Self CPU time total: 40.000ms", RULED, "has tables that begin in the lines 2, 8"),
        ("30.000ms", "nan ms  ", "line 4: 'nan ms' is no time"),
        ("          10\n", "         1.5\n", "line 5: '1.5' is no number of calls"),
        ("Self CPU time total: 40.000ms", "Self CPU time total: a lot", "'a lot' is no time"),
    ],
)  # fmt: skip
def test_damage_is_an_error_with_its_line(old, new, what):
    assert old in RULED
    (found,) = mistakes(RULED.replace(old, new))
    assert found.startswith(what)


@given(st.data())
def test_any_change_of_a_table_is_read_or_refused(data):
    tables = [RULED, text_of("tsmixerx-4"), text_of("torch-2.13-schedule")]
    text = data.draw(st.sampled_from(tables))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    with contextlib.suppress(ConfigError):
        parse_table(text[:start] + data.draw(st.text(max_size=10)) + text[end:])
