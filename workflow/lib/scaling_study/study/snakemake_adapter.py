"""The only module that relies on the inside of Snakemake, for `SUPPORTED` versions of it.

Each class and function says on which behaviour it relies. All other code uses directives, options
and plugin interfaces that Snakemake documents, except that ``rules/common.smk`` finds this package
with ``workflow.current_basedir``. ``tests/study/test_snakemake_adapter.py`` looks for each name,
option and message in the installed Snakemake.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.shell import shell

from scaling_study.common.printable import clear_line
from scaling_study.common.storage import PROJECT
from scaling_study.host import kernel_counters
from scaling_study.runner.supervisor import STUDY_STOPS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from snakemake.workflow import Workflow

    from snakemake_logger_plugin_study import LogHandler

SUPPORTED = ">=9.27,<10"
"""Versions of Snakemake, as in pyproject.toml."""

QUIET = 100
"""Amount of the resource quiet. A measurement takes all of it, any other job takes 1."""

BIN = shlex.quote(str(Path(sys.executable).parent)).replace("{", "{{").replace("}", "}}")
SHELL_PREFIX = f"set -euo pipefail; export PATH={BIN}:$PATH; "
"""Jobs run in the interpreter that runs Snakemake, wherever that is. Relies on this: a prefix
replaces Snakemake's own, whose strict mode is repeated here, and is a format with braces."""

NO_JOBS = {
    *("--unlock", "--lint", "--summary", "-S", "--detailed-summary", "-D", "--report", "--dag"),
    *("--rulegraph", "--filegraph", "--d3dag", "--list", "--list-rules", "--list-target-rules"),
    *("--touch", "-t", "--cleanup-metadata", "--delete-all-output", "--archive", "--containerize"),
}
"""Options with which Snakemake reads a workflow and starts no job. Relies on this: while it reads
one, only the command line shows what it will do then."""

