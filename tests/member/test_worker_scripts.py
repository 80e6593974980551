"""Real training scripts under the real worker: their steps, phases, restarts and reports."""

import json
import os
import signal
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import scaling_study
from processes import has_ended, wait_ended, wait_until
from scaling_study.host import kernel_counters
from scaling_study.member import channel
from scaling_study.runner.environment import member_environment
from small_cohort import SmallCohort

WORKLOADS = Path(__file__).parents[1] / "workloads"
LIBRARY = str(Path(scaling_study.__file__).parents[1])
CPU = min(os.sched_getaffinity(0))
MS = 1_000_000

# What a script sees of itself and of its interpreter.
TELLS = '''
"""A script that tells what it sees, then makes steps."""
import json, os, signal, sys
from pathlib import Path

told = {
    "argv": sys.argv,
    "file": __file__,
    "name": __name__,
    "doc": __doc__,
    "main": sys.modules["__main__"].__dict__ is globals(),
    "spec": __spec__ is None,
    "path": sys.path,
    "cwd": os.getcwd(),
    "flags": str(sys.flags),
    "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "stdin": sys.stdin.read(),
}
Path(sys.argv[1]).write_text(json.dumps(told))
if "ONLY" in os.environ:
    sys.exit()

from scaling_study import mark
import torch

while True:
    torch.ones(8).sum()
    mark()
    Path(sys.argv[1]).with_name("modules").write_text("\\n".join(sys.modules))
'''

# Every phase takes a time of its own: 5 ms to load, 3 in backward, 4 in the optimizer's own part,
# and, if there is a closure, 6 of forward in it. Every step collects garbage once.
PHASES = """
import gc, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 10**6
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.ones(4)

class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return values.clone()
    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.003)
        return gradient

class SlowOptimizer(torch.optim.SGD):
    def step(self, closure=None):
        time.sleep(0.004)
        return closure() if closure else None

weights = torch.ones(4, requires_grad=True)
optimizer = SlowOptimizer([weights], lr=0.1)
for batch in DataLoader(Slow(), batch_size=1):
    def closure():
        time.sleep(0.006)
        gc.collect(0)
        loss = SlowBackward.apply(weights * batch).sum()
        loss.backward()
        return loss
    if "closure" in sys.argv:
        optimizer.step(closure)
    else:
        closure()
        optimizer.step()
"""

# An optimizer that steps another one, and one that extends another's class: each makes one step
# for two of torch's calls. They take turns of ten, so that each step ends an iteration. The script
# tells how many of its own steps it made.
NESTED = """
import sys, torch
from pathlib import Path

class Outer(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        self.inner = torch.optim.SGD(params, lr=0.1)
    def step(self, closure=None):
        self.inner.step()

class Own(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)

weights = [torch.ones(4, requires_grad=True)]
optimizers = [Outer(weights), Own(weights, lr=0.1)]
for number in range(10**9):
    optimizers[number // 10 % 2].step()
    Path(sys.argv[1]).write_text(f"{number + 1}\\n")
"""


