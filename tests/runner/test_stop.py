"""A signal to Snakemake alone ends its jobs; tests/faults/test_kills.py does so to real studies."""

import os
import signal
import subprocess
import sys

import pytest

from processes import PATIENCE_S, has_ended, killed_at_the_end
from scaling_study.runner.supervisor import STUDY_STOPS

# What Snakemake does with its lock, its handler of SIGTERM, and Ctrl-C.
SNAKEMAKE = """
import os, signal, subprocess, sys, threading
from types import SimpleNamespace
from scaling_study.runner import stop

class Scheduler:
    def __init__(self):
        self.lock = threading.Lock()
        self.reading, self.writing = os.pipe()
        signal.signal(signal.SIGTERM, self.exit_gracefully)
    def exit_gracefully(self, *_):
        with self.lock:
            os.write(self.writing, b"!")

def start(command):
    jobs.append(subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE))
    return jobs[-1].pid

where, locked = sys.argv[1:]
if locked != "locked":
    stop.LOCK_S = 600.0  # a busy machine is no lock
workflow = SimpleNamespace(scheduler=None, local_exec=where == "local")
jobs = []
came = stop.end_jobs_with(workflow, lambda: [job.pid for job in list(jobs)])
workflow.scheduler = Scheduler()
start("sleep 600 | cat")
start("setsid bash -c 'echo $$; exec sleep 600' 2> /dev/null & wait")
other = jobs[1].stdout.readline().decode()
try:
    if locked == "locked":
        with workflow.scheduler.lock:
            print(other, end="", flush=True)  # the signal comes after this
            jobs[0].wait()
            signal.pause()
    print(other, end="", flush=True)
    os.read(workflow.scheduler.reading, 1)
    if where == "local":
        start("sleep 600")  # it was about to be started when the signal came
    for job in jobs:
        job.wait()
    print(*came, "graceful", flush=True)
except KeyboardInterrupt:
    for job in jobs:
        job.wait()
    print("interrupted", flush=True)
"""


def told(where, locked, *signals):
    """Send signals to Snakemake alone; return its last words and a supervisor's command."""
    process = subprocess.Popen(
        [sys.executable, "-c", SNAKEMAKE, where, locked],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with killed_at_the_end(process):
        other = int(process.stdout.readline())
        for signum in signals:
            process.send_signal(signum)
        out, error = process.communicate(timeout=PATIENCE_S)
    ours = not has_ended(other)
    os.kill(other, signal.SIGKILL)
    assert ours, "what a supervisor has started is the supervisor's to end"
    assert process.returncode == 0, error
    named = "" if signals[0] == STUDY_STOPS else signal.Signals(signals[0]).name
    assert error == (f"{named}: all jobs are being stopped\n" if named else "")
    return out.strip()


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_jobs_end_and_snakemake_finishes_as_usual_however_impatient_its_user(signum, times):
    assert told("local", "free", *[signum] * times) == f"{signum.name} graceful"


def test_a_job_that_stops_the_study_ends_the_others_without_a_message():
    assert told("local", "free", STUDY_STOPS) == "graceful"


def test_a_signal_while_snakemake_has_its_lock():
    """Its own handler would wait for the lock that the interrupted code has."""
    assert told("local", "locked", signal.SIGTERM) == "interrupted"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_on_a_cluster_snakemake_cancels_what_it_has_submitted(signum):
    assert told("cluster", "free", signum) == "interrupted"
