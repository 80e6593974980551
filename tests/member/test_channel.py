"""The page and the pipes that a cohort's members and their coordinator share."""

import array
import itertools
import os
import shutil
import stat
import subprocess
import sys

import pytest

from processes import captured, private_folder
from scaling_study.member import channel
from scaling_study.member.channel import HEADER, STEP_FIELDS, STEPS, TIMED, PageBlock, Step

LIBRARY = str(channel.__file__).rpartition("/scaling_study/")[0]


@pytest.fixture
def folder(tmp_path):
    return private_folder(tmp_path / "cohort")


def test_one_mapping_sees_what_another_wrote(folder):
    channel.create(folder, 2)
    member, coordinator = (PageBlock(channel.open_words(folder), 1) for _ in range(2))
    steps = [[*range(at, at + STEP_FIELDS)] for at in range(5)]
    flat = array.array("q", itertools.chain.from_iterable(steps))
    member.words[HEADER : HEADER + len(flat)] = memoryview(flat)
    member.words[STEPS] = len(steps)
    assert coordinator.steps() == [Step(*step[:TIMED], step[TIMED:]) for step in steps]


def test_only_the_owner_may_open_what_is_shared(folder):
    channel.create(folder, 2)
    names = ["memory/page", "rest", "gate-0", "gate-1"]
    modes = {name: stat.S_IMODE((folder / name).stat().st_mode) for name in names}
    assert {mode & 0o077 for mode in modes.values()} == {0}, modes
    assert stat.S_ISFIFO((folder / "gate-1").stat().st_mode)


IN_LITTLE_MEMORY = """
import sys
from pathlib import Path
from scaling_study.member import channel
folder = Path(sys.argv[1])
channel.create(folder, 4)
words = channel.open_words(folder)
words[:] = memoryview(bytes(words.nbytes)).cast("q")
print((folder / channel.PAGE).resolve().relative_to(folder.resolve()))
"""


def test_a_page_that_does_not_fit_into_memory_lies_in_the_folder(folder):
    """A container's /dev/shm often has 64 MiB: touching more is a SIGBUS, not an error."""
    unshare = [shutil.which("unshare") or "unshare", "--mount"]
    unshare += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f"mount -t tmpfs -o size=1m none {folder / 'memory'}"
    try:
        subprocess.run([*unshare, "sh", "-c", mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here, in a name space of its own")
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, str(folder)]
    done = captured([*unshare, "sh", "-c", mount + ' && exec "$@"', "sh", *command])
    assert (done.returncode, done.stdout) == (0, "page\n"), done


def test_resting_slots_are_read_once_and_without_waiting(folder):
    channel.create(folder, 1)
    reader = os.open(folder / "rest", os.O_RDWR | os.O_NONBLOCK)
    assert channel.read_rest(reader) == (set(), set())
    for slot in (3, 0, 511, 3):
        channel.write_rest(folder, slot)
    for slot in (0, 2):
        channel.write_rest(folder, slot, passed=True)
    assert channel.read_rest(reader) == ({0, 3, 511}, {0, 2})
    assert channel.read_rest(reader) == (set(), set())
    os.close(reader)


def test_the_measured_processes_modules_need_the_standard_library_only():
    code = (
        f"import sys; sys.path.insert(0, {LIBRARY!r});"
        "from scaling_study.member import worker, channel;"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}"
        " - sys.stdlib_module_names - {'scaling_study'}))"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    assert subprocess.check_output(command, text=True).split() == ["__main__"]
