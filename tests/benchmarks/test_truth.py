"""The truth benchmark's own parts: what scripts count, the cells of a ledger, the studies."""

import subprocess
import sys
import time

import counting
import numpy as np
import pytest
import truth
import truth_runs
import truth_stamps
import truth_table
from ledger import ROOT
from truth_list import ROWS
from truth_stamps import Log

from jobs import planned
from scaling_study.stats.interval import Interval
from timelines import TYPICAL, queue, record

DONE = {"code": "c", "machine": "m", "started": "2026-01-01", "wall_s": 20.0, "status": "ok"}


def log(began=0.0, ended=None, iterations=(), periods=()):
    return Log(began, ended, True, np.array(iterations, float), np.array(periods, float))


# What scripts count


def stored(folder, *more):
    """What a script that counts two iterations and a period stores."""
    code = "import counting as c; c.iteration(); c.iteration(); c.period()"
    script = folder / "script.py"
    script.write_text(code)
    log = folder / "log"
    log.mkdir()
    path = {"PYTHONPATH": str(ROOT / "benchmarks/truth")}
    variables = path | {"TRUTH_LOG": str(log)}
    subprocess.run([sys.executable, *more, script, "--seed", "3"], env=variables, check=True)
    return truth_stamps.read_logs(log)


def test_a_script_stores_what_the_benchmark_reads(tmp_path):
    before = time.monotonic()
    ((slot, (found,)),) = stored(tmp_path).items()
    after = time.monotonic()
    assert slot == 3
    assert found.plain
    first, second = found.iterations
    (period,) = found.periods
    # The kernel tells when a process began in ticks of 10 ms.
    assert before - 0.02 < found.began < first <= second <= period <= found.ended <= after


def test_a_script_that_another_program_runs_is_not_plain(tmp_path):
    within = "import runpy, sys; sys.argv.pop(0); runpy.run_path(sys.argv[0])"
    ((_, (found,)),) = stored(tmp_path, "-c", within).items()
    assert not found.plain
    assert len(found.iterations) == 2


def test_nothing_is_stored_without_a_folder():
    counting.iteration()
    counting.period()


# Windows


def test_a_window_holds_the_iterations_whose_stamps_follow_its_edges():
    # Stamps come 0.1 ms after the steps' ends; the script rests from 2 to 5 s.
    stamps = [*np.arange(1, 2, 0.01), *np.arange(5, 6, 0.01)]
    found = truth_stamps.stretch([log(iterations=np.add(stamps, 1e-4))], 5.2, 5.7)
    assert len(found.times) == 50
    assert found.times.sum() == pytest.approx(0.5)
    assert not found.ends_period.any()
    with pytest.raises(ValueError, match="no iteration after a window"):
        truth_stamps.stretch([log(iterations=stamps)], 5.2, 6.1)


def test_a_rate_holds_whole_periods_though_windows_do_not():
    # Ten iterations of 0.1 s, then a phase of 1 s: 10 iterations in 2 s.
    ends = np.concatenate([2 * period + np.arange(1, 11) / 10 for period in range(20)])
    process = log(iterations=ends, periods=np.arange(1, 20) * 2.0 - 0.01)
    assert truth_stamps.period({0: [process]}) == 10
    with_phases = truth_stamps.stretch([process], 1.5, 4.5)
    without = truth_stamps.stretch([process], 6.2, 6.8)
    last_s = truth_stamps.mean_last_s([with_phases, without])
    assert last_s == pytest.approx(1.1)
    assert np.isnan(truth_stamps.mean_last_s([without]))
    for own in ([with_phases], [without], [with_phases, without]):
        assert truth_stamps.rate(own, last_s, 10) == pytest.approx(5)
    assert truth_stamps.rate([without], np.nan, np.nan) == pytest.approx(10)


# Whole processes


