"""Submitting many jobs at once, as a bulk or as an array: what clients of one group and of several
can do alike."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import JobId, task_id
from rollq.base.limits import ARRAY_TASKS_MAX
from rollq.roles.client.bulk import BulkRun
from rollq.roles.client.handles import PREFIX_BYTES, Batch, Progress
from rollq.roles.client.specs import (
    Input,
    JobSpec,
    Options,
    Payload,
    as_specs,
    body_of,
    job_options,
    subject_of,
)
from rollq.roles.client.submitter import Submitter
from rollq.roles.client.supply import BytesMoved, blobs_of, caches_of, supply_of
from rollq.wire import messages as wire

FIRST_TASK: Final = 1  # tasks are numbered behind the array's id, so that none has it


class ManySubmitter(Submitter):
    """A submitter of bulks and arrays."""

    async def submit_many(
        self,
        jobs: str | Iterable[JobSpec],
        arguments: Iterable[Any] | None = None,
        *,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: Progress | None = None,
        **options: Unpack[Options],
    ) -> Batch:
        """Submit many jobs in few messages; returns when all are accepted.

        Give specs, or a name and an iterable of arguments (each a string, a sequence of strings,
        or bytes for a payload). Messages are accepted one by one: if one is refused, the jobs of
        those before it stay accepted, and the error says how many. `timeout` is how long nothing
        may be accepted; `progress` is told how many were.

        Raises:
            RollqError: a message was refused, or not accepted in time.
        """
        batch = Batch(self, new_first_id(), keeps=keep_results)
        prefix = batch.first_id[:PREFIX_BYTES]
        self._routes[prefix] = batch
        run = BulkRun(self, batch, self._timeout_s if timeout is None else timeout, progress)
        try:
            await run.submit(as_specs(jobs, arguments, options))
        except RollqError as error:
            error.add_note(f"{run.accepted} jobs had been accepted before")
            raise
        finally:
            run.close()
            batch.complete()
            if batch.is_done:
                self._routes.pop(prefix, None)
        return batch

    async def submit_array(
        self,
        exec_name: str,
        count: int,
        args: Sequence[str] = (),
        *,
        files: Mapping[str, Input] | None = None,
        outputs: Sequence[str] = (),
        payload: Payload | None = None,
        running_max: int = 0,
        keep_results: bool = True,
        timeout: float | None = None,
        progress: BytesMoved | None = None,
        **options: Unpack[Options],
    ) -> Batch:
        """Submit `count` tasks that share arguments and files and are told apart by their number.
        However many they are, they cost the grid one record until they run. Files as for `submit`.

        Raises:
            RollqError: it was refused, or not accepted in time.
        """
        if not 0 < count <= ARRAY_TASKS_MAX:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"an array of {count} tasks",
                f"use 1 to {ARRAY_TASKS_MAX}, and several arrays for more",
            )
        array_id = new_first_id()
        first_id = task_id(array_id, FIRST_TASK)
        spec = JobSpec(exec_name, args, files or {}, payload, options=options, outputs=outputs)
        spec = await self.settle(spec) if files else spec
        request = wire.SubmitArray(
            array_id,
            self.client_id,
            subject_of(exec_name, options),
            exec_name,
            body_of(spec, array_id, self.client_id),
            count,
            job_options(spec.options),
            running_max,
            blobs_of(spec),
            caches_of(spec),
            FIRST_TASK,
        )
        batch = Batch(self, first_id, keeps=keep_results, array_id=array_id)
        batch.extend(count)
        batch.complete()
        self._routes[first_id[:PREFIX_BYTES]] = batch
        try:
            await self._call(request, timeout, supply_of(spec, progress))
        except BaseException:
            self._routes.pop(first_id[:PREFIX_BYTES], None)
            raise
        return batch

    @abstractmethod
    async def is_array_over(self, array_id: JobId) -> bool:
        """Whether no task of an array waits or runs."""


def new_first_id() -> JobId:
    """The id of an array, or of the first of many jobs: the last bytes count."""
    return secrets.token_bytes(PREFIX_BYTES) + bytes(4)
