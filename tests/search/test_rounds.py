"""A race in a study's words: from plan, machine and records to a round's file, and back."""

import json
from types import SimpleNamespace

import msgspec
import pandas as pd
import pytest
from msgspec import structs

import jobs
import machines
import made_records
from made_records import summary
from scaling_study.config.config import load_config
from scaling_study.config.launches import Launch
from scaling_study.config.plan import make_plan
from scaling_study.config.work import with_learnt
from scaling_study.host import probe
from scaling_study.records import codec
from scaling_study.records.verdict import Cause, Judged, Remedy, Target
from scaling_study.records.window import End
from scaling_study.runner import journal, measure
from scaling_study.search import rounds
from scaling_study.search.race import Exclusion

NOW = "2026-01-01T00:00:00+00:00"
MACHINE = "epyc-9654-2s-nps4"


def planned(processes="auto", **more):
    mapping = jobs.config(jobs.WORKLOADS / "plain_loop.py") | {
        "processes": processes,
        "launches": {
            "baseline": {"intra_op": 1},
            "grid": {"intra_op": [1, 4]},
            "one_change": {"wait_policy": ["passive"], "allocator": ["glibc-large-thresholds"]},
        },
        "search": {"budget_minutes": 60},
        "confirm": {"seconds": 300},
    }
    plan = make_plan(load_config(mapping | more))
    return with_learnt(plan, {}).model_copy(update={"made": {}})


@pytest.fixture(scope="module")
def machine():
    return probe.read_machine(machines.root(MACHINE))


def with_files(plan, made):
    return plan.model_copy(update={"made": dict(made)})


def single(plan, axis):
    """The launch that changes one axis only."""
    base = plan.by_id[plan.baseline].axes
    return next(
        one.id
        for one in plan.launches
        if [name for name, value in one.axes.items() if base[name] != value] == [axis]
        and one.role != "default"
    )


def cohort(launch, replicate, process_counts, *, batch="a", started=NOW):
    return summary(
        launch=launch, replicate=replicate, process_counts=tuple(process_counts), batch=batch,
        started=started, windows_valid=2 * len(process_counts), end=ending(),
    )  # fmt: skip


def ending(**changed):
    usual = {
        "cohort": 0, "status": "complete", "reason": None, "remedy": None, "start_s": 20.0,
        "wall_s": 50.0, "in_windows_s": 30.0,
    }  # fmt: skip
    return End(**usual | changed)


def rates(*rows):
    columns = ["launch", "replicate", "n", "steps_per_s", "drift"]
    return pd.DataFrame(rows, columns=columns).assign(start_s=float("nan"))


def test_all_launches_of_the_plan_compete_but_the_repeat(machine):
    plan = planned()
    field = rounds.competing(plan, machine.usable, machine.quota_cpus)
    assert (field.default.launch, field.baseline.launch) == (plan.default, plan.baseline)
    left = set(plan.by_id)
    left -= {plan.default, plan.baseline, plan.repeat}
    assert {one.launch for one in field.others} == left
    assert field.process_counts[-1] == 385
    assert {192, 384} <= set(field.boundaries)
    assert field.entrants[single(plan, "intra_op")].threads == 4
    assert field.default.threads == 384
    assert field.baseline.changes == frozenset()
    passive = field.entrants[single(plan, "wait_policy")]
    assert passive.changes == {("wait_policy", "passive")}


def test_what_the_config_excludes_no_combination_has(machine):
    exclude = [{"allocator": "jemalloc", "blas": "mkl"}, {"allocator": "tcmalloc", "intra_op": 1}]
    plan = planned().model_copy(update={"exclude": exclude})
    changed = frozenset({("allocator", "jemalloc"), ("blas", "mkl")})
    field = rounds.competing(plan, machine.usable, machine.quota_cpus)
    one, other = field.exclusions
    assert one == Exclusion(changed)
    assert other == Exclusion(frozenset({("allocator", "tcmalloc")}), frozenset({"intra_op"}))


