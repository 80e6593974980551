"""A race in a study's words: from plan, machine and records to a round's file, and back."""

import itertools
import json
from collections import Counter
from types import SimpleNamespace

import msgspec
import pandas as pd
import pytest
from msgspec import structs

import jobs
import machines
import made_records
from configs import ROOT
from made_records import first_models, reported, summary
from scaling_study.analysis.model_times import model_times
from scaling_study.config.config_file import read_config
from scaling_study.config.launches import Launch
from scaling_study.config.work import with_learnt
from scaling_study.host import probe
from scaling_study.records import codec
from scaling_study.records.verdict import CauseResult, Judged, Remedy, Target
from scaling_study.records.window import CohortEnd
from scaling_study.runner import journal
from scaling_study.runner.jobs import harness_digest
from scaling_study.search import forecast, rounds
from scaling_study.search.race import Exclusion
from scaling_study.stats.throughputs import Start

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
    return with_learnt(jobs.planned(mapping | more), {}).model_copy(update={"made": {}})


@pytest.fixture(scope="module")
def machine():
    return probe.read_machine(machines.root(MACHINE))


def single(plan, axis):
    """The launch that changes one axis only."""
    base = plan.by_id[plan.baseline].axes
    return next(
        one.id
        for one in plan.launches
        if [name for name, value in one.axes.items() if base[name] != value] == [axis]
        and one.role != "default"
    )


def test_all_launches_of_the_plan_compete_but_the_repeat(machine):
    plan = planned()
    field = rounds.competing(plan, machine.usable, machine.quota_cpus)
    assert (field.default.launch, field.baseline.launch) == (plan.default, plan.baseline)
    left = set(plan.by_id)
    left -= {plan.default, plan.baseline, plan.repeat}
    assert {one.launch for one in field.others} == left
    assert field.process_counts[-1] == 385
    assert {192, 384} <= set(field.boundaries)


def test_what_the_config_excludes_or_one_thread_leaves_idle_no_combination_has(machine):
    others = {"openmp": ["intel", "llvm"], "intra_op": [1, 4]}

    def exclusions(base, *exclude):
        plan = planned(launches={"baseline": base, "one_change": others})
        plan = plan.model_copy(update={"exclude": exclude})
        return {*rounds.competing(plan, machine.usable, machine.quota_cpus).exclusions}

    def rule(*unchanged, **changes):
        return Exclusion(frozenset(changes.items()), frozenset(unchanged))

    asked = [{"allocator": "jemalloc", "blas": "mkl"}, {"allocator": "tcmalloc", "intra_op": 1}]
    assert exclusions({"intra_op": 1}, *asked) == {
        rule(allocator="jemalloc", blas="mkl"),
        rule("intra_op", allocator="tcmalloc"),
        rule("intra_op", openmp="intel"),
        rule("intra_op", openmp="llvm"),
    }
    # What is the baseline's stays: one thread is worth a try beside it.
    assert exclusions({"openmp": "intel"}) == {rule(intra_op=1, openmp="llvm")}


def test_starts_are_those_of_the_records_and_the_repeat_is_the_baseline():
    plan = planned()
    end = CohortEnd(
        cohort=0, status="complete", reason=None, remedy=None, start_s=20.0, wall_s=50.0,
        in_windows_s=30.0,
    )  # fmt: skip
    first = summary(
        launch=plan.repeat, process_counts=(1, 8), batch="a", started=NOW, windows_valid=1, end=end
    )
    later = "2026-01-01T00:01:00+00:00"
    second = msgspec.structs.replace(first, launch=plan.default, batch="b", started=later)
    rows = [
        (plan.repeat, 0, 1, 8.0, 1.25), (plan.repeat, 0, 8, 56.0, 1.25),
        (plan.default, 0, 1, 5.0, 1.0),
    ]  # fmt: skip
    rates = pd.DataFrame(rows, columns=["launch", "replicate", "n", "steps_per_s", "drift"])
    found = rounds.starts([second, first], rates.assign(start_s=float("nan")), plan)
    assert [one.launch for one in found] == [plan.baseline, plan.default]
    assert [one.batch for one in found] == ["a", "b"]
    assert found[0].rates == {1: 10.0, 8: 70.0}  # as measured: the race finds the drift itself
    assert (found[0].start_s, found[0].windows_s, found[0].members) == (20.0, 30.0, 8)
    assert (found[1].rates, found[1].lost) == ({1: 5.0}, (8,))


