"""Jobs that follow one another and ask for the same, on their way into one message. No IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import structs

from rollq.base.digests import DIGEST_BYTES, Digest
from rollq.base.ids import ClientId, JobId, MessageId
from rollq.base.jobs import BulkItem
from rollq.base.limits import BULK_CHUNK_BYTES, BULK_CHUNK_JOBS
from rollq.roles.client.draws import draw_id
from rollq.roles.client.plain import singles_of
from rollq.roles.client.specs import JobSpec, job_options, subject_of
from rollq.roles.client.supply import NOTHING, Piece, SettledSpec, Supply, caches_of
from rollq.wire import messages as wire

REF_BYTES: Final = DIGEST_BYTES + 16  # of a reference, in a message


class Chunk:
    """The items of one message, as they are collected."""

    __slots__ = ("_bytes", "_first", "_has_blobs", "_pieces", "items")

    def __init__(self) -> None:
        self.items: list[BulkItem] = []
        self._first: JobSpec | None = None
        self._bytes = 0
        self._pieces: dict[Digest, Piece] = {}
        self._has_blobs = False

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
            or caches_of(spec) != caches_of(first)
        ):
            return False
        if type(spec) is SettledSpec:
            self.items.append(BulkItem(job_id, body, spec.blobs, spec.key))
            self._bytes += REF_BYTES * len(spec.blobs)
            self._pieces.update(spec.pieces)
            self._has_blobs |= bool(spec.blobs)
        else:
            self.items.append(BulkItem(job_id, body, (), spec.key))
        self._bytes += len(body)
        return True

    @property
    def supply(self) -> Supply:
        """Where the files of these jobs can be had from."""
        return Supply(self._pieces) if self._has_blobs else NOTHING

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
            subject_of(first.exec_name, first.options),
            first.exec_name,
            tuple(self.items),
            job_options(first.options),
            caches=caches_of(first),
        )


class SplitBulk:
    """A bulk whose jobs go their own ways, and which is answered when all of them are.

    Args:
        bulk: The jobs.
        on_answer: Called once: with the first refusal, if there was one.
        open_bulks: It stands here, by its request id, until then.
    """

    __slots__ = ("_left", "_on_answer", "_open", "_refusal", "_request_id", "singles")

    def __init__(
        self,
        bulk: wire.SubmitBulk,
        on_answer: Callable[[wire.Accepted | wire.Error], None],
        open_bulks: dict[MessageId, SplitBulk],
    ) -> None:
        self.singles = singles_of(bulk)
        self._left = len(self.singles)
        self._refusal: wire.Error | None = None
        self._request_id = bulk.request_id
        self._on_answer = on_answer
        self._open = open_bulks
        open_bulks[bulk.request_id] = self

    def on_answer(self, answer: wire.Accepted | wire.Answer | wire.Error) -> None:
        """One of the jobs was accepted or refused."""
        self._left -= 1
        if isinstance(answer, wire.Error) and self._refusal is None:
            self._refusal = structs.replace(answer, request_id=self._request_id)
        if not self._left and self._open.pop(self._request_id, None) is not None:
            whole = wire.Accepted(self._request_id, len(self.singles))
            self._on_answer(self._refusal or whole)