SCRIPTS = [
    "plain_loop.py", "lightning_fit.py", "closure_optimizer.py", "loader_workers.py",
    "plain_loop.py --steps 15", "recompiles.py",
]  # fmt: skip
TOLD, STEPS_IN_STEPS, BARE_PHASES, CLOSURE_PHASES = range(len(SCRIPTS), len(SCRIPTS) + 4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """All scripts in one cohort: torch is imported by a fork server and by one fresh member."""
    folder = tmp_path_factory.mktemp("skripte mit ü")
    (folder / "TELLS.py").write_text(TELLS)
    (folder / "PHASES.py").write_text(PHASES)
    (folder / "NESTED.py").write_text(NESTED)
    one = SmallCohort(folder / "cohort", CLOSURE_PHASES + 1)
    try:
        fresh = one.launcher(step="mark", switches=["scaling_study.launch.axes.threads:inter_op=3"])
        one.start(fresh, TOLD, folder / "TELLS.py", folder / "told", "--x", "ü")
        fork = one.launcher("fork")
        for slot, words in enumerate(SCRIPTS):
            name, *options = words.split()
            one.start(fork, slot, WORKLOADS / name, *options, cpus=str(CPU))
        one.start(fork, STEPS_IN_STEPS, folder / "NESTED.py", folder / "number")
        one.start(fork, BARE_PHASES, folder / "PHASES.py")
        one.start(fork, CLOSURE_PHASES, folder / "PHASES.py", "closure")
        one.wait_resting(range(CLOSURE_PHASES + 1))
        one.server = fork
        yield one
    finally:
        one.close()


@pytest.mark.parametrize("slot", [*range(len(SCRIPTS)), TOLD], ids=[*SCRIPTS, "marked"])
def test_a_script_trains_and_rests(trained, slot):
    steps = trained.train(slot, 8)
    assert len(steps) >= 8
    for duration, step in steps:
        assert duration > 0
        assert step.load_ns + step.backward_ns + step.optimizer_ns <= duration
    pid = trained.members.pids[slot]
    assert not has_ended(pid)
    assert trained.members.words(slot)[channel.TRAINER_TID] == pid


@pytest.mark.parametrize(
    ("slot", "present"),
    [
        (SCRIPTS.index("plain_loop.py"), {"backward", "optimizer"}),
        (SCRIPTS.index("lightning_fit.py"), {"load", "backward", "optimizer"}),
        (SCRIPTS.index("closure_optimizer.py"), {"backward", "optimizer"}),
        (SCRIPTS.index("loader_workers.py"), {"load", "backward", "optimizer"}),
        (TOLD, set()),
    ],
)
def test_phases_of_real_scripts(trained, slot, present):
    steps = trained.train(slot, 8)
    names = ("load", "backward", "optimizer")
    assert {
        name for name in names if any(getattr(step, f"{name}_ns") for _, step in steps)
    } == present


@pytest.mark.parametrize("slot", [BARE_PHASES, CLOSURE_PHASES])
def test_times_are_attributed_to_what_took_them(trained, slot):
    """Each has at least its own: what another had too much, one of them would lack."""
    steps = trained.train(slot, 12)[1:]
    for duration, step in steps:
        assert step.load_ns >= 5 * MS
        assert step.backward_ns >= 3 * MS
        assert step.optimizer_ns >= 4 * MS
        assert duration - step.load_ns - step.backward_ns - step.optimizer_ns >= 6 * MS
        assert 0 < step.ns("collect") < duration


def test_what_is_compiled_in_a_step_is_timed_and_told(trained):
    slot = SCRIPTS.index("recompiles.py")
    steps = trained.train(slot, 6)
    assert all(0 < step.ns("compile") < duration for duration, step in steps)
    told = trained.read_back(slot).compiled
    assert told["times"] > 6
    assert told["seconds"] >= sum(step.ns("compile") for _, step in steps) / 1e9
    assert told["anew"] == told["cached"] == 0  # its compiler makes no kernels


def test_steps_of_optimizers_in_optimizers_count_once(trained):
    steps = 1 + len(trained.train(STEPS_IN_STEPS, 20))  # it rested once before
    # It rests inside its last step, before it has told of it.
    assert int((trained.folder.parent / "number").read_text()) == steps - 1


def test_a_script_that_ends_is_started_again_and_that_step_is_fresh(trained):
    slot = SCRIPTS.index("plain_loop.py --steps 15")
    before = trained.members.words(slot)[channel.RESTARTS]
    steps = [step for _, step in trained.train(slot, 50)]
    fresh = [at for at, step in enumerate(steps) if step.fresh]
    assert len(fresh) >= 3
    assert {later - earlier for earlier, later in pairwise(fresh)} == {15}
    restarts = trained.members.words(slot)[channel.RESTARTS]
    # At either edge it may have been between two runs.
    assert restarts - before - len(fresh) in {-1, 0, 1}
    told = trained.read_back(slot).ended
    assert (told.starts, told.steps, told.shortest, told.longest) == (restarts, 15, 15, 15)
    assert trained.read_back(TOLD).ended is None  # it trains for ever


def test_starting_a_loaders_processes_is_loading(trained):
    loads = [step.load_ns for _, step in trained.train(SCRIPTS.index("loader_workers.py"), 130)]
    # An epoch has 64 batches.
    assert sorted(loads)[-2] > 2 * statistics.median(loads)


def test_a_loaders_processes_belong_to_their_member(trained):
    slot = SCRIPTS.index("loader_workers.py")
    before = kernel_counters.read_tree(trained.members.pids[slot])
    trained.train(slot, 30)
    after = kernel_counters.read_tree(trained.members.pids[slot])
    used = kernel_counters.usage(before, after, trained.members.words(slot)[channel.TRAINER_TID])
    assert used.processes == 3
    assert used.cpu_s > used.trainer_user_s + used.trainer_system_s > 0


def test_a_script_sees_what_it_sees_without_the_harness(trained, tmp_path):
    folder = trained.folder.parent
    member = json.loads((folder / "told").read_text())
    bare = [sys.executable, folder / "TELLS.py", folder / "told", "--x", "ü"]
    environment = member_environment(os.environ, {}, {"ONLY": "1"})
    del environment["PYTHONPATH"]
    subprocess.run(bare, env=environment, stdin=subprocess.DEVNULL, check=True)
    alone = json.loads((folder / "told").read_text())
    ours, theirs = member.pop("path"), alone.pop("path")
    assert ours[0] == theirs[0] == str(folder)
    set_here = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    given = [*dict.fromkeys([LIBRARY, *set_here])]
    assert ours[1 : 1 + len(given)] == given
    assert [path for path in ours if path not in given] == [
        path for path in theirs if path not in given
    ]
    assert member == alone
    assert alone["name"] == "__main__"
    assert alone["argv"][1:] == [str(folder / "told"), "--x", "ü"]


def test_a_member_imports_nothing_of_the_study_around_it(trained):
    trained.train(TOLD, 2)
    modules = (trained.folder.parent / "modules").read_text().split()
    assert "torch" in modules
    tops = {name.partition(".")[0] for name in modules}
    assert not tops & {"snakemake", "pandas", "pydantic", "pyarrow", "matplotlib", "seaborn"}
    ours = {name for name in modules if name.startswith("scaling_study.")}
    # Its own, its counters, and what the axis of its one switch needs.
    packages = {".".join(name.split(".")[1:-1]) or name.split(".")[1] for name in ours}
    assert packages <= {"common", "launch", "launch.axes", "launch.counters", "member"}
    axes = {name.rpartition(".")[2] for name in ours if ".axes." in name}
    assert axes == {"axis", "preloading", "threads", "values"}


def test_a_member_reports_itself_fresh_or_forked(trained):
    report = trained.read_back(TOLD)
    pid = trained.members.pids[TOLD]
    assert (report.slot, report.launcher, report.pid) == (TOLD, "exec", pid)
    assert (report.intra_op, report.inter_op) == (1, 3)
    assert report.os_threads == len(list(Path(f"/proc/{pid}/task").iterdir()))
    assert report.sgemm_kernel is None  # it was not asked for
    trained.train(TOLD)
    slot = SCRIPTS.index("plain_loop.py")
    report = trained.read_back(slot)
    assert (report.launcher, report.pid) == ("fork", trained.members.pids[slot])
    assert report.cpus == [CPU]
    assert report.env["OMP_NUM_THREADS"] == "1"
    trained.train(slot)


def test_forked_members_end_with_their_server(trained):
    """The last test here: the server is gone after it, and one member is killed before it."""
    pids = [trained.members.pids[slot] for slot in range(len(SCRIPTS))]
    os.kill(pids[0], signal.SIGKILL)
    wait_ended(pids[0])
    # Nobody waits for it: the server has the kernel do so.
    wait_until(lambda: not Path(f"/proc/{pids[0]}").exists(), "no zombie")
    trained.server.close()
    for pid in pids:
        wait_ended(pid)
