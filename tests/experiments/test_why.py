"""Experiments on real members: side by side, verified, and gone when they are over."""

import json
import os
import signal
import statistics
import subprocess
import time

import pytest

from jobs import WORKLOADS, config, environment, processes, why_command
from scaling_study.config import efforts
from scaling_study.experiments import why
from scaling_study.experiments.blocks import key
from scaling_study.experiments.interventions import INTERVENTIONS

STAGE = "scaling_study why"


def test_the_count_to_explain_is_well_past_the_knee_or_the_last():
    assert why.reference_count([1, 2, 4, 8, 16], None) == 16
    assert why.reference_count([1, 2, 4, 8, 16], 4.0) == 8
    assert why.reference_count([1, 2, 4, 8, 16], 12.0) == 16
    assert why.reference_count([1], 0.5) == 1


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("why")
    done = subprocess.run(
        why_command(config(WORKLOADS / "slow_loader.py"), folder),
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert processes(folder) == []
    assert [path.name for path in folder.glob("scaling-study-*")] == []
    return [json.loads(line) for line in (folder / "0.jsonl").read_text().splitlines()]


def of(records, kind, **wanted):
    return [
        record
        for record in records
        if record["kind"] == kind and all(record[key] == wanted[key] for key in wanted)
    ]


def step_s(windows):
    """Median over windows, so that one disturbed window decides nothing."""
    return statistics.median(
        statistics.fmean(member["step_us"]) / 1e6
        for window in windows
        for member in window["members"]
        if member["step_us"]
    )


@pytest.mark.long
def test_what_is_tried_stands_first_and_every_cohort_is_proved(records):
    head = records[0]
    assert (head["kind"], head["n"], head["effort"]) == ("why", 2, "quick")
    names = [one["intervention"] for one in head["interventions"]]
    assert "cached_batches" in names
    assert "passive" in [one["intervention"] for one in head["not_applicable"]]
    # The data set gives no list of rows.
    left_out = [record["intervention"] for record in of(records, "intervention_left_out")]
    assert left_out == ["whole_batches"]
    proved = {record["cohort"]: record for record in of(records, "readback")}
    assert set(proved) == {"reference", *names} - {*left_out}
    changes = {intervention.name: intervention.change for intervention in INTERVENTIONS}
    for name, record in proved.items():
        assert all(check["ok"] for check in record["checks"]), record["checks"]
        for member in record["members"]:
            held = [change for change, holds in member["changes"].items() if holds]
            assert held == ([changes[name]] if changes.get(name) else [])
    assert records[-1]["kind"] == "end"
    assert records[-1]["status"] == "complete", records[-1]


@pytest.mark.long
def test_reference_and_interventions_share_every_block(records):
    left_out = {record["intervention"] for record in of(records, "intervention_left_out")}
    names = {"reference", *(one["intervention"] for one in records[0]["interventions"])} - left_out
    blocks = records[0]["blocks"]
    assert efforts.FEWEST_BLOCKS <= blocks <= efforts.EFFORTS["quick"].blocks
    first_attempts = [window for window in of(records, "window", attempt=0)
                   if window["experiment"] != "stressor"]  # fmt: skip
    taken = [(one["block"], one["name"], one["n"]) for one in first_attempts]
    # What slows one process as much as many is tried with one only.
    alone = {intervention.name for intervention in INTERVENTIONS if intervention.alone}
    assert alone & names
    counts = {name: (1,) if name in alone else (1, 2) for name in names}
    expected = {(block, name, n) for block in range(blocks) for name in names for n in counts[name]}
    assert len(taken) == len(expected)
    assert set(taken) == expected
    turns = {name: {} for name in names}
    for one in first_attempts:
        if one["n"] == 1:
            turns[one["name"]][one["block"]] = one["members"][0]["slot"]
    for name, slots in turns.items():
        members = 1 if name in alone else 2
        assert slots == {block: block % members for block in range(blocks)}
    orders = {tuple(one[1:] for one in taken if one[0] == block) for block in range(blocks)}
    assert len(orders) > 1  # shuffled anew in every block


@pytest.mark.long
def test_the_intervention_of_the_injected_loader_brings_its_time_back(records):
    reference = of(records, "window", name="reference", n=1)
    cached = of(records, "window", name="cached_batches", n=1)
    assert step_s(reference) - step_s(cached) > 0.003  # of the 4 ms that were injected
    pinned = of(records, "window", name="pinned", n=1)
    assert step_s(pinned) > 0.004


@pytest.mark.long
def test_one_cohort_trains_without_its_loader_and_beside_all_of_its_work(tmp_path):
    mapping = config(WORKLOADS / "feeds.py", args=["torch", "--workers", "1"], processes=[1])
    done = subprocess.run(
        why_command(mapping, tmp_path), env=environment(tmp_path), check=False, text=True,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(line) for line in (tmp_path / "0.jsonl").read_text().splitlines()]
    names = {record["cohort"] for record in of(records, "readback")}
    assert "cached_batches" in names
    assert "loader_beside" not in names
    waited_s = {}
    for name in ("cached_batches", "loader_beside"):
        windows = of(records, "window", name=name, n=1)
        assert len(windows) >= records[0]["blocks"]
        members = [member for one in windows for member in one["members"]]
        waited_s[name] = statistics.median(one["load_s"] / one["steps"] for one in members)
    assert waited_s["cached_batches"] < 0.001
    assert waited_s["loader_beside"] > 0.002  # of the 4 ms that a batch takes


@pytest.mark.long
def test_stressors_are_given_at_every_dose_and_checked(records):
    effort = efforts.EFFORTS["quick"]
    windows = of(records, "window", experiment="stressor")
    doses = {(window["name"], round(window["dose"], 2)) for window in windows}
    assert doses == {
        ("none", 0.0),
        *((kernel, round(dose, 2)) for kernel in effort.kernels for dose in effort.doses),
    }
    for window in windows:
        assert (window["n"], window["count"]) == (1, 1)
        assert (window["rate_share"] is None) == (window["name"] == "none")
    shares = [window["rate_share"] for window in windows if window["name"] == "register"]
    assert statistics.median(shares) > 0.3


@pytest.mark.long
def test_what_members_wait_for_is_seen(records):
    alone, both = of(records, "samples")
    assert (alone["n"], both["n"]) == (1, 2)
    assert [member["slot"] for member in both["members"]] == [0, 1]
    (member,) = alone["members"]
    assert member["samples"] == why.LOOKS
    assert any(wait["syscall"] == "clock_nanosleep" for wait in member["waits"]), member


@pytest.mark.long
def test_an_interrupted_job_leaves_nothing_behind_and_goes_on(tmp_path):
    mapping = config(WORKLOADS / "rarely_slow.py")
    process = subprocess.Popen(
        why_command(mapping, tmp_path),
        env=environment(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    part = tmp_path / "0.jsonl.part"
    deadline_s = time.monotonic() + 120
    while not part.exists() or part.read_text().count('"window"') < 3:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    (coordinator,) = [pid for pid in processes(tmp_path, STAGE) if pid != process.pid]
    os.kill(coordinator, signal.SIGKILL)
    assert process.wait(timeout=120) != 0
    deadline_s = time.monotonic() + 120
    while processes(tmp_path):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    assert not (tmp_path / "0.jsonl").exists()
    assert list(tmp_path.glob("scaling-study-*")) == []
    kept = part.read_bytes()
    done = subprocess.run(why_command(mapping, tmp_path), env=environment(tmp_path), check=False)
    assert done.returncode == 0
    whole = (tmp_path / "0.jsonl").read_bytes()
    assert whole.startswith(kept[: kept.rfind(b"\n") + 1])  # it went on after what was there
    records = [json.loads(line) for line in whole.splitlines()]
    assert len(of(records, "why")) == 1
    taken = [key(window) for window in of(records, "window", attempt=0)]
    assert len(taken) == len(set(taken))
    assert records[-1]["status"] == "complete"
    # Windows hold many of the rare long steps, after the interruption too.
    assert records[0]["shortest_s"] == why.PERIODS_S
    assert records[0]["blocks"] == efforts.FEWEST_BLOCKS
    assert {window["block"] for window in of(records, "window", name="reference")} == {*range(5)}
    assert min(window["window_s"] for window in of(records, "window")) > 0.9 * why.PERIODS_S
    assert step_s(of(records, "window", name="reference")) > 0.002


@pytest.mark.long
def test_a_launch_that_may_spin_takes_many_windows_however_irregular(tmp_path):
    mapping = config(WORKLOADS / "rarely_slow.py", launch={"intra_op": 2})
    done = subprocess.run(why_command(mapping, tmp_path), env=environment(tmp_path), check=False)
    assert done.returncode == 0
    head = json.loads((tmp_path / "0.jsonl").read_text().splitlines()[0])
    assert "passive" in {one["intervention"] for one in head["interventions"]}
    assert head["shortest_s"] == efforts.EFFORTS["quick"].shortest_s
    assert head["blocks"] >= efforts.FEWEST_BLOCKS
