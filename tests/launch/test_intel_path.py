"""The library of ``blas: bundled-intel-path``: compiled once, by as many jobs as need it."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scaling_study.common.unavailable import UnavailableError
from scaling_study.launch.axes.libraries import intel_path_library

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def compiler(folder, monkeypatch, text):
    """Put a compiler of our own first on the path."""
    folder.mkdir()
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@needs_compiler
def test_it_is_compiled_once_for_each_machine(tmp_path, monkeypatch):
    here = intel_path_library(tmp_path / "builds", "here")
    assert ctypes.CDLL(here).mkl_serv_intel_cpu_true() == 1
    inode = Path(here).stat().st_ino
    other = intel_path_library(tmp_path / "builds", "other")
    assert other != here
    compiler(tmp_path / "bin", monkeypatch, "exit 1")  # nothing is compiled any more
    assert intel_path_library(tmp_path / "builds", "here") == here
    assert Path(here).stat().st_ino == inode
    assert sorted(map(str, (tmp_path / "builds").iterdir())) == sorted([here, other])


@needs_compiler
def test_jobs_that_begin_at_once_all_get_a_whole_one(tmp_path):
    code = (
        "import ctypes, pathlib, sys; from scaling_study.launch.axes import libraries; "
        "path = libraries.intel_path_library(pathlib.Path(sys.argv[1]), 'here'); "
        "print(path, ctypes.CDLL(path).mkl_serv_intel_cpu_true())"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    jobs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {job.communicate()[0].strip() for job in jobs}
    (library,) = tmp_path.iterdir()
    assert said == {f"{library} 1"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "there is no C compiler (cc)"), ("echo cannot find -lc >&2; exit 1", "find -lc")],
)
def test_without_a_compiler_that_works_the_launch_is_skipped(tmp_path, monkeypatch, text, reason):
    if text is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        compiler(tmp_path / "bin", monkeypatch, text)
    with pytest.raises(UnavailableError, match=re.escape(reason)) as caught:
        intel_path_library(tmp_path / "builds", "here")
    assert caught.value.remedy.startswith("apt install gcc")
    assert list(tmp_path.glob("builds/*")) == []
