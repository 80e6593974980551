"""Whole studies through profiles/slurm on a real SLURM, with all that happens on clusters."""

import json
import signal
from datetime import datetime
from itertools import pairwise

import pytest

from cluster import command, wait_until
from launch_scripts import plan, recommendation, slot, write
from made_records import read_lines
from scaling_study.report.launch_script import render_array_job
from slurm_study import NAME, PATIENCE_S, Study, assert_kept, config

pytestmark = pytest.mark.slurm

# Three windows of a second for each process count and launch: time enough to interrupt them.
LONG = {**config()["measure"], "replicates": 1, "windows": 3, "window_s": [1.0, 3.0]}


@pytest.fixture
def study(tmp_path, slurm):
    one = Study(tmp_path / 'a "project" $(touch injected) of our own', slurm)
    yield one
    one.close()
    assert not list(tmp_path.rglob("injected"))


def spans(study):
    """When each cohort began and ended, in seconds, in the order of their beginning."""
    found = []
    for path in study.records(NAME):
        head, *_, end = read_lines(study.folder / path)
        began_s = datetime.fromisoformat(head["started"]).timestamp()
        found.append((began_s, began_s + end["wall_s"]))
    return sorted(found)


def test_a_whole_study(study, slurm):
    """Whole nodes for what measures, the rest here; groups in series; a second run does nothing."""
    study.take_every_window()
    study.configure(config(profile={"effort": "quick", "launches": ["default"]}))
    assert "Report: reports/small.html" in study.succeeds()
    assert (study.folder / "reports/small.html").stat().st_size > 20_000
    jobs = study.jobs()
    # Six measurements in two allocations, one for each replicate; no job of another rule.
    assert sorted(job["Comment"] for job in jobs) == [
        "rule_profiles_profile",
        "rule_replicate-0_measure_probe",
        "rule_replicate-1_measure",
    ]
    for job in jobs:
        assert job["JobState"] == "COMPLETED"
        assert job["OverSubscribe"] == "NO", "exclusive"
        assert job["NumNodes"] == "1"
        assert "ArrayJobId" not in job
    cpus = slurm.cpus()
    assert {int(job["NumCPUs"]) for job in jobs} == {cpus}
    heads = [read_lines(study.folder / path)[0] for path in study.records(NAME)]
    assert len(heads) == 6
    assert {head["machine"]["allowed_cpus"] for head in heads} == {f"0-{cpus - 1}"}
    # A beginning is recorded in whole seconds.
    cohorts = spans(study)
    assert all(ended_s - began_s > 2 for began_s, ended_s in cohorts)
    assert all(after[0] >= before[1] - 1 for before, after in pairwise(cohorts))
    known = len(jobs)
    assert "Nothing to be done" in study.succeeds()
    assert len(study.jobs()) == known


def test_a_race_spreads_over_the_nodes(study):
    """Each round is an allocation for each node; every node measures what all are compared with."""
    launches = {"baseline": {"intra_op": 1}, "one_change": {
        "wait_policy": ["passive"], "inter_op": [1], "huge_pages": ["always"],
        "allocator": ["glibc-large-thresholds"], "placement": ["cores", "compact"],
    }}  # fmt: skip
    search = {"budget_minutes": 4, "nodes": 2, "tolerance": 0.2, "confidence": 0.5}
    study.take_every_window()
    study.configure(config(launches=launches, search=search, processes=[1]))
    assert "Report: reports/small.html" in study.succeeds()
    heads = [read_lines(study.folder / path)[0] for path in study.records(NAME)]
    measured = {}
    for head in heads:
        measured.setdefault(tuple(head["batch"].split(" ")), set()).add(head["launch"])
    _, second, *_ = sorted({decided for decided, *_ in measured})
    screened = {node: own for (decided, _, node), own in measured.items() if decided == second}
    assert set(screened) == {"0", "1"}
    assert len(set.intersection(*screened.values())) == 1
    jobs = [job for job in study.jobs() if "race" in job["Comment"]]
    assert all(job["JobState"] == "COMPLETED" for job in jobs)
    assert {job["OverSubscribe"] for job in jobs} == {"NO"}


def preempt(job):
    """Give a job's node to another that takes precedence; return the other's id."""
    submit = ("sbatch", "--parsable", "--partition=urgent", "--exclusive", "--output=/dev/null")
    return command(*submit, f"--nodelist={job['NodeList']}", "--wrap=sleep 2").strip()