def test_beside_one_thread_no_combination_changes_whose_threads_they_are(machine):
    others = {"openmp": ["intel", "llvm"], "intra_op": [1, 4]}

    def exclusions(base):
        plan = planned(launches={"baseline": base, "one_change": others})
        field = rounds.competing(plan, machine.usable, machine.quota_cpus)
        return set(field.exclusions)

    intel, llvm = ({("openmp", value)} for value in ("intel", "llvm"))
    one_thread = {("intra_op", 1)}
    alone = frozenset({"intra_op"})
    assert exclusions({"intra_op": 1}) == {
        Exclusion(frozenset(intel), alone), Exclusion(frozenset(llvm), alone)
    }  # fmt: skip
    assert exclusions({}) == {
        Exclusion(frozenset(one_thread | intel)), Exclusion(frozenset(one_thread | llvm))
    }  # fmt: skip
    # What is the baseline's stays: one thread is worth a try beside it.
    assert exclusions({"openmp": "intel"}) == {Exclusion(frozenset(one_thread | llvm))}


def test_starts_are_those_of_the_records_and_the_repeat_is_the_baseline():
    plan = planned()
    later = "2026-01-01T00:01:00+00:00"
    found = rounds.starts(
        [
            cohort(plan.default, 0, [1, 8], batch="b", started=later),
            cohort(plan.repeat, 0, [1, 8]),
        ],
        rates((plan.repeat, 0, 1, 8.0, 1.25), (plan.repeat, 0, 8, 56.0, 1.25),
              (plan.default, 0, 1, 5.0, 1.0)),
        plan,
    )  # fmt: skip
    assert [one.launch for one in found] == [plan.baseline, plan.default]
    assert [one.batch for one in found] == [0, 1]
    assert found[0].rates == {1: 10.0, 8: 70.0}  # as measured: the race finds the drift itself
    assert (found[0].start_s, found[0].windows_s, found[0].members) == (20.0, 30.0, 8)
    assert (found[1].rates, found[1].lost) == ({1: 5.0}, (8,))


@pytest.mark.parametrize(("tests", "over"), [(["repeat"], False), (["repeat", "drift"], True)])
def test_a_race_ends_where_no_start_would_tell_more(machine, tests, over):
    plan = planned()
    first = rounds.next_round(plan, machine, [], 0, NOW)
    cohorts, rows = measured_by(plan, first, better_together)
    grown = with_files(plan, {plan.baseline: 1, plan.repeat: 1, plan.default: 2})
    starts = rounds.starts(cohorts, rates(*rows), grown)
    unequal = [SimpleNamespace(test=test) for test in tests]
    found = rounds.next_round(grown, machine, starts, 1, NOW, unequal=unequal)
    assert (found.stage == "done") is over
    assert (found.choice is None) is over
    if over:
        assert found.batches == []
        said = "the race is over: steps differ too much in work to compare launches"
        assert rounds.describe(found, grown) == said


def measured_by(plan, found, rate):
    """Cohorts and rates of all that a round asks for."""
    cohorts, rows = [], []
    for number, batch in enumerate(found.batches):
        for task in batch:
            name = f"{found.decided} {number}"
            cohorts.append(
                cohort(task.launch, task.replicate, task.counts, batch=name,
                       started=found.decided)
            )  # fmt: skip
            rows += [
                (task.launch, task.replicate, n, rate(plan, task.launch, n), 1.0)
                for n in task.counts
            ]
    return cohorts, rows


def race(plan, machine, rate):
    """All rounds of a race in which each launch has one rate, and the plan at its end."""
    cohorts, rows, history, made = [], [], [], {}
    while True:
        grown = with_files(plan, made)
        starts = rounds.starts(cohorts, rates(*rows), grown)
        assert rounds.done(cohorts) == len(history)
        now = f"2026-01-01T00:00:{len(history):02}"
        found = rounds.next_round(grown, machine, starts, len(history), now)
        history.append(found)
        if not found.batches:
            return history, grown
        known = {launch.id for launch in plan.launches}
        new = [launch for launch in found.launches if launch.id not in known]
        plan = plan.model_copy(update={"launches": (*plan.launches, *new)})
        for batch in found.batches:
            for task in batch:
                assert task.replicate == made.get(task.launch, 0)
                made[task.launch] = task.replicate + 1
        more = measured_by(plan, found, rate)
        cohorts += more[0]
        rows += more[1]


