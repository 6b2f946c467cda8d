"""Sends the rows of a task in segments, each staged as a part of the batch, or stored as a blob if
there is no room for more staged jobs.

A segment is built in memory before it is sent, so that it can still be stored as a blob when
staging is refused. The driver stages stored segments later, one after the other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from rollq.base.errors import ErrorCode, RollqError
from rollq.base.jobs import BlobRef
from rollq.base.staged import StagedGroup, StagedPart
from rollq.roles.client.jobs.alike import AlikeJobs
from rollq.roles.client.jobs.parts import Message, PartBuilder, Redrive
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.jobs.supply import refs_of

if TYPE_CHECKING:
    from rollq.roles.client.blocking.clients import BlockingClient

SEGMENT_BYTES: Final = 8 << 20
SEGMENT_JOBS: Final = 50_000
# A page of rows of one kind, which are sent together.
Page: TypeAlias = AlikeJobs | list[JobSpec] | list[Redrive]
# The grid has no room for more staged jobs, or the batch has its maximum size.
NO_ROOM: Final = (ErrorCode.GRID_FULL, ErrorCode.BATCH_FULL)


class StoredSegment(msgspec.Struct, frozen=True):
    """A segment stored as a blob: its number of jobs, and the blobs of their input files."""

    blob: BlobRef
    count: int
    files: tuple[BlobRef, ...] = ()


class SentSegment(msgspec.Struct, frozen=True):
    """A segment that was sent.

    Attributes:
        place: Names its rows in error messages.
        ids: Concatenated job ids, if rows have ids or keys: these may contain duplicates.
    """

    place: str
    part: StagedPart | None = None
    kept: StoredSegment | None = None
    ids: bytes = b""


@dataclass(slots=True)
class SegmentSender:
    """Sends the rows of one task."""

    client: BlockingClient
    client_id: str
    batch_key: str
    partition: int
    has_ids: bool  # rows have ids or keys
    sent: list[SentSegment] = field(default_factory=list)
    _token: str = field(default_factory=lambda: secrets.token_hex(8))
    _rows: int = 0  # in earlier segments
    _has_room: bool = True

    def send(self, pages: Iterable[Page]) -> list[SentSegment]:
        """Send rows in segments.

        Args:
            pages: pages of rows.

        Raises:
            RollqError: they were refused, or there was no progress for too long.
        """
        builder = self._builder()
        messages: list[Message] = []
        size = count = 0
        for page in pages:
            for message in self._made(builder, page):
                messages.append(message)
                size += sum(len(group.bodies) for group in message[0].groups)
            count += len(page.args) if isinstance(page, AlikeJobs) else len(page)
            if size >= SEGMENT_BYTES or count >= SEGMENT_JOBS:
                messages += builder.rest()
                self._flush(builder, messages)
                builder, messages, size, count = self._builder(), [], 0, 0
        messages += builder.rest()
        if messages:
            self._flush(builder, messages)
        return self.sent

    def _builder(self) -> PartBuilder:
        name = f"partition {self.partition}, rows from {self._rows + 1} ({self._token})"
        return PartBuilder(self.client_id, self.batch_key, name)

    def _made(self, builder: PartBuilder, page: Page) -> Iterator[Message]:
        if isinstance(page, AlikeJobs):
            return builder.alike(page)
        if isinstance(page[0], Redrive):
            return builder.redrives(page)
        specs: Sequence[JobSpec] = page
        if any(spec.files for spec in specs):
            specs = self.client.batches.settle(specs)
        return builder.messages(specs)

    def _flush(self, builder: PartBuilder, messages: Sequence[Message]) -> None:
        staged = builder.staged
        groups = [group for message, _ in messages for group in message.groups]
        ids = b"".join(group.job_ids for group in groups) if self.has_ids else b""
        if self._has_room:
            try:
                self.client.batches.stage_messages(messages, waits=False)
                self.sent.append(SentSegment(staged.part, part=staged, ids=ids))
                self._rows += staged.count
                return
            except RollqError as error:
                if error.code not in NO_ROOM:
                    raise
                self._has_room = False  # store all further segments
        self.client.caches.supply([one for _, supply in messages for one in supply.pieces.values()])
        files = tuple({ref: None for message, _ in messages for ref in refs_of(message)})
        blob = self.client.upload(packed(message.groups for message, _ in messages))
        self.sent.append(
            SentSegment(staged.part, kept=StoredSegment(blob, staged.count, files), ids=ids)
        )
        self._rows += staged.count


def packed(messages: Iterable[tuple[StagedGroup, ...]]) -> bytes:
    """Encode the groups of messages as a blob."""
    return msgspec.msgpack.encode(list(messages))


def unpacked(data: bytes) -> list[tuple[StagedGroup, ...]]:
    """Decode such a blob."""
    return msgspec.msgpack.decode(data, type=list[tuple[StagedGroup, ...]])