def test_whole_processes_are_counted_from_the_first_start_to_that_of_the_cut_one():
    ended = [log(10.0, 13.8), log(14.0, 17.9)]
    assert truth_stamps.slot_turn([*ended, log(18.0)]) == (2, pytest.approx(8))
    # The cut one had not reached its first line.
    assert truth_stamps.slot_turn(ended) == (2, pytest.approx(17.9 + 0.2 - 10))
    assert truth_stamps.slot_turn(ended[:1]) == (1, pytest.approx(np.nan, nan_ok=True))
    assert truth_stamps.slot_turn([log(10.0)])[0] == 0


def test_logs_belong_to_the_round_in_which_their_processes_began():
    first, second = (
        record([queue(slot, [TYPICAL] * 2, cut_s) for slot in (0, 1)], cut_s) for cut_s in (10, 5)
    )
    logs = {0: [log(100.0), log(108.0), log(111.5)], 1: [log(100.1), log(111.6), log(115.0)]}
    found = truth_stamps.rounds_of([first, second], logs)
    assert found == [{0: logs[0][:2], 1: logs[1][:1]}, {0: logs[0][2:], 1: logs[1][1:]}]


# Cells of a ledger


@pytest.mark.parametrize(
    ("low", "value", "high", "expected"),
    [
        (0.995, 1.00, 1.005, truth_table.OK),
        (0.96, 0.965, 0.975, truth_table.FAIL),
        (1.04, 1.045, 1.05, truth_table.FAIL),
        (0.985, 1.00, 1.015, truth_table.COARSE),
        (None, 1.00, None, truth_table.COARSE),
        (None, np.nan, None, truth_table.NONE),
    ],
)
def test_a_cell_is_true_if_its_interval_is_narrow_and_within_the_range(low, value, high, expected):
    found = truth_table.Cell("gan", 1, 1, (1, 1), (1.0, 1.0), Interval(value, low, high), None, ())
    assert found.verdict == expected


def study_entry(rates, row="gan", n=1):
    found = {"n": n, "windows": 12, "counts": [300, 299], "rates": rates}
    return {"row": row, **DONE, **found}


FAILED = {"row": "gan", "n": 1, **DONE, "status": "failed", "reason": "disk full"}


def test_a_cell_is_made_of_all_starts_of_all_studies():
    entries = [
        study_entry([[200.0, 100.0], [202.0, 101.0]]),
        study_entry([[100.0, 50.0]]),
        study_entry([[320.0, 77.0]], n=2),
        study_entry([[320.0, 77.0]], row="plain"),
        {"row": "gan", **DONE, "ratios": [1.0, 1.01, 1.02] * 10},
    ]
    found = truth_table.cell(entries, "gan", 1)
    assert (found.windows, found.counts, found.verdict) == (24, (600, 598), truth_table.FAIL)
    assert (found.ratio.low, found.ratio.high) == (pytest.approx(2), pytest.approx(2))
    assert found.cost.low <= found.cost.value == 1.01 <= found.cost.high
    assert truth_table.cell(entries, "gan", 2).cost is None


def test_a_study_without_a_number_is_no_truth():
    found = truth_table.cell([FAILED], "gan", 1)
    text = truth_table.markdown([found], ["plain"], ["a machine"])
    assert truth_table.NONE in text
    assert "- 0 of 1 cells are true.\n- Runs of older code: plain.\n- On a machine." in text
    assert "- gan, n = 1: disk full" in text


def test_the_newest_code_counts_and_failures_only_where_nothing_else_does():
    old, new = study_entry([]) | {"code": "b"}, study_entry([])
    assert truth.newest([old, FAILED]) == [FAILED]
    assert truth.newest([old, FAILED, new]) == [new]


# The rows and their studies


@pytest.mark.parametrize("name", ROWS)
def test_a_rows_study_has_default_settings(name, tmp_path):
    for counts in ROWS[name].studies((1, 2)):
        plan = planned(truth_runs.config(name, counts, tmp_path))
        assert [*plan.processes] == counts
        assert plan.measure.replicates == truth_runs.REPLICATES
        assert not plan.profiled
        assert not plan.explained
        baseline = next(one for one in plan.launches if one.id == plan.baseline)
        assert baseline.axes["intra_op"] == 1
        assert plan.workload.steps_per_model == ROWS[name].steps
