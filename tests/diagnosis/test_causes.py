import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from injected_worlds import (
    CostlySleep,
    Faults,
    Oversubscribed,
    RowByRow,
    SlowWorker,
    Spinning,
    TakingTurns,
    TwoModes,
)
from made_records import made_plan
from scaling_study import stages
from scaling_study.common.storage import read_json, read_table, write_json
from scaling_study.diagnosis import cause_file, verdict
from scaling_study.diagnosis.causes.cause_table import CAUSES
from scaling_study.records.codec import RecordError
from scaling_study.records.columns import EXPERIMENTS
from synthetic_why import MS, Step, World, microbenchmarks, write_run

ROOT = Path(__file__).parents[2]
KNEE = {"value": 2.0, "low": 1.5, "high": 2.5, "boundary": None}
WANTED = {
    *("cpu_oversubscription", "spinning", "too_many_threads", "affinity_pileup", "cpu_quota"),
    *("cpuset", "smt", "last_level_cache", "memory_bandwidth", "remote_memory", "numa_balancing"),
    *("page_faults", "thp", "swap", "migrations", "steal", "foreign_load", "frequency"),
    *("slow_blas", "denormals", "data_loading", "interpreter", "helper_threads"),
    *("lock_contention", "file_io", "pauses", "stopped", "communication", "imbalance"),
    *("compilation", "loader_starts", "loader_interference", "loader_snapshots"),
    *("loader_storage", "loader_preparation", "too_few_workers", "loader_rows"),
    *("loader_copies", "loader_lock", "shell"),
}


def test_every_cause_is_an_entry_with_all_its_texts():
    assert {cause.id for cause in CAUSES} == WANTED
    for cause in CAUSES:
        assert cause.ways("scaling_loss") or cause.ways("single_process_loss")
        for text in (cause.title, cause.plain, cause.looks, cause.source, cause.remedy):
            assert text.strip()
            assert "  " not in text
        # The plain words stand after a colon and before a full stop.
        assert cause.plain[0].islower()
        assert not cause.plain.endswith(".")
        assert "run queue" not in cause.plain


def diagnose(folder, world, seed=3, **options):
    rng = np.random.default_rng(seed)
    path = write_run(folder / "0.jsonl", world, rng, **options)
    return verdict.diagnose([path], microbenchmarks(world, rng), KNEE)


def test_a_target_has_all_that_the_report_needs(tmp_path):
    target = diagnose(tmp_path, Spinning())
    assert target["status"] == "explained"
    assert target["units"] == "blocks"
    assert target["unit_count"] == 6
    assert 0.02 <= target["start_sd"] < 0.05
    assert target["knee"] == KNEE
    assert 9 < target["growth_ratio"]["value"] < 11
    growth = target["scaling_loss"]
    listed = [
        entry["cause"]
        for name in ("named", "ruled_out", "inconclusive", "not_tested")
        for entry in growth[name]
    ]
    assert sorted(listed) == sorted(cause.id for cause in CAUSES if cause.ways("scaling_loss"))
    assert growth["explained_share"]["value"] + growth["unexplained_share"][
        "value"
    ] == pytest.approx(1)
    found = growth["named"][0]
    assert {one["kind"] for one in found["for"]} == {"intervention", "fact"}
    assert found["remedy"]["axes"] == {"intra_op": 1}
    assert "intra_op: 1" in found["remedy"]["config"]
    assert "OMP_NUM_THREADS=1" in found["remedy"]["command"]
    assert {one["intervention"] for one in target["interventions"]} == {
        *Spinning().interventions,
        "spread",
    }
    spread = next(one for one in target["interventions"] if one["intervention"] == "spread")
    assert spread["status"] == "not_applicable"
    assert spread["reason"] == "only one last-level cache"