@pytest.mark.parametrize(("tests", "over"), [(["repeat"], False), (["repeat", "drift"], True)])
def test_a_race_ends_where_no_start_would_tell_more(machine, tests, over):
    grown, _, starts = begun(planned(), machine)
    unequal = [SimpleNamespace(test=test) for test in tests]
    found = rounds.next_round(grown, machine, starts, 1, NOW, unequal=unequal)
    assert (found.stage == "done", found.choice is None) == (over, over)
    if over:
        assert found.batches == []
        said = "the race is over: steps differ too much in work to compare launches"
        assert rounds.describe(found) == said


def measured(plan, found, rate, done=0):
    """Starts of all that a round asks for."""
    return [
        Start(
            plan.baseline if task.launch == plan.repeat else task.launch,
            100 * done + number,
            {n: rate(plan, task.launch, n) for n in task.counts},
            max(task.counts), 20.0, 30.0, round=str(done),
        )
        for number, batch in enumerate(found.batches)
        for task in batch
    ]  # fmt: skip


def begun(plan, machine):
    """A plan whose first round was measured, what that asked for, and its starts."""
    first = rounds.next_round(plan, machine, [], 0, NOW)
    made = {plan.baseline: 1, plan.repeat: 1, plan.default: 2}
    return plan.model_copy(update={"made": made}), first, measured(plan, first, better_together)


def race(plan, machine, rate):
    """All rounds of a race in which each launch has one rate, and the plan at its end."""
    starts, history, made = [], [], Counter()
    while True:
        grown = plan.model_copy(update={"made": dict(made)})
        now = f"2026-01-01T00:00:{len(history):02}"
        found = rounds.next_round(grown, machine, starts, len(history), now)
        history.append(found)
        if not found.batches:
            return history, grown
        new = [launch for launch in found.launches if launch.id not in plan.by_id]
        plan = plan.model_copy(update={"launches": (*plan.launches, *new)})
        starts += measured(plan, found, rate, len(history))
        for task in itertools.chain(*found.batches):
            assert task.replicate == made[task.launch]
            made[task.launch] += 1


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
    (first,) = history[0].batches
    starts = {(plan.baseline, 0), (plan.repeat, 0), (plan.default, 0), (plan.default, 1)}
    assert {(task.launch, task.replicate) for task in first} == starts
    assert rounds.describe(history[0]).startswith("first: 4 starts")
    for one in history:
        assert msgspec.json.decode(msgspec.json.encode(one), type=rounds.Decided) == one
    last = history[-1]
    chosen = grown.by_id[last.choice.launch]
    assert chosen.role == "combined"
    assert chosen.label == "intra_op 1, wait_policy passive, allocator glibc-large-thresholds"
    assert last.not_screened == []
    assert all(grown.replicates_of(launch.id) for launch in grown.launches)
    searched = rounds.searched(grown, history).searched
    assert [one.stage for one in searched.rounds][:3] == ["first", "refine", "screen"]
    assert (searched.choice, searched.reason) == (last.choice, last.reason)
    assert rounds.searched(grown, history[:2]).searched.reason == "it had no further round"
    said = "so far: default 10.0 steps/s with 1 process; intra_op 1, wait_policy passive, allocator"
    assert said in rounds.describe(last)


def write(folder, launch, replicate, **head):
    path = folder / "measure" / launch / f"{replicate}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(codec.encode(made_records.head(launch=launch, **head)) + b"{}\n")


