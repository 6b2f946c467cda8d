"""Owners of the targets of messages, in the applied state: jobs, blobs, workers, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rollq.base.access import ResourceKind
from rollq.base.digests import Digest
from rollq.base.errors import StateError
from rollq.base.ids import JobId, WorkerId, guid_to_text
from rollq.base.staged import ids_of
from rollq.grid import commands
from rollq.grid.refs import holders_of
from rollq.grid.state import PREFIX_BYTES, CacheHolder, GridState
from rollq.roles.member.guard.given import GivenBlobs
from rollq.roles.member.leader.reruns import NO_INPUTS, RunInputs, inputs_of

K = ResourceKind


class Targets:
    """Looks up owners on one member.

    Args:
        state: Returns the applied state.
        pending: Returns the commands that are not applied yet.
        queue_named: The queue of a subject.
        table_of: The table of a part of an export; empty: unknown.
        given: Blobs that accounts uploaded here.
    """

    def __init__(
        self,
        state: Callable[[], GridState],
        *,
        pending: Callable[[], Iterable[commands.Command]],
        queue_named: Callable[[str], str],
        table_of: Callable[[str, int], str],
        given: GivenBlobs,
    ) -> None:
        self._state = state
        self._pending = pending
        self.queue_named = queue_named
        self.table_of = table_of
        self.given = given

    @property
    def applied_index(self) -> int:
        """The index of the last applied entry."""
        return self._state().applied_index

    def of_job(self, job_id: JobId) -> tuple[str, str] | None:
        """Client and queue of a job, an array or a task; None: unknown."""
        state = self._state()
        record = state.jobs.get(job_id)
        if record is not None:
            return f"{K.CLIENT}:{record.client.client_id}", f"{K.QUEUE}:{record.queue}"
        array = state.arrays.get(job_id[:PREFIX_BYTES])
        if array is None:
            return None
        if array.array_id != job_id and array.number_of(job_id) >= array.task_count:
            return None
        return f"{K.CLIENT}:{array.client.client_id}", f"{K.QUEUE}:{array.queue}"

    def inputs_of(self, job_id: JobId) -> RunInputs:
        """The inputs of a job; NO_INPUTS if it is unknown, which the service reports."""
        try:
            return inputs_of(self._state(), job_id)
        except StateError:
            return NO_INPUTS

    def pending_jobs(self) -> dict[JobId, tuple[str, ...]]:
        """Clients and queues of submitted jobs and arrays that are not applied: a job can be
        cancelled at once. An id that several clients have submitted has the names of all."""
        found: dict[JobId, tuple[str, ...]] = {}
        for command in self._pending():
            if isinstance(command, commands.SubmitRun):
                ids: Iterable[JobId] = ids_of(command.job_ids)
            elif isinstance(command, commands.SubmitBulk):
                ids = [item.job_id for item in command.items]
            elif isinstance(command, commands.SubmitArray):
                ids = [command.array_id]
            else:
                continue
            names = f"{K.CLIENT}:{command.client_id}", f"{K.QUEUE}:{command.queue}"
            for job_id in ids:
                found[job_id] = found.get(job_id, ()) + names
        return found

    def is_reserved(self, job_id: JobId) -> bool:
        """Whether the job belongs to a batch that is being unpacked; its owner is unknown until
        then."""
        return job_id in self._state().reserved

    def of_blob(self, digest: Digest) -> tuple[str, ...]:
        """The clients and caches that refer to a blob, and the accounts that uploaded it here."""
        names = [
            f"{K.CACHE}:{one.cache_id}" if isinstance(one, CacheHolder) else f"{K.CLIENT}:{one}"
            for one in holders_of(self._state(), digest)
        ]
        names += [f"{K.CLIENT}:{account}" for account in self.given.by(digest)]
        return tuple(names)

    def is_referred_to(self, digest: Digest) -> bool:
        """Whether a job, a result or a cache refers to a blob."""
        return digest in self._state().blobs

    def of_worker(self, worker_id: WorkerId) -> str:
        """The resource of a worker: by its name, or its id if it has none."""
        worker = self._state().workers.get(worker_id) or self._state().drained.get(worker_id)
        name = "" if worker is None else worker.name
        return f"{K.WORKER}:{name or guid_to_text(worker_id)}"

    def knows_worker(self, worker_id: WorkerId) -> bool:
        """Whether this worker is registered in the group, and not lost."""
        return worker_id in self._state().workers
