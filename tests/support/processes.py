"""What tests of real processes share: waiting for an end, and a private folder.

Nothing here waits for a fixed time: a wait ends when what it waits for is there, and fails loudly
when it never comes.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

# Only bounds a hang: far more than anything here takes on a busy machine.
PATIENCE_S = 120.0

# What a script prints that tells what it got.
TELL = """
import json, os, sys
from pathlib import Path
maps = Path("/proc/self/numa_maps")
lines = maps.read_text().splitlines() if maps.exists() else []
print(json.dumps({
    "pid": os.getpid(), "argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(),
    "cpus": sorted(os.sched_getaffinity(0)),
    "policies": sorted({line.split()[1] for line in lines}),
}))
"""
# Tells its id and that of its child, and does not end.
ENDLESS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def captured(words, **options):
    """Run a command to its end; return its code, and what it said, as text."""
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def wait_until(holds, what, patience_s=PATIENCE_S):
    """Wait until a condition holds, and return what it gave."""
    deadline = time.monotonic() + patience_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        time.sleep(0.005)
    return found


def written(path):
    """Wait for the first whole line of a file, and return it."""
    return wait_until(
        lambda: path.exists() and "\n" in path.read_text() and path.read_text(), f"text in {path}"
    ).splitlines()[0]


def has_ended(pid):
    """Whether a process is gone, or a zombie that nobody has waited for."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    ended = bool(poll.poll(0))
    os.close(descriptor)
    return ended


def wait_ended(pid):
    """Wait until a process, of whomever, has ended."""
    wait_until(lambda: has_ended(pid), f"the end of process {pid}")


def state(pid):
    """The state letter of a process (proc(5)): S sleeps, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_state(pid, letter):
    """Wait until a process is in a state, as S, for sleep in a system call."""
    wait_until(lambda: state(pid) == letter, f"state {letter} of process {pid}")


@contextlib.contextmanager
def killed_at_the_end(*processes):
    """Leave no process of a failed test behind."""
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()


def gone():
    """The id of a process that has been, and was waited for."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


def descriptors():
    """The descriptors that this process has open."""
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def private_folder(path):
    """A cohort's folder as `private.part` makes it, inside a test's own."""
    (path / "memory").mkdir(parents=True)
    return path
