"""The grid as an executor of Snakemake: `snakemake --executor rollq`. Snakemake finds plugins by
the prefix of the package name; nothing of rollq imports it.

A job of a workflow (a rule with its wildcards, or a group of them) becomes a job of the grid: a
shell on a worker runs the script that Snakemake wrote for it. Script, inputs and outputs are in the
workflow's folder, which must be mounted at the same path on every worker.

No `from __future__ import annotations` here: Snakemake reads the types of `ExecutorSettings`.
"""

import asyncio
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from rollq.base.errors import RollqError
from rollq.roles.client.blocking.clients import BlockingClient, BlockingJob
from rollq.roles.client.blocking.current import given_servers
from rollq.roles.client.results.result import Result

LOGS = Path(".snakemake/rollq_logs")
# Results are pushed to this client, so polling them sends no request.
LOOK_S = 0.2
MINUTE_S = 60
BYTES_PER_MB = 1_000_000
LINES_SHOWN = 30  # of the stderr of a failed job; Snakemake itself writes about twenty

common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
)


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options on the command line, as `--rollq-…`."""

    address: str = field(
        default="",
        metadata={"help": "Members of the grid, host:port,…; left out: those of ROLLQ_SERVERS"},
    )
    credentials: str = field(
        default="", metadata={"help": "Directory of credentials, for a grid that asks for them"}
    )
    queue: str = field(
        default="", metadata={"help": "Queue of the jobs; left out: that of the program"}
    )
    program: str = field(
        default="sh", metadata={"help": "Name that the shell has among the workers' programs"}
    )
    timeout: float = field(
        default=30.0,
        metadata={"help": "Seconds until a grid that does not answer is an error", "type": float},
    )


class Executor(RemoteExecutor):
    """Runs the jobs of one workflow run on the grid."""

    def __post_init__(self) -> None:
        """Connect. Raises WorkflowError if the grid cannot be reached."""
        settings = self.workflow.executor_settings
        self._running: dict[str, BlockingJob] = {}  # by id
        self.next_seconds_between_status_checks = LOOK_S
        try:
            self._client = BlockingClient(
                given_servers(settings.address),
                timeout=settings.timeout,
                credentials=settings.credentials,
            )
            self._client.start()
        except RollqError as error:
            raise WorkflowError(f"rollq: {error}") from None

    def get_job_exec_prefix(self, job: JobExecutorInterface) -> str:
        """Change to the workflow's folder: a job of the grid starts in a directory of its own."""
        return f"cd {shlex.quote(str(self.workflow.workdir_init))}"

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job; returns when the grid has accepted it."""
        settings = self.workflow.executor_settings
        script = self.get_jobscript(job)
        self.write_jobscript(job, script)
        options = options_for(job) | ({"queue": settings.queue} if settings.queue else {})
        try:
            accepted = self._client.submit(settings.program, [script], **options)
        except RollqError as error:
            self.report_job_error(SubmittedJobInfo(job), msg=f"rollq: {error}\n")
            return
        self._running[accepted.id] = accepted
        self.report_job_submission(SubmittedJobInfo(job, accepted.id))

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Report jobs that have ended to Snakemake; yields the others."""
        for info in active_jobs:
            if not self._running[info.external_jobid].is_done:
                yield info
                continue
            result = self._running.pop(info.external_jobid).result()
            log = await asyncio.to_thread(self._write_log, info.job, result)
            if result.ok:
                self.report_job_success(info)
            else:
                last_lines = result.stderr_tail.splitlines()[-LINES_SHOWN:]
                message = [f"rollq job {result.id} {result.ending}", *last_lines, ""]
                self.report_job_error(info, msg="\n".join(message), aux_logs=[str(log)])

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancel all running jobs: `active_jobs` lacks those that are being checked."""
        for job in list(self._running.values()):
            try:
                job.cancel()
            except RollqError as error:
                self.logger.warning(f"rollq: job {job.id} may still run: {error}")

    def shutdown(self) -> None:
        """Close the client after all jobs have ended or were cancelled."""
        super().shutdown()
        self._client.stop()

    def _write_log(self, job: JobExecutorInterface, result: Result) -> Path:
        """Write the end of a job's output where Snakemake users expect logs."""
        folder = LOGS / ("group" if job.is_group() else job.name)
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{result.id}.log"
        log.write_text(f"{result.stdout_tail}{result.stderr_tail}", encoding="utf-8")
        return log


def options_for(job: JobExecutorInterface) -> dict[str, Any]:
    """Job options from the resources of a rule."""
    requested = job.resources
    resources: dict[str, float] = {"cpu": job.threads}
    if mem_mb := requested.get("mem_mb"):
        resources["memory"] = mem_mb * BYTES_PER_MB
    if gpu := requested.get("gpu"):
        resources["gpu"] = gpu
    options: dict[str, Any] = {"resources": resources}
    if minutes := requested.get("runtime"):
        options["run_limit"] = minutes * MINUTE_S
    return options
