"""Every kind of loader: timed, cached, going on beside, and alone, in real members."""

import pytest

from jobs import WORKLOADS
from scaling_study.host import kernel_counters
from scaling_study.member import channel, loader_substitutes
from scaling_study.member.loader_substitutes import Ask
from small_cohort import SmallCohort

SCRIPT = WORKLOADS / "feeds.py"
MS = 1_000_000
KINDS = {
    "torch": ["torch"], "workers": ["torch", "--workers", "1"], "stateful": ["stateful"],
    "stateful workers": ["stateful", "--workers", "1"], "spdl": ["spdl"], "pipeline": ["pipeline"],
    "own": ["own"],
}  # fmt: skip
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


def ask(cohort, what):
    cohort.members.words(0)[channel.ASKED] = what.code


def mean_ms(steps, value):
    return sum(map(value, steps)) / len(steps) / MS


def load_ms(steps):
    return mean_ms(steps, lambda one: one[1].load_ns)


def step_ms(steps):
    return mean_ms(steps, lambda one: one[0])


@pytest.mark.parametrize("kind", KINDS)
def test_one_start_loads_as_it_is_from_memory_swapped_and_alone(cohort, kind):
    started(cohort, kind, ("loader_switched",), "--seconds", "0.02")

    def train(what):
        ask(cohort, what)
        return cohort.train(0, 50)[15:]  # more than what may be ready; more than an epoch

    waits_ms = 4 if kind in SPDL else 15  # two threads of its own make batches
    new = train(Ask())
    assert load_ms(new) >= waits_ms
    assert all(step.load_ns <= duration for duration, step in new)
    made_ms, computed_ms = (
        mean_ms(new, lambda one, part=part: one[1].ns(part))
        for part in ("loader_made", "loader_computed")
    )
    if kind.partition(" ")[0] in {"torch", "workers", "stateful"}:
        assert 20 <= made_ms < 60
        assert computed_ms < 10  # it sleeps
    else:
        assert made_ms == 0
    assert load_ms(train(Ask(loader_substitutes.FROM_MEMORY))) < 2
    assert load_ms(train(Ask(loader_substitutes.SWAPPED))) >= waits_ms
    alone = train(Ask(loader_substitutes.NOTHING))
    assert (8 if kind in SPDL else 18) < step_ms(alone) < 60
    assert all(step.optimizer_ns == step.backward_ns == 0 for _, step in alone)
    again = train(Ask())
    assert load_ms(again) >= waits_ms
    assert all(step.optimizer_ns for _, step in again)
    report = cohort.read_back(0)
    assert report.changes["loader_switched"]
    assert report.cached == {
        "cached_batches": 8, "cached_bytes": 8 * 8 * 16 * 4, "copied": False,
    }  # fmt: skip
    (found,) = report.loaders[-1:]
    assert found.workers == (1 if "workers" in kind else None if kind in SPDL else 0)
    assert found.settable == (kind.partition(" ")[0] in {"torch", "workers", "stateful"})


def test_a_pipeline_goes_into_a_process_of_its_own(cohort):
    """That process is forked from the training one, and trains nothing itself."""
    started(cohort, "pipeline", ("loader_switched", "pipeline_elsewhere"))
    assert load_ms(cohort.train(0, 80)) > 0  # more than two epochs
    ask(cohort, Ask(loader_substitutes.NOTHING))
    assert len(cohort.train(0, 80)) >= 80
    got = cohort.read_back(0)
    assert got.changes["loader_switched"]
    assert got.changes["pipeline_elsewhere"]
    (found,) = got.loaders[-1:]
    assert (found.workers, found.threads) == (None, False)


@pytest.mark.parametrize("kind", ["torch", "spdl"])
def test_batches_that_the_script_changes_are_copied(cohort, kind):
    """It adds to each batch in place, and fails where one comes that was added to."""
    started(cohort, kind, ("loader_switched",), "--in-place", "--seconds", "0.02")
    ask(cohort, Ask(loader_substitutes.FROM_MEMORY))
    assert load_ms(cohort.train(0, 60)[5:]) < 1
    assert cohort.read_back(0).cached["copied"]


@pytest.mark.parametrize("kind", ["workers", "stateful"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("gives", [loader_substitutes.NEW, loader_substitutes.NOTHING])
def test_one_process_loads_in_another_way(cohort, kind, workers, gives):
    pid = started(cohort, kind, ("loader_switched",), "--seconds", "0.02", "--samples", "800")
    children = len(family(pid))
    ask(cohort, Ask(gives, workers=workers, ahead=3))
    steps = cohort.train(0, 40)[15:]
    assert len(family(pid)) == children + workers
    assert (18 if workers == 0 else 8) < step_ms(steps) < (60 if workers == 0 else 17)
    ask(cohort, Ask())
    assert step_ms(cohort.train(0, 40)[15:]) > 18


def test_whole_batches_are_asked_for_where_rows_are_the_same(cohort):
    # Rows take many times what a busy machine adds.
    started(cohort, "rows", ("loader_switched",), "--seconds", "0.004")
    assert "whole_batches" not in cohort.read_back(0).impossible

    by_row_ms = step_ms(cohort.train(0, 50)[15:])
    ask(cohort, Ask(whole=True))
    assert step_ms(cohort.train(0, 50)[15:]) < by_row_ms / 2
    ask(cohort, Ask())
    assert step_ms(cohort.train(0, 50)[15:]) > by_row_ms / 2


def test_a_loader_that_lightning_iterates_over_is_asked_too(cohort):
    how = cohort.launcher(change=("loader_switched",))
    pid = cohort.start(how, 0, WORKLOADS / "lightning_fit.py", "--steps", "20000")
    cohort.wait_resting([0])
    for what, trains, workers in (
        (Ask(), True, 0),
        (Ask(loader_substitutes.SWAPPED), True, 0),
        (Ask(loader_substitutes.NOTHING), False, 0),
        (Ask(workers=1), True, 1),
    ):
        ask(cohort, what)
        steps = [step for _, step in cohort.train(0, 40)[10:]]
        assert all(bool(step.optimizer_ns) == trains for step in steps)
        assert len(family(pid)) == workers


def test_a_number_holds_what_is_asked_for():
    for one in (
        Ask(),
        Ask(loader_substitutes.NOTHING, 0, None),
        Ask(loader_substitutes.SWAPPED, 12, 8, whole=True),
    ):
        assert Ask.of(one.code) == one
        assert 0 <= one.code < 1 << 63
    assert Ask().code == 0


def family(pid):
    """Processes below one."""
    return [one for one in kernel_counters.descendants(pid) if one != pid]
