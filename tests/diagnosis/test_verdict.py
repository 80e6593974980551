import dataclasses
import json
from collections import Counter

import numpy as np
import pytest

from injected_worlds import (
    ALL,
    INJECTED,
    Bandwidth,
    ColdPileUp,
    ColdQuota,
    LoaderThreads,
    Migrations,
    NoWorkers,
    Paused,
    Quota,
    Smt,
    Spinning,
)
from scaling_study.diagnosis import verdict
from scaling_study.diagnosis.evidence import Evidence, Measured, Untested
from scaling_study.diagnosis.shares import floored_by_count
from scaling_study.stats.intervals import Interval
from synthetic_why import MS, Step, World, microbenchmarks, write_run

NOISE = {"noise": 0.04, "outliers": 0.3, "start": 0.01}
"""Of windows, of single windows that are 30% off, and of starts."""


def judge(folder, world, rng, *, replicates=1, **noise):
    paths = [
        write_run(folder / f"{at}.jsonl", world, rng, replicate=at, **{**NOISE, **noise})
        for at in range(replicates)
    ]
    target = verdict.diagnose(paths, microbenchmarks(world, rng), None)
    json.dumps(target, allow_nan=False)
    return target


def first(target):
    """The cause of most of the growth, or else of the level."""
    named = target["scaling_loss"]["named"] or target["single_process_loss"]["named"]
    return named[0]["cause"] if named else ""


def causes(target):
    return {
        f"{side} {entry['cause']}"
        for side in ("scaling_loss", "single_process_loss")
        for entry in target[side]["named"]
    }


class Unexplained(World):
    """A step that grows by 30% for no reason that any experiment shows."""

    def step(self, intervention, n):
        return self.crowd(Step(user=10 * MS * (1 + 0.3 * (n > 1))), n)


NOTHING = {
    "one thread": World(),
    "two threads that do not disturb": World(threads=2, interventions=ALL),
    "growth without a reason": Unexplained(),
}


@pytest.mark.parametrize(
    "world", [injected() for injected in INJECTED], ids=lambda one: type(one).__name__
)
def test_a_injected_cause_is_named_first(tmp_path, world):
    rng = np.random.default_rng(11)
    found = Counter(first(judge(tmp_path, world, rng)) for _ in range(3))
    assert found == {world.first: 3}


def test_waiting_for_a_loader_is_divided_and_nothing_is_counted_twice(tmp_path):
    """A third of a batch is waited for; the rest computes, and workers save a part of that."""

    class Mixed(NoWorkers):
        def step(self, intervention, n):
            made = {"loader_made": 9 * MS, "loader_computed": 6 * MS}
            if intervention == "cached_batches":
                return Step(load=0.05 * MS)
            if intervention == "more_workers":
                return Step(load=4.6 * MS, blocked=4.5 * MS, helper_s=6 * MS, **made)
            return Step(user=16 * MS, blocked=3 * MS, load=9.1 * MS, **made)

    level = judge(tmp_path, Mixed(), np.random.default_rng(31), outliers=0.0, noise=0.01)[
        "single_process_loss"
    ]
    found = {one["cause"]: one["share"]["value"] for one in level["named"]}
    assert found["loader_storage"] == pytest.approx(3 / 19.2, abs=0.03)
    assert found["too_few_workers"] == pytest.approx(4.5 / 19.2 * 2 / 3, abs=0.03)
    assert found["loader_preparation"] == pytest.approx(4.5 / 19.2 * 2 / 3, abs=0.03)
    assert sum(found.values()) < 9.1 / 19.2 + 0.02


def test_what_threads_of_a_loader_hold_is_no_interference_besides(tmp_path):
    level = judge(tmp_path, LoaderThreads(), np.random.default_rng(37))["single_process_loss"]
    shares = {one["cause"]: one["share"]["value"] for one in level["named"]}
    assert shares["loader_lock"] == pytest.approx(7.9 / 18.2, abs=0.06)
    assert sum(shares.values()) < 0.55


def test_what_a_loader_computes_is_not_taken_off_the_pauses(tmp_path):
    (named, _) = judge(tmp_path, Paused(), np.random.default_rng(29))["single_process_loss"][
        "named"
    ]
    assert named["cause"] == "pauses"
    assert named["share"]["value"] == pytest.approx(8 / 18.2, rel=0.1)


