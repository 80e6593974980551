"""Run one command and leave nothing behind, however it or its caller ends.

``python -m scaling_study.runner.supervisor --watch PID -- COMMAND``

The supervisor adopts whatever the command leaves orphaned (PR_SET_CHILD_SUBREAPER, prctl(2)) and
kills it when the command ends. When the watched process ends, for instance because Snakemake was
killed, the command is asked to stop and then killed. Waiting is a blocking poll(2), which takes no
CPU time. If the supervisor itself is killed, the kernel sends SIGTERM to the command.

A signal to stop raises no exception: it makes a pipe readable, on which the supervisor waits too.
So a signal can come at any moment, and more than once.
"""

import argparse
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

from scaling_study.common import private
from scaling_study.common.printable import clear_line
from scaling_study.host import kernel_counters
from scaling_study.launch.launchers.launcher import describe_exit
from scaling_study.queues import bind

# Time for the command to write what it has, after it was asked to stop. With the time for
# orphans, everything ends well within ten seconds.
STOP_S = 5.0

# Time for orphans that end by themselves: multiprocessing's resource tracker removes semaphores.
ORPHANS_S = 2.0


STOPS = 94
"""Exit status of a job that stops the study; programs of this package use it for nothing else."""

STUDY_STOPS = signal.SIGRTMIN + 1
"""Signal to Snakemake that ends the other jobs. The job has printed the reason; a SIGTERM would be
announced as if the user had sent it."""

WHAT_NOW = "what it had written is kept; the same command goes on where it stopped"

# Signals that ask a supervisor to stop.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of whatever processes below this one leave orphaned (prctl(2))."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


def end_descendants(grace_s: float) -> None:
    """Wait for all processes below this one, and kill them when the grace is over."""
    deadline = time.monotonic() + grace_s
    while len(family := kernel_counters.descendants(os.getpid())) > 1:
        if time.monotonic() > deadline:
            kernel_counters.signal_all(family[1:], signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def supervised(watched: int | None = None) -> list[str]:
    """Return the words that, before a command, run it under a supervisor.

    Args:
        watched: id of the process whose end ends the command; by default this process.
    """
    module = "scaling_study.runner.supervisor"
    return [sys.executable, "-m", module, "--watch", str(watched or os.getpid()), "--"]


def run(command: list[str], watched: int) -> int:
    """Run ``command`` until it or the watched process ends.

    Args:
        command: the program and its arguments.
        watched: a process id.

    Returns:
        The command's return code, 128 + N when signal N ended it; 128 + SIGTERM when this
        process stopped it.
    """
    adopt()
    stop, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup)
    bind.handle(STOP_SIGNALS, lambda *_: None)  # a signal's number is in the wake-up pipe
    binding = [sys.executable, "-P", str(bind.__file__), "--die-with", str(os.getpid())]
    folder = private.choose()
    # A session of its own: Ctrl-C in a terminal reaches the supervisor, which passes it on once.
    process = subprocess.Popen(
        [*binding, "--die-signal", "TERM", "--", *command],
        env={**os.environ, private.VARIABLE: str(folder)},
        start_new_session=True,
    )
    code = _wait(process, watched, stop)
    # Everything ends now in any case. An ignored signal is harmless until the interpreter exits.
    for signum in STOP_SIGNALS:
        signal.signal(signum, signal.SIG_IGN)
    if code is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        code = 128 + signal.SIGTERM
    end_descendants(ORPHANS_S)
    private.remove(folder)
    if code == STOPS:
        # Snakemake starts no further job, and fails.
        kernel_counters.signal_all([watched], STUDY_STOPS)
    if code < 0:
        # Printed last, because the terminal may be gone.
        with contextlib.suppress(OSError):
            text = f"{clear_line(sys.stderr)}the job {describe_exit(code)}: {WHAT_NOW}"
            print(text, file=sys.stderr, flush=True)
    return code if code >= 0 else 128 - code


def _wait(process: subprocess.Popen[bytes], watched: int, stop: int) -> int | None:
    """Wait for the command; return its code, or None if it has to be stopped."""
    poll = select.poll()
    ours = os.pidfd_open(process.pid)
    poll.register(ours, select.POLLIN)
    poll.register(stop, select.POLLIN)
    try:
        poll.register(os.pidfd_open(watched), select.POLLIN)
    except ProcessLookupError:
        return None
    return process.wait() if ours in dict(poll.poll()) else None


def main(argv: list[str]) -> int:
    """Parse the command line and run the command."""
    parser = argparse.ArgumentParser(description="Run a command and leave nothing behind.")
    parser.add_argument("--watch", type=int, required=True, metavar="PID")
    arguments, command = bind.split_command(argv)
    if reason := bind.unwatchable():
        parser.exit(1, f"supervisor: {reason}\n")
    return run(command, parser.parse_args(arguments).watch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
