"""Staged batches at the leader: from messages to commands, and what the leader does on its own.

A committed batch is unpacked a message at a time, a few steps ahead of what is applied, so that
everybody else's turn comes in between; batches that nobody commits are dropped after their time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Final, TypeAlias

from msgspec.structs import replace

from rollq.base.ids import ClientId
from rollq.base.jobs import JobOptions
from rollq.base.limits import (
    BATCH_JOBS_MAX,
    CLIENT_ID_BYTES_MAX,
    STAGED_MS_MAX,
    UNPACKS_AHEAD,
)
from rollq.base.staged import StagedGroup
from rollq.grid import commands
from rollq.grid.state import CommittedBatch, GridState
from rollq.grid.times import began_before_ms
from rollq.roles.member.bounds import bounded, exec_name
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

BatchMessage: TypeAlias = StageJobs | CommitBatch | DropBatch
# The queue and the options that a subject and options mean.
Address: TypeAlias = Callable[[str, JobOptions | None], tuple[str, JobOptions | None]]

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
    names = (client_id, message.batch_key, message.part, message.number)
    return commands.StageJobs(*names, groups, BATCH_JOBS_MAX)


def _addressed(group: StagedGroup, address: Address) -> StagedGroup:
    queue, options = address(group.queue, group.options)
    return replace(group, queue=queue, exec_name=exec_name(group.exec_name), options=options)


def left_lying(state: GridState, now_ms: int) -> list[commands.Command]:
    """The end of batches that nobody added to or committed for too long."""
    before_ms = began_before_ms(state, now_ms, STAGED_MS_MAX)
    old = takewhile(lambda one: one.stamp_ms <= before_ms, state.staged.values())
    names = tuple(commands.BatchName(batch.client_id, batch.batch_key) for batch in old)
    return [commands.DropBatches(names, EXPIRED)] if names else []


class StagingDesk:
    """What one leader has proposed for batches; it lives as long as the term of office."""

    __slots__ = ("_asked", "_batch")

    def __init__(self) -> None:
        self._batch: CommittedBatch | None = None  # that is being unpacked
        self._asked = 0  # the position up to which that was proposed

    def due(self, state: GridState) -> list[commands.Command]:
        """The next steps of the oldest committed batch, a few ahead of what is applied."""
        batch = next(iter(state.committed.values()), None)
        if batch is None:
            return []
        if batch is not self._batch:
            self._batch, self._asked = batch, batch.position
        first = max(self._asked, batch.position)
        self._asked = max(first, batch.position + min(UNPACKS_AHEAD, len(batch.chunks)))
        return [
            commands.UnpackBatch(batch.client.client_id, batch.batch_key, position)
            for position in range(first, self._asked)
        ]