def test_what_slurm_does_to_jobs_on_its_own(study, slurm):
    """Requeued, drained, preempted, failed: the same run goes on after the last window."""
    study.configure(config(measure=LONG))
    snakemake = study.start()
    before = study.wait_for_windows(2)
    job = study.running()
    command("scontrol", "requeue", job["JobId"])
    now = study.wait_until_it_ran_again(job, before)

    before, job = now, study.running()
    command("scontrol", "update", f"NodeName={job['NodeList']}", "State=DRAIN", "Reason=test")
    command("scontrol", "requeue", job["JobId"])
    now = study.wait_until_it_ran_again(job, before)
    drained, moved = job["NodeList"], study.running()
    assert moved["NodeList"] != drained

    before, job = now, moved
    urgent = preempt(job)
    now = study.wait_until_it_ran_again(job, before)
    assert slurm.job(urgent)["JobState"] == "COMPLETED"

    before, job = now, study.running()
    command("scontrol", "update", f"NodeName={drained}", "State=RESUME")
    study.fail(job["NodeList"])
    now = study.wait_until_it_ran_again(job, before)
    assert study.running()["NodeList"] == drained
    assert snakemake.wait() == 0, study.said()
    assert_kept(now, study.windows())
    slurm.start_node(job["NodeList"])
    slurm.wait_until_idle()


def test_an_apostrophe_in_the_path_is_refused(tmp_path, slurm):
    study = Study(tmp_path / "a user's folder", slurm)
    study.configure(config())
    assert "has an apostrophe in its name" in study.fails()
    assert study.jobs() == []


def interrupted(study, windows, interrupt, *options):
    """Run the study until it has some windows more, interrupt its job, and wait for the end."""
    before = study.count()
    snakemake = study.start(*options)
    study.wait_for_windows(before + windows)
    interrupt(snakemake, study.running())
    return snakemake.wait(PATIENCE_S), study.windows()


def test_a_study_whose_jobs_were_ended_goes_on_by_rerun(study, slurm):
    """Cancelled, over time, and without Snakemake: the windows stay, what is missing is named."""
    # SLURM looks after time limits twice a minute: a minute of windows, so that some are left then.
    study.configure(config(measure={**LONG, "windows": 10}))
    code, cancelled = interrupted(study, 2, lambda _, job: command("scancel", job["JobId"]))
    said = study.said()
    assert code == 1, said
    assert study.jobs()[-1]["JobState"] == "CANCELLED"
    missing = [
        path for path in cancelled if not (study.folder / f"results/{NAME}/measure" / path).exists()
    ]
    assert missing
    for path in missing:
        assert f"missing: results/{NAME}/measure/{path}" in said
    assert "SLURM status is: 'CANCELLED'" in said
    assert "Windows that were taken are kept: the same command goes on where it stopped." in said
    study.assert_nothing_runs()

    def reach_the_time_limit(_, job):
        # As a limit in minutes would end it, but sooner.
        command("scontrol", "update", f"JobId={job['JobId']}", "EndTime=now+5")

    code, over = interrupted(study, 2, reach_the_time_limit)
    assert code == 1, study.said()
    assert study.jobs()[-1]["JobState"] == "TIMEOUT"
    assert "SLURM status is: 'TIMEOUT'" in study.said()
    assert_kept(cancelled, over)
    study.assert_nothing_runs()

    code, _ = interrupted(study, 1, lambda snakemake, _: snakemake.kill())
    assert code == -signal.SIGKILL
    # The job is SLURM's, not Snakemake's: it goes on, and what it does counts.
    wait_until(lambda: study.jobs()[-1]["JobState"] == "COMPLETED", "the job's end", PATIENCE_S)
    alone = study.windows()
    assert_kept(over, alone)
    study.succeeds()
    assert study.windows() == alone


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_snakemake_cancels_its_jobs(study, signum):
    study.configure(config(measure={**LONG, "windows": 100}))
    code, _ = interrupted(study, 1, lambda snakemake, _: snakemake.send_signal(signum))
    said = study.said()
    assert code == 1, said
    assert f"{signum.name} stopped the study before its end." in said
    assert "Traceback" not in said
    wait_until(lambda: study.jobs()[-1]["JobState"] == "CANCELLED", "a cancelled job")
    study.assert_nothing_runs()


def test_a_preempted_job_that_is_not_queued_again_is_an_error(study):
    """A partition whose PreemptMode is CANCEL: Snakemake ends instead of waiting for ever."""
    study.configure(config(measure=LONG))
    there = ("--default-resources", "runtime=60", "mem_mb=0", "slurm_partition=cancelled")
    code, windows = interrupted(study, 1, lambda _, job: preempt(job), *there)
    assert code == 1, study.said()
    (job,) = study.jobs()
    assert f"SLURM job {job['JobId']} was preempted, and SLURM does not start" in study.said()
    assert "Windows that were taken are kept" in study.said()
    assert any(windows.values())
    study.assert_nothing_runs()