def better_together(plan, launch, n):
    """Passive waiting gives 10%, the allocator 10%, both 21%; a plateau from 96 processes on."""
    axes = plan.by_id[launch].axes
    top = min(n, 96) / axes["intra_op"] if isinstance(axes["intra_op"], int) else 1.0
    passive = axes["wait_policy"] == "passive"
    large = axes["allocator"] == "glibc-large-thresholds"
    return 10.0 * top * 1.1 ** (passive + large)


def test_a_whole_race_puts_winners_together_as_launches_with_names_of_their_own(machine):
    plan = planned()
    history, grown = race(plan, machine, better_together)
    first = [(task.launch, task.replicate) for task in history[0].batches[0]]
    assert sorted(first) == sorted(
        [(plan.baseline, 0), (plan.repeat, 0), (plan.default, 0), (plan.default, 1)]
    )
    assert rounds.describe(history[0], plan).startswith("first: 4 starts")
    for one in history:
        assert msgspec.json.decode(msgspec.json.encode(one), type=rounds.Decided) == one
    assert history[-1].reason
    choice = history[-1].choice
    chosen = grown.by_id[choice.launch]
    assert chosen.role == "combined"
    assert (chosen.axes["wait_policy"], chosen.axes["allocator"]) == (
        "passive", "glibc-large-thresholds",
    )  # fmt: skip
    assert chosen.label == "intra_op 1, wait_policy passive, allocator glibc-large-thresholds"
    assert history[-1].not_screened == []
    assert all(grown.replicates_of(launch.id) for launch in grown.launches)
    searched = rounds.searched(grown, history).searched
    assert [one.stage for one in searched.rounds][:2] == ["first", "screen"]
    assert searched.choice == choice
    assert rounds.searched(grown, history).searched.reason == history[-1].reason
    assert rounds.searched(grown, history[:2]).searched.reason == "it had no further round"
    assert "best so far" in rounds.describe(history[-1], grown)


def write(folder, launch, replicate, **head):
    path = folder / "measure" / launch / f"{replicate}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(codec.encode(made_records.head(launch=launch, **head)) + b"{}\n")


def target(launch, *changes, scope="scaling_loss"):
    """A target of causes.json whose causes are named in one scope, with these remedies."""
    named = tuple(Cause(title="", remedy=Remedy(axes=axes)) for axes in changes)
    return Target(target=launch, launch=launch, label="", status="", **{scope: Judged(named=named)})


def test_what_experiments_showed_to_help_becomes_a_launch_unless_it_is_one_or_is_excluded():
    plan = planned()
    passive = single(plan, "wait_policy")
    targets = [
        target(passive, {"allocator": "glibc-large-thresholds"}, None, {"wait_policy": "passive"}),
        target(passive, {"placement": "cores"}, scope="single_process_loss"),
        target("of another plan", {"isa": "avx2"}),
    ]
    first, second = rounds.helpful(plan, targets)
    assert first.label == "intra_op 1, wait_policy passive, allocator glibc-large-thresholds"
    assert second.label == "intra_op 1, wait_policy passive, placement cores"
    assert first.role == "combined"
    assert rounds.helpful(
        plan.model_copy(update={"launches": (*plan.launches, first)}), targets
    ) == [second]
    excluded = plan.model_copy(
        update={"exclude": [{"placement": "cores", "wait_policy": "passive"}]}
    )
    assert rounds.helpful(excluded, targets) == [first]
    assert rounds.helpful(plan, [target(plan.baseline, {"wait_policy": "passive"})]) == []


