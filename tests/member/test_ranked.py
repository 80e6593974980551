"""Members that are groups of ranks: real processes that train together through gloo."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from configs import ROOT
from processes import captured, wait_ended, wait_state
from scaling_study.host import kernel_counters
from scaling_study.member import channel
from scaling_study.queues import bind
from small_cohort import SmallCohort, train

SCRIPT = ROOT / "tests/workloads/ranks.py"
AXIS = ("scaling_study.launch.axes.ranks:ranks=2",)

pytestmark = pytest.mark.slow


@pytest.fixture
def groups(tmp_path):
    """A cohort of groups of two ranks."""
    cohort = SmallCohort(tmp_path / "cohort", 2, ranks=2)
    yield cohort
    cohort.close()


def start(cohort, slots, *options):
    how = cohort.launcher(switches=AXIS)
    pids = [cohort.start(how, slot, SCRIPT, *options) for slot in slots]
    cohort.wait_resting(slots)
    return pids


def test_all_ranks_rest_after_the_same_step_again_and_again(groups):
    start(groups, [0, 1])
    for _ in range(20):
        train(groups.members, [0, 1])
        for slot in (0, 1):
            own = groups.members.steps(slot)
            _, other = (page.steps() for page in groups.members.pages(slot))
            assert len(own) == len(other) >= 5
            assert groups.members.words(slot)[channel.REOPENED] == 0


def test_what_is_asked_is_asked_of_all_ranks(groups):
    groups.members.ask(1, 7)
    words = channel.open_words(groups.folder)
    asked = [channel.PageBlock(words, block).words[channel.ASKED] for block in range(4)]
    assert asked == [0, 0, 7, 7]


def test_a_resting_group_takes_no_cpu_time(groups):
    (pid,) = start(groups, [0])
    train(groups.members, [0])
    tree = [entry for entry in kernel_counters.descendants(pid) if entry != pid]
    assert len(tree) == 2
    for one in tree:
        wait_state(one, "S")
    used_s = kernel_counters.tree_cpu_s(pid)
    time.sleep(0.5)
    assert kernel_counters.tree_cpu_s(pid) - used_s < 0.05


def test_a_group_has_what_torchrun_sets(groups, tmp_path):
    start(groups, [0], "--variables", tmp_path / "seen")
    bare = tmp_path / "torchrun"
    for _ in range(3):  # its ranks meet at a port that another program may take first
        done = captured(
            [sys.executable, "-m", "torch.distributed.run", "--standalone",
             "--local-addr", "127.0.0.1", "--nproc-per-node", "2",
             SCRIPT, "--steps", "1", "--variables", bare],
            env=os.environ | {"GLOO_SOCKET_IFNAME": "lo"},
        )  # fmt: skip
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        ours = json.loads((tmp_path / f"seen-{rank}").read_text())
        theirs = json.loads(Path(f"{bare}-{rank}").read_text())
        differs = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "OMP_NUM_THREADS"}
        # Of torchrun's agent, which has the store; here rank 0 has it.
        agents = {"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE"}
        agents |= {"TORCHELASTIC_SIGNALS_TO_HANDLE"}
        sets = theirs.keys() - os.environ.keys() - differs - agents
        names = {
            name for name in sets if name.startswith(("TORCH", "RANK", "LOCAL", "GROUP", "RO"))
        }
        assert names >= {"RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_MAX_RESTARTS"}
        assert {name: ours.get(name) for name in names} == {name: theirs[name] for name in names}
        assert ours.keys() >= differs


@pytest.mark.parametrize("change", [(), ("one_element",)])
def test_ranks_that_exchange_one_number_rest_together_too(groups, change):
    groups.start(groups.launcher(switches=AXIS, change=change), 0, SCRIPT)
    groups.wait_resting([0])
    assert groups.read_back(0).changes["one_element"] is bool(change)
    for _ in range(3):
        train(groups.members, [0])
        _, other = (page.steps() for page in groups.members.pages(0))
        assert len(groups.members.steps(0)) == len(other)


def test_a_group_that_has_ended_starts_anew_on_another_port(groups):
    start(groups, [0], "--steps", "7")
    train(groups.members, [0], steps=9)
    assert groups.members.words(0)[channel.RESTARTS] >= 1
    assert any(step.fresh for step in groups.members.steps(0))
    train(groups.members, [0])
    told = groups.read_back(0).ended
    assert told.starts == groups.members.words(0)[channel.RESTARTS]
    assert (told.steps, told.shortest, told.longest) == (7, 7, 7)


def test_ranks_out_of_step_do_not_hang(groups):
    """Rank 1 makes three steps for each of rank 0's, so that it rests where rank 0 waits for it."""
    start(groups, [0], "--local", "3", "--pause", "0.01")
    train(groups.members, [0])


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_its_group_only(groups, victim):
    first, second = start(groups, [0, 1])
    tree = kernel_counters.descendants(first)
    os.kill(tree[1 + victim], signal.SIGKILL)
    log = groups.wait_ended(0)
    assert f"rank {victim} of 2 was killed by signal 9" in log
    for pid in tree:
        wait_ended(pid)
    train(groups.members, [1])
    assert len(kernel_counters.descendants(second)) == 3


def test_ranks_report_their_world_size_and_end_with_their_parent(groups):
    (pid,) = start(groups, [0])
    got = groups.read_back(0)
    assert (got.switches["ranks"], got.once) == (2, True)
    tree = kernel_counters.descendants(pid)
    os.kill(pid, signal.SIGKILL)
    for one in tree[1:]:
        wait_ended(one)


@pytest.mark.parametrize(
    ("last", "status", "words"),
    [("time.sleep(60)", 3, "rank 1 of 2 failed with status 3"), ("pass", 0, "")],
)
def test_a_plain_run_of_ranks_ends_once_or_with_the_first_failure(last, status, words):
    code = (
        "import os, sys, time; rank = os.environ['RANK']\n"
        "os.write(1, (rank + os.environ['OMP_NUM_THREADS']).encode())\n"
        f"if rank == '0': {last}\nelse: sys.exit({status})"
    )
    command = [sys.executable, "-P", bind.__file__, "--ranks", "2", "--", sys.executable, "-c"]
    done = captured([*command, code])
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert status or done.stdout in {"0111", "1101"}
