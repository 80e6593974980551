"""The truth benchmark's own parts: what a loop counts, the cells of a ledger, the studies."""

import subprocess

import counting
import ledger
import pytest
import truth_runs
import truth_table
from ledger import ROOT
from truth_list import ROWS

from scaling_study.config.config import load_config
from scaling_study.config.plan import make_plan
from scaling_study.stats.interval import Interval

DONE = {"code": "c", "machine": "m", "started": "2026-01-01", "wall_s": 20.0, "status": "ok"}


# What a loop counts


def test_iterations_are_counted_while_all_processes_run():
    early = [10 + 0.1 * i for i in range(101)]  # 10 to 20 s
    late = [15 + 0.2 * i for i in range(101)]  # 15 to 35 s
    found = truth_runs.throughput([early, late])
    assert found["rate"] == pytest.approx(15)
    assert found["count"] == 50 + 25
    assert found["seconds"] == pytest.approx(5, abs=0.2)


def test_only_whole_periods_are_counted():
    periods = [[*(n + 0.01 * i for i in range(1, 11)), -(n + 1.0)] for n in range(6)]
    stamps = [stamp for period in periods for stamp in period]
    cut = [*stamps, *(6 + 0.01 * i for i in range(1, 8))]  # a period of which 7 steps were done
    for log in (stamps, cut):
        found = truth_runs.throughput([log])
        assert (found["rate"], found["count"]) == (pytest.approx(10), 50)


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
        truth_runs.throughput(logs)


def test_whole_processes_are_counted_from_the_first_ones_end():
    found = truth_runs.whole_processes([[107.0, 112.0, 117.0, 122.0], [106.0, 116.0, 126.0]])
    assert found["rate"] == pytest.approx(3600 / 5 + 3600 / 10)
    assert found["count"] == 3 + 2
    with pytest.raises(ValueError, match="2 processes ended in a slot; 3 are needed"):
        truth_runs.whole_processes([[1.0, 2.0, 3.0], [1.0, 2.0]])


def test_a_counter_stores_what_a_loop_reads(tmp_path, monkeypatch):
    log = tmp_path / "0.0"
    monkeypatch.setenv("TRUTH_LOG", str(log))
    assert truth_runs.read_stamps(log) == []
    counter = counting.Counter()
    assert truth_runs.read_stamps(log, 1) == []
    counter.iteration()
    counter.iteration()
    counter.period()
    first, second, period = truth_runs.read_stamps(log)
    assert truth_runs.read_stamps(log, 1) == [first]
    assert 0 < first <= second <= -period


def test_the_shell_loop_starts_each_process_again_until_one_fails(tmp_path):
    # Each slot ends on its third run.
    script = (
        f'echo "$1 $2"; echo >>{tmp_path}/runs."$1";'
        f' [ "$(wc -l <{tmp_path}/runs."$1")" -lt 3 ] || exit 7'
    )
    loop = ["bash", ROOT / "benchmarks/truth/loop.sh", "2", tmp_path]
    command = ["bash", "-c", script, "name", "{member}", "a b"]
    assert subprocess.run([*loop, *command], check=False, timeout=60).returncode == 0
    for slot in "01":
        ends = truth_runs.read_ends(tmp_path / f"{slot}.ends")
        assert len(ends) == 2
        assert ends == sorted(ends)
        assert (tmp_path / f"{slot}.failed").read_text() == "7\n"
        assert (tmp_path / f"{slot}.out").read_text() == f"{slot} a b\n"


# Cells of a ledger


@pytest.mark.parametrize(
    ("low", "value", "high", "expected"),
    [
        (0.98, 1.00, 1.02, truth_table.OK),
        (0.93, 0.95, 0.965, truth_table.FAIL),
        (1.04, 1.05, 1.06, truth_table.FAIL),
        (1.80, 2.00, 2.20, truth_table.FAIL),
        (0.95, 1.00, 1.05, truth_table.COARSE),
        (None, 1.00, None, truth_table.COARSE),
    ],
)
def test_a_cell_fails_if_its_interval_misses_the_range_or_is_wide(low, value, high, expected):
    assert truth_table.verdict(Interval(value, low, high)) == expected


def loop_entry(rate, row="gan", n=1):
    found = {"rate": rate, "count": 100, "seconds": 15.0}
    return {"row": row, "kind": "loop", "counts": [n], **DONE, **found}


def study_entry(points, row="gan", counts=(1, 2)):
    return {"row": row, "kind": "study", "counts": list(counts), **DONE, "points": points}


def measured(*values):
    return {"values": list(values)}


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
    assert found.ratio.high / found.ratio.low < 1.1


def test_a_study_without_a_number_is_no_truth(tmp_path):
    entries = [loop_entry(1.0), study_entry({"1": measured(), "2": measured()})]
    assert truth_table.cell(entries, "gan", 1).verdict == truth_table.NO_STUDY
    failed = entries[0] | {"kind": "study", "status": "failed", "reason": "disk full"}
    ledger.write(tmp_path / "new/truth.jsonl", [entries[0], failed])
    found = truth_table.cell(ledger.read(tmp_path / "new/truth.jsonl"), "gan", 1)
    text = truth_table.markdown([found], [], ["a machine"])
    assert "0 of 1 cells are true; 1 no number of the study." in text
    assert "- gan, n = 1: the study failed: disk full" in text


# The rows and their studies


@pytest.mark.parametrize("name", ROWS)
def test_a_rows_study_has_default_settings(name):
    for counts in ROWS[name].studies((1, 2)):
        plan = make_plan(load_config(truth_runs.config(name, counts)))
        assert tuple(plan.processes) == counts
        assert plan.measure.replicates == 2
        assert not plan.profiled
        assert not plan.explained
        baseline = next(one for one in plan.launches if one.id == plan.baseline)
        assert baseline.axes["intra_op"] == 1
        assert plan.workload.steps_per_model == (1 if plan.workload.runs else ROWS[name].steps)