def test_of_two_ways_out_the_faster_one_is_the_remedy(tmp_path):
    class SleepingIsBest(Spinning):
        def step(self, intervention, n):
            slower = 2.0 if intervention == "one_thread" else 1.0
            step = Spinning.step(self, intervention, n)
            return dataclasses.replace(step, user=step.user * slower)

    (found,) = diagnose(tmp_path, SleepingIsBest())["scaling_loss"]["named"]
    assert found["remedy"]["axes"] == {"wait_policy": "passive"}
    assert found["remedy"]["config"].count("wait_policy: passive") == 1
    assert "OMP_WAIT_POLICY=PASSIVE" in found["remedy"]["command"]
    assert found["remedy"]["text"].startswith("Let waiting threads sleep")


@pytest.mark.parametrize("gain", [0.5, 0.995])
def test_what_batches_from_memory_show_is_mended_by_a_launch_that_was_faster(tmp_path, gain):
    class Apart(SlowWorker):
        def step(self, intervention, n):
            if intervention != "more_workers":
                return SlowWorker.step(self, intervention, n)
            step = SlowWorker.step(self, "reference", n)
            return dataclasses.replace(step, load=step.load * gain, blocked=step.blocked * gain)

    (found,) = diagnose(tmp_path, Apart())["single_process_loss"]["named"]
    faster = gain < 0.98
    assert found["cause"] == "loader_storage"
    assert found["remedy"]["axes"] == ({"loader_workers": 1} if faster else None)
    assert found["remedy"]["text"].startswith("Let more processes wait" if faster else "Keep the")


def test_what_waking_threads_costs_is_no_part_of_what_spinning_took(tmp_path):
    """One thread needs no waking, and brings that part back too."""
    growth = diagnose(tmp_path, CostlySleep())["scaling_loss"]
    (found,) = growth["named"]
    assert found["cause"] == "spinning"
    assert found["share"]["value"] > 0.92
    assert "too_many_threads" in {one["cause"] for one in growth["ruled_out"]}
    assert found["remedy"]["axes"] == {"intra_op": 1}


def test_sleep_that_makes_one_process_as_slow_as_many_shows_no_spinning(tmp_path):
    """Nothing else brings that time back either."""

    class NoWayOut(CostlySleep):
        def step(self, intervention, n):
            if intervention in {"passive", "one_thread", "pinned"}:
                return Step(user=100 * MS, helper_s=6 * MS)
            return CostlySleep.step(self, intervention, n)

    target = diagnose(tmp_path, NoWayOut())
    (intervention,) = [one for one in target["interventions"] if one["intervention"] == "passive"]
    assert intervention["scaling_loss"]["value"] > 0.9
    assert "spinning" not in {one["cause"] for one in target["scaling_loss"]["named"]}


def test_taking_turns_is_worth_what_fewer_members_bring_back(tmp_path):
    target = diagnose(tmp_path, TakingTurns())
    (found,) = target["scaling_loss"]["named"]
    assert found["cause"] == "cpu_oversubscription"
    assert found["share"]["value"] > 0.95
    assert {one["kind"] for one in found["for"]} == {"intervention", "fact", "account"}
    waited = next(one for one in target["accounts"] if one["account"] == "runqueue")
    assert waited["share"] < 0.9  # the rest is user time: caches that others have filled


def test_a_launch_with_two_modes_is_explained_though_its_blocks_differ(tmp_path):
    target = diagnose(tmp_path, TwoModes(), blocks=10)
    assert target["growth_ratio"]["high"] > 2 * target["growth_ratio"]["low"]
    found = target["scaling_loss"]["named"][0]
    assert found["cause"] == "spinning"
    assert found["share"]["low"] > 0.6


def test_the_step_times_divide_to_the_growth_where_windows_were_lost(tmp_path):
    path = write_run(tmp_path / "0.jsonl", TwoModes(), np.random.default_rng(3), blocks=10)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for window in records:
        if (window.get("name"), window.get("n")) == ("reference", 2) and window["block"] < 3:
            window.update(valid=False, flags=["few_steps"])
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    target = verdict.diagnose([path], None, None)
    assert target["unit_count"] == 7
    ratio = target["step_n_s"]["value"] / target["step_1_s"]["value"]
    assert target["growth_ratio"]["value"] == pytest.approx(ratio)


