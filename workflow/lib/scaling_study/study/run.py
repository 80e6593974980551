"""One run of Snakemake with this workflow: its checks, its messages, its unfinished parts."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scaling_study.common import file_errors, storage
from scaling_study.common.file_errors import UnusableError
from scaling_study.common.problems import ConfigError
from scaling_study.common.unavailable import UnavailableError
from scaling_study.config import estimate, work
from scaling_study.config.config import CHOICE, load_config
from scaling_study.config.config_file import as_written, located, read_config, shipped
from scaling_study.config.import_config import is_import
from scaling_study.config.launches import Found, look
from scaling_study.config.plan import Observed, make_plan
from scaling_study.config.workload import AUTO, RUN
from scaling_study.host import limits, probe
from scaling_study.records.analysis import STAGE_TIMES
from scaling_study.records.codec import read_file, write_file
from scaling_study.records.cohorts import Cohorts
from scaling_study.runner import job_process, jobs, measure, resolve
from scaling_study.runner.supervisor import supervised
from scaling_study.study.files import BUILDS, STAGE, ImportedStudy, Study
from scaling_study.study.progress import Progress, add_time, expected_s
from scaling_study.study.snakemake_adapter import QUIET, Snakemake, StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scaling_study.config.config import Config
    from snakemake_logger_plugin_study import LogHandler

MOST_DIGITS = 7
"""Digits of a process id (pid_max is 2**22 at most)."""

NUMBER_S = 1.0
"""Time in which the holder of a lock writes its process id. A process of another node is not seen
in this one's /proc."""

OF_SHELL = " (`python` of your shell; workload.python can name another)"


@dataclass(frozen=True, slots=True)
class _Known:
    """results/<study>/observed.json: one observed start, and a digest of what was started."""

    key: str
    observed: Observed


@dataclass(frozen=True, slots=True)
class _Shell:
    """results/<study>/shell.json: the settings of the user's shell, and ``work.python_of_shell``.

    Snakemake changes the environment of its jobs, and a cluster has another one.
    """

    settings: Found
    python: str | None


class StudyLock:
    """The right to write a study's folder, held until this process ends, however it ends.

    Raises:
        UnusableError: another process holds it, or a link in the folder leads out of it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file_errors.refuse_links(folder)
        # Kept open: the lock belongs to the open file, and the kernel ends it with the process.
        self._file = (folder / ".lock").open("a+")
        if not storage.lock(self._file):
            raise UnusableError(
                f"{folder} is being written by process {self._writer()}:"
                " wait for it, or stop it, then run again"
            )
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _writer(self) -> str:
        """Return the id of the lock's holder; until it is written, the file has an older one."""
        deadline_s = time.monotonic() + NUMBER_S
        while True:
            self._file.seek(0)
            number = self._file.read(MOST_DIGITS)
            if (number and Path("/proc", number).exists()) or time.monotonic() > deadline_s:
                return number or "unknown"
            time.sleep(storage.LOOK_AGAIN_S)


@contextmanager
def refused() -> Iterator[None]:
    """Turn errors that a user can put right into a StudyError."""
    try:
        yield
    except UnavailableError as error:
        raise StudyError(f"{error.reason}\n  What helps: {error.remedy}") from None
    except (ConfigError, UnusableError) as error:
        raise StudyError(f"{error}") from None
    except OSError as error:
        raise StudyError(f"{file_errors.describe(error) or error}") from None


