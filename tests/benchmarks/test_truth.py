"""The truth benchmark's own parts: what a loop counts, the interval of a ratio, what comes next."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "truth")]

import counting  # noqa: E402
import truth_loops  # noqa: E402
import truth_rates  # noqa: E402
import truth_studies  # noqa: E402
import truth_table  # noqa: E402
from truth_list import PROCESSES, ROWS  # noqa: E402
from truth_plan import first_runs, next_runs  # noqa: E402
from truth_rates import Ratio  # noqa: E402
from truth_runs import Run  # noqa: E402

DONE = {"code": "c", "machine": "m", "started": "2026-01-01", "wall_s": 20.0, "status": "ok"}


def periodic(start, periods, steps, step_s, between_s):
    """Stamps of a script that does steps, then something else, again and again."""
    stamps, now = [], start
    for _ in range(periods):
        for _ in range(steps):
            now += step_s
            stamps.append(now)
        now += between_s
        stamps.append(-now)
    return stamps


# What a loop counts


def test_iterations_are_counted_while_all_processes_run():
    early = [10 + 0.1 * i for i in range(101)]  # 10 to 20 s
    late = [15 + 0.2 * i for i in range(101)]  # 15 to 35 s
    found = truth_rates.throughput([early, late])
    assert found.rate == pytest.approx(15)
    assert found.count == 50 + 25
    assert found.seconds == pytest.approx(5, abs=0.2)


def test_only_whole_periods_are_counted():
    stamps = periodic(0, 6, 10, 0.01, 0.9)
    cut = [*stamps, *(6 + 0.01 * i for i in range(1, 8))]  # a period of which 7 steps were done
    for log in (stamps, cut):
        found = truth_rates.throughput([log])
        assert found.rate == pytest.approx(10)
        assert found.count == 50


@pytest.mark.parametrize(
    "logs",
    [
        [[1.0, 2.0, 3.0], []],
        [[1.0, 2.0]],
        [[1.0, 2.0, -2.1, 3.0, -3.1, 4.0]],
        [[1.0, 2.0, 3.0, 4.0], [3.5, 4.5, 5.5]],
    ],
    ids=["nothing", "two iterations", "two periods", "no common time"],
)
def test_too_few_edges_give_no_rate(logs):
    with pytest.raises(ValueError, match=r"are needed|counted nothing"):
        truth_rates.throughput(logs)


def test_whole_processes_are_counted_from_the_first_ones_end():
    found = truth_rates.whole_processes([[107.0, 112.0, 117.0, 122.0], [106.0, 116.0, 126.0]])
    assert found.rate == pytest.approx(3600 / 5 + 3600 / 10)
    assert found.count == 3 + 2
    with pytest.raises(ValueError, match="2 processes ended in a slot; 3 are needed"):
        truth_rates.whole_processes([[1.0, 2.0, 3.0], [1.0, 2.0]])


def test_a_counter_stores_what_a_loop_reads(tmp_path, monkeypatch):
    log = tmp_path / "0.0"
    monkeypatch.setenv("TRUTH_LOG", str(log))
    assert truth_loops.read_first(log) == []
    counter = counting.Counter()
    assert truth_loops.read_first(log) == []
    counter.iteration()
    counter.iteration()
    counter.period()
    first, second, period = truth_loops.read_stamps(log)
    assert truth_loops.read_first(log) == [first]
    assert 0 < first <= second <= -period


def run_loop(folder, n, *command):
    loop = [*("bash", str(BENCHMARKS / "truth/loop.sh"), str(n), str(folder)), *command]
    return subprocess.run(loop, check=False, timeout=60).returncode


def test_the_shell_loop_starts_each_process_again_until_one_fails(tmp_path):
    # Each slot ends on its third run.
    script = (
        f'echo "$1 $2"; echo >>{tmp_path}/runs."$1";'
        f' [ "$(wc -l <{tmp_path}/runs."$1")" -lt 3 ] || exit 7'
    )
    assert run_loop(tmp_path, 2, "bash", "-c", script, "name", "{member}", "a b") == 0
    for slot in "01":
        ends = truth_loops.read_ends(tmp_path / f"{slot}.ends")
        assert len(ends) == 2
        assert ends == sorted(ends)
        assert (tmp_path / f"{slot}.failed").read_text() == "7\n"
        assert (tmp_path / f"{slot}.out").read_text() == f"{slot} a b\n"


# The ratio


def test_the_ratio_of_two_samples_has_welchs_interval():
    rng = np.random.default_rng(3)
    for _ in range(20):
        study, loop = (rng.lognormal(3, 0.02, size) for size in (4, 3))
        found = truth_rates.ratio(*map(truth_rates.side_of_values, (study, loop)))
        welch = stats.ttest_ind(np.log(study), np.log(loop), equal_var=False)
        interval = welch.confidence_interval(0.95)
        assert math.log(found.low) == pytest.approx(interval.low)
        assert math.log(found.high) == pytest.approx(interval.high)


@pytest.mark.parametrize(
    ("low", "value", "high", "expected"),
    [
        (0.98, 1.00, 1.02, truth_table.OK),
        (0.94, 0.965, 0.972, truth_table.OK),
        (0.93, 0.95, 0.965, truth_table.FAIL),
        (1.04, 1.05, 1.06, truth_table.FAIL),
        (1.80, 2.00, 2.20, truth_table.FAIL),
        (0.95, 1.00, 1.05, truth_table.COARSE),
        (math.nan, 1.00, math.nan, truth_table.COARSE),
    ],
)
def test_a_cell_fails_if_its_interval_misses_the_range_or_is_wide(low, value, high, expected):
    assert truth_table.verdict(Ratio(value, low, high)) == expected


# Cells of a ledger


def loop_entry(rate, row="gan", n=1):
    found = {"rate": rate, "count": 100, "seconds": 15.0}
    return {"row": row, "kind": "loop", "counts": [n], **DONE, **found}


def study_entry(points, row="gan", counts=(1, 2)):
    return {"row": row, "kind": "study", "counts": list(counts), **DONE, "points": points}


def measured(*values, between=None):
    value = math.exp(np.log(values).mean()) if values else None
    point = {"source": "measured", "value": value, "values": list(values), "invalid": 4}
    return point | {"between": between or {}}


def confirmed(*rounds, source="confirmed"):
    keys = ("value", "low", "high", "count")
    rounds = [dict(zip(keys, one, strict=True)) for one in rounds]
    return {"source": source, "rounds": rounds, "invalid": 0, "between": {}}


def test_a_cell_is_made_of_all_loops_and_all_replicates():
    entries = [
        loop_entry(100.0),
        loop_entry(77.0, n=2),
        study_entry({"1": measured(200.0, 202.0), "2": measured(320.0)}),
        study_entry({"1": measured(198.0, 200.0), "2": measured(322.0)}),
        loop_entry(101.0),
        loop_entry(55.0, row="plain"),
    ]
    found = truth_table.cell(entries, "gan", 1)
    assert (found.loops, found.verdict) == (2, truth_table.FAIL)
    assert found.ratio.value == pytest.approx(200 / 100.5, rel=1e-3)
    assert found.study.freedom == found.loop.freedom == truth_table.POOLED_FREEDOM


def test_the_studys_value_is_that_of_its_points_table():
    point = measured(100.0, 104.0) | {"value": 110.0}
    _, side = truth_table.study_side([point], 0.03, whole=False)
    assert side.value == pytest.approx(110)
    assert side.error == pytest.approx(0.03)


def test_confirmed_processes_go_before_predicted_ones():
    points = [
        confirmed((900.0, 800.0, 1000.0, 2), source="predicted"),
        confirmed((400.0, 390.0, 410.0, 4)),
        confirmed((404.0, None, None, 1)),
    ]
    source, side = truth_table.study_side(points[:2], None, whole=True)
    assert (source, side.value, side.freedom) == ("confirmed", pytest.approx(400), 3)
    assert math.isnan(truth_table.study_side(points, None, whole=True)[1].error)
    assert truth_table.study_side(points[:1], None, whole=True)[0] == "predicted"
    assert truth_table.study_side([], None, whole=True)[1] is None


def test_a_study_without_a_number_is_no_truth():
    entries = [loop_entry(1.0), study_entry({"1": measured(), "2": measured()})]
    found = truth_table.cell(entries, "gan", 1)
    assert found.verdict == truth_table.NO_STUDY
    assert found.reasons == ("a study had 4 invalid windows",)
    failed = entries[0] | {"kind": "study", "status": "failed", "reason": "status 1: | disk full"}
    found = truth_table.cell([entries[0], failed], "gan", 1)
    assert found.reasons == ("the study failed: status 1: | disk full",)
    text = truth_table.markdown([found], [], ["a machine"])
    assert "0 of 1 cells are true; 0 false, 0 not precise enough, 1 without a number." in text
    assert "- gan, n = 1: the study failed: status 1: | disk full" in text


# The ledger


def test_a_ledger_goes_on_after_a_line_that_was_cut(tmp_path):
    ledger = tmp_path / "docs/evidence/truth.jsonl"
    assert truth_table.read_ledger(ledger) == []
    entries = [loop_entry(1.0), loop_entry(2.0)]
    truth_table.add_to_ledger(ledger, entries[0])
    with ledger.open("a") as file:
        file.write(json.dumps(loop_entry(9.0))[:30])
    assert truth_table.read_ledger(ledger) == entries[:1]
    truth_table.add_to_ledger(ledger, entries[1])
    assert truth_table.read_ledger(ledger) == entries


# What comes next


def entry_of(run, rate=100.0):
    if run.kind == "loop":
        return loop_entry(rate, run.row, *run.counts)
    whole = ROWS[run.row].compares == PROCESSES
    point = confirmed((rate, rate, rate, 4)) if whole else measured(*[rate] * 4)
    return study_entry({str(n): point for n in run.counts}, run.row, run.counts)


def test_every_row_gets_loops_a_study_and_loops():
    entries, taken = [], []
    while (run := next(next_runs(entries, ["gan", "ends"], (1, 2)), None)) is not None:
        taken.append(run)
        entries.append(entry_of(run))
    assert [(run.row, run.kind, run.counts) for run in taken] == [
        ("gan", "loop", (1,)),
        ("gan", "loop", (2,)),
        ("gan", "study", (1, 2)),
        ("gan", "loop", (1,)),
        ("gan", "loop", (2,)),
        ("ends", "loop", (1,)),
        ("ends", "loop", (2,)),
        ("ends", "study", (1,)),
        ("ends", "study", (2,)),
        ("ends", "loop", (1,)),
        ("ends", "loop", (2,)),
    ]


def test_a_coarse_cell_gets_what_makes_it_precise_in_the_least_time():
    entries = [entry_of(run) for run in first_runs("gan", (1,))]
    assert not list(next_runs(entries, ["gan"], (1,)))
    loops = [*entries, loop_entry(125.0)]
    assert list(next_runs(loops, ["gan"], (1,))) == [Run("gan", "loop", (1,))]
    study = [*entries, study_entry({"1": measured(60.0, 160.0)}, counts=(1,))]
    assert list(next_runs(study, ["gan"], (1,))) == [Run("gan", "study", (1,))]


# The rows and their studies


@pytest.mark.parametrize("name", ROWS)
def test_a_rows_study_has_default_settings(name):
    for counts in ROWS[name].studies((1, 2)):
        plan = make_plan(load_config(truth_studies.config(name, counts)))
        assert tuple(plan.processes) == counts
        assert plan.measure.replicates == 2
        assert not plan.profiled
        assert not plan.explained
        baseline = next(one for one in plan.launches if one.id == plan.baseline)
        assert baseline.axes["intra_op"] == 1
        assert plan.workload.steps_per_model == ROWS[name].steps


@pytest.fixture
def results(tmp_path):
    """Tables of a study at n = 1 and 2, of three launches."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "plan.json").write_text(
        json.dumps({"default": "default", "baseline": "b-1", "repeat": "b-1-repeat"})
    )
    rows = [
        ("default", 1, 2, 50.0, 300.0),
        ("b-1", 1, 2, 100.0, 600.0),
        ("b-1-repeat", 1, 1, 108.0, 640.0),
        ("b-1", 2, 0, math.nan, math.nan),
    ]
    names = ["launch", "n", "replicates", "steps_per_s", "models_per_hour"]
    points = pd.DataFrame(rows, columns=names)
    points = points.assign(
        models_per_hour_low=points["models_per_hour"] * 0.9,
        models_per_hour_high=[math.nan, 700.0, math.nan, math.nan],
        between_s_per_step=[0.5, 0.1, 0.2, math.nan],
        between_what="validation",
    )
    points.to_csv(tmp_path / "tables/points.csv", index=False)
    rates = [("default", 50.0), ("b-1", 99.0), ("b-1", 101.0), ("b-1-repeat", 108.0)]
    replicates = pd.DataFrame(rates, columns=["launch", "steps_per_s"]).assign(n=1)
    replicates.to_csv(tmp_path / "tables/replicates.csv", index=False)
    lost = [
        ("default", 1, 0, False),
        ("b-1", 1, 0, False),
        ("b-1", 1, 0, False),
        ("b-1-repeat", 1, 1, False),
        ("b-1-repeat", 1, 2, True),
        ("b-1", 2, 3, False),
    ]
    windows = pd.DataFrame(lost, columns=["launch", "n", "window", "valid"])
    windows.assign(replicate=0, cohort=0).to_csv(tmp_path / "tables/windows.csv", index=False)
    return tmp_path