def test_accounts_add_up_to_the_added_time(tmp_path):
    target = diagnose(tmp_path, Oversubscribed(), noise=0.0)
    assert sum(one["share"] for one in target["accounts"]) == pytest.approx(1, abs=0.01)
    assert sum(one["low_s"] for one in target["accounts"]) == pytest.approx(
        target["step_1_s"]["value"], rel=0.01
    )


def test_the_summary_needs_no_word_of_the_trade(tmp_path):
    text = diagnose(tmp_path, Spinning())["summary"]
    assert "10" in text
    for word in ("run queue", "OpenMP", "schedstat", "cgroup", "n ="):
        assert word not in text.partition("First step")[0]


def test_a_remedy_that_makes_nothing_faster_is_no_cause(tmp_path):
    """One thread removes the growth of threads that share the work well, and helps nobody."""
    from injected_worlds import Threaded

    target = diagnose(tmp_path, Threaded())
    intervention = next(
        one for one in target["interventions"] if one["intervention"] == "one_thread"
    )
    assert intervention["scaling_loss"]["value"] > 0.8
    assert abs(intervention["comes_back"]["value"]) < 0.2
    assert [one["cause"] for one in target["scaling_loss"]["named"]] == ["cpu_oversubscription"]


def test_dask_is_named_where_it_is_the_launcher(tmp_path):
    target = diagnose(tmp_path, Faults(axes={"launcher": "dask"}))
    found = target["single_process_loss"]["named"][0]
    assert found["cause"] == "page_faults"
    assert any("Dask" in one["text"] for one in found["for"])


def test_three_starts_are_the_units(tmp_path):
    rng = np.random.default_rng(3)
    world = Oversubscribed()
    paths = [
        write_run(tmp_path / f"{at}.jsonl", world, rng, replicate=at, start=0.02, effort="full")
        for at in range(3)
    ]
    target = verdict.diagnose(paths, None, None)
    assert (target["units"], target["unit_count"]) == ("replicates", 3)
    assert target["start_sd"] is None
    assert target["scaling_loss"]["named"][0]["cause"] == "cpu_oversubscription"
    assert target["microbenchmarks"] == []


def edit(path, change):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one) + "\n" for one in change(records)))


def test_a_job_that_was_cut_off_still_gives_what_it_measured(tmp_path):
    path = write_run(tmp_path / "0.jsonl", Oversubscribed(), np.random.default_rng(3))
    edit(path, lambda records: [one for one in records if one["kind"] not in {"end", "samples"}])
    target = verdict.diagnose([path], None, None)
    assert target["status"] == "explained"
    assert "cut off" in target["reason"]


def test_a_job_without_windows_failed_with_its_reason(tmp_path):
    path = write_run(tmp_path / "0.jsonl", World(), np.random.default_rng(3))

    def fail(records):
        head, end = records[0], records[-1]
        return [head, end | {"status": "failed", "reason": "no module named torch"}]

    edit(path, fail)
    target = verdict.diagnose([path], None, None)
    assert target["status"] == "failed"
    assert target["reason"] == "no module named torch"
    assert target["scaling_loss"]["named"] == []
    json.dumps(target, allow_nan=False)


def test_the_same_launch_is_judged_once(tmp_path):
    path = write_run(tmp_path / "0.jsonl", World(), np.random.default_rng(3))
    edit(path, lambda records: [records[0] | {"same_as": "default-44136f"}, records[-1]])
    target = verdict.diagnose([path], None, None)
    assert (target["status"], target["same_as"]) == ("skipped", "default-44136f")


def test_one_block_is_no_verdict(tmp_path):
    target = diagnose(tmp_path, Oversubscribed(), blocks=1)
    assert target["status"] == "inconclusive"


