"""Real training scripts under the real worker: their steps, phases, restarts and reports."""

import os
import signal
import statistics
from contextlib import closing
from pathlib import Path

import pytest

from processes import has_ended, wait_ended, wait_until
from scaling_study.member import channel
from small_cohort import SmallCohort

WORKLOADS = Path(__file__).parents[1] / "workloads"
CPU = min(os.sched_getaffinity(0))

# It has no optimizer, and tells which modules there are.
MARKED = """
import sys
from pathlib import Path
import torch
from scaling_study import mark

while True:
    torch.ones(8).sum()
    mark()
    Path(sys.argv[1]).write_text("\\n".join(sys.modules))
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


PHASES = {
    "plain_loop.py": {"backward", "optimizer"},
    "lightning_fit.py": {"load", "backward", "optimizer"},
    "closure_optimizer.py": {"backward", "optimizer"},
    "loader_workers.py": {"load", "backward", "optimizer"},
    "recompiles.py": {"backward", "optimizer"},
    "marked.py": set(),
}
SCRIPTS = [name for name in PHASES if name != "marked.py"]
FRESH, STEPS_IN_STEPS = range(len(SCRIPTS), len(SCRIPTS) + 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """All scripts in one cohort: torch is imported by a fork server and by one fresh member."""
    folder = tmp_path_factory.mktemp("skripte mit ü")
    (folder / "marked.py").write_text(MARKED)
    (folder / "nested.py").write_text(NESTED)
    with closing(SmallCohort(folder / "cohort", STEPS_IN_STEPS + 1)) as one:
        fresh = one.launcher(step="mark", switches=["scaling_study.launch.axes.threads:inter_op=3"])
        one.start(fresh, FRESH, folder / "marked.py", folder / "modules")
        fork = one.launcher("fork")
        for slot, name in enumerate(SCRIPTS):
            one.start(fork, slot, WORKLOADS / name, cpus=str(CPU))
        one.start(fork, STEPS_IN_STEPS, folder / "nested.py", folder / "number")
        one.wait_resting(range(STEPS_IN_STEPS + 1))
        one.server = fork
        yield one


@pytest.mark.parametrize("name", PHASES)
def test_a_script_trains_in_its_phases_and_rests(trained, name):
    slot = SCRIPTS.index(name) if name in SCRIPTS else FRESH
    steps = trained.train(slot, 8)
    assert len(steps) >= 8
    seen = set()
    for duration, step in steps:
        spent = {one: getattr(step, f"{one}_ns") for one in ("load", "backward", "optimizer")}
        assert sum(spent.values()) <= duration
        assert duration > 0
        seen |= {phase for phase, ns in spent.items() if ns}
    assert seen == PHASES[name]
    pid = trained.members.pids[slot]
    assert not has_ended(pid)
    assert trained.members.words(slot)[channel.TRAINER_TID] == pid


def test_what_is_compiled_in_a_step_is_timed_and_told(trained):
    slot = SCRIPTS.index("recompiles.py")
    steps = trained.train(slot, 6)
    assert all(0 < step.ns("compile") < duration for duration, step in steps)
    assert any(0 < step.ns("collect") < duration for duration, step in steps)
    told = trained.read_back(slot).compiled
    assert told["times"] > 6
    assert told["seconds"] >= sum(step.ns("compile") for _, step in steps) / 1e9
    assert told["anew"] == told["cached"] == 0  # its compiler makes no kernels


def test_steps_of_optimizers_in_optimizers_count_once(trained):
    steps = 1 + len(trained.train(STEPS_IN_STEPS, 20))  # it rested once before
    # It rests inside its last step, before it has told of it.
    assert int((trained.folder.parent / "number").read_text()) == steps - 1


def test_starting_a_loaders_processes_is_loading(trained):
    loads = [step.load_ns for _, step in trained.train(SCRIPTS.index("loader_workers.py"), 130)]
    # An epoch has 64 batches.
    assert sorted(loads)[-2] > 2 * statistics.median(loads)


def test_a_member_imports_nothing_of_the_study_around_it(trained):
    trained.train(FRESH, 2)
    modules = (trained.folder.parent / "modules").read_text().split()
    assert "torch" in modules
    tops = {name.partition(".")[0] for name in modules}
    assert not tops & {"snakemake", "pandas", "pydantic", "pyarrow", "matplotlib", "seaborn"}
    ours = {name.split(".")[1] for name in modules if name.startswith("scaling_study.")}
    assert ours == {"common", "launch", "member", "queues"}


def test_a_member_reports_itself_fresh_or_forked(trained):
    steps = trained.members.words(FRESH)[channel.STEPS]
    report = trained.read_back(FRESH)
    pid = trained.members.pids[FRESH]
    assert (report.slot, report.launcher, report.pid) == (FRESH, "exec", pid)
    assert report.ended is None  # it trains for ever
    assert trained.members.words(FRESH)[channel.STEPS] == steps
    assert (report.intra_op, report.inter_op) == (1, 3)
    assert report.os_threads == len(list(Path(f"/proc/{pid}/task").iterdir()))
    trained.train(FRESH)
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
