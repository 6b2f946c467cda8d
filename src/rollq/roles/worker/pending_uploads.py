"""Blobs of results that the grid has not taken. They are kept until it has: a leader that lacks one
refuses the ack, and the machine has it uploaded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef, BlobRef
from rollq.roles.service import end_tasks
from rollq.roles.worker.signals import ResultStored, StoredResult, UploadFailed

log = logging.getLogger("rollq.worker")

AGAIN_S: Final = 1.0  # before a repeated upload


class OutputStore(Protocol):
    """The part of the worker's blob store that is used here."""

    def pin(self, blobs: Sequence[BlobRef]) -> None:
        """Protect them from eviction."""

    def unpin(self, blobs: Sequence[BlobRef]) -> None:
        """Undo one `pin` of each."""

    async def give(self, blobs: Sequence[BlobRef]) -> None:
        """Upload them."""


class PendingUploads:
    """Results with blobs, by job. Runs on the loop.

    Args:
        blobs: The worker's store.
        feed: Handles `ResultStored` after an upload, or `UploadFailed`.
    """

    def __init__(
        self, blobs: OutputStore, feed: Callable[[ResultStored | UploadFailed], None]
    ) -> None:
        self._blobs = blobs
        self._feed = feed
        # Results that are stored and not taken; their blobs are pinned.
        self._results: dict[JobId, StoredResult] = {}
        self._uploading: dict[AttemptRef, asyncio.Task[None]] = {}
        self._uploaded: dict[AttemptRef, None] = {}  # those uploaded at least once

    def load(self, stored: Iterable[StoredResult]) -> list[BlobRef]:
        """Take the results of an earlier run; returns their blobs, for the caller to pin."""
        self._results = {record.ref.job_id: record for record in stored if record.blobs}
        return [blob for record in self._results.values() for blob in record.blobs]

    def keep(self, results: Iterable[StoredResult]) -> None:
        """Pin the blobs of results until `release`."""
        for record in results:
            if record.blobs:
                self._drop(record.ref.job_id)
                self._blobs.pin(record.blobs)
                self._results[record.ref.job_id] = record

    def release(self, refs: Iterable[AttemptRef]) -> None:
        """The grid has taken these, or does not need them."""
        if self._results:
            for ref in refs:
                record = self._results.get(ref.job_id)
                if record is not None and record.ref == ref:
                    self._drop(ref.job_id)

    def upload(self, record: StoredResult) -> None:
        """Upload the blobs of a result again, unless that is under way."""
        if record.ref not in self._uploading:
            task = asyncio.get_running_loop().create_task(self._upload(record))
            self._uploading[record.ref] = task

    async def stop(self) -> None:
        """Cancel all uploads."""
        await end_tasks(self._uploading.values())

    def _drop(self, job_id: JobId) -> None:
        record = self._results.pop(job_id, None)
        if record is not None:
            self._blobs.unpin(record.blobs)
            self._uploaded.pop(record.ref, None)

    async def _upload(self, record: StoredResult) -> None:
        ref = record.ref
        try:
            if ref in self._uploaded:
                await asyncio.sleep(AGAIN_S)
            self._uploaded[ref] = None
            await self._blobs.give(record.blobs)
        except Exception as error:  # of any kind: the result must not stay here for ever
            log.error("outputs of a job cannot be uploaded: %s", error)
            self._feed(UploadFailed(ref, f"its outputs cannot be uploaded: {error}"))
        else:
            self._feed(ResultStored((ref,)))
        finally:
            del self._uploading[ref]
