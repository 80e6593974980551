"""Every kind of loader: timed, cached, going on beside, and alone, in real members."""

import time

import pytest

from jobs import WORKLOADS
from scaling_study.host import kernel_counters
from scaling_study.member import channel, loader_ways
from scaling_study.member.loader_ways import Ask
from small_cohort import SmallCohort

SCRIPT = WORKLOADS / "feeds.py"
MS = 1_000_000
KINDS = {
    "torch": ["torch"],
    "workers": ["torch", "--workers", "1"],
    "stateful": ["stateful"],
    "stateful workers": ["stateful", "--workers", "1"],
    "spdl": ["spdl"],
    "pipeline": ["pipeline"],
    "own": ["own"],
}
OWN = "__main__:Own"
SPDL = {"spdl", "pipeline"}


@pytest.fixture
def cohort(tmp_path):
    one = SmallCohort(tmp_path / "cohort", 1)
    yield one
    one.close()


def started(cohort, kind, change=(), *options):
    """Start a member that trains on a kind of loader; return it at rest."""
    how = cohort.launcher(change=change, loader=OWN if kind == "own" else "")
    pid = cohort.start(how, 0, SCRIPT, *KINDS.get(kind, [kind]), *options)
    cohort.wait_resting([0])
    return pid


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_loader_takes_is_timed(cohort, kind):
    started(cohort, kind, (), "--seconds", "0.02")
    steps = cohort.train(0, 30)[5:]
    if kind in SPDL:  # two threads of its own make batches
        assert sum(step.load_ns for _, step in steps) / len(steps) >= 5 * MS
    else:
        assert sum(step.load_ns for _, step in steps) / len(steps) >= 15 * MS
    assert all(step.load_ns <= duration for duration, step in steps)
    made_ns = sum(step.ns("loader_made") for _, step in steps) / len(steps)
    computed_ns = sum(step.ns("loader_computed") for _, step in steps) / len(steps)
    if "torch" in KINDS[kind] or "stateful" in KINDS[kind]:
        assert 20 * MS <= made_ns < 60 * MS
        assert computed_ns < 10 * MS  # it sleeps
    else:
        assert made_ns == 0
    (found,) = cohort.read_back(0).loaders[-1:]
    assert found.workers == (1 if "workers" in kind else None if kind in SPDL else 0)
    assert found.settable == (kind.partition(" ")[0] in {"torch", "workers", "stateful"})


@pytest.mark.parametrize("kind", ["workers", "stateful workers"])
def test_workers_that_send_nothing_make_their_batches_and_are_waited_for(cohort, kind):
    started(cohort, kind, ("no_copies",), "--seconds", "0.02")
    steps = [step for _, step in cohort.train(0, 80)[20:]]  # more than an epoch
    assert cohort.read_back(0).changes["no_copies"]
    assert sum(step.load_ns for step in steps) / len(steps) >= 15 * MS
    assert sum(step.ns("loader_made") for step in steps) / len(steps) >= 15 * MS


def ask(cohort, what):
    cohort.members.words(0)[channel.ASKED] = what.code


def test_a_pipeline_elsewhere_is_alone_too(cohort):
    """The process that it runs in is forked from the training one, and trains nothing itself."""
    started(cohort, "pipeline", ("loader_switched", "pipeline_elsewhere"))
    ask(cohort, Ask(loader_ways.NOTHING))
    assert len(cohort.train(0, 80)) >= 80
    changes = cohort.read_back(0).changes
    assert changes["loader_switched"]
    assert changes["pipeline_elsewhere"]


def test_a_pipeline_goes_into_a_process_of_its_own(cohort):
    started(cohort, "pipeline", ("pipeline_elsewhere",))
    steps = cohort.train(0, 80)  # more than two epochs
    assert any(step.load_ns for _, step in steps)
    got = cohort.read_back(0)
    assert got.changes["pipeline_elsewhere"]
    (found,) = got.loaders[-1:]
    assert (found.workers, found.threads) == (None, False)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_from_memory_need_no_loader(cohort, kind):
    started(cohort, kind, ("cached_batches",), "--seconds", "0.02")
    steps = cohort.train(0, 60)[5:]
    assert sum(step.load_ns for _, step in steps) / len(steps) < 1 * MS
    report = cohort.read_back(0)
    assert report.changes["cached_batches"]
    assert report.cached == {
        "cached_batches": 8, "cached_bytes": 8 * 8 * 16 * 4, "copied": False,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["torch", "workers", "spdl"])
def test_one_process_trains_on_new_batches_from_memory_and_on_swapped_ones(cohort, kind):
    started(cohort, kind, ("loader_switched",), "--seconds", "0.02")

    def load_ms(gives):
        ask(cohort, Ask(gives))
        steps = cohort.train(0, 50)[15:]  # more than what may be ready; more than an epoch
        return sum(step.load_ns for _, step in steps) / len(steps) / MS

    waiting = 4 if kind in SPDL else 15
    assert load_ms(loader_ways.NEW) >= waiting
    assert load_ms(loader_ways.FROM_MEMORY) < 2
    assert load_ms(loader_ways.SWAPPED) >= waiting
    assert load_ms(loader_ways.NEW) >= waiting
    report = cohort.read_back(0)
    assert report.changes["loader_switched"]
    assert report.cached["cached_batches"] == 8


