"""Real confirmations, small ones, through the real entry and its supervisor."""

import json
import os
import subprocess
import sys
from itertools import accumulate, product

import pytest
from msgspec import structs

import confirm_jobs
import jobs
from confirm_jobs import of_kind
from jobs import WORKLOADS, environment, left_behind, processes
from processes import wait_until
from scaling_study.confirm import one_round
from scaling_study.launch.launchers.launcher import LaunchSpec, MemberSpec
from scaling_study.member import iterations
from scaling_study.records import codec
from scaling_study.records.confirmation import ConfirmationEnd, FirstModels
from scaling_study.runner.environment import INHERITED
from scaling_study.runner.free_run import Program
from scaling_study.runner.jobs import job_sections, job_text
from scaling_study.search.rounds import Decided, Wanted

# It has no torch to import, so that rounds hold whole models though they are short.
MARKS = """
import pandas, time
from scaling_study import mark
for _ in range(60):
    time.sleep(0.004)
    mark()
"""


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory):
    """One process at a time, whole models of 60 steps."""
    folder = tmp_path_factory.mktemp("confirmed")
    script = folder / "train.py"
    script.write_text(MARKS)
    plan = confirm_jobs.planned(script, 12, step="mark")
    found = confirm_jobs.recommendation(plan)
    return folder, plan, found, confirm_jobs.run(plan, found, folder)


def confirmed_rounds(folder, text, **options):
    """The rounds of a script of this text."""
    script = folder / "train.py"
    script.write_text(text)
    plan = confirm_jobs.planned(script, 12, **options)
    return of_kind(confirm_jobs.run(plan, confirm_jobs.recommendation(plan), folder), "round")


def test_every_arm_has_its_rounds_in_turn_with_busy_slots(confirmed):
    _, plan, _, records = confirmed
    head, *_ = records
    keys = sorted(arm.key for arm in head.arms)
    assert keys == ["default/fresh", *("recommended/forked", "recommended/fresh")]
    rounds = of_kind(records, "round")
    assert [one.turn for one in rounds] == [0] * 3 + [1] * 3 + [2] * 3
    assert [one.arm for one in rounds] == [one.arm for one in rounds[:3]] * 3
    assert all(one.status == "ok" for one in rounds), [one.reason for one in rounds]
    assert isinstance(records[-1], ConfirmationEnd)
    assert {arm.launch for arm in head.arms} == {plan.default, plan.baseline}
    for one in rounds:
        assert any(run.iterations > 1 for run in one.runs)
        for run in one.runs:
            times = [getattr(run, name) for name in ("began_s", "first_s", "latest_s", "ended_s")]
            seen = [seconds for seconds in times if seconds is not None]
            assert seen == sorted(seen)
            assert run.iterations <= 60
            if run.ended_s is not None:
                assert run.iterations == 60
        assert [run.model for run in one.runs] == list(range(len(one.runs)))
        ahead = [run.ahead for run in one.runs]
        forked = one.arm.endswith("forked")  # all but a study's first one
        assert ahead[1:] == [forked] * (len(ahead) - 1)
        assert forked or not ahead[0]


def test_what_forked_models_import_is_kept_with_its_time(confirmed):
    forked = [one for one in of_kind(confirmed[3], "round") if one.arm.endswith("forked")]
    ended = any(run.ended_s is not None for one in forked for run in one.runs)
    found = of_kind(confirmed[3], "imports")
    assert len(found) == ended  # on a busy machine none may have ended
    for one in found:
        assert "pandas" in one.modules
        assert one.left == {}
        assert max(one.seconds, key=one.seconds.get) == "pandas"


def test_the_same_again_runs_nothing(confirmed):
    folder, plan, found, records = confirmed
    (folder / "rounds.jsonl").unlink()  # as Snakemake does before it runs a job again
    assert confirm_jobs.run(plan, found, folder) == records


def test_an_interrupted_run_goes_on_after_its_last_round(confirmed, tmp_path):
    folder, plan, found, records = confirmed
    last = len(of_kind(records, "round"))  # after the head
    lines = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rounds.jsonl.part").write_text("".join([*lines[:last], '{"kind": "rou']))
    new = confirm_jobs.run(plan, found, tmp_path)
    assert new[:last] == records[:last]
    assert [new[last].turn, new[last].arm] == [records[last].turn, records[last].arm]
    assert new[last] != records[last]
    assert left_behind(tmp_path) == []


