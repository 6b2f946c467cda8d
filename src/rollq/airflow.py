"""The grid in Airflow: `RollqOperator` runs a program as a job, and waits for its end.

The output of the program goes to the task's log while it runs, the outcome to its XCom. Each try of
the task is one job: the grid handles lost workers by itself, and `retries` submit a new job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from rollq.base.errors import ErrorCode
from rollq.roles.client.blocking.clients import BlockingClient, BlockingJob
from rollq.roles.client.blocking.current import given_servers
from rollq.roles.client.results.result import JobError, Result


class RollqOperator(BaseOperator):
    """A program or function of the workers, as a task.

    Args:
        program: Its name.
        arguments: Its arguments, as text.
        files: Its input files by their name in the job's directory: the path of a file or folder
            on the machine of the task, or bytes.
        outputs: Patterns of the output files to keep; default: all.
        save_to: The folder on the machine of the task to save output files in; default: they
            stay in the grid.
        address: Members of the grid, `host:port,…`; default: ROLLQ_SERVERS.
        credentials: The directory of credentials, for a grid that requires a login.
        options: Options of the job: `queue`, `env`, `resources`, ….
        timeout: How many seconds to wait for a response of the grid.
        of_task: Arguments of every operator: `task_id`, `retries`, `execution_timeout`, ….
    """

    template_fields = ("program", "arguments", "files", "save_to", "address", "options")

    def __init__(
        self,
        *,
        program: str,
        arguments: Sequence[str] = (),
        files: Mapping[str, str | Path | bytes] | None = None,
        outputs: Sequence[str] = (),
        save_to: str = "",
        address: str = "",
        credentials: str = "",
        options: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        **of_task: Any,
    ) -> None:
        super().__init__(**of_task)
        self.program = program
        self.arguments = arguments
        self.files = files or {}
        self.outputs = outputs
        self.save_to = save_to
        self.address = address
        self.credentials = credentials
        self.options = options or {}
        self.timeout = timeout
        self._job_id = ""  # of the running job

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit the job, log its output, wait, and return the outcome.

        Raises:
            AirflowFailException: it was cancelled in the grid; no retry.
            JobError: it failed, or is dead.
            RollqError: the grid cannot be reached, or refuses the job.
        """
        files = {
            name: Path(one) if isinstance(one, str) else one for name, one in self.files.items()
        }
        with self._client() as client:
            job = client.submit(
                self.program,
                [str(one) for one in self.arguments],
                files=files,
                outputs=self.outputs,
                **self.options,
            )
            self._job_id = job.id
            self.log.info("rollq job %s is accepted", job.id)
            self._follow(job)
            result = job.result()
            self._job_id = ""
            self.log.info("rollq job %s: %s", result.id, result.ending)
            return self._outcome(result)

    def on_kill(self) -> None:
        """Cancel the job when Airflow ends the task. It uses a client of its own, because `execute`
        may be inside a call of the other one."""
        job_id, self._job_id = self._job_id, ""
        if job_id:
            with self._client() as client:
                client.cancel(job_id)

    def _client(self) -> BlockingClient:
        address = given_servers(self.address)
        return BlockingClient(address, timeout=self.timeout, credentials=self.credentials)

    def _follow(self, job: BlockingJob) -> None:
        """Write the output of the job to the task's log, line by line."""
        begun: dict[tuple[int, str], bytes] = {}  # incomplete last line of each stream
        for part in job.output():
            stream = part.attempt, part.stream
            *lines, begun[stream] = (begun.get(stream, b"") + part.data).split(b"\n")
            for line in lines:
                self._log_line(part.stream, line)
        for (_, name), line in begun.items():
            if line:
                self._log_line(name, line)

    def _log_line(self, stream: str, line: bytes) -> None:
        self.log.info("[%s] %s", stream, line.decode(errors="replace"))

    def _outcome(self, result: Result) -> dict[str, Any]:
        try:
            result.raise_for_status()
        except JobError as error:
            if error.code == ErrorCode.CANCELLED:
                raise AirflowFailException(str(error)) from None
            raise
        if self.save_to:
            result.save_files(self.save_to)
        return {
            "job_id": result.id,
            "exit_code": result.exit_code,
            "attempts": result.attempts,
            "worker": result.worker,
            "run_ms": result.run_ms,
            "stdout": result.stdout_tail,
            "outputs": sorted(result.outputs),
        }
