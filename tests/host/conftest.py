"""A real child process whose work is known."""

import json
import subprocess
import sys

import pytest

from processes import killed_at_the_end, wait_state
from scaling_study.host import kernel_counters

# It does one thing when told to, and tells what CPU time that took, of its own and of children.
CHILD = """
import json, mmap, os, resource, subprocess, sys, threading, time

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(10_000))  # reading this clock is a system call

def touch(pages):
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        memory[page * mmap.PAGESIZE] = 1

def in_thread(work, *args):
    thread = threading.Thread(target=work, args=args)
    thread.start()
    thread.join()

def child(seconds):
    code = f"import time\\nwhile time.process_time() < {seconds}: pass"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)

def used_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), used.ru_utime + used.ru_stime

print("ready", flush=True)
for line in sys.stdin:
    before = used_s()
    eval(line)
    print(json.dumps([now - then for then, now in zip(before, used_s())]), flush=True)
"""


class Told:
    """A real child process, and what it used while it did what it was told."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def tell(self, work):
        self.process.stdin.write(work + "\n")
        self.process.stdin.flush()
        account = json.loads(self.process.stdout.readline())
        wait_state(self.pid, "S")  # it waits for the next line, and uses nothing more
        return account

    def usage(self, work):
        """Counters of the work, and the child's own account: seconds of its own, of children."""
        before = kernel_counters.read_tree(self.pid)
        account = self.tell(work)
        after = kernel_counters.read_tree(self.pid)
        return kernel_counters.usage(before, after, self.pid), account


@pytest.fixture
def child():
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", CHILD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    with killed_at_the_end(process):
        yield Told(process)
    process.stdin.close()
    process.stdout.close()
