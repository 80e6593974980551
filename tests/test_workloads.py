"""The shipped training scripts, and the small user scripts that other tests measure."""

import contextlib
import io
import math
import multiprocessing
import os
import runpy
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from unittest.mock import patch

import pytest

from configs import ROOT

TSMIXERX = ROOT / "scripts/workloads/tsmixerx.py"
NCF = ROOT / "scripts/workloads/ncf.py"


def run_as_main(script, *args):
    """Run a script in this process, as a member does; called in the runner process.

    Return the lines that it printed, and the optimizer of each of its steps.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    optimizers = []
    hook = register_optimizer_step_post_hook(
        lambda optimizer, *_: optimizers.append(type(optimizer).__name__)
    )
    output = io.StringIO()
    try:
        with patch.object(sys, "argv", [str(script), *args]), contextlib.redirect_stdout(output):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        hook.remove()
    return output.getvalue().splitlines(), optimizers


def operator_counts(script, *args):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run_as_main(script, *args)
    return {event.key: event.count for event in profiler.key_averages()}


def call(script, function, *args):
    return runpy.run_path(str(script))[function](*args)


def prepare(folder):
    import torch

    os.chdir(folder)
    torch.set_num_threads(1)
    # A spawned process would spawn its loaders' workers too; a script started as usual forks them.
    multiprocessing.set_start_method("fork", force=True)


@pytest.fixture(scope="module")
def in_runner(tmp_path_factory):
    """Call a function in one other process: it imports once, and every script must share it."""
    with ProcessPoolExecutor(
        max_workers=1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=prepare,
        initargs=(tmp_path_factory.mktemp("runner"),),
    ) as pool:
        yield lambda function, *args: pool.submit(function, *args).result()


@pytest.mark.slow
def test_tsmixerx_does_the_operators_of_the_reference_tables(in_runner):
    """In runs that differ by four steps; what is done once, such as set-up, cancels out."""
    expected = {
        "aten::bernoulli_": 11,
        "aten::native_layer_norm": 7,
        "aten::threshold_backward": 7,
        "autograd::engine::evaluate_function: MulBackward0": 14,
        "autograd::engine::evaluate_function: AddmmBackward0": 9,
        "autograd::engine::evaluate_function: ReluBackward0": 7,
        "Optimizer.step#AdamW.step": 1,
    }
    fewer, more = (in_runner(operator_counts, TSMIXERX, "--steps", steps) for steps in ("3", "7"))
    assert {name: (more[name] - fewer.get(name, 0)) / 4 for name in expected} == expected


@pytest.mark.slow
def test_tsmixerx_runs_again_in_the_same_process_with_one_adamw_step_per_step(in_runner):
    first, again = (in_runner(run_as_main, TSMIXERX, "--steps", "5") for _ in range(2))
    assert first[1] == ["AdamW"] * 5
    assert first == again


def test_tsmixerx_trains_another_data_set_for_another_seed(in_runner):
    one, same, other = (in_runner(call, TSMIXERX, "synthetic_series", 2, 50, n) for n in (1, 1, 2))
    assert one.equals(same)
    assert list(one.columns) == ["unique_id", "ds", "y"]
    assert not (one["y"] == other["y"]).any()


@pytest.fixture(scope="module")
def ncf():
    return runpy.run_path(str(NCF))


def test_ncf_rates_other_items_for_another_seed(ncf):
    one, same, other = (ncf["synthetic_ratings"](500, seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one[:, 1] != other[:, 1]).float().mean() > 0.9


def test_ncf_draws_negatives_that_the_user_never_rated(ncf):
    rows = ncf["synthetic_ratings"](60_000, seed=1)
    dataset = ncf["Ratings"](rows, negatives=4)
    rated = {(int(user), int(item)) for user, item in rows[:, :2]}
    for index in range(300):
        instances = dataset[index]
        assert instances.shape == (5, 24)
        assert (instances[0] == rows[index]).all()
        assert instances[:, 2].tolist() == [1, 0, 0, 0, 0]
        assert (instances[1:, [0, *range(3, 24)]] == instances[0, [0, *range(3, 24)]]).all()
        assert not {(int(user), int(item)) for user, item in instances[1:, :2]} & rated
    drawn = {tuple(dataset[0][1:, 1].tolist()) for _ in range(5)}
    assert len(drawn) == 5


def test_ncf_learns(in_runner):
    lines, optimizers = in_runner(
        run_as_main, NCF, "--rows", "8192", "--lr", "0.01", "--epochs", "3"
    )
    losses = [float(line.split()[3]) for line in lines]
    assert optimizers == ["Adam"] * 96
    assert losses == sorted(losses, reverse=True)
    # Better than to know only that one in five is positive: the entropy of that.
    assert losses[-1] < -(0.2 * math.log(0.2) + 0.8 * math.log(0.8))


# ---- every loader and way of reading of images.py and parquet.py, run as a user would

IMAGES = ROOT / "scripts/workloads/images.py"
PARQUET = ROOT / "scripts/workloads/parquet.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def started(script, *arguments, folder):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", script, "--data", folder, *map(str, arguments)],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


@pytest.mark.parametrize(
    "loader",
    [["torch"], ["stateful", "--workers", "1"], ["mt"], ["mtp"], ["cache"]],
    ids=" ".join,
)  # fmt: skip
def test_images_train_through_every_loader(tmp_path, loader):
    options = ["--loader", *loader, "--files", 80, "--size", 32, "--epochs", 2]
    text = said(started(IMAGES, *options, folder=tmp_path))
    assert text.startswith("loss ")
    assert text.endswith(" after 10 steps\n")
    assert len(list((tmp_path / "80-32-1").iterdir())) == 80


def test_processes_that_start_at_once_make_the_images_once(tmp_path):
    processes = [started(IMAGES, "--files", 40, "--epochs", 1, folder=tmp_path) for _ in range(2)]
    assert len({said(one) for one in processes}) == 1  # they train alike
    assert [path.name for path in tmp_path.iterdir()] == ["40-160-1"]


@pytest.mark.parametrize(
    ("source", "order", "read"),
    [("file", "groups", "all"), ("file", "rows", "needed"), ("http", "groups", "needed"),
     ("http", "rows", "all")],
)  # fmt: skip
def test_a_table_is_read_in_every_way(tmp_path, source, order, read):
    how = ["--source", source, "--order", order, "--read", read]
    size = ["--rows", 8192, "--epochs", 1, "--latency", 0.001, "--threads", 2]
    text = said(started(PARQUET, *how, *size, folder=tmp_path))
    assert text.endswith(" after 16 steps\n")
    assert [path.name for path in tmp_path.iterdir()] == ["8192-24-snappy-1.parquet"]
