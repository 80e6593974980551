"""Full and read-only disks: a small file system in memory, which needs root, as a study's results.

Who is not root gets the same by a limit of the size of files, and by a folder's mode.
"""

import os
import subprocess
import sys

import pytest

from faulty import GO_ON, FaultyStudy, small_disk

pytestmark = pytest.mark.faults

ROOM_BYTES = 64 * 1024
WINDOWS = 30

LIMITED = f"""
import os, resource, sys

resource.setrlimit(resource.RLIMIT_FSIZE, ({ROOM_BYTES},) * 2)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def study(tmp_path):
    return FaultyStudy(tmp_path, measure={"windows": WINDOWS})


def said(study):
    done = study.snakemake(*study.files)
    text = done.stdout + done.stderr
    assert done.returncode != 0, text
    assert "Traceback" not in text, text
    assert GO_ON in " ".join(text.split()), text
    return text


def completes(study, fault):
    done = study.snakemake(*study.files)
    assert done.returncode == 0, done.stdout + done.stderr
    fault.leaves(planned={1: WINDOWS, 2: WINDOWS})
    assert {end["status"] for end in study.ends().values()} == {"complete"}


def test_a_full_disk(study, record_property):
    with small_disk(study.results.parent) as disk:
        filler = disk / "filler"
        room = os.statvfs(disk)
        filler.write_bytes(b"x" * (room.f_bavail * room.f_frsize - ROOM_BYTES))
        text = said(study)
        assert "0.jsonl.part: No space left on device: make room there" in text
        full = study.fault("a full disk", record_property)
        full.leaves()
        filler.unlink()
        completes(study, full)


def test_a_read_only_disk(study, record_property):
    with small_disk(study.results.parent) as disk:
        subprocess.run(["/bin/mount", "-o", "remount,ro", disk], check=True)
        text = said(study)
        assert "Read-only file system: make it writable for this user" in text
        fault = study.fault("a read-only results folder", record_property)
        fault.leaves()
        subprocess.run(["/bin/mount", "-o", "remount,rw", disk], check=True)
        completes(study, fault)


def test_a_limit_of_the_size_of_files(study, record_property):
    """What a full disk is to who is not root: the same error in the same place."""
    words = [sys.executable, "-c", LIMITED, *study.command(*study.files)]
    done = subprocess.run(
        words, cwd=study.folder, env=study.environment(), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in text, text
    assert "File too large: raise the limit of a file's size (ulimit -f)" in text
    fault = study.fault("a file-size limit", record_property)
    fault.leaves()
    completes(study, fault)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(study, record_property):
    study.results.mkdir(parents=True)
    study.results.chmod(0o555)
    text = said(study)
    assert "Permission denied: make it writable for this user" in text
    fault = study.fault("a folder that is not ours", record_property)
    study.results.chmod(0o755)
    completes(study, fault)
