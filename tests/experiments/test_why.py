"""Experiments on real members: side by side, verified, and gone when they are over."""

import os
import signal
import statistics
import subprocess

import pytest

from jobs import WORKLOADS, config, environment, left_behind, processes, succeed, why_command
from processes import wait_until
from scaling_study.config import efforts
from scaling_study.experiments import why
from scaling_study.experiments.conditions import key
from scaling_study.experiments.interventions import INTERVENTIONS
from scaling_study.records import codec, experiment

STAGE = "scaling_study why"


@pytest.mark.parametrize(
    ("counts", "knee", "expected"),
    [
        ([1, 2, 4, 8, 16], None, 16),
        ([1, 2, 4, 8, 16], 4.0, 8),
        ([1, 2, 4, 8, 16], 12.0, 16),
        ([1], 0.5, 1),
    ],
)
def test_the_count_to_explain_is_well_past_the_knee_or_the_last(counts, knee, expected):
    assert why.reference_count(counts, knee) == expected


def run(mapping, folder):
    """Do the experiments of a config; return their records."""
    succeed(why_command(mapping, folder), folder)
    assert left_behind(folder) == []
    return [record for _, record in codec.read(folder / "0.jsonl", experiment.DECODER)]


def of(records, kind, **wanted):
    return [
        record
        for record in records
        if isinstance(record, kind) and all(getattr(record, key) == wanted[key] for key in wanted)
    ]


def median_s(records, value, **wanted):
    """Median over members of windows, so that one disturbed window decides nothing."""
    windows = of(records, experiment.ExperimentWindow, **wanted)
    return statistics.median(value(member) for one in windows for member in one.members)


def step_s(member):
    return statistics.fmean(member.step_us) / 1e6


@pytest.mark.long
def test_every_cohort_is_proved_and_an_injected_loader_is_found(tmp_path):
    records = run(config(WORKLOADS / "slow_loader.py"), tmp_path)
    head = records[0]
    assert (head.n, head.effort) == (2, "quick")
    names = [one.intervention for one in head.interventions]
    assert "cached_batches" in names
    assert "passive" in [one.intervention for one in head.not_applicable]
    # The data set gives no list of rows.
    assert [one.intervention for one in of(records, experiment.ChangeLeftOut)] == ["whole_batches"]
    proved = {one.cohort: one for one in of(records, experiment.ExperimentReadbacks)}
    assert set(proved) == {"reference", *names} - {"whole_batches"}
    changes = {intervention.name: [*intervention.change] for intervention in INTERVENTIONS}
    for name, one in proved.items():
        assert all(check.ok for check in one.checks), one.checks
        for member in one.members:
            held = [change for change, holds in member.changes.items() if holds]
            assert held == changes.get(name, [])
    assert records[-1].status == "complete", records[-1]
    reference_s = median_s(records, step_s, name="reference", n=1)
    cached_s = median_s(records, step_s, name="cached_batches", n=1)
    assert reference_s - cached_s > 0.003  # of the 4 ms that were injected
    assert median_s(records, step_s, name="pinned", n=1) > 0.004


@pytest.mark.long
def test_one_cohort_trains_without_its_loader_and_beside_all_of_its_work(tmp_path):
    args = ["torch", "--workers", "1"]
    records = run(config(WORKLOADS / "feeds.py", args=args, processes=[1]), tmp_path)
    names = {one.cohort for one in of(records, experiment.ExperimentReadbacks)}
    assert "cached_batches" in names
    assert "loader_beside" not in names

    def waited_s(name):
        assert len(of(records, experiment.ExperimentWindow, name=name, n=1)) >= records[0].blocks
        return median_s(records, lambda one: one.load_s / one.steps, name=name, n=1)

    assert waited_s("cached_batches") < 0.001
    assert waited_s("loader_beside") > 0.002  # of the 4 ms that a batch takes


@pytest.mark.long
def test_an_interrupted_job_leaves_nothing_behind_and_goes_on(tmp_path):
    mapping = config(WORKLOADS / "plain_loop.py", args=["--every", "30", "--phase-s", "0.06"])
    quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    command = why_command(mapping, tmp_path)
    process = subprocess.Popen(command, env=environment(tmp_path), **quiet)
    part = tmp_path / "0.jsonl.part"
    wait_until(lambda: part.exists() and part.read_text().count('"window"') >= 3, "windows")
    (coordinator,) = [pid for pid in processes(tmp_path, STAGE) if pid != process.pid]
    os.kill(coordinator, signal.SIGKILL)
    assert process.wait(timeout=120) != 0
    wait_until(lambda: not processes(tmp_path), "the end of all processes")
    assert not (tmp_path / "0.jsonl").exists()
    assert left_behind(tmp_path) == []
    kept = part.read_bytes()
    records = run(mapping, tmp_path)
    whole = (tmp_path / "0.jsonl").read_bytes()
    assert whole.startswith(kept[: kept.rfind(b"\n") + 1])  # it went on after what was there
    assert len(of(records, experiment.WhyHead)) == len(of(records, experiment.ExperimentEnd)) == 1
    taken = [key(window) for window in of(records, experiment.ExperimentWindow, attempt=0)]
    assert len(taken) == len(set(taken))
    assert records[-1].status == "complete"
    # Windows hold many of the rare long steps, after the interruption too.
    assert (records[0].shortest_s, records[0].blocks) == (why.PERIODS_S, efforts.FEWEST_BLOCKS)
    assert {
        window.block for window in of(records, experiment.ExperimentWindow, name="reference")
    } == {*range(5)}
    assert (
        min(window.window_s for window in of(records, experiment.ExperimentWindow))
        > 0.9 * why.PERIODS_S
    )
    assert median_s(records, step_s, name="reference") > 0.002