def test_what_stopping_costs_is_the_quotas_too(tmp_path):
    """The kernel counts for how long members are held back, and not that they go on cold."""
    rng = np.random.default_rng(31)
    target = judge(tmp_path, ColdQuota(), rng)
    (named,) = target["scaling_loss"]["named"]
    assert named["share"]["value"] == pytest.approx(1.0, abs=0.1)
    assert {one["kind"] for one in named["for"]} == {"intervention", "account"}
    (row,) = (one for one in target["interventions"] if one["intervention"] == "quota_bursts")
    assert row["scaling_loss"]["value"] == pytest.approx(1.0, abs=0.1)
    assert row["comes_back"] is row["single_process_loss"] is None  # a burst is no way to train
    (counted,) = judge(tmp_path, ColdQuota(interventions=ALL), rng)["scaling_loss"]["named"]
    assert counted["share"]["value"] == pytest.approx(10.2 / 12.7, abs=0.05)


class UnsteadyBursts(ColdQuota):
    """Bursts that take three times as long in every other window."""

    windows = 0

    def step(self, intervention, n):
        step = ColdQuota.step(self, intervention, n)
        if intervention == "quota_bursts":
            self.windows += 1
            step.user *= (
                3 if self.windows % 4 < 2 else 1
            )  # alone in one block, together in the next
        return step


def test_what_is_counted_of_a_quota_holds_whatever_bursts_tell(tmp_path):
    target = judge(tmp_path, UnsteadyBursts(), np.random.default_rng(41))
    (named,) = target["scaling_loss"]["named"]
    assert named["share"]["low"] > 0.6  # of 0.8 that are counted
    (row,) = (one for one in target["interventions"] if one["intervention"] == "quota_bursts")
    assert row["scaling_loss"]["low"] < 0.4


def test_what_taking_turns_costs_is_the_pile_ups_too(tmp_path):
    """The kernel counts for how long members wait, and not that they find their caches cold."""
    rng = np.random.default_rng(43)
    (named,) = judge(tmp_path, ColdPileUp(), rng)["scaling_loss"]["named"]
    assert named["share"]["value"] == pytest.approx(1.0, abs=0.1)
    assert {one["kind"] for one in named["for"]} == {"intervention", "account", "fact"}
    (counted,) = judge(tmp_path, ColdPileUp(interventions=ALL[3:]), rng)["scaling_loss"]["named"]
    assert counted["share"]["value"] == pytest.approx(12.7 / 15.2, abs=0.05)


@dataclasses.dataclass(slots=True)
class Beside(World):
    """Another program on a CPU that nobody else wants; its memory traffic is felt, and no wait."""

    busy: float = 1.0

    def step(self, intervention, n):
        return Step(user=12 * MS, foreign_cpus=self.busy)


@pytest.mark.parametrize(
    ("busy", "expected"), [(1.0, "inconclusive"), (0.2, "inconclusive"), (0.08, "ruled_out")]
)
def test_another_program_is_not_ruled_out_by_a_part_of_its_cost(tmp_path, busy, expected):
    level = judge(tmp_path, Beside(busy=busy), np.random.default_rng(53))["single_process_loss"]
    (found,) = (one for one in level[expected] if one["cause"] == "foreign_load")
    assert found["share"]["high"] < 0.05
    assert level["named"] == []
    told = any("memory traffic" in one["text"] for one in found["open"])
    assert told == (expected == "inconclusive")


def test_what_binding_brings_back_is_no_pile_up_where_nobody_waits(tmp_path):
    growth = judge(tmp_path, Migrations(), np.random.default_rng(47))["scaling_loss"]
    assert "affinity_pileup" in {one["cause"] for one in growth["ruled_out"]}


class HiddenSmt(Smt):
    """The same core of two CPUs, of a virtual machine that does not show it."""

    def machine(self):
        return World.machine(self) | {"virtual": "hypervisor"}


def untested(target):
    return {one["cause"]: one["reason"] for one in target["scaling_loss"]["not_tested"]}


def ruled_out(target):
    return {one["cause"] for one in target["scaling_loss"]["ruled_out"]}


def test_a_machine_that_hides_its_siblings_gets_no_word_on_them(tmp_path):
    target = judge(tmp_path, HiddenSmt(), np.random.default_rng(61))
    assert causes(target) == set()
    assert "does not tell which" in untested(target)["smt"]


