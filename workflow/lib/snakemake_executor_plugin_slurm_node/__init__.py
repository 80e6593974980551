"""SLURM's executor plugin, for jobs that have a whole node: ``--executor slurm-node``.

Some things differ from the plugin ``slurm``, which does all the rest:

- One Snakemake in the batch script runs the jobs of an allocation. The plugin starts one for the
  allocation and another for each job, in a job step, which takes seconds and may bind the job to a
  part of the node.
- A job that is cancelled has until SLURM's SIGKILL to end its processes: the shell of the batch
  script, at whose end SLURM kills all else, lives as long as they do.
- Jobs are looked after as often as ``--seconds-between-status-checks`` says. The plugin waits ten
  seconds longer each time that none had ended, up to three minutes.

Snakemake finds this package by its name.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_executor_plugin_slurm import ExecutorSettings, common_settings
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

__all__ = ["Executor", "ExecutorSettings", "common_settings"]


PREEMPTED = (
    "SLURM job {} was preempted, and SLURM does not start it again (its partition's PreemptMode is"
    " CANCEL)."
)


class Executor(SlurmExecutor):  # type: ignore[misc]  # without types
    """Submits jobs for whole nodes."""

    def __post_init__(self, test_mode: bool = False) -> None:
        """Refuse what would reach the shell of a job as something else.

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
        """Let the shell live until Snakemake ends: it defers what a trap does, even nothing."""
        return "trap : TERM"

    def additional_general_args(self) -> str:
        """Run all jobs in this one Snakemake; one that fails does not keep the others from it."""
        return "--keep-going"

    def report_job_error(
        self, job_info: SubmittedJobInfo, msg: str | None = None, **more: object
    ) -> None:
        """Say how SLURM ended a job, what it has not made, and what it said last."""
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
        # Without a job the plugin may not yet be set up. Its warning: it has seen a preempted one.
        if active_jobs and self._preemption_warning:
            preempted = await preempted_for_good(self.run_uuid)
            left = [job for job in active_jobs if job.external_jobid not in preempted]
            for job in active_jobs:
                if job.external_jobid in preempted:
                    self.report_job_error(job, PREEMPTED.format(job.external_jobid))
        async for job in super().check_active_jobs(left):
            yield job

    async def sleep(self) -> None:
        """Wait until the next look at all jobs."""
        settings = self.workflow.remote_execution_settings
        await asyncio.sleep(settings.seconds_between_status_checks)


async def preempted_for_good(name: str) -> set[str]:
    """Ask the controller for preempted jobs of this name; one that is queued again is pending."""
    command = ("squeue", "--noheader", "--states=PREEMPTED", f"--name={name}", "--format=%i")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    said, _ = await process.communicate()
    return set(said.decode().split())


def missing_outputs(outputs: list[str], logs: list[str]) -> Iterator[str]:
    """Name the outputs of a job that are not there, and the last line of its log."""
    # Late: which checkout's package it is, the Snakefile says.
    from scaling_study.common.printable import printable  # noqa: PLC0415

    said = [
        f" ({log}: {printable(lines[-1])})"
        for log in map(Path, logs)
        if log.exists() and (lines := log.read_text(errors="replace").split("\n")[:-1])
    ]
    for output in outputs:
        if not Path(output).exists():
            yield f"  missing: {output}{''.join(said)}"
