"""What saved tables say about growth: computed from them, and never a cause by itself."""

import pandas as pd
import pytest

from configs import ROOT
from scaling_study.analysis.imported import COMMAND, findings, throughput
from scaling_study.common.quantities import TIMES
from scaling_study.config.config import load_config
from scaling_study.config.config_file import read_config
from scaling_study.config.plan import make_plan
from scaling_study.records.analysis import SavedTable


def saved(n, step_s):
    return SavedTable(
        n=n, step_s=step_s, rows_s=step_s, path="a.txt", steps=100, steps_from="", step_from="",
        rows=1,
    )  # fmt: skip


def study(**ratios):
    """Tables of 4 and 64 processes: each operator takes its ratio as long in the second one."""
    rows = [
        {"n": n, "operator": name, "group": name, "calls_per_step": 10.0,
         "self_s_per_step": 1e-3 * factor, "flops_per_step": None}
        for name, ratio in ratios.items()
        for n, factor in ((4, 1.0), (64, ratio))
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    steps_s = frame.groupby("n")["self_s_per_step"].sum()
    return [saved(n, step_s) for n, step_s in steps_s.items()], frame


def test_operators_that_grow_alike_are_told_from_those_that_do_not():
    """The golden report of the reference tables shows the latter."""
    facts = " ".join(findings(*study(a=3.0, b=3.0)).facts)
    assert "All 2 operators in both tables take longer with 64 processes than with 4" in facts
    assert f"{TIMES} (a) to " in facts
    assert "They grow alike." in facts
    assert "100% of the added time" in facts
    facts = " ".join(findings(*study(a=1.0, b=4.0)).facts)
    assert "1 of 2 operators" in facts
    assert "alike" not in facts


def test_a_step_that_does_not_grow_needs_no_explanation():
    tables, operators = study(a=1.05)
    assert "nothing to explain" in findings(tables, operators).answer
    assert "nothing to explain" in findings(tables[:1], operators).answer


@pytest.mark.parametrize(
    ("steps_s", "start"),
    [
        ({4: 0.01, 8: 0.01}, "8 processes do the most together: 800 steps/s"),
        ({4: 0.01, 8: 0.02}, "8 processes do no more together than 4: 400 against 400 steps/s"),
        ({1: 0.01, 4: 0.01, 8: 0.03}, "8 processes do no more together than 4: 267 against 400"),
        ({4: 0.01, 8: 0.0197}, "8 processes do no more together than 4: 406 against 400"),
        ({4: 0.01, 8: 0.0190}, "8 processes do the most together: 421 steps/s"),
    ],
)
def test_throughput_is_computed(steps_s, start):
    assert throughput([saved(*one) for one in steps_s.items()]).startswith(start)


def test_the_config_that_decides_is_ready(monkeypatch):
    monkeypatch.chdir(ROOT)
    plan = make_plan(load_config(read_config(ROOT / COMMAND.split()[-1])))
    assert plan.why.effort == "full"
    assert plan.processes == "auto"
