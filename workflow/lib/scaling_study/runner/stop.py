"""Ends the jobs of a Snakemake that is asked to stop.

Ctrl-C in a terminal reaches the jobs, too. A signal to Snakemake alone, as from systemd, scancel or
another supervisor, does not: Snakemake then starts no further job and waits for the running ones,
which takes hours. So a thread passes the signal on to the jobs. It sleeps in a blocking read until
a signal's number is in Python's wake-up pipe. That works whatever handlers Snakemake installs, and
in a ``module:`` of another workflow, whose hooks Snakemake does not run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from scaling_study.common.printable import clear_line
from scaling_study.host import kernel_counters
from scaling_study.runner.supervisor import STUDY_STOPS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import FrameType

    from snakemake.workflow import Workflow

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, STUDY_STOPS)

# Interrupts Snakemake's main thread, as SIGINT does by default.
INTERRUPT = signal.SIGRTMIN

# Snakemake holds its lock for milliseconds, or for `latency-wait` if a file is missing. If SIGTERM
# comes while the main thread holds the lock, Snakemake's handler waits for it forever.
LOCK_S = 1.0

# Jobs are ended again at this interval: one may be about to start when the signal comes.
AGAIN_S = 0.1


def end_jobs_with(workflow: Workflow, jobs: Callable[[], Collection[int]]) -> list[str]:
    """End all jobs when SIGINT, SIGTERM or STUDY_STOPS comes to this process, Snakemake's.

    Args:
        workflow: Snakemake's.
        jobs: returns the processes of the jobs that run on this machine.

    Returns:
        A list that gets the name of SIGINT or SIGTERM when it comes.
    """
    came: list[str] = []

    def interrupt(signum: int, frame: FrameType | None) -> None:
        # Without a scheduler there are no jobs. Snakemake itself cancels a cluster's jobs.
        if workflow.scheduler is None or not workflow.local_exec:
            signal.default_int_handler(signum, frame)

    if threading.current_thread() is not threading.main_thread():
        return came  # Snakemake runs in another thread, where it gets no signals
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(INTERRUPT, signal.default_int_handler)
    signal.signal(STUDY_STOPS, lambda *_: None)  # its number is in the wake-up pipe
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored
        signal.signal(signal.SIGINT, interrupt)
    arguments = (reading, workflow, jobs, came)
    threading.Thread(target=_end_jobs, args=arguments, daemon=True).start()
    return came


def _end_jobs(
    reading: int, workflow: Workflow, jobs: Callable[[], Collection[int]], came: list[str]
) -> None:
    """Wait for a signal; then let no job begin, and end those that run."""
    while (signum := os.read(reading, 1)[0]) not in STOP_SIGNALS:
        pass
    while (scheduler := workflow.scheduler) is None:
        time.sleep(AGAIN_S)
    if signum != STUDY_STOPS:
        came.append(signal.Signals(signum).name)
        with contextlib.suppress(OSError):  # the terminal may be gone
            text = f"{clear_line(sys.stderr)}{came[0]}: all jobs are being stopped"
            print(text, file=sys.stderr, flush=True)
    thread = threading.Thread(target=scheduler.exit_gracefully, daemon=True)
    thread.start()
    thread.join(LOCK_S)
    cancels = signum != signal.SIGINT and not workflow.local_exec
    for number in itertools.count():
        # One that comes before the main thread waits for the lock does not wake it.
        locked = thread.is_alive() and number % round(LOCK_S / AGAIN_S) == 0
        if locked or (cancels and not number):
            signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)
        for pid in [process for job in jobs() for process in kernel_counters.descendants(job)]:
            # A supervisor's command is in another process group: the supervisor ends it.
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) == os.getpgrp():
                    os.kill(pid, signal.SIGTERM)
        time.sleep(AGAIN_S)