def test_another_choice_is_confirmed_anew_and_none_is_not(confirmed, tmp_path):
    folder, plan, found, _ = confirmed
    (tmp_path / "rounds.jsonl.part").write_bytes((folder / "rounds.jsonl").read_bytes())
    nothing = structs.replace(found, status="none", recommended=None, reason="no window")
    head, end = confirm_jobs.run(plan, nothing, tmp_path)
    assert head.arms == []
    assert isinstance(end, ConfirmationEnd)


def test_a_stop_leaves_no_process(tmp_path):
    plan = confirm_jobs.planned(WORKLOADS / "plain_loop.py", 600, args=["--steps", "100000000"])
    job = subprocess.Popen(
        confirm_jobs.command(plan, confirm_jobs.recommendation(plan), tmp_path),
        env=environment(tmp_path),
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: processes(tmp_path, "plain_loop.py"), "a model")
    job.terminate()
    assert job.wait(60) == 143
    assert left_behind(tmp_path) == []


def test_a_script_that_fails_is_given_up_with_its_words(tmp_path):
    rounds = confirmed_rounds(tmp_path, "raise SystemExit('no such data')\n")
    assert [one.status for one in rounds] == ["failed"] * 3
    assert all("slot 0 ended with status 1: no such data" in one.reason for one in rounds)


HANGS = """
import multiprocessing, torch

def train(seed):
    layer = torch.nn.Linear(512, 512)
    for _ in range(20):
        layer(torch.ones(512, 512)).mean().backward()

if __name__ == "__main__":
    torch.set_num_threads(2)
    train(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(train, range(2))
"""


def test_a_launch_whose_processes_hang_is_given_up(tmp_path):
    rounds = confirmed_rounds(tmp_path, HANGS, step="run")
    assert {one.status for one in rounds} == {"failed"}
    for one in rounds:
        assert "of the processes that it forked hang in " in one.reason, one.reason


TELL = """
import json, os, sys, torch
if __name__ == "__main__":
    told = {"argv": sys.argv, "path": sys.path[0], "env": dict(os.environ), "file": __file__,
            "cpus": sorted(os.sched_getaffinity(0)), "name": __name__,
            "threads": [torch.get_num_threads(), torch.get_num_interop_threads()]}
    open(os.environ["TOLD"], "w").write(json.dumps(told))
"""


@pytest.mark.parametrize("inter_op", [None, 3])
def test_the_counted_process_is_that_of_the_launch_script(tmp_path, monkeypatch, inter_op):
    from launch_scripts import plan, recommendation, slot, write

    monkeypatch.delenv("PYTHONPATH", raising=False)  # the counter stands in it
    script = tmp_path / "train.py"
    script.write_text(TELL)
    cpu = str(min(os.sched_getaffinity(0)))
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    own = {"OMP_NUM_THREADS": "2", "TOLD": str(tmp_path / "a")}
    found = recommendation([slot(0, cpu)], own, inter_op=inter_op or "default")
    subprocess.run(
        ["/bin/bash", write(tmp_path, found, plan(script, ["--x", "{member}"])), "logs"],
        cwd=tmp_path,
        check=True,
    )
    pages = tmp_path / "pages"
    pages.mkdir()
    switches = tmp_path / "recommended.switches.py" if inter_op else None
    env = {**kept, **own, "TOLD": str(tmp_path / "b")}
    launch = LaunchSpec(tmp_path, sys.executable, env, step="optimizer")
    program = Program([str(script)], switches)
    member = MemberSpec(0, cpu, "default", (str(script), "--x", "0"))
    words = [*program.command(launch, member, pages), *member.command[1:]]
    subprocess.run(words, env=env, cwd=tmp_path, check=True)
    first, second = (json.loads((tmp_path / name).read_text()) for name in "ab")
    assert second["env"].pop("PYTHONPATH") == iterations.HOOK
    assert second["env"].pop(iterations.VARIABLE) == f"optimizer||{pages}"
    for told in (first, second):
        told["env"].pop("TOLD")
    assert first == second


def test_ordinary_iterations_are_told_from_long_ones(tmp_path, monkeypatch):
    times_ns = [80 if step % 10 == 9 else 1 for step in range(40)]
    clock = accumulate([0, *times_ns])  # the page is made first
    monkeypatch.setattr(iterations.time, "monotonic_ns", lambda: next(clock))
    counter = iterations.IterationCounter(str(tmp_path), "mark")
    for _ in times_ns:
        counter.step_end()
    (page,) = iterations.read_pages(tmp_path)
    mean_ns = sum(times_ns[1:]) / len(times_ns[1:])
    assert one_round.ordinary_s(page.ends_ns(), long=4.0) == 1e-9
    assert one_round.ordinary_s(page.ends_ns(), long=1e6) == pytest.approx(mean_ns / 1e9)


