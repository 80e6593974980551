"""Pages of real files: read, seen in memory, dropped."""

import os
import subprocess
from pathlib import Path

import pytest

from scaling_study.host import page_cache


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"file {number}" for number in range(3)]
    for path in paths:
        path.write_bytes(os.urandom(300_001))
    return paths


def test_what_is_read_is_in_memory_and_what_is_dropped_is_not(files, tmp_path):
    page_cache.load(files)
    assert page_cache.resident_share(files) == 1.0
    asked = ["stat", "--file-system", "--format=%T", tmp_path]
    if subprocess.check_output(asked, text=True).strip() in {"tmpfs", "ramfs"}:
        pytest.skip("the temporary folder is in memory: nothing can be dropped")
    page_cache.drop(files)
    assert page_cache.resident_share(files) < 0.1
    page_cache.load(files[:1])
    assert page_cache.resident_share(files) == pytest.approx(1 / 3, abs=0.1)


def test_files_that_are_gone_or_empty_count_nothing(tmp_path):
    (tmp_path / "empty").touch()
    files = [tmp_path / "empty", tmp_path / "gone"]
    page_cache.load(files)
    page_cache.drop(files)
    assert page_cache.resident_share(files) is None


def test_the_kernel_tells_nothing_of_files_of_other_users():
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # nobody
    try:
        assert page_cache.resident_share([Path("/etc/passwd")]) is None
    finally:
        os.seteuid(user)
