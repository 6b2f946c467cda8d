"""Staged batches at the leader: from messages to commands, and what the leader does on its own.

A committed batch is unpacked a message at a time, a few steps ahead of what is applied, so that
everybody else's turn comes in between; a batch that nobody commits is dropped after its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec.structs import replace

from rollq.base.ids import ClientId
from rollq.base.jobs import JobOptions
from rollq.base.limits import CLIENT_ID_BYTES_MAX, STAGED_MS_MAX, UNPACKS_AHEAD
from rollq.base.staged import StagedGroup
from rollq.grid import commands
from rollq.grid.state import CommittedBatch, GridState
from rollq.roles.member.bounds import bounded, exec_name
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

BatchMessage: TypeAlias = StageJobs | CommitBatch | DropBatch
# The queue and the options that a subject and options mean.
Address: TypeAlias = Callable[[str, JobOptions | None], tuple[str, JobOptions | None]]

LOOK_MS: Final = 10_000  # how often the oldest batch is looked at
EXPIRED: Final = "expired"  # who drops a batch that nobody commits


def staging_command(
    message: BatchMessage, client_id: ClientId, address: Address
) -> commands.StageJobs | commands.CommitBatch | commands.DropBatches:
    """The command that a message asks for. Bounds of what is in it are the grid's to check."""
    if message.client_id:
        client_id = bounded("client id", message.client_id, CLIENT_ID_BYTES_MAX)
    if isinstance(message, CommitBatch):
        return commands.CommitBatch(client_id, message.batch_key, message.parts)
    if isinstance(message, DropBatch):
        name = commands.BatchName(client_id, message.batch_key)
        return commands.DropBatches((name,), client_id)
    groups = tuple(_addressed(group, address) for group in message.groups)
    return commands.StageJobs(client_id, message.batch_key, message.part, message.number, groups)


def _addressed(group: StagedGroup, address: Address) -> StagedGroup:
    queue, options = address(group.queue, group.options)
    return replace(group, queue=queue, exec_name=exec_name(group.exec_name), options=options)


class StagingDesk:
    """What one leader has proposed for batches; it lives as long as the term of office."""

    __slots__ = ("_asked", "_batch", "_look_at_ms")

    def __init__(self) -> None:
        self._batch: CommittedBatch | None = None  # that is being unpacked
        self._asked = 0  # the position up to which that was proposed
        self._look_at_ms = 0

    def due(self, state: GridState, now_ms: int, wall_ms: int) -> list[commands.Command]:
        """Steps of the oldest committed batch, and the end of one that was left lying."""
        due: list[commands.Command] = []
        if state.committed:
            self._unpack(next(iter(state.committed.values())), due)
        if state.staged and now_ms >= self._look_at_ms:
            self._look_at_ms = now_ms + LOOK_MS
            oldest = next(iter(state.staged.values()))
            if wall_ms - oldest.stamp_ms >= STAGED_MS_MAX:
                name = commands.BatchName(oldest.client_id, oldest.batch_key)
                due.append(commands.DropBatches((name,), EXPIRED))
        return due

    def _unpack(self, batch: CommittedBatch, due: list[commands.Command]) -> None:
        if batch is not self._batch:
            self._batch, self._asked = batch, batch.position
        end = batch.position + min(UNPACKS_AHEAD, len(batch.chunks))
        for position in range(max(self._asked, batch.position), end):
            due.append(commands.UnpackBatch(batch.client.client_id, batch.batch_key, position))
            self._asked = position + 1
