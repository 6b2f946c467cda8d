"""Submits the jobs of a file, all or none: the file is checked completely, its jobs are staged
under a batch key, and one commit accepts them. With the same client id and batch key it is
idempotent: the jobs have the same ids."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from array import array
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId, job_id_of_key, task_id, task_number
from rollq.cli.joblist import check_jobs, read_jobs
from rollq.cli.progress import Advance
from rollq.roles.client.calls.followers import check_followed, following
from rollq.roles.client.client import Client
from rollq.roles.client.engine.base import PREFIX_BYTES
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.results.handles import Batch, Counts, Job
from rollq.roles.client.results.result import Result

if TYPE_CHECKING:
    from rollq.cli.submit import SubmitOrder

ATTACHED_AT_ONCE: Final = 1_000
UNSURE: Final = (ErrorCode.TIMED_OUT, ErrorCode.OUTCOME_UNKNOWN, ErrorCode.DISCONNECTED)


class FileJobs:
    """The jobs of a file, with the interface of a batch.

    Attributes:
        counts: Number of jobs by outcome so far.
        batch_key: The key of the batch.
        was_known: Whether they had been accepted before.
    """

    def __init__(self, client: Client, order: SubmitOrder) -> None:
        self.counts = Counts()
        self.batch_key = order.batch_key or f"file-{secrets.token_hex(6)}"
        self.was_known = False
        self._client = client
        self._order = order
        name = job_id_of_key(client.client_id, f"batch {self.batch_key}")
        self._first_id = name[:PREFIX_BYTES] + bytes(4)
        self._lines = array("Q")  # line number of each job
        self._keyed: dict[JobId, int] = {}  # number of each job, if jobs have keys
        self._batch: Batch | None = None

    def __len__(self) -> int:
        return len(self._lines)

    def ids(self) -> Iterator[tuple[int, JobId]]:
        """Iterate over line number and id of every job."""
        if self._keyed:
            return zip(self._lines, self._keyed, strict=True)
        numbers = range(len(self._lines))
        return ((self._lines[number], task_id(self._first_id, number)) for number in numbers)

    def line_of(self, job_id: JobId) -> int:
        """The line of a job in the file."""
        number = self._keyed.get(job_id)
        return self._lines[task_number(self._first_id, job_id) if number is None else number]

    async def submit(self, advance: Advance) -> None:
        """Submit all; returns when all are accepted, or were before.

        Raises:
            LocalError: BAD_OPTIONS, naming the problem of the file; nothing is accepted.
            RollqError: it was refused, and nothing is accepted; or there was no response in time.
        """
        order, client = self._order, self._client
        assert order.source is not None
        rows = (order.source, order.exec_name, order.options)
        checked = await asyncio.to_thread(check_jobs, *rows, header=order.header)
        if checked.has_keys and not order.client_id:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"{order.source} has keys, which require --client-id",
                "add --client-id NAME: keys are unique per client id",
            )
        if order.followers:
            check_followed(checked.count)
        self.counts.total = checked.count
        specs = self._specs(read_jobs(*rows, header=order.header), checked.count, advance)
        try:
            part = await client.stage(self.batch_key, secrets.token_hex(8), specs)
        except BaseException as error:
            with contextlib.suppress(RollqError, asyncio.CancelledError):
                await client.drop_batch(self.batch_key, timeout=1.0)
            if isinstance(error, RollqError):
                error.add_note("nothing was accepted")
            raise
        if order.wait and not self._keyed:
            self._batch = client.batches.expect(self._first_id, len(self))
        try:
            self.was_known = (await client.commit(self.batch_key, (part,))).known
        except RollqError as error:
            again = f"--client-id {client.client_id} --batch {self.batch_key}"
            if error.code in UNSURE:
                error.add_note(f"resubmit the file with {again}: that is idempotent")
            else:
                error.add_note("nothing was accepted")
            raise
        if self._batch is not None:
            self.counts = self._batch.counts

    async def results(self) -> AsyncIterator[Result]:
        """Iterate over the results as they arrive."""
        if self._batch is not None and not self.was_known:
            async for result in self._batch.results():
                yield result
            return
        # Some may have ended long ago, so every job is queried.
        jobs = [job async for job in self._attached()]
        counts = self.counts = Counts(total=len(jobs))
        for ended in asyncio.as_completed([job.result() for job in jobs]):
            result = await ended
            setattr(counts, result.state, getattr(counts, result.state) + 1)
            yield result

    async def _attached(self) -> AsyncIterator[Job]:
        self._client.batches.forget(self._first_id)
        left = (job_id for _, job_id in self.ids())
        while page := list(islice(left, ATTACHED_AT_ONCE)):
            for job in await asyncio.gather(*map(self._client.attach, page)):
                yield job

    def _specs(
        self, rows: Iterator[tuple[int, JobSpec]], total: int, advance: Advance
    ) -> Iterator[JobSpec]:
        for number, (line, spec) in enumerate(rows):
            self._lines.append(line)
            if spec.key:
                self._keyed[job_id_of_key(self._client.client_id, spec.key)] = number
                yield spec
            else:
                job_id = task_id(self._first_id, number)
                yield msgspec.structs.replace(spec, job_id=job_id)
            advance(number + 1, total)
        yield from following(self._order.followers, [job_id for _, job_id in self.ids()])