NOISE = (
    *("Assuming unrestricted shared", "Building DAG", "Using shell", "Updating checkpoint"),
    *("Select jobs", "Touching output", "Complete log", "Elapsed time", "Shutting down"),
    *("Will exit after", "DAG of jobs will be updated", "Write-protecting", "Trying to restart"),
    "Job rate limit",
    # Errors that say less than the messages above them.
    *("Exiting because a job", "At least one job did not complete"),
    "Warning: the following output files of rule {}",
)
"""Beginnings of messages that no user of a study needs. Relies on this: Snakemake logs them without
an event, by which a logger plugin could know them, or as an error like any other."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, STUDY_STOPS)

# Interrupts Snakemake's main thread, as SIGINT does by default.
INTERRUPT = signal.SIGRTMIN

# Snakemake holds its lock for milliseconds, or for `latency-wait` if a file is missing. If SIGTERM
# comes while the main thread holds the lock, Snakemake's handler waits for it forever.
LOCK_S = 1.0

# Jobs are ended again at this interval: one may be about to start when the signal comes.
AGAIN_S = 0.1


class StudyError(WorkflowError):  # type: ignore[misc]  # without types
    """An error that the user can put right.

    Relies on this: Snakemake lists each frame of a traceback outside of its own package, and prints
    the class and the text alone if there is none.
    """

    @property
    def __traceback__(self) -> None:
        """Return None."""

    @__traceback__.setter
    def __traceback__(self, _traceback: object) -> None:
        """Ignore the traceback, which contextlib sets if the error passes through a context."""


def user_text(text: str) -> str:
    """Return a message of Snakemake's as users need it, empty if they do not.

    Relies on this: Snakemake puts an error's class in a line before its text, and prints the error
    of a job's shell besides the job, which the study names.
    """
    text = text.removeprefix(f"{StudyError.__name__}:\n")
    begins = text.removeprefix(f"{WorkflowError.__name__}:\n")
    noise = begins.startswith(tuple(phrase.format("render") for phrase in NOISE))
    return "" if noise or "CalledProcessError" in text else text


class Snakemake:
    """The Snakemake process that reads the workflow, in its main process or in one of its jobs.

    Attributes:
        in_module: whether another workflow has this one as a module.
        is_main: whether this process starts the jobs.
        dry_run: whether it starts none.
        configs: configs on the command line.
        options: keys of the config on the command line.
        terminal: the handler of the study's logger plugin, unless it shows Snakemake's own output.
        stopped: gets the name of SIGINT or SIGTERM when it comes.

    Raises:
        StudyError: Snakemake cannot run this workflow from where it is.
    """

    def __init__(self, workflow: Workflow) -> None:
        self._workflow = workflow
        handlers = workflow.logger_manager.get_log_handlers()
        ours = (each for each in handlers if hasattr(each, "watch") and each.writes_to_stream)
        self.terminal: LogHandler | None = next(ours, None)
        if self.terminal is not None:
            self.terminal.user_text = user_text
        self._refuse_paths()
        self.in_module = not workflow.modifier.is_main_snakefile()
        self.is_main: bool = workflow.is_main_process
        self.dry_run: bool = workflow.output_settings.dryrun
        self.configs: list[Path] = workflow.overwrite_configfiles
        self.options: dict[str, object] = workflow.config_settings.config
        # Here, and not in a profile, which does not apply in a module or with another profile.
        workflow.register_resource("quiet", QUIET)
        shell.prefix(SHELL_PREFIX)
        self.stopped: list[str] = []
        self.pass_signals_on()

    def _refuse_paths(self) -> None:
        """Refuse paths that would change.

        Relies on this: Snakemake reads braces and < in paths as wildcards, and a module's modifier
        puts its prefix before each path of a rule.
        """
        if {"{", "}"} & set(str(PROJECT)) or "<" in os.path.relpath(PROJECT):
            raise StudyError(
                f"the project's folder, {PROJECT}, has a brace or < in its path, which Snakemake"
                " reads as a wildcard; allowed: a path without them"
            )
        if self._workflow.modifier.modify_path("results") != "results":
            raise StudyError(
                "the module of this workflow has a prefix, which its jobs do not know; allowed: a"
                " module without prefix and replace_prefix. Studies are told apart by their names"
                " (study), and --directory puts all results elsewhere"
            )

    def call(
        self, start: Callable[[], None], end: Callable[[], None], fail: Callable[[], None]
    ) -> None:
        """Call functions at the start and at the end of a run, if this workflow is a module.

        Relies on this: in a module, Snakemake ignores onstart, onsuccess and onerror, and keeps the
        outer workflow's. So they are set once: for `use rule *`, and not again for statements that
        name rules.
        """
        workflow = self._workflow
        if self.in_module and workflow.modifier.rule_whitelist is None:
            workflow._onstart = _both(workflow._onstart, start)
            workflow._onsuccess = _both(workflow._onsuccess, end)
            workflow._onerror = _both(workflow._onerror, fail)

    @property
    def files(self) -> list[Path]:
        """The config files that Snakemake has merged; none in a module."""
        return [] if self.in_module else [Path(file) for file in self._workflow.configfiles]

    @property
    def local(self) -> bool:
        """Whether all jobs run here, and not on machines of a cluster.

        Relies on this: while Snakemake reads the workflow, it has no executor yet, and `local_exec`
        is true; but only a cluster needs the option `--jobs`.
        """
        workflow = self._workflow
        if workflow.executor_plugin is None:
            return workflow.resource_settings.nodes is None
        return bool(workflow.local_exec)

    @property
    def starts_jobs(self) -> bool:
        """Whether this process will start jobs."""
        return self.is_main and not self.dry_run and NO_JOBS.isdisjoint(sys.argv)

    @property
    def has_targets(self) -> bool:
        """Whether the command line names files or rules, and so perhaps a part of the study."""
        return bool(self._workflow.dag_settings.targets)

    @property
    def jobs(self) -> list[tuple[str, object]]:
        """The jobs of this run that are known so far: each one's rule, and its resource quiet."""
        jobs = self._workflow.dag.needrun_jobs()
        return [(job.rule.name, job.resources.get("quiet")) for job in jobs]

    def say(self, text: str, *, last: bool = False) -> None:
        """Print a message of the study, above the progress line.

        Args:
            text: one or more lines.
            last: whether no job runs any more.
        """
        if self.terminal is None:
            print(text)
        else:
            logger.info(text, extra={"study_says": True, "study_ends": last})

    def say_failure(self, text: str) -> None:
        """Print why the run has failed, when no job runs any more."""
        if self.terminal is None:
            print(text, file=sys.stderr)
        else:
            logger.error(text, extra={"study_ends": True})

    def pass_signals_on(self) -> None:
        """End all jobs when SIGINT, SIGTERM or STUDY_STOPS comes to this process.

        Ctrl-C in a terminal reaches the jobs, too. A signal to Snakemake alone, as from systemd,
        scancel or another supervisor, does not. Relies on this: `exit_gracefully`, which is also
        Snakemake's handler of SIGTERM, starts no further job and waits for the running ones, which
        takes hours. So a thread passes the signal on to the jobs. It sleeps in a blocking read
        until a signal's number is in Python's wake-up pipe. That works whatever handlers Snakemake
        installs, and in a ``module:`` of another workflow, whose hooks Snakemake does not run.
        """
        workflow = self._workflow

        def interrupt(signum: int, frame: FrameType | None) -> None:
            # Without a scheduler there are no jobs. Snakemake itself cancels a cluster's jobs.
            if workflow.scheduler is None or not workflow.local_exec:
                signal.default_int_handler(signum, frame)

        if threading.current_thread() is not threading.main_thread():
            return  # Snakemake runs in another thread, where it gets no signals
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(INTERRUPT, signal.default_int_handler)
        signal.signal(STUDY_STOPS, lambda *_: None)  # its number is in the wake-up pipe
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored
            signal.signal(signal.SIGINT, interrupt)
        threading.Thread(target=self._end_jobs, args=(reading,), daemon=True).start()

    def _end_jobs(self, reading: int) -> None:
        """Wait for a signal; then let no job begin, and end those that run.

        Relies on this: `shell._processes` has the shell of each job that runs here.
        """
        workflow = self._workflow
        while (signum := os.read(reading, 1)[0]) not in STOP_SIGNALS:
            pass
        if self.terminal is not None:
            self.terminal.stopping = True
        while workflow.scheduler is None:
            time.sleep(AGAIN_S)
        if signum != STUDY_STOPS:
            self.stopped.append(signal.Signals(signum).name)
            with contextlib.suppress(OSError):  # the terminal may be gone
                text = f"{clear_line(sys.stderr)}{self.stopped[0]}: all jobs are being stopped"
                print(text, file=sys.stderr, flush=True)
        thread = threading.Thread(target=workflow.scheduler.exit_gracefully, daemon=True)
        thread.start()
        thread.join(LOCK_S)
        cancels = signum != signal.SIGINT and not workflow.local_exec
        for number in itertools.count():
            # One that comes before the main thread waits for the lock does not wake it.
            locked = thread.is_alive() and number % round(LOCK_S / AGAIN_S) == 0
            if locked or (cancels and not number):
                signal.pthread_kill(threading.main_thread().ident or 0, INTERRUPT)
            jobs = [process.pid for process in list(shell._processes.values())]
            for pid in [process for job in jobs for process in kernel_counters.descendants(job)]:
                # A supervisor's command is in another process group: the supervisor ends it.
                with contextlib.suppress(ProcessLookupError):
                    if os.getpgid(pid) == os.getpgrp():
                        os.kill(pid, signal.SIGTERM)
            time.sleep(AGAIN_S)


def _both(theirs: Callable[[object], None], ours: Callable[[], None]) -> Callable[[object], None]:
    """Return a handler that calls the outer workflow's handler, then the run's."""

    def both(log: object) -> None:
        theirs(log)
        ours()

    return both