@pytest.mark.parametrize("mhz", [None, 3000.0])
def test_what_needs_the_clock_is_not_ruled_out_without_it(tmp_path, mhz):
    class Steady(World):
        def step(self, intervention, n):
            return dataclasses.replace(self.crowd(Step(), n), frequency_mhz=mhz)

    target = judge(tmp_path, Steady(n=4), np.random.default_rng(67))
    assert causes(target) == {"scaling_loss cpu_oversubscription"}
    needs_it = {"frequency", "memory_bandwidth"}
    if mhz is None:
        assert needs_it <= {cause for cause, why in untested(target).items() if "clock" in why}
        assert not needs_it & ruled_out(target)
    else:
        assert needs_it <= ruled_out(target)


def test_siblings_are_told_from_a_falling_clock_only_where_the_clock_is_known(tmp_path):
    target = judge(tmp_path, Smt(mhz=None), np.random.default_rng(71))
    assert causes(target) == set()
    assert "clock" in untested(target)["smt"]


def test_a_stream_that_slows_the_training_is_named_without_a_clock(tmp_path):
    """A loop in registers beside it is the control: a lower clock slows both down."""
    assert causes(judge(tmp_path, Bandwidth(), np.random.default_rng(73))) == {
        "scaling_loss memory_bandwidth"
    }


@pytest.mark.parametrize(
    ("share", "agrees", "expected"),
    [
        ((0.5, 0.3, 0.7, 0.2), (True, True), "named"),
        ((0.5, 0.3, 0.7, 0.2), (True, None), "inconclusive"),
        ((0.5, 0.3, 0.7, 0.2), (True, False), "inconclusive"),
        ((0.5, 0.02, 0.98, -0.1), (False, True), "inconclusive"),
        ((0.04, -0.1, 0.12, -0.2), (False,), "inconclusive"),
        ((0.04, -0.1, None, None), (False,), "inconclusive"),
        ((0.04, None, None, None), (), "inconclusive"),
        ((0.04, 0.0, 0.09, 0.0), (True,), "ruled_out"),
        ((0.04, 0.0, 0.09, 0.0), (False,), "ruled_out"),
        ((0.0, 0.0, 0.0, 0.0), (), "ruled_out"),
    ],
)
def test_only_a_share_that_is_surely_small_is_ruled_out(share, agrees, expected):
    measured = says(*share)(None)
    evidence = [Evidence(one, "account", "for this test") for one in agrees]
    assert verdict._decide(measured, evidence) == expected


class Uncounted(Quota):
    """A kernel that counts no pressure and no throttled time."""

    def edit(self, record):
        if record["kind"] == "window":
            record["machine"].update(throttled_s=None, psi_memory_some_s=None)
        return record


@pytest.mark.parametrize("seen", [True, False])
def test_what_is_not_counted_or_not_looked_at_is_not_ruled_out(tmp_path, seen):
    rng = np.random.default_rng(79)
    world = Uncounted()
    path = write_run(tmp_path / "0.jsonl", world, rng, **NOISE)
    records = [world.edit(json.loads(line)) for line in path.read_text().splitlines()]
    kept = [one for one in records if seen or one["kind"] != "samples"]
    path.write_text("".join(json.dumps(one) + "\n" for one in kept))
    target = verdict.diagnose([path], microbenchmarks(world, rng), None)
    counted = {"cpu_quota", "swap"}
    looked_at = {"lock_contention", "file_io", "pauses", "stopped"}
    assert counted <= set(untested(target))
    assert (looked_at <= ruled_out(target)) == seen
    assert (looked_at <= set(untested(target))) == (not seen)


def test_a_test_that_cannot_tell_says_so(tmp_path):
    """Windows beside stressors scatter by more than the 5% that would count."""

    class Doubled(World):
        def step(self, intervention, n):
            return Step(user=10 * MS * n)

    growth = judge(tmp_path, Doubled(), np.random.default_rng(3), noise=0.12)["scaling_loss"]
    opens = [text["text"] for one in growth["inconclusive"] for text in one["open"]]
    assert any("too wide to tell" in text for text in opens)
    assert all(
        "too wide to tell" not in text["text"]
        for name in ("named", "ruled_out", "inconclusive")
        for one in growth[name]
        for side in ("for", "against")
        for text in one[side]
    )


class PiledStreams(ColdPileUp):
    """The same, of members that streams through memory would slow down if they ran at once."""

    def beside(self, kernel, dose):
        return 1 + 0.4 * dose * (kernel == "memory")

    def inflation(self, kernel):
        return 1.6 if kernel == "memory" else 1.0


def test_what_taking_turns_costs_is_not_told_again_as_memory_traffic(tmp_path):
    (named,) = judge(tmp_path, PiledStreams(), np.random.default_rng(59))["scaling_loss"]["named"]
    assert named["cause"] == "affinity_pileup"


