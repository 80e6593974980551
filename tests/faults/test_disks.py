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


def check(study, done, words, title, note, *, repair):
    """Assert that a run failed and said why; after the repair, the same command completes it."""
    text = done.stdout + done.stderr
    assert done.returncode != 0, text
    assert "Traceback" not in text, text
    assert words in text, text
    assert GO_ON in " ".join(text.split()), text
    fault = study.fault(title, note)
    fault.leaves()
    repair()
    study.succeeds(*study.files)
    fault.leaves(planned={1: WINDOWS, 2: WINDOWS})
    assert {end["status"] for end in study.ends().values()} == {"complete"}


def test_a_full_disk(study, record_property):
    with small_disk(study.results.parent) as disk:
        filler = disk / "filler"
        room = os.statvfs(disk)
        filler.write_bytes(b"x" * (room.f_bavail * room.f_frsize - ROOM_BYTES))
        done = study.snakemake(*study.files)
        words = "0.jsonl.part: No space left on device: make room there"
        check(study, done, words, "a full disk", record_property, repair=filler.unlink)


def test_a_read_only_disk(study, record_property):
    with small_disk(study.results.parent) as disk:

        def remount(how):
            subprocess.run(["/bin/mount", "-o", f"remount,{how}", disk], check=True)

        remount("ro")
        done = study.snakemake(*study.files)
        words = "Read-only file system: make it writable for this user"
        title = "a read-only results folder"
        check(study, done, words, title, record_property, repair=lambda: remount("rw"))


def test_a_limit_of_the_size_of_files(study, record_property):
    """What a full disk is to who is not root: the same error in the same place."""
    done = study.execute([sys.executable, "-c", LIMITED, *study.command(*study.files)])
    words = "File too large: raise the limit of a file's size (ulimit -f)"
    check(study, done, words, "a file-size limit", record_property, repair=lambda: None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write(study, record_property):
    study.results.mkdir(parents=True)
    study.results.chmod(0o555)
    done = study.snakemake(*study.files)
    words = "Permission denied: make it writable for this user"
    title = "a folder that is not ours"
    check(study, done, words, title, record_property, repair=lambda: study.results.chmod(0o755))