def target(launch, *changes, scope="scaling_loss"):
    """A target of causes.json whose causes are named in one scope, with these remedies."""
    named = tuple(CauseResult(title="", remedy=Remedy(axes=axes)) for axes in changes)
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
    grown = plan.model_copy(update={"launches": (*plan.launches, first)})
    assert rounds.helpful(grown, targets) == [second]
    exclude = [{"placement": "cores", "wait_policy": "passive"}]
    assert rounds.helpful(plan.model_copy(update={"exclude": exclude}), targets) == [first]
    assert rounds.helpful(plan, [target(plan.baseline, {"wait_policy": "passive"})]) == []


def test_a_launch_that_failed_in_an_earlier_run_starts_though_the_budget_is_spent(machine):
    plan = planned()
    passive = single(plan, "wait_policy")

    def following(without, again=()):
        """The next round of a race whose budget is spent, in which each other launch started."""
        rates = {96: 100.0, 192: 100.0}
        others = {*plan.by_id} - {plan.repeat, *without}
        names = [*others, plan.baseline, plan.default]
        starts = [Start(name, 0, rates, 192, 1e4, round="0") for name in names]
        grown = plan.model_copy(update={"made": Counter([*others, plan.repeat, plan.default])})
        return rounds.next_round(grown, machine, starts, 1, NOW, again=again)

    spent = following([passive])
    assert (spent.batches, spent.reason) == ([], "the budget is spent")
    (batch,) = following([passive], [passive]).batches
    assert {task.launch: task.replicate for task in batch} == {passive: 0, plan.baseline: 1}
    # Once it has failed again, the race does not go on with it.
    assert following([], [passive]).batches == []


def test_launches_that_gave_nothing_are_those_whose_files_are_all_marked(tmp_path):
    names = ["a/0.jsonl", "b/0.jsonl", "b/1.jsonl", "c/0.jsonl"]
    marks = [f"{name}{journal.MARK}" for name in names[:2]]
    machines.write(tmp_path / "measure", dict.fromkeys([*names, *marks], ""))
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
    assert (grown.replicates_of(plan.baseline), grown.replicates_of(plan.default)) == (2, 0)
    assert grown.launches[-1] == Launch("both", "a and b", "combined", {"a": 1})
    assert "gone" not in grown.by_id


def test_records_stay_while_what_is_measured_does(tmp_path):
    job = json.dumps({"measure": {"windows": 2}, "files": "a"})
    assert rounds.set_aside(tmp_path, job, NOW) is None
    write(tmp_path, "a", 0, measure={"windows": 2}, harness_hash=harness_digest())
    assert rounds.set_aside(tmp_path, job, NOW) is None
    moved = rounds.set_aside(tmp_path, job.replace('"a"', '"b"'), NOW)
    assert (moved / "a/0.jsonl").exists()
    assert not (tmp_path / "measure").exists()


@pytest.mark.parametrize(("processes", "smallest"), [("auto", 1), ([2, 8], 2)])
def test_one_model_soonest_races_at_the_smallest_count_alone(machine, processes, smallest):
    """Four threads alone are three times as fast; one thread each gives most from 4 on."""

    def rate(plan, launch, n):
        threads = plan.by_id[launch].axes["intra_op"]
        return {1: min(10.0 * n, 960.0), 4: min(30.0 * n, 60.0)}.get(threads, 5.0)

    history, grown = race(planned(processes, objective="one_model"), machine, rate)
    tasks = [task for one in history for batch in one.batches for task in batch]
    assert {n for task in tasks for n in task.counts} == {smallest}
    choice = history[-1].choice
    assert (grown.by_id[choice.launch].axes["intra_op"], choice.n) == (4, smallest)
    assert history[-1].not_screened == []


def wanted(machine, **more):
    """What is wanted of first models once the default launch and the baseline were measured."""
    grown, first, starts = begun(planned(**more), machine)
    assert first.models is None  # how long a model takes is not known yet
    return grown, rounds.next_round(grown, machine, starts, 1, NOW), starts


def script(**more):
    return {"script": str(jobs.WORKLOADS / "plain_loop.py"), "step": "optimizer"} | more


