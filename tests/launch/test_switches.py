"""Axes that change the process itself: in real members, and in the file beside a launch script."""

import inspect
import shutil
import subprocess
import sys
from contextlib import closing

import pytest
import torch

from made_records import UNBOUND, hardware
from processes import captured
from scaling_study.common.problems import ConfigError
from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes import training
from scaling_study.launch.axes.axis import Where
from scaling_study.launch.axes.axis_table import (
    AXES,
    DEFAULTS,
    checks,
    prepare,
    read_value,
    recorded,
    switches,
)
from scaling_study.records.readback import Check
from scaling_study.runner.switch_script import lines, render_switches
from small_cohort import SmallCohort
from switches import SCRIPT, placed_here

VALUES = {
    "inter_op": [3], "optimizer_kernel": ["foreach", "fused"],
    "matmul_precision": ["onednn-bf16", "bf16"],
    "autocast": ["bf16"], "memory_format": ["channels_last"], "compile": ["default"],
    "denormals": ["flush"], "gc": ["frozen"], "prefetch": [4],
    "persistent_workers": ["keep", "restart"], "loader_workers": [0, 2], "loader_cpus": ["rest", 1],
    "openmp_affinity": ["close", "spread"],
}  # fmt: skip
NEEDS_CPUS = {"loader_cpus", "openmp_affinity"}
APART = {"compile", *NEEDS_CPUS}
ALL = [
    {name: value}
    for name, values in VALUES.items()
    for value in values
    if name not in NEEDS_CPUS  # below, and in test_openmp.py
]
TOGETHER = {name: values[-1] for name, values in VALUES.items() if name not in APART}
"""All at once but compilation, which takes long, and what needs CPUs."""


def name_of(values):
    return ", ".join(f"{name} {value}" for name, value in values.items())


def test_every_switch_is_tried_here():
    own = {name for name, axis in AXES.items() if axis.apply is not None}
    assert set(VALUES) == own
    for name, values in VALUES.items():
        words = set(AXES[name].words) - {DEFAULTS[name]}
        assert words <= set(values)


@pytest.mark.parametrize(
    ("value", "used", "written"),
    [
        ("fused", ["AdamW", "AdamW"], ["torch.optim.AdamW"]),
        ("foreach", ["LBFGS", "Adam", "RMSprop"], ["torch.optim.Adam", "torch.optim.RMSprop"]),
        ("fused", ["LBFGS", "RMSprop"], ["YourOptimizer"]),
    ],
)
def test_the_lines_name_the_optimizers_that_the_script_uses(value, used, written):
    axes = {**DEFAULTS, "optimizer_kernel": value, "denormals": "flush"}
    found = [f"optimizer = {one}(model.parameters(), ..., {value}=True)" for one in written]
    assert lines(axes, used)[:-1] == found
    assert lines(axes, used)[-1] == "torch.set_flush_denormal(True)"
    text = render_switches(axes, "name.py", used)
    assert all(f"    {line}\n" in text for line in found)


@pytest.mark.parametrize("value", training.KERNELS)
def test_the_classes_with_a_kernel_are_those_of_torch(value):
    optimizers = [one for one in vars(torch.optim).values() if inspect.isclass(one)]
    having = {one.__name__ for one in optimizers if value in inspect.signature(one).parameters}
    assert set(training.KERNELS[value]) == having


def member(folder, values, script=SCRIPT, *arguments, slot=UNBOUND):
    """Start a member with these values; return its report, and the rows of its checks.

    The script may be a text.
    """
    if isinstance(script, str):
        (folder / "train.py").write_text(script)
        script = folder / "train.py"
    with closing(SmallCohort(folder / "cohort", 1)) as cohort:
        how = cohort.launcher(switches=switches(values))
        cohort.start(how, 0, script, *arguments, cpus=slot.cpus)
        cohort.wait_resting([0])  # after its first step
        got = cohort.read_back(0)
        cohort.train(0)
        assert cohort.read_back(0).switches == got.switches
    rows = {row.axis: row for row in checks(values, [slot], [got])}
    return got, {name: rows[name] for name in values}


@pytest.mark.parametrize("value", VALUES["loader_cpus"])
@pytest.mark.parametrize("workers", [2, 0])
def test_loader_workers_have_cpus_of_their_own(tmp_path, value, workers):
    values = {"intra_op": 1, "placement": "cores", "loader_cpus": value}
    placed = placed_here(values)
    slot = recorded(placed)
    got, rows = member(tmp_path, values, SCRIPT, "--workers", workers, slot=slot)
    trains_on = set(placed.cpus) - set(placed.loader_cpus)
    assert (got.cpus, rows["placement"].ok) == (sorted(trains_on), True)
    shown = slot.loader_cpus if workers else "no loader worker lives"
    asked = f"slot 0: {slot.loader_cpus}"
    assert rows["loader_cpus"] == Check("loader_cpus", asked, shown, ok=workers > 0)


COUNTED = """
import gc
collect, collected = gc.collect, []

def counting(*args):
    collected.append(args)
    assert len(collected) < 10, "once a step?"
    return collect(*args)

gc.collect = counting
"""


def test_an_optimizer_that_keeps_no_state_has_a_first_step_too(tmp_path):
    values = {"optimizer_kernel": "fused", "gc": "frozen"}
    got, rows = member(tmp_path, values, COUNTED + WITHOUT)
    assert all(row.ok for row in rows.values())
    assert got.switches == values


