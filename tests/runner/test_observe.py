"""The unit of work that one observed start shows."""

import numpy as np
import pytest

from configs import minimal
from jobs import WORKLOADS, baseline_job
from scaling_study.config import estimate
from scaling_study.runner import jobs
from scaling_study.runner.observe import Observer, unequal

UNITS = WORKLOADS / "units.py"


def observed(folder, *args, limit_s=120.0, **workload):
    mapping = minimal(
        workload={"script": str(UNITS), "args": list(args), "cwd": str(folder), **workload}
    )
    job = jobs.read_job(baseline_job(mapping), 0)
    return Observer(job, folder / "builds", limit_s).observe()


@pytest.mark.parametrize(
    ("args", "unit", "seen"),
    [
        (["plain"], ("optimizer", False), "200 steps of torch optimizers, in one thread"),
        (["backward"], ("backward", False), "200 backward passes, and no step"),
        (["backward", "{n}"], ("run", False), "200 backward passes, and no step"),
        (["unequal"], ("run", False), "their times differ as those of unequal work"),
        (["threads"], ("run", False), "several threads of a process make steps"),
        (["exec"], ("run", False), "becomes another one (os.exec)"),
        (["pool", "{n}"], ("optimizer", True), "200 steps of torch optimizers in 2 processes"),
        (["pool", "2"], ("run", False), "200 steps of torch optimizers in 2 processes"),
        (["beside", "{n}"], ("run", False), "makes steps of its own, and so do 2 processes"),
        (["nothing", "1"], ("run", False), "no step of a torch optimizer and no backward pass"),
    ],
)
def test_one_start_shows_the_unit(tmp_path, args, unit, seen):
    start = observed(tmp_path, *args)
    assert (start.step, start.pool) == unit, start
    assert seen in start.why
    assert seen in estimate.unit(start)


def test_a_long_run_is_not_waited_for(tmp_path):
    start = observed(tmp_path, "long")
    assert (start.step, start.run_s) == ("optimizer", None)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["once"], ("a first run took", "workload.fresh_folder: true")),
        (["nothing", "600"], ("no step of a torch optimizer", "a run takes more than 6 s")),
        (["fails"], ("the program ended with status 1: no such data set",)),
    ],
)
def test_what_has_no_unit_is_told_so(tmp_path, args, words):
    start = observed(tmp_path, *args, limit_s=6.0 if "600" in args else 120.0)
    assert (start.step, start.run_s) == ("", None)
    assert all(word in start.why for word in words), start.why


def test_a_fresh_folder_lets_each_start_do_all(tmp_path):
    assert observed(tmp_path, "once", fresh_folder=True).step == "optimizer"


def test_files_that_each_start_writes_are_named(tmp_path):
    start = observed(tmp_path, "saves", "1")
    assert start.shared == (str(tmp_path / "model-1.pt"),)
    text = estimate.clash(start)
    assert text.startswith(f"each start writes {tmp_path}/model-1.pt: write {{member}}")
    assert "workload.fresh_folder" in text
    for args, more in ((["saves", "{member}"], {}), (["saves", "1"], {"fresh_folder": True})):
        start = observed(tmp_path, *args, **more)
        assert (start.step, start.shared, estimate.clash(start)) == ("optimizer", (), "")


def ends(times):
    return np.cumsum(np.asarray(times) * 1e9).astype(int).tolist()


RANDOM = np.random.default_rng(1)
NOISE = np.exp(RANDOM.normal(0, 0.1, 400))


@pytest.mark.parametrize(
    ("times", "found"),
    [
        (0.01 * NOISE, False),
        (0.01 * NOISE * RANDOM.choice([1, 2, 5, 100], 400), True),
        (0.01 * NOISE * RANDOM.uniform(1, 100, 400), True),
        (0.01 * NOISE * np.tile([1, 1, 1, 20], 100), False),  # a rollout before each fourth step
        (0.01 * NOISE * np.where(np.arange(400) % 50, 1, 100), False),  # a validation
        (0.01 * NOISE * np.where(RANDOM.random(400) < 0.03, 10, 1), False),  # others' programs
        (0.01 * NOISE[:20] * RANDOM.choice([1, 100], 20), False),  # too few to say
    ],
)
def test_unequal_work_has_no_pattern_that_recurs(times, found):
    assert unequal(ends(times)) is found