class Run:
    """A run, from the reading of its config to its end.

    Args:
        snakemake: the process that reads the workflow.
    """

    def __init__(self, snakemake: Snakemake) -> None:
        self.snakemake = snakemake
        self._say = snakemake.say
        # Snakemake keeps its objects for each job. With 10,000 jobs, frequent garbage collection
        # takes a quarter of a dry run and finds nothing.
        gc.set_threshold(100_000, 50, 50)
        self.snakemake.call(self.start, self.end, self.fail)

    def load(self, config: object) -> Study | ImportedStudy:
        """Check the config that Snakemake has merged, and return its study.

        Raises:
            StudyError: with every mistake found.
        """
        with refused():
            # Snakemake has read these files, but does not report keys that occur twice in them.
            files = self.snakemake.files
            try:
                for path in files:
                    read_config(path)
                config = shipped(config)  # a copy: an outer workflow may use its own again
                if "workload" not in self.snakemake.options:
                    config = as_written(config, files)
                self.study = self._read(config)
            except ConfigError as error:
                raise located(error, files, given=self.snakemake.options) from None
        snakemake = self.snakemake
        if snakemake.local and snakemake.is_main and isinstance(self.study, Study):
            self._try_what_was_skipped(self.study)
        return self.study

    def _read(self, config: object) -> Study | ImportedStudy:
        if is_import(config):
            from scaling_study.analysis import imported  # noqa: PLC0415 (it loads pandas)

            return ImportedStudy(imported.load_import(config))
        choice = config.pop(CHOICE, None) if isinstance(config, dict) else None
        checked = load_config(config)
        # Jobs read what the run found (see `start`).
        if self.snakemake.is_main:
            policy = limits.read_memory_policy() if self.snakemake.local else ""
            self._shell = _Shell(look(os.environ, policy), work.python_of_shell(checked.workload))
        else:
            self._shell = read_file(_shell_file(checked.study), _Shell)
        checked = work.with_interpreter(checked, self._shell.python)
        observed = self._observed(checked) if checked.workload.step in {AUTO, RUN} else None
        if observed is not None and isinstance(config, dict):
            workload = {**config["workload"], "step": observed.step}
            checked = load_config({**config, "workload": workload})
            checked = work.with_interpreter(checked, self._shell.python)
        return Study(checked, self._shell.settings, choice, observed)

    def _observed(self, config: Config) -> Observed | None:
        """Return what one start of the program has shown, or shows now; None if it may not start.

        Raises:
            StudyError: no unit of work is right.
        """
        workload, path = config.workload, Path(f"results/{config.study}/observed.json")
        key = jobs.digest(jobs.workload_digest(workload), workload.model_dump(mode="json"))
        known = read_file(path, _Known) if path.exists() else None
        if known is None or known.key != key:
            if not (self.snakemake.local and self.snakemake.starts_jobs):
                return None
            known = _Known(key, self._observe(config))
            if not known.observed.step:
                raise StudyError(f"The study has not begun: {known.observed.why}")
            write_file(path, known)
        if self.snakemake.is_main:
            self._say(f"unit of work: {estimate.unit(known.observed)}")
            if clash := estimate.clash(known.observed):
                self._say(clash)
        return known.observed

    def _observe(self, config: Config) -> Observed:
        """Observe one start of the program, in a job of its own."""
        plan, folder = make_plan(config), Path(f"results/{config.study}")
        began_s = time.monotonic()
        self._say(f"{work.name(config.workload)}: one start is observed, to find its unit of work")
        minutes = config.search.budget_minutes
        limit_s = 6 * minutes if minutes else config.measure.timeout_s  # a tenth of it
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        log, output = folder / "logs/observe.log", folder / ".observed.json"
        job = jobs.job_text(jobs.job_sections(plan), plan.by_id[plan.default])
        words = [sys.executable, *STAGE, "observe", "--job", job, "--builds", BUILDS]
        words += [f"--limit={limit_s}", "--log", str(log), "--output", str(output)]
        observing = subprocess.Popen([*supervised(), *words], start_new_session=True)
        try:
            status = observing.wait()
        except KeyboardInterrupt:
            observing.terminate()
            observing.wait()
            raise StudyError("SIGINT stopped the study before it began.") from None
        if status:
            raise StudyError(f"one start could not be observed: see {log}")
        observed = read_file(output, Observed)
        output.unlink()
        add_time(folder / STAGE_TIMES, "observe", time.monotonic() - began_s)
        return observed

    def group(self, name: str) -> str | None:
        """Return a name for jobs of a machine that share an allocation; None without a cluster."""
        if self.snakemake.local:
            return None
        return f"{{machine}}-{name}" if self.study.machines else name

    def _try_what_was_skipped(self, study: Study) -> None:
        """Let this run measure launches that were skipped, and that the machine can now run."""
        lacking = study.lacking(study.of_chosen(study.records)).items()
        skipped = [path for path, why in lacking if why == measure.SKIPPED]
        if not skipped:
            return
        machine = probe.read_machine()
        for path in skipped:
            launch = study.launches[path.parent.name]
            if resolve.can(study.plan, launch.axes, machine, Path(BUILDS)):
                if self.snakemake.dry_run:
                    self._say(f"{launch.label}: skipped before; this run would measure it")
                else:
                    path.unlink(missing_ok=True)

    def start(self) -> None:
        """Lock the study's folder, and print what will be done.

        Raises:
            StudyError: the study cannot be run here now.
        """
        study = self.study
        with refused():
            self._lock = StudyLock(Path(study.results))
            if isinstance(study, Study):
                write_file(_shell_file(study.plan.study), self._shell)
                runs_in = resolve.check_workload(study.plan.workload)
        if isinstance(study, ImportedStudy):
            from scaling_study.analysis import imported  # noqa: PLC0415 (it loads pandas)

            self._say(imported.outline(study.study))
            return
        from scaling_study.report import study as texts  # noqa: PLC0415 (jobs of a cluster need none)

        if self.snakemake.local:
            self._refuse_what_needs_a_cluster(study)
        for path in study.stopped:
            path.unlink()
        records = study.of_chosen(study.records)
        measured = sum(Path(path).exists() for path in records)
        said = [texts.outline(study.plan, len(records), measured, study.chosen)]
        inferred = self._shell.python and self._shell.python == study.plan.workload.python
        said += [f"  runs in {runs_in}{OF_SHELL if inferred else ''}"]
        # On a cluster other machines measure, and have not been chosen yet.
        if self.snakemake.local:
            left = study.raced or measured < len(records)
            said += [limits.tell_confined(), texts.look_around() if left else ""]
        self._say("\n".join(filter(None, said)))
        if self.snakemake.terminal is not None:
            self._watch(study, self.snakemake.terminal)

    def _watch(self, study: Study, terminal: LogHandler) -> None:
        """Show the run's progress; jobs then print only warnings and errors to the terminal."""
        counts = resolve.counts(study.plan, probe.read_machine())
        jobs = {
            "measure": len(study.records),
            "profile": len(study.profiles),
            "why": len(study.explained),
            "loader_experiment": len(study.loader),
        }
        spent_s = max((decision.spent_s for decision in study.decided()), default=0.0)
        planned = Counter(rule for rule, _ in self.snakemake.jobs)
        expected = expected_s(study.plan, counts, jobs, spent_s)
        times = Path(study.results, STAGE_TIMES)
        progress = Progress(planned, expected, study.best_so_far, times)
        os.environ[job_process.PROGRESS] = terminal.watch(progress)

    def _refuse_what_needs_a_cluster(self, study: Study) -> None:
        """Refuse several machines or nodes: without a cluster, all jobs run on this machine.

        Raises:
            StudyError: the config names several.
        """
        measuring = (
            quiet == QUIET or rule.endswith("probe") for rule, quiet in self.snakemake.jobs
        )
        if len(study.chosen) > 1 and any(measuring):
            raise StudyError(
                f"The config names the machines {', '.join(study.chosen)}, and this run can only"
                " measure the one that it runs on. Say which that is, as in"
                f" --config {CHOICE}={study.chosen[0]}, or run with a cluster's profile, as in"
                " --profile profiles/slurm."
            )
        nodes = study.plan.search.nodes
        if nodes > 1:  # a round would take several times as long as its budget says
            raise StudyError(
                f"The config's race takes {nodes} nodes (search.nodes), and this run"
                " measures on the one that it runs on. Set search.nodes to 1, or run with a"
                " cluster's profile, as in --profile profiles/slurm."
            )

    def end(self) -> None:
        """Print the conclusion, and leave failed measurements to the next run.

        Raises:
            StudyError: the study has no result.
        """
        self._conclude()
        Path(self.study.so_far).unlink(missing_ok=True)
        self._leave_to_the_next_run(ended=True)
        paths = map(Path, self.study.of_chosen(f"{self.study.here}/tables/cohorts.json"))
        files = [read_file(path, Cohorts) for path in paths if path.exists()]
        if self.snakemake.has_targets or not files:
            return
        if not any(cohort.windows_valid for file in files for cohort in file.cohorts):
            raise StudyError(
                "The study has no result: no window of any launch is valid. The report lists why."
                " Put that right and run the same command again: it measures what failed or was"
                " lost."
            )

    def _conclude(self) -> None:
        """Print the conclusion if there is a report: a run may be asked for less."""
        from scaling_study.report import study as texts  # noqa: PLC0415 (it loads pandas)

        study = self.study
        results, report = Path(study.results), Path(study.report)
        if not report.exists():
            return
        if isinstance(study, ImportedStudy):
            from scaling_study.report import imported  # noqa: PLC0415 (it loads figures)

            self._say(imported.conclusion(results, report), last=True)
        elif Path(study.planned).exists():
            compared = bool(study.machines)
            text = texts.conclusion(results, Path(study.planned), report, compared=compared)
            self._say(text, last=True)

    def _leave_to_the_next_run(self, *, ended: bool) -> None:
        """Remove the names of files that lack results: the next run continues their parts."""
        study = self.study
        lacking = study.lacking(study.of_chosen(study.kept)).items()
        paths = [path for path, why in lacking if why != measure.SKIPPED]
        if study.raced and ended:
            from scaling_study.search import rounds  # noqa: PLC0415 (it loads pandas)

            lame = rounds.without_result(Path(study.results))
            paths += [*lame, *([Path(study.results, "rounds/0.json")] if lame else [])]
        for path in paths:
            path.unlink(missing_ok=True)

    def fail(self) -> None:
        """Print what to do after a failure or a signal."""
        from scaling_study.report import study as texts  # noqa: PLC0415 (it loads pandas)

        failed = "\n".join(map(texts.tell_stopped, self.study.stopped))
        why = "The study stopped before its end; the message above says why."
        stopped = self.snakemake.stopped
        if stopped:
            why = f"{stopped[0]} stopped the study before its end."
        if isinstance(self.study, Study):
            why += " Windows that were taken are kept: the same command goes on where it stopped."
        self.snakemake.say_failure(failed or why)
        if isinstance(self.study, Study):
            self._report_what_is_there(self.study)
            if stopped[:1] == ["SIGINT"] and not self.study.machines:
                self._report_so_far(self.study)
        self._leave_to_the_next_run(ended=False)

    def _report_what_is_there(self, study: Study) -> None:
        """Report on the machines that are analysed, even if others are not."""
        paths = [Path(study.provenance.replace("{machine}", name)) for name in study.machines]
        # Each command prints its own error.
        if any(path.exists() for path in paths) and not any(
            subprocess.run([sys.executable, *words], check=False).returncode
            for words in (study.compare_words, study.render_words)
        ):
            self._conclude()

    def _report_so_far(self, study: Study) -> None:
        """Say what the records show so far, and write a report of it."""
        words = [sys.executable, *STAGE, "so_far", "--study-folder", study.results]
        words += ["--report", study.so_far]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if not done.returncode:
            self._say(f"So far (predicted, not confirmed): {done.stdout.rstrip()}", last=True)


def _shell_file(study: str) -> Path:
    return Path(f"results/{study}/shell.json")