class PiledSpinning(Spinning):
    """Two threads each that spin, and all members on the same two of four CPUs."""

    interventions = (*ALL, "unpinned")

    def step(self, intervention, n):
        if n == 1 or intervention in {"one_thread", "pinned", "unpinned"}:
            return Spinning.step(
                self, intervention if intervention in {"one_thread", "passive"} else "", 1
            )
        together = Spinning.step(self, intervention, n)
        if intervention == "passive":
            together.user, together.runqueue = 11 * MS, 9 * MS
        together.trainers_cpus = 2
        return together


def test_a_pile_up_of_threads_that_spin_is_told_once(tmp_path):
    """Either change brings nearly all of it back; what is counted as waiting is the pile-up's."""
    growth = judge(tmp_path, PiledSpinning(cpus=4), np.random.default_rng(53))["scaling_loss"]
    shares = {one["cause"]: one["share"]["value"] for one in growth["named"]}
    assert shares == {
        "affinity_pileup": pytest.approx(50 / 90, abs=0.1),
        "spinning": pytest.approx(39 / 90, abs=0.1),
    }


def says(*share):
    """Give this share, or none."""
    evidence = Evidence(True, "intervention", "for this test")
    found = (
        Measured(Interval(*share), np.zeros(1), evidence) if share else Untested("for this test")
    )
    return lambda _: found


@pytest.mark.parametrize(
    ("counted", "told", "expected"),
    [
        ((0.8, 0.7, 0.9, 0.7), (1.0, 0.4, 1.6, -0.1), (1.0, 0.7, 1.6, 0.7)),
        ((0.8, 0.7, 0.9, 0.7), (1.0, 0.9, 1.1, 0.8), (1.0, 0.9, 1.1, 0.8)),
        ((0.8, 0.7, 0.9, 0.7), (0.5, 0.4, 0.6, 0.3), (0.8, 0.7, 0.9, 0.7)),
        ((0.3, 0.2, 0.4, 0.2), (1.0, 0.9, 1.1, 0.8), (0.3, 0.2, 0.4, 0.2)),
        ((0.8, 0.7, 0.9, 0.7), (1.0, None, None, None), (0.8, 0.7, 0.9, 0.7)),
        ((0.8, 0.7, 0.9, 0.7), (), (0.8, 0.7, 0.9, 0.7)),
        ((), (1.0, 0.9, 1.1, 0.8), (1.0, 0.9, 1.1, 0.8)),
    ],
)
def test_a_share_is_no_less_than_what_is_counted_of_it(counted, told, expected):
    found = floored_by_count(says(*counted), says(*told))(None)
    assert found.estimate == Interval(*expected)


@pytest.mark.parametrize("name", NOTHING)
def test_no_cause_is_named_where_none_is_injected(tmp_path, name):
    rng = np.random.default_rng(13)
    for _ in range(15):
        assert not causes(judge(tmp_path, NOTHING[name], rng))


@pytest.mark.long
@pytest.mark.parametrize("name", NOTHING)
def test_of_a_thousand_studies_without_a_cause_hardly_any_names_one(tmp_path, name, capsys):
    rng = np.random.default_rng(17)
    found = Counter()
    wrong = 0
    for _ in range(1000 // len(NOTHING) + 1):
        named = causes(judge(tmp_path, NOTHING[name], rng, noise=rng.uniform(0.03, 0.05)))
        found.update(named)
        wrong += bool(named)
    with capsys.disabled():
        print(f"\n{name}: {wrong} of {1000 // len(NOTHING) + 1} name a cause {dict(found)}")
    assert wrong <= 3


@pytest.mark.long
@pytest.mark.parametrize("name", NOTHING)
def test_a_slow_start_is_no_cause(tmp_path, name):
    """Where starts differ by a tenth, an intervention that started better is no remedy."""
    rng = np.random.default_rng(23)
    named = [causes(judge(tmp_path, NOTHING[name], rng, start=0.1)) for _ in range(60)]
    assert sum(map(bool, named)) <= 2


@pytest.mark.long
def test_injected_causes_come_first_in_nine_of_ten(tmp_path, capsys):
    rng = np.random.default_rng(19)
    for injected in INJECTED:
        world = injected()
        found = Counter(first(judge(tmp_path, world, rng)) for _ in range(20))
        with capsys.disabled():
            print(f"\n{injected.__name__}: {dict(found)}", end="")
        assert found[world.first] >= 18
