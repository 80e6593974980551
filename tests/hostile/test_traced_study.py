"""What a real study opens for writing, also what it removes again: every call, by strace."""

import ast
import compileall
import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import hostile_study
import texts
from jobs import WORKLOADS

STRACE = shutil.which("strace")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(STRACE is None, reason="strace is not installed: apt install strace"),
]
CALLS = (
    "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,"
    "symlink,symlinkat,unlink,unlinkat,rmdir,truncate,chmod,fchmodat"
)
TRACE = ("-f", "-qq", "-y", "-s", "4096", "--seccomp-bpf", "-e", f"trace={CALLS}",
         "-e", "status=successful")  # fmt: skip
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
PLACE = re.compile(r"(AT_FDCWD|\d+)<(.*?)>, \"")
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
# Kernel interfaces: what is written there is no file.
KERNEL = ("/proc/", "/sys/", "/dev/null", "/dev/tty", "/dev/pts/")


def written(log, folder):
    """Yield call, path and line of each file or folder that was made, changed or removed.

    Args:
        log: of strace.
        folder: the working directory of all processes.
    """
    for line in log.read_text(errors="replace").splitlines():
        call = re.search(r"(?:^|\s)([a-z0-9]+)\(", line)
        if call is None or (call[1].startswith("open") and not WRITING.search(line)):
            continue
        place = PLACE.search(line)
        for text in TEXT.findall(line):
            path = ast.literal_eval(f'b"{text}"').decode(errors="replace")
            yield call[1], os.path.normpath(Path(place[2] if place else folder) / path), line


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    base = tmp_path_factory.mktemp("traced")
    folder = hostile_study.make(
        base / "project",
        workload={"script": str(WORKLOADS / "plain_loop.py"), "args": ["--steps", "20000"]},
        launches={
            "baseline": {"intra_op": 1, "wait_policy": "passive"},
            "include": [{"launcher": "fork"}, {"launcher": "dask"}],
        },
        profile={"launches": []},
    )
    # As `make` does: a person's run finds the package compiled.
    compileall.compile_dir(folder / "workflow/lib", quiet=1)
    (base / "home").mkdir()
    done = subprocess.run(
        [STRACE, *TRACE, "-o", base / "calls", *hostile_study.COMMAND],
        cwd=folder,
        env={**hostile_study.environment(folder), "HOME": str(base / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, list(written(base / "calls", folder))


def private(calls):
    """Folders and files that were made new and for their user alone, under names of chance."""
    found = set()
    for call, path, line in calls:
        folder = call in {"mkdir", "mkdirat"} and "0700" in line and len(Path(path).name) > 8
        file = "O_EXCL" in line and "0600" in line
        linked = call in {"link", "linkat"} and any(f'"{one}"' in line for one in found)
        if folder or linked or (file and "O_TMPFILE" not in line):
            found.add(path)
    return found


def test_every_write_is_in_the_study_or_private(trace):
    folder, calls = trace
    allowed = {*(str(folder / name) for name in hostile_study.FOLDERS), *private(calls)}
    other = {
        path: line
        for _, path, line in calls
        if not path.startswith(KERNEL)
        and "O_TMPFILE" not in line  # a file that never has a name
        and not any(path == place or path.startswith(f"{place}/") for place in allowed)
    }
    assert other == {}


def test_nothing_private_is_left(trace):
    folder, calls = trace
    left = [path for path in private(calls) if Path(path).exists()]
    assert [path for path in left if not path.startswith(str(folder))] == []


def test_it_traced_a_real_study(trace):
    folder, calls = trace
    names = {path for _, path, _ in calls}
    for path in (folder / hostile_study.RESULTS).glob("measure/*/*.jsonl"):
        assert str(path) in names or f"{path}.part" in names
        assert stat.S_ISREG(path.stat().st_mode)
    assert json.loads((folder / hostile_study.RESULTS / "plan.json").read_text())["launches"]
    assert texts.CANARY not in " ".join(names)