def race_of_all(plan, machine, again=(), *, without=(), spent_s=10_000.0):
    """The next round of a race whose budget is spent, in which each launch started once."""
    cohorts = [
        cohort(launch.id, 0, [96, 192], batch=f"{NOW} 0 0")
        for launch in plan.launches
        if launch.id not in without
    ]
    cohorts.append(cohort(plan.default, 1, [96, 192], batch=f"{NOW} 0 0"))
    cohorts = [structs.replace(one, end=ending(wall_s=spent_s)) for one in cohorts]
    rows = [(one.launch, one.replicate, n, 100.0, 1.0) for one in cohorts for n in (96, 192)]
    starts = rounds.starts(cohorts, rates(*rows), plan)
    made = dict.fromkeys((one.launch for one in cohorts), 1) | {plan.default: 2}
    return rounds.next_round(with_files(plan, made), machine, starts, 1, NOW, again=again)


def test_a_launch_that_failed_in_an_earlier_run_starts_though_the_budget_is_spent(machine):
    plan = planned()
    passive = single(plan, "wait_policy")
    spent = race_of_all(plan, machine, without=[passive])
    assert (spent.batches, spent.reason) == ([], "the budget is spent")
    again = race_of_all(plan, machine, [passive], without=[passive])
    (batch,) = again.batches
    assert {task.launch: task.replicate for task in batch} == {
        passive: 0,
        plan.baseline: 1,
    }
    # Once it has failed again, the race does not go on with it.
    assert race_of_all(plan, machine, [passive]).batches == []


def test_launches_that_gave_nothing_are_those_whose_files_are_all_marked(tmp_path):
    for name, marked in {"a/0": True, "b/0": True, "b/1": False, "c/0": False}.items():
        path = tmp_path / f"measure/{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        if marked:
            journal.mark_of(path).touch()
    assert rounds.without_result(tmp_path) == [tmp_path / "measure/a/0.jsonl"]
    assert rounds.left(tmp_path) == set()
    (tmp_path / "measure/a/0.jsonl").unlink()  # so a run ends
    assert rounds.left(tmp_path) == {"a"}
    assert rounds.without_result(tmp_path) == []


def test_a_plan_grows_by_what_is_measured(tmp_path):
    plan = planned()
    write(tmp_path, plan.baseline, 0, role="baseline")
    write(tmp_path, plan.baseline, 1, role="baseline")
    write(tmp_path, "both", 0, role="combined", label="a and b", axes={"a": 1})
    write(tmp_path, "gone", 0, role="one_change", label="once in the config", axes={"a": 2})
    grown = rounds.grown(plan, tmp_path)
    assert grown.replicates_of(plan.baseline) == 2
    assert grown.replicates_of(plan.default) == 0
    assert grown.launches[-1] == Launch("both", "a and b", "combined", {"a": 1})
    assert "gone" not in grown.by_id


def test_records_stay_while_what_is_measured_does(tmp_path):
    job = json.dumps({"measure": {"windows": 2}, "files": "a"})
    assert rounds.set_aside(tmp_path, job, NOW) is None
    write(tmp_path, "a", 0, measure={"windows": 2}, harness_hash=measure.harness_digest())
    assert rounds.set_aside(tmp_path, job, NOW) is None
    moved = rounds.set_aside(tmp_path, job.replace('"a"', '"b"'), NOW)
    assert (moved / "a/0.jsonl").exists()
    assert not (tmp_path / "measure").exists()


def alone_or_together(plan, launch, n):
    """Four threads alone are three times as fast; one thread each gives most from 4 on."""
    axes = plan.by_id[launch].axes
    if axes["intra_op"] == 4:
        return min(30.0 * n, 60.0)
    return min(10.0 * n, 960.0) if axes["intra_op"] == 1 else 5.0


@pytest.mark.parametrize("processes", ["auto", [2, 8]])
def test_one_model_soonest_races_at_the_smallest_count_alone(machine, processes):
    plan = planned(processes, objective="one_model")
    history, grown = race(plan, machine, alone_or_together)
    smallest = 1 if processes == "auto" else 2
    asked = {n for one in history for batch in one.batches for task in batch
             for n in task.counts}  # fmt: skip
    assert asked == {smallest}
    choice = history[-1].choice
    chosen = grown.by_id[choice.launch]
    assert (chosen.axes["intra_op"], choice.n) == (4, smallest)
    assert history[-1].not_screened == []