def test_a_study_says_the_rate_of_the_baseline_and_its_repeat(results):
    found = truth_studies.read_point(results, 1, whole=False)
    assert found["value"] == pytest.approx((100 * 100 * 108) ** (1 / 3))
    assert found["values"] == [99, 101, 108]
    assert found["invalid"] == 2
    assert found["between"] == {"between_s_per_step": pytest.approx(0.15)}
    nothing = truth_studies.read_point(results, 2, whole=False)
    assert (nothing["value"], nothing["values"], nothing["invalid"]) == (None, [], 1)
    assert nothing["between"] == {"between_s_per_step": None}


ARM = {"launch": "b-1", "n": 1, "start": "fresh", "value": 410.0, "low": 400.0,
       "high": 420.0, "rounds": 4}  # fmt: skip


def test_whole_processes_are_those_of_the_confirmed_launch(results):
    (results / "analysis").mkdir()
    others = [ARM | {"launch": "default"}, ARM | {"start": "reused"}, ARM | {"n": 2}]
    file = results / "analysis/confirmation.json"
    file.write_text(json.dumps({"machines": [{"arms": [*others, ARM]}]}))
    found = truth_studies.read_point(results, 1, whole=True)
    expected = {"value": 410.0, "low": 400.0, "high": 420.0, "count": 4}
    assert (found["source"], found["rounds"]) == ("confirmed", [expected])
