"""What saved tables say about causes: computed from them, and never a cause by itself."""

import contextlib

import pandas as pd
import pytest
import yaml

from configs import IMPORTED, ROOT
from scaling_study.analysis import imported
from scaling_study.analysis.imported_causes import CONFIG, findings, throughput
from scaling_study.common.quantities import TIMES
from scaling_study.config.config import load_config
from scaling_study.config.config_file import read_config
from scaling_study.config.plan import make_plan
from scaling_study.records.analysis import SavedTable

INSIDE = "time in Optimizer.step#SGD.step"
OPTIMIZER = "Optimizer.step#SGD.step"
GROUPS = {
    OPTIMIZER: "Python and dispatch",
    "aten::mm": "matrix multiply",
    "aten::bernoulli_": "random numbers",
    "aten::mul": "allocation and new memory",
    "aten::add_": "streaming in place",
}
LOW = {OPTIMIZER: 2e-3, "aten::mm": 3e-3, "aten::bernoulli_": 1e-3, "aten::mul": 2e-3,
       "aten::add_": 2e-3}  # fmt: skip


def saved(n, step_s, **changed):
    usual = {"path": "a.txt", "steps": 100, "steps_from": "", "step_from": "", "rows": 1}
    return SavedTable(n=n, step_s=step_s, rows_s=step_s, **usual | changed)


def study(ratios, low=4, high=64, outside=(0.0, 0.0)):
    """Two tables: each operator takes its ratio as long in the second one."""
    times = {low: LOW, high: {name: LOW[name] * ratio for name, ratio in ratios.items()}}
    tables, rows = [], []
    for (n, by_name), beside in zip(times.items(), outside, strict=True):
        step_s = sum(by_name.values())
        tables.append(saved(n, step_s, self_s=100 * (step_s + beside), step_from=INSIDE))
        rows += [
            {"n": n, "operator": name, "group": GROUPS[name], "calls_per_step": 10.0,
             "self_s_per_step": self_s, "flops_per_step": None}
            for name, self_s in by_name.items()
        ]  # fmt: skip
    return tables, pd.DataFrame(rows)


def causes(found):
    return {one.cause for one in found.against}


def all_alike(ratio):
    return dict.fromkeys(LOW, ratio)


@pytest.fixture(scope="module")
def example():
    with contextlib.chdir(ROOT):
        loaded = imported.load_import(yaml.safe_load(IMPORTED.read_text(encoding="utf-8")))
        tables = imported.read_tables(loaded)
    operators = imported.operator_frame(tables)
    return [table.saved for table in tables], operators


def test_the_reference_tables(example):
    found = findings(*example)
    facts = " ".join(found.facts)
    assert f"2.60{TIMES} (Optimizer.step#AdamW.step) to 5.31{TIMES} (aten::bernoulli_)" in facts
    assert f"where the step takes 3.63{TIMES}" in facts
    assert "All 7 operators" in facts
    assert "They do not grow alike" in facts
    assert "64 processes do no more together than 32: 612 against 635 steps/s" in facts
    assert causes(found) == {
        "memory_bandwidth", "page_faults", "slow_blas", "data_loading", "waiting", "level",
    }  # fmt: skip
    assert "name no cause" in found.answer


def test_what_grows_alike_is_said_to():
    found = findings(*study(all_alike(3.0)))
    assert any(text.startswith("They grow alike") for text in found.facts)
    assert "100% of the added time" in " ".join(found.facts)
    assert {"memory_bandwidth", "page_faults"} <= causes(found)
    assert "It meets every operator" in found.open[0].text


def test_multiplies_that_hold_the_added_time_are_not_ruled_out():
    found = findings(*study({**all_alike(1.0), "aten::mm": 4.0}))
    assert "slow_blas" not in causes(found)


def test_a_loader_that_holds_the_added_time_is_not_ruled_out():
    assert "data_loading" in causes(findings(*study(all_alike(2.0))))
    found = findings(*study(all_alike(2.0), outside=(1e-3, 4e-3)))
    assert "data_loading" not in causes(found)


def test_time_between_operators_is_not_ruled_out_where_it_grows():
    assert "waiting" in causes(findings(*study(all_alike(2.0))))
    assert "waiting" not in causes(findings(*study({**all_alike(1.0), OPTIMIZER: 9.0})))


def test_a_step_that_does_not_grow_needs_no_explanation():
    found = findings(*study(all_alike(1.05)))
    assert "nothing to explain" in found.answer
    assert found.against == found.open == ()
    tables, operators = study(all_alike(2.0))
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
    plan = make_plan(load_config(read_config(ROOT / CONFIG)))
    assert plan.why.effort == "full"
    assert plan.processes == "auto"
    changed = {(axis, value) for launch in plan.launches for axis, value in launch.axes.items()}
    wanted = {
        ("intra_op", 1), ("wait_policy", "passive"), ("placement", "cores"),
        ("placement", "spread"), ("placement", "per_l3"), ("membind", "local"),
        ("allocator", "glibc-large-thresholds"), ("blas", "openblas"),
    }  # fmt: skip
    assert wanted <= changed
