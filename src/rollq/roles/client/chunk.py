"""Jobs that follow one another and ask for the same, on their way into one message. No IO."""

from __future__ import annotations

from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import BulkItem
from rollq.base.limits import BULK_CHUNK_BYTES, BULK_CHUNK_JOBS
from rollq.roles.client.draws import draw_id
from rollq.roles.client.specs import JobSpec, job_options, subject_of
from rollq.wire import messages as wire


class Chunk:
    """The items of one message, as they are collected."""

    __slots__ = ("_bytes", "_first", "items")

    def __init__(self) -> None:
        self.items: list[BulkItem] = []
        self._first: JobSpec | None = None
        self._bytes = 0

    def add(self, spec: JobSpec, job_id: JobId, body: bytes) -> bool:
        """Take a job; false if it must go into another message."""
        first = self._first
        if first is None:
            self._first = spec
        elif (
            len(self.items) >= BULK_CHUNK_JOBS
            or self._bytes + len(body) > BULK_CHUNK_BYTES
            or spec.exec_name != first.exec_name
            or (spec.options is not first.options and spec.options != first.options)
        ):
            return False
        self.items.append(BulkItem(job_id, body))
        self._bytes += len(body)
        return True

    def message(self, client_id: ClientId) -> wire.SubmitBulk:
        """What was collected, at least one job.

        Raises:
            LocalError: BAD_OPTIONS, naming the option.
        """
        first = self._first
        assert first is not None
        return wire.SubmitBulk(
            draw_id(),
            client_id,
            subject_of(first.options),
            first.exec_name,
            tuple(self.items),
            job_options(first.options),
        )


def singles_of(bulk: wire.SubmitBulk) -> list[wire.SubmitJob]:
    """The same jobs, each in a message of its own."""
    return [
        wire.SubmitJob(
            item.job_id, bulk.client_id, bulk.subject, bulk.exec_name, item.body, bulk.options
        )
        for item in bulk.items
    ]