def test_first_models_are_trained_as_soon_as_their_time_is_known(machine):
    plan, found, starts = wanted(machine, workload=script(steps_per_model=1000))
    assert (found.models.launch, found.models.start) == (plan.baseline, "forked")
    assert plan.baseline in {launch.id for launch in found.launches}
    base = next(one for one in starts if one.launch == plan.baseline)
    model_s = 1000 * min(base.rates) / base.rates[min(base.rates)]
    assert found.models.expected_s == pytest.approx(3.5 * 20 + 3 * model_s)
    _, without, _ = wanted(machine)  # nothing says how many steps a model has
    assert without.models is None
    assert found.expected_s - found.models.expected_s <= without.expected_s


@pytest.mark.parametrize(
    ("more", "start"),
    [
        ({"confirm": "off"}, "fresh"),
        ({"objective": "one_model"}, "fresh"),
        ({"workload": script(steps_per_model=6_000)}, "fresh"),  # three of them take too long
        ({"workload": script(steps_per_model=20_000)}, None),
    ],
)
def test_what_is_not_recommended_or_takes_too_long_is_not_trained(machine, more, start):
    _, found, _ = wanted(machine, **({"workload": script(steps_per_model=1000)} | more))
    assert (found.models and found.models.start) == start


@pytest.mark.parametrize(("forked", "changes"), [(False, []), (True, ["allocator"])])
def test_a_race_ranks_by_the_starts_that_will_be_recommended(machine, forked, changes):
    """An allocator makes steps 10% faster, which the start of a fresh process hides."""
    plan = planned(workload=script(steps_per_model=20))
    ids = [launch for launch in plan.by_id if launch != plan.repeat]
    ids = [launch for launch in ids if plan.by_id[launch].axes["intra_op"] == 1]
    faster = {
        launch: plan.by_id[launch].axes["allocator"] == "glibc-large-thresholds" for launch in ids
    }
    starts = [
        Start(launch, batch, {1: 10.0 * 1.1 ** faster[launch]}, 1, 20.0, 10.0)
        for batch in range(3)
        for launch in ids
    ]
    cohorts = [
        summary(launch=launch, axes=plan.by_id[launch].axes, readback=reported(start_s=(20.0,)))
        for launch in ids
    ]
    models = first_models((0.0, 20.0, 25.0), *([(40.0, 40.1, 42.0)] if forked else []))
    times = model_times(cohorts, structs.replace(models, launch=plan.baseline))
    grown = plan.model_copy(update={"made": dict.fromkeys(ids, 3)})
    found = rounds.next_round(grown, machine, starts, 1, NOW, times=times, first=models)
    assert found.models is None
    base, chosen = (plan.by_id[one].axes for one in (plan.baseline, found.choice.launch))
    assert [name for name in base if base[name] != chosen[name]] == changes


# ---- what a race will find time for, by a simulated clock

LARGE = [name for name in machines.NAMES if len(machines.usable(name).cpus) >= 96]


def shipped(name, **changes):
    mapping = read_config(ROOT / f"config/{name}.yaml")
    return jobs.planned({**mapping, **changes})


@pytest.mark.parametrize("name", ["tsmixerx", "ncf"])
@pytest.mark.parametrize("machine", LARGE)
def test_the_full_size_studies_try_each_launch_and_end_within_the_hour(name, machine):
    plan = shipped(name)
    found = forecast.play(plan, machines.usable(machine), None, plan.measure.longest_s)
    assert found.all_s + plan.confirm.seconds <= 3600
    assert found.screened == found.others
    assert found.screened_s < found.all_s


@pytest.mark.parametrize(
    ("name", "minutes", "machine", "said"),
    [
        ("tsmixerx", 20, "epyc-9654-2s-nps4", "further launches; the report names the rest"),
        ("quick", 10, "vm-hybrid", "each launch has been measured once after "),
    ],
)
def test_it_says_whether_the_time_is_enough_for_all_launches(name, minutes, machine, said):
    plan = shipped(name, search={"budget_minutes": minutes})
    first, second = forecast.describe(plan, machines.usable(machine), None)
    assert f"a race of {minutes} minutes, the confirmation included" in first
    assert said in second
