"""The workloads that are about feeding: every loader and way of reading, run as a user would."""

import os
import subprocess
import sys

import pytest

from jobs import ROOT

IMAGES = ROOT / "scripts/workloads/images.py"
PARQUET = ROOT / "scripts/workloads/parquet.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(script, *arguments, folder):
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
    text = said(run(IMAGES, *options, folder=tmp_path))
    assert text.startswith("loss ")
    assert text.endswith(" after 10 steps\n")
    assert len(list((tmp_path / "80-32-1").iterdir())) == 80


def test_processes_that_start_at_once_make_the_images_once(tmp_path):
    processes = [run(IMAGES, "--files", 40, "--epochs", 1, folder=tmp_path) for _ in range(2)]
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
    text = said(run(PARQUET, *how, *size, folder=tmp_path))
    assert text.endswith(" after 16 steps\n")
    assert [path.name for path in tmp_path.iterdir()] == ["8192-24-snappy-1.parquet"]