@pytest.mark.parametrize("values", [*ALL, TOGETHER], ids=name_of)
def test_a_switch_holds_in_a_member(tmp_path, values):
    if "compile" in values and not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    got, rows = member(tmp_path, values)
    assert {name: row.effective for name, row in rows.items() if not row.ok} == {}
    observed = {name for name in values if AXES[name].observe is not None}
    assert got.switches == {name: values[name] for name in observed}


WITHOUT = """
import torch
weight = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weight])
while True:
    weight.sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"loader_workers": 2}, "no torch DataLoader lives"),
        ({"prefetch": 2}, "no torch DataLoader with workers lives"),
        ({"persistent_workers": "keep"}, "no torch DataLoader with workers lives"),
        ({"autocast": "bf16"}, "no module was called"),
        ({"compile": "default"}, "no module was called before the first optimizer step"),
        ({"memory_format": "channels_last"}, "no convolution"),
        ({"optimizer_kernel": "fused"}, "default"),
    ],
)
def test_a_switch_that_finds_nothing_to_change_says_so(tmp_path, values, reason):
    _, rows = member(tmp_path, values, WITHOUT.replace("SGD([weight])", "Rprop([weight])"))
    (row,) = rows.values()
    assert (row.ok, row.effective) == (False, reason)


SHARDING = """
import torch
from torch.utils.data import DataLoader, IterableDataset{extra}
class Rows(IterableDataset):
    def __iter__(self):
        {first}
        return iter(torch.randn(1000, 4))
weight = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weight])
loader = DataLoader(Rows(), batch_size=2)
while True:
    for batch in loader:
        (batch * weight).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("extra", "first", "workers"),
    [("", "pass", 0), (", get_worker_info", "get_worker_info()", 2)],
    ids=["gives all rows to each", "may shard"],
)
def test_an_iterable_dataset_that_does_not_shard_gets_no_workers(tmp_path, extra, first, workers):
    script = SHARDING.format(extra=extra, first=first)
    got, rows = member(tmp_path, {"loader_workers": 2}, script)
    assert got.switches == {"loader_workers": workers}
    assert rows["loader_workers"].ok == (workers == 2)


def test_a_loader_that_only_a_loop_holds_is_seen(tmp_path):
    values = {"prefetch": 3, "persistent_workers": "keep", "loader_workers": 2}
    text = SHARDING.format(extra=", get_worker_info", first="get_worker_info()")
    text = text.replace("in loader:", "in DataLoader(Rows(), batch_size=2):")
    assert "loader = " in text
    script = "\n".join(line for line in text.splitlines() if "loader = " not in line)
    got, rows = member(tmp_path, values, script)
    assert got.switches == values
    assert all(row.ok for row in rows.values())


CONVOLUTIONS = """
import copy
import torch
def train(orders, state=None):
    torch.manual_seed(0)
    first, then = torch.nn.Conv{d}d(3, 4, 3), torch.nn.ConvTranspose{d}d(4, 2, 3)
    torch.nn.init.normal_(first.weight)  # in the order of memory: before it is another one
    model = torch.nn.Sequential(first, torch.nn.BatchNorm{d}d(4), torch.nn.ReLU(), then)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    if state is not None:
        optimizer.load_state_dict(copy.deepcopy(state))
    for _ in range(3):
        optimizer.zero_grad()
        found = model(torch.ones(2, 3, *[6] * {d}) + torch.randn(2, 3, *[6] * {d}))
        found.square().mean().backward()
        optimizer.step()
        orders.add(found.is_contiguous(memory_format=torch.channels_last{suffix}))
        orders.add(first.weight.grad.stride() == first.weight.stride())
    return found.square().mean().item(), optimizer.state_dict(), model
_, state, _ = train(set())
plain, _, model = train(set(), state)
from scaling_study.launch.axes import training
before = training.observe_memory_format()
del model
training.apply_memory_format("channels_last")
orders = set()
changed, _, model = train(orders, state)
print(before, training.observe_memory_format(), orders, abs(changed / plain - 1) < 1e-4)
"""


@pytest.mark.parametrize(("d", "suffix"), [(2, ""), (3, "_3d")])
def test_convolutions_compute_the_same_channels_last_also_from_a_loaded_state(d, suffix):
    """A fused optimizer takes numbers as they lie: all of a weight's must lie alike."""
    done = captured([sys.executable, "-c", CONVOLUTIONS.format(d=d, suffix=suffix)])
    assert done.stdout.split() == ["default", "channels_last", "{True}", "True"], done.stderr


# ---- the file beside the launch script


def loss(*words):
    """Train on a Python path without this package; return the last loss."""
    return float(subprocess.check_output([sys.executable, "-E", "-s", *words, "--epochs", "3"]))


def test_the_file_needs_nothing_of_its_modules(tmp_path):
    """Training ends with the same loss, up to what coarser numbers change."""
    file = tmp_path / "recommended.switches.py"
    file.write_text(render_switches({**DEFAULTS, **TOGETHER}, file.name))
    assert loss(file, SCRIPT) == pytest.approx(loss(SCRIPT), rel=0.05)


# ---- values in a config, and what a machine cannot do


def test_yamls_off_is_the_word_off():
    assert read_value("autocast", False, files=False) == "off"


@pytest.mark.parametrize("value", [-1, 4097, True, "two"])
def test_what_is_no_number_of_workers(value):
    with pytest.raises(ConfigError):
        read_value("loader_workers", value, files=False)
    assert read_value("loader_workers", 0, files=False) == 0


def test_compilation_needs_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="C\\+\\+ compiler"):
        prepare({"compile": "default"}, Where(hardware()))