def test_two_kinds_of_node_in_one_study(study, slurm):
    """Chosen by constraint; each is probed and measured on its own nodes, and they are compared."""
    kinds = {
        "whole": {"partition": "all", "constraint": "whole", "cores": slurm.cpus()},
        "small": {"partition": "all", "constraint": "small", "cores": 1},
    }
    measure = {**config()["measure"], "retries": 20}
    study.configure(config(machines=kinds, processes=[1], measure=measure))
    study.succeeds()
    results = study.folder / "results" / NAME
    probed = {
        name: json.loads((results / f"machines/{name}/machine.json").read_text())["allowed_cpus"]
        for name in kinds
    }
    assert probed == {"whole": f"0-{slurm.cpus() - 1}", "small": str(slurm.small_cpu())}
    where = {"whole": {"node-a", "node-b"}, "small": {"node-small"}}
    for name, nodes in where.items():
        jobs = [job for job in study.jobs() if f"machine_{name}" in job["Comment"]]
        jobs = jobs or [job for job in study.jobs() if name in job["Comment"]]
        assert jobs
        assert {job["NodeList"] for job in jobs} <= nodes
        assert {job["JobState"] for job in jobs} == {"COMPLETED"}
    compared = json.loads((results / "analysis/machines.json").read_text())["machines"]
    assert {one["name"]: one["status"] for one in compared} == dict.fromkeys(kinds, "measured")
    assert {path.name for path in (results / "launch").glob("recommended-*.sh")} == {
        f"recommended-{name}.sh" for name in kinds
    }
    job = (results / "launch/recommended-small.sbatch").read_text().splitlines()
    assert {"#SBATCH --partition=all", "#SBATCH --constraint=small"} <= set(job)
    assert "models/EUR" in (study.folder / "reports/small.html").read_text()


def test_a_part_of_a_node_is_an_error_that_names_the_setting(study, slurm):
    if slurm.cpus() == 1:
        pytest.skip("a node with one CPU has no parts")
    study.configure(config())
    part = ("--set-resources", "probe:cpus_per_task=1", "measure:cpus_per_task=1")
    said = study.fails(*part, "--until", "measure")
    assert f"may run on 1 of the {slurm.cpus()} CPUs" in said
    assert "slurm_extra: \"'--exclusive'\"" in said
    assert "/0.jsonl (results/" in said
    assert study.count() == 0


TRAIN = """
import os, sys, time
open(f"began-{sys.argv[1]}", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
"""


def test_nodes_work_through_one_list(tmp_path, slurm):
    """An array job: each takes the next model; what a node that failed has left, others train."""
    (tmp_path / "train.py").write_text(TRAIN)
    launch = write(tmp_path, recommendation([slot(0)]), plan(tmp_path / "train.py"))
    job = launch.with_suffix(".sbatch")
    job.write_text(render_array_job("it's", launch, "it", {"constraint": "whole"}))
    (tmp_path / "models.txt").write_text("".join(f"{number}\n" for number in range(1, 7)))
    submit = ("sbatch", "--parsable", "--array=1-2", f"--chdir={tmp_path}", "--no-requeue")
    asked = command(*submit, str(job), "--limit", "600", "models.txt").strip()

    def tasks():
        return [one for one in slurm.jobs() if one.get("ArrayJobId") == asked]

    def journals():
        found = sorted((tmp_path / "models.txt.logs").glob("queue-*.jsonl"))
        lines = [line for path in found for line in path.read_text().splitlines()]
        return sorted((one["model"], one["status"]) for one in map(json.loads, lines))

    wait_until(lambda: len(list(tmp_path.glob("began-*"))) == 2, "a model on each node")
    both = [one for one in tasks() if one["JobState"] == "RUNNING"]
    assert {one["NodeList"] for one in both} == {"node-a", "node-b"}
    assert {one["OverSubscribe"] for one in both} == {"NO"}
    slurm.fail_node(both[0]["NodeList"])
    (tmp_path / "go").touch()
    other = both[1]["JobId"]
    wait_until(lambda: slurm.job(other)["JobState"] not in {"RUNNING", "COMPLETING"}, "the end")
    assert slurm.job(other)["JobState"] == "COMPLETED"
    assert journals() == [(number, 0) for number in range(1, 7)]
    assert len(set((tmp_path / "models.txt.logs/claims").iterdir())) == 6
    slurm.start_node(both[0]["NodeList"])
    slurm.wait_until_idle()