CHILDREN = """
import multiprocessing, sys, torch

def train(steps):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2)).sum().backward()
        optimizer.step()

if __name__ == "__main__":
    context = multiprocessing.get_context("{how}")
    children = [context.Process(target=train, args=(steps,)) for steps in (3, 5)]
    [child.start() for child in children]
    [child.join() for child in children]
    train(2)
"""


@pytest.mark.parametrize(
    ("how", "step"),
    [*product(("fork", "spawn", "forkserver"), ["optimizer"]), ("fork", "backward")],
)
def test_a_process_that_the_script_starts_has_a_page_of_its_own(tmp_path, how, step):
    script, folder = tmp_path / "train.py", tmp_path / "pages"
    script.write_text(CHILDREN.format(how=how))
    folder.mkdir()
    env = os.environ | iterations.environment(folder, step, {})
    subprocess.run([sys.executable, script], env=env, check=True)
    own, *children = sorted(iterations.read_pages(folder), key=lambda page: page.iterations)
    assert [page.iterations for page in (own, *children)] == [2, 3, 5]
    assert [page.parent for page in children] == [own.pid] * 2 or how == "forkserver"


def test_another_sitecustomize_is_run_and_the_package_is_not_there(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins\nbuiltins.told = __file__\n")
    text = (
        "import sys\nassert told.endswith('other/sitecustomize.py')\n"
        "assert not [name for name in sys.modules if name.startswith('scaling_study')]\n"
        "assert not [path for path in sys.path if 'scaling_study' in path]\n"
    )
    script = tmp_path / "train.py"
    script.write_text(text)
    env = {**os.environ, "PYTHONPATH": str(other)}
    env |= iterations.environment(tmp_path / "pages", "optimizer", env)
    subprocess.run([sys.executable, "-P", script], env=env, check=True)


# ---- first models of a race


def trained(folder, start, script=MARKS):
    """What a round that trains first models writes, and measures nothing."""
    path, round_file = folder / "train.py", folder / "rounds/1.json"
    path.write_text(script)
    plan = confirm_jobs.planned(path, 12, step="mark")
    decided = Decided(
        schema_version=2, decided="", stage="race", reason="", batches=[], spent_s=0.0,
        launches=[plan.by_id[plan.baseline]], expected_s=0.0, budget_s=0.0, choice=None,
        not_screened=[], models=Wanted(plan.baseline, start, 60.0),
    )  # fmt: skip
    codec.write_file(round_file, decided)
    words = ["--job", job_text(job_sections(plan), None), "--builds", folder / "builds"]
    words += ["--log", folder / "log", "--output", folder / "1-0.done", "--round", round_file]
    command = [*jobs.supervised(), *jobs.STAGE, "race", *map(str, words)]
    (folder / "measure").mkdir()
    jobs.succeed(command, folder)
    assert jobs.left_behind(folder) == []
    found = codec.read_file(folder / "measure/models.json", FirstModels)
    assert found.launch == plan.baseline
    return found


def test_a_fresh_model_and_then_a_forked_one_are_trained_to_their_end(tmp_path):
    fresh, forked = trained(tmp_path, "forked").rounds
    assert (fresh.status, forked.status) == ("ok", "ok"), (fresh.reason, forked.reason)
    assert [run.ahead for run in fresh.runs] == [False]
    assert [run.ahead for run in forked.runs] == [False, True]
    for run in (*fresh.runs, *forked.runs):
        assert run.iterations == 60
        assert run.began_s < run.first_s < run.latest_s < run.ended_s
    starts = [run.first_s - run.began_s for run in (fresh.runs[0], forked.runs[1])]
    assert starts[1] < starts[0]  # pandas was imported before


def test_where_forking_is_not_wanted_there_is_a_fresh_model_only(tmp_path):
    (fresh,) = trained(tmp_path, "fresh").rounds
    assert [run.iterations for run in fresh.runs] == [60]


@pytest.mark.parametrize(
    ("script", "reason"), [("import sys; sys.exit('no data')", "no data"), ("", "iteration")]
)
def test_a_script_that_fails_is_no_failure_of_the_race(tmp_path, script, reason):
    (fresh,) = trained(tmp_path, "fresh", script).rounds
    assert fresh.status == "failed"
    assert reason in fresh.reason