@pytest.mark.parametrize("kind", ["torch", "spdl"])
def test_batches_that_the_script_changes_are_copied(cohort, kind):
    """It adds to each batch in place, and fails where one comes that was added to."""
    started(cohort, kind, ("cached_batches",), "--in-place", "--seconds", "0.001")
    cohort.train(0, 40)
    assert cohort.read_back(0).cached["copied"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_alone_trains_nothing(cohort, kind):
    started(cohort, kind, ("loader_switched",), "--seconds", "0.02")
    ask(cohort, Ask(loader_ways.NOTHING))
    steps = cohort.train(0, 50)[15:]  # more than an epoch
    mean_ns = sum(duration for duration, _ in steps) / len(steps)
    assert (8 if kind in SPDL else 18) * MS < mean_ns < 60 * MS
    assert all(step.optimizer_ns == step.backward_ns == 0 for _, step in steps)
    ask(cohort, Ask())
    assert all(step.optimizer_ns for _, step in cohort.train(0, 20)[1:])


@pytest.mark.parametrize("kind", ["workers", "stateful"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("gives", [loader_ways.NEW, loader_ways.NOTHING])
def test_one_process_loads_in_another_way(cohort, kind, workers, gives):
    pid = started(cohort, kind, ("loader_switched",), "--seconds", "0.02", "--samples", "800")
    children = len(family(pid))
    ask(cohort, Ask(gives, workers=workers, ahead=3))
    steps = cohort.train(0, 40)[15:]
    assert len(family(pid)) == children + workers
    mean_ns = sum(duration for duration, _ in steps) / len(steps)
    assert (18 if workers == 0 else 8) * MS < mean_ns < (60 if workers == 0 else 17) * MS
    ask(cohort, Ask())
    steps = cohort.train(0, 40)[15:]
    assert sum(duration for duration, _ in steps) / len(steps) > 18 * MS


def test_other_ways_to_load_end_with_the_epoch(cohort):
    pid = started(cohort, "torch", ("loader_switched",), "--seconds", "0.001")
    ask(cohort, Ask(workers=2))
    cohort.train(0, 80)
    assert len(family(pid)) == 2
    ask(cohort, Ask())
    cohort.train(0, 40)  # more than an epoch
    assert not family(pid)


def test_whole_batches_are_asked_for_where_rows_are_the_same(cohort):
    started(cohort, "rows", ("loader_switched",), "--seconds", "0.001")
    assert "whole_batches" not in cohort.read_back(0).impossible

    def mean_ms():
        steps = cohort.train(0, 50)[15:]
        return sum(duration for duration, _ in steps) / len(steps) / MS

    by_row = mean_ms()
    ask(cohort, Ask(whole=True))
    assert mean_ms() < by_row / 2
    ask(cohort, Ask())
    assert mean_ms() > by_row / 2


def test_a_loader_that_lightning_iterates_over_is_asked_too(cohort):
    how = cohort.launcher(change=("loader_switched",))
    pid = cohort.start(how, 0, WORKLOADS / "lightning_fit.py", "--steps", "20000")
    cohort.wait_resting([0])
    for what, trains, workers in (
        (Ask(), True, 0),
        (Ask(loader_ways.SWAPPED), True, 0),
        (Ask(loader_ways.NOTHING), False, 0),
        (Ask(workers=1), True, 1),
    ):
        ask(cohort, what)
        steps = [step for _, step in cohort.train(0, 40)[10:]]
        assert all(bool(step.optimizer_ns) == trains for step in steps)
        assert len(family(pid)) == workers


def test_a_number_holds_what_is_asked_for():
    for one in (
        Ask(),
        Ask(loader_ways.NOTHING, 0, None),
        Ask(loader_ways.SWAPPED, 12, 8, whole=True),
    ):
        assert Ask.of(one.code) == one
        assert 0 <= one.code < 1 << 63
    assert Ask().code == 0


def family(pid):
    """Processes below one."""
    return [one for one in kernel_counters.descendants(pid) if one != pid]


def cpu_s(cohort):
    return kernel_counters.tree_cpu_s(cohort.members.pids[0])


@pytest.mark.parametrize("kind", ["workers", "stateful workers", "spdl"])
def test_a_loader_goes_on_beside_batches_from_memory_at_the_rate_that_is_told(cohort, kind):
    many = ("--samples", "8000")  # an epoch lasts longer than is looked: at rest no other begins
    started(cohort, kind, ("loader_beside",), "--seconds", "0.001", *many)
    assert cohort.read_back(0).changes["loader_beside"]
    words = cohort.members.words(0)
    before_s = cpu_s(cohort)
    time.sleep(0.5)
    idle_s = cpu_s(cohort) - before_s
    words[channel.ASKED] = 2 * MS
    before_s = cpu_s(cohort)
    time.sleep(0.5)
    assert cpu_s(cohort) - before_s > 3 * idle_s + 0.02
    steps = cohort.train(0, 60)[5:]
    assert sum(step.load_ns for _, step in steps) / len(steps) < 3 * MS


def test_beside_a_pipeline_that_gives_one_epoch_the_script_makes_the_next_one(cohort):
    started(cohort, "pipeline", ("loader_beside",), "--seconds", "0.001")
    cohort.members.words(0)[channel.ASKED] = 1 * MS
    steps = cohort.train(0, 400)[5:]  # some ten epochs of it
    assert sum(step.load_ns for _, step in steps) / len(steps) < 5 * MS


def test_a_loader_that_the_config_does_not_name_is_not_known(cohort):
    how = cohort.launcher()
    cohort.start(how, 0, SCRIPT, "own")
    cohort.wait_resting([0])
    assert cohort.read_back(0).loaders == []