def test_a_intervention_that_failed_says_so(tmp_path):
    path = write_run(tmp_path / "0.jsonl", Spinning(), np.random.default_rng(3))

    def fail(records):
        kept = [one for one in records if one.get("name") != "passive"]
        return [
            *kept,
            {"kind": "intervention_failed", "intervention": "passive", "reason": "libomp is there"},
        ]

    edit(path, fail)
    target = verdict.diagnose([path], None, None)
    intervention = next(one for one in target["interventions"] if one["intervention"] == "passive")
    assert (intervention["status"], intervention["reason"]) == ("failed", "libomp is there")
    untested = {one["cause"]: one["reason"] for one in target["scaling_loss"]["not_tested"]}
    assert untested["spinning"] == "libomp is there"
    # What is left is seen by the more general cause.
    assert target["scaling_loss"]["named"][0]["cause"] == "too_many_threads"


def test_a_intervention_that_cannot_be_made_in_this_script_does_not_apply(tmp_path):
    path = write_run(tmp_path / "0.jsonl", RowByRow(), np.random.default_rng(3))
    reason = "the data set gives single rows only"

    def leave_out(records):
        kept = [one for one in records if one.get("name") != "whole_batches"]
        return [
            *kept,
            {"kind": "intervention_left_out", "intervention": "whole_batches", "reason": reason},
        ]

    edit(path, leave_out)
    target = verdict.diagnose([path], None, None)
    intervention = next(
        one for one in target["interventions"] if one["intervention"] == "whole_batches"
    )
    assert (intervention["status"], intervention["reason"]) == ("not_applicable", reason)
    untested = {one["cause"]: one["reason"] for one in target["single_process_loss"]["not_tested"]}
    assert untested["loader_rows"] == reason
    assert target["single_process_loss"]["named"][0]["cause"] == "too_few_workers"


def study(folder, world=None):
    rng = np.random.default_rng(3)
    world = world or Oversubscribed()
    path = write_run(folder / "why/default-44136f/0.jsonl", world, rng)
    write_json(folder / "microbenchmarks.json", microbenchmarks(world, rng))
    return path


def test_the_stage_writes_table_and_verdicts(tmp_path, capsys):
    study(tmp_path)
    plan = made_plan({}, explained={"default-44136f": "default"})
    stages.judge_experiments(tmp_path, plan)
    assert "More work than CPUs" in capsys.readouterr().out
    content = read_json(tmp_path / "analysis/causes.json")
    (machine,) = content["machines"]
    assert machine["targets"][0]["microbenchmarks"]
    assert len(read_table(tmp_path / "tables", EXPERIMENTS)) > 100


def test_without_experiments_there_are_no_targets(tmp_path):
    table, content = cause_file.gather([], tmp_path, None)
    assert table.empty
    assert content == {"schema_version": 1, "machines": []}


def test_replicates_of_different_workloads_are_not_pooled(tmp_path):
    first = study(tmp_path)
    second = write_run(first.with_name("1.jsonl"), Oversubscribed(), np.random.default_rng(4))
    edit(second, lambda records: [records[0] | {"measured_hash": "other"}, *records[1:]])
    with pytest.raises(RecordError, match="changed"):
        cause_file.gather([first, second], tmp_path, None)


def test_a_microbenchmark_of_another_machine_is_not_used(tmp_path):
    path = study(tmp_path)
    other = read_json(tmp_path / "microbenchmarks.json") | {"machine": "another"}
    write_json(tmp_path / "microbenchmarks.json", other)
    _, content = cause_file.gather([path], tmp_path, tmp_path / "microbenchmarks.json")
    assert content["machines"][0]["targets"][0]["microbenchmarks"] == []


def test_a_microbenchmark_of_a_disturbed_machine_is_no_evidence(tmp_path):
    rng = np.random.default_rng(3)
    path = write_run(tmp_path / "0.jsonl", World(), rng)
    disturbed = microbenchmarks(World(), rng)
    for row in disturbed["rows"]:
        row["valid"] = False
    assert verdict.diagnose([path], disturbed, None)["microbenchmarks"] == []
