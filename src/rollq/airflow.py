"""The grid in Airflow: `RollqOperator` runs a program as a job, and waits for its end.

The task's log has what the program writes while it runs, its XCom how it ended. One try of the task
is one job: a worker that is lost is the grid's business, and `retries` submit anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from rollq.base.errors import ErrorCode
from rollq.roles.client.blocking import BlockingClient, BlockingJob
from rollq.roles.client.current import given_servers
from rollq.roles.client.results import JobError, Result


class RollqOperator(BaseOperator):  # type: ignore[misc]
    """A program or function of the workers, as a task.

    Args:
        program: Its name.
        arguments: Of the program, as text.
        files: Its input files by their name in the job's directory: the path of a file or folder
            where the task runs, or bytes.
        outputs: Patterns of the files that shall come back; all if there are none.
        save_to: The folder, where the task runs, for the files that it left; left out: they stay in
            the grid.
        address: Members of the grid, `host:port,…`; left out: those of ROLLQ_SERVERS.
        credentials: The directory of credentials, for a grid that asks for them.
        options: What the job asks for: `queue`, `env`, `resources`, ….
        timeout: Seconds until a grid that does not answer is an error.
        of_task: Of every operator: `task_id`, `retries`, `execution_timeout`, ….
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
        self._job_id = ""  # while it has not ended

    def execute(self, context: Context) -> dict[str, Any]:
        """Submit, follow, wait; how it ended.

        Raises:
            AirflowFailException: it was cancelled in the grid; it shall not be tried again.
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
            return self._told(result)

    def on_kill(self) -> None:
        """The task is to end, and with it the job. `execute` may be in the midst of a call of its
        own client."""
        job_id, self._job_id = self._job_id, ""
        if job_id:
            with self._client() as client:
                client.cancel(job_id)

    def _client(self) -> BlockingClient:
        address = given_servers(self.address)
        return BlockingClient(address, timeout=self.timeout, credentials=self.credentials)

    def _follow(self, job: BlockingJob) -> None:
        """Its output into the task's log, line by line."""
        begun: dict[tuple[int, str], bytes] = {}  # a line whose end has not come, by stream
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

    def _told(self, result: Result) -> dict[str, Any]:
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
