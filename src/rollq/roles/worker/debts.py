"""Blobs that results refer to which the grid has not taken yet. They stay here until it has: a
leader that lacks one says so instead of taking the result, and is given it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from rollq.base.errors import ErrorCode, RollqError
from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef, BlobRef
from rollq.base.limits import DETAIL_BYTES_MAX
from rollq.roles.service import end_tasks
from rollq.roles.worker.signals import Stored, StoredResult
from rollq.wire.messages import Error, Nack

log = logging.getLogger("rollq.worker")

CLAIMED_AGAIN_S: Final = 1.0  # before an ack that was refused twice is said once more


class Blobs(Protocol):
    """What is needed of the worker's blobs."""

    def pin(self, blobs: Sequence[BlobRef]) -> None:
        """Somebody uses these."""

    def unpin(self, blobs: Sequence[BlobRef]) -> None:
        """The reverse."""

    async def give(self, blobs: Sequence[BlobRef]) -> None:
        """Upload them."""


class Debts:
    """What is owed, by job. Belongs to the loop.

    Args:
        blobs: Where it is.
        on_given: Told that an ack may be said again.
        send: For a nack, if what is owed is lost: another attempt makes it anew.
    """

    def __init__(
        self,
        blobs: Blobs,
        on_given: Callable[[Stored], None],
        send: Callable[[Sequence[Nack]], None],
    ) -> None:
        self._blobs = blobs
        self._on_given = on_given
        self._send = send
        self._owed: dict[JobId, StoredResult] = {}
        self._giving: dict[AttemptRef, asyncio.Task[None]] = {}
        self._claimed: dict[AttemptRef, None] = {}  # once at least

    def load(self, stored: Iterable[StoredResult]) -> list[BlobRef]:
        """What an earlier life owed, to be pinned by the caller."""
        self._owed = {record.ref.job_id: record for record in stored if record.blobs}
        return [blob for record in self._owed.values() for blob in record.blobs]

    def owe(self, results: Iterable[StoredResult]) -> None:
        """These are told to the grid from now on."""
        for record in results:
            if record.blobs:
                self._settle(record.ref.job_id)
                self._blobs.pin(record.blobs)
                self._owed[record.ref.job_id] = record

    def paid(self, refs: Iterable[AttemptRef]) -> None:
        """The grid has taken these, or does not want them."""
        if self._owed:
            for ref in refs:
                record = self._owed.get(ref.job_id)
                if record is not None and record.ref == ref:
                    self._settle(ref.job_id)

    def claim(self, message: Error) -> None:
        """A member refused something: perhaps an ack, because it lacks what that refers to."""
        record = self._owed.get(message.request_id)
        if message.code != ErrorCode.BLOB_MISSING or record is None or record.ref in self._giving:
            return
        self._giving[record.ref] = asyncio.get_running_loop().create_task(self._give(record))

    async def stop(self) -> None:
        """Give nothing any more."""
        await end_tasks(self._giving.values())

    def _settle(self, job_id: JobId) -> None:
        record = self._owed.pop(job_id, None)
        if record is not None:
            self._blobs.unpin(record.blobs)
            self._claimed.pop(record.ref, None)

    async def _give(self, record: StoredResult) -> None:
        ref = record.ref
        try:
            if ref in self._claimed:
                await asyncio.sleep(CLAIMED_AGAIN_S)
            self._claimed[ref] = None
            await self._blobs.give(record.blobs)
        except RollqError as error:
            log.error("what a job left cannot be handed over: %s", error)
            detail = f"what it left cannot be handed over: {error}"[:DETAIL_BYTES_MAX]
            self._send((Nack(ref.job_id, ref.attempt, ref.fence, detail),))
        else:
            self._on_given(Stored((ref,)))
        finally:
            del self._giving[ref]
