"""SLURM's executor plugin, for jobs that have a whole node: ``--executor slurm-node``.

It differs from the plugin ``slurm``, which does all the rest, in three ways:

- One Snakemake in the batch script runs the jobs of an allocation. The plugin starts one for the
  allocation and another for each job, in a job step, which takes seconds and may bind the job to a
  part of the node.
- A cancelled job has until SLURM's SIGKILL to end its processes. SLURM kills them as soon as the
  shell of the batch script ends, so this shell lives as long as they do.
- Jobs are checked as often as ``--seconds-between-status-checks`` says. The plugin waits ten
  seconds longer after each check that finds no ended job, up to three minutes.

Snakemake finds this package by its name.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

PLUGIN = "snakemake-executor-plugin-slurm"

try:
    from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
    from snakemake_executor_plugin_slurm import ExecutorSettings, common_settings
except ModuleNotFoundError:
    # Snakemake imports all executors at every start, and then takes the options of profiles/slurm
    # for mistakes. Without SLURM's plugin, this one stands for an executor that nobody names.
    if any(word.rstrip("/").endswith(("slurm", "slurm-node")) for word in sys.argv):
        sys.exit(f"SLURM's plugin is missing: {sys.executable} -m pip install {PLUGIN}")
    from snakemake.executors.dryrun import Executor as SlurmExecutor
    from snakemake.executors.dryrun import common_settings
    from snakemake_interface_executor_plugins.settings import (
        ExecutorSettingsBase as ExecutorSettings,
    )

__all__ = ["Executor", "ExecutorSettings", "common_settings"]


PREEMPTED = (
    "SLURM job {} was preempted, and SLURM does not start it again (its partition's PreemptMode is"
    " CANCEL)."
)


class Executor(SlurmExecutor):  # type: ignore[misc]  # without types
    """Submits jobs for whole nodes."""

    def __post_init__(self, test_mode: bool = False) -> None:
        """Refuse paths that would not reach the shell of a job unchanged.

        Raises:
            WorkflowError: a path has an apostrophe.
        """
        own = map(Path, (self.workflow.main_snakefile, *self.workflow.overwrite_configfiles))
        for path in (Path.cwd(), *own):
            if "'" in str(path):
                raise WorkflowError(
                    f"{path} has an apostrophe in its name: Snakemake hands it to the shell of a"
                    " job as Python would write it. Move it to another path"
                )
        super().__post_init__(test_mode)

    def get_job_exec_prefix(self, job: JobExecutorInterface) -> str:  # noqa: ARG002 (the interface)
        """Return an empty trap: a shell defers traps, and so SIGTERM, until Snakemake ends."""
        return "trap : TERM"

    def additional_general_args(self) -> str:
        """Return the options with which one Snakemake runs all jobs, even if one of them fails."""
        return "--keep-going"

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **more: object
    ) -> None:
        """Log how SLURM ended a job, the outputs that it lacks, and the last line of its log."""
        job = job_info.job
        jobs = job.jobs if job.is_group() else [job]
        missing = [line for one in jobs for line in missing_outputs(one.output, one.log)]
        self.logger.error("\n".join([msg or "A job could not be submitted.", *missing]))
        super().report_job_error(job_info, msg, **more)

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the others."""
        left = active_jobs
        # Without a job, the plugin may not be set up yet. It has warned if it saw a preempted job.
        if active_jobs and self._preemption_warning:
            preempted = await preempted_for_good(self.run_uuid)
            left = [job for job in active_jobs if job.external_jobid not in preempted]
            for job in active_jobs:
                if job.external_jobid in preempted:
                    self.report_job_error(job, PREEMPTED.format(job.external_jobid))
        async for job in super().check_active_jobs(left):
            yield job

    async def sleep(self) -> None:
        """Wait until the next check of all jobs."""
        settings = self.workflow.remote_execution_settings
        await asyncio.sleep(settings.seconds_between_status_checks)


async def preempted_for_good(name: str) -> set[str]:
    """Return the preempted jobs of this name; a job that is queued again counts as pending."""
    command = ("squeue", "--noheader", "--states=PREEMPTED", f"--name={name}", "--format=%i")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    said, _ = await process.communicate()
    return set(said.decode().split())


def missing_outputs(outputs: list[str], logs: list[str]) -> Iterator[str]:
    """Yield a line for each missing output of a job, with the last line of its log."""
    # Imported late: the Snakefile decides which checkout's package is used.
    from scaling_study.common.printable import printable  # noqa: PLC0415

    said = [
        f" ({log}: {printable(lines[-1])})"
        for log in map(Path, logs)
        if log.exists() and (lines := log.read_text(errors="replace").split("\n")[:-1])
    ]
    for output in outputs:
        if not Path(output).exists():
            yield f"  missing: {output}{''.join(said)}"
