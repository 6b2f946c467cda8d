"""Staged batches: their requests, and the leader's own proposals for them.

A committed batch is unpacked in several entries, a few ahead of the applied one, so that other
requests are handled in between; batches that are not committed are dropped after STAGED_MS_MAX.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Final, TypeAlias

from msgspec.structs import replace

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
from rollq.roles.member.leader.addressing import Addressing, bounded, exec_name
from rollq.roles.member.leader.origins import Origin
from rollq.roles.member.leader.proposals import Proposals
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import ClientSession
from rollq.roles.member.leader.shell import Shell
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

BatchMessage: TypeAlias = StageJobs | CommitBatch | DropBatch
# Resolves a subject and options to a queue and options.
Address: TypeAlias = Callable[[str, JobOptions | None], tuple[str, JobOptions | None]]

EXPIRED: Final = "expired"  # the account of a DropBatches by the leader


class BatchRequests:
    """Handles requests about batches on one leader."""

    def __init__(
        self, proposals: Proposals, replies: Replies, addressing: Addressing, shell: Shell
    ) -> None:
        self._proposals = proposals
        self._settle = replies.settle_request
        self._addressing = addressing
        self._shell = shell

    def handle(self, session: ClientSession, message: BatchMessage) -> None:
        """Stage jobs, commit or drop a batch."""
        self._proposals.check_room()
        command = batch_command(message, session, self._addressing.resolve)
        if isinstance(command, commands.StageJobs):
            for group in command.groups:
                for blobs in group.blobs:
                    self._shell.check_held(blobs)
        self._proposals.add_request(
            command, Origin(self._settle, session.number, message.request_id)
        )


def batch_command(
    message: BatchMessage, session: ClientSession, address: Address
) -> commands.StageJobs | commands.CommitBatch | commands.DropBatches:
    """The command for a message. The grid checks the bounds of its contents."""
    client_id = session.client_id
    if message.client_id:
        client_id = bounded("client id", message.client_id, CLIENT_ID_BYTES_MAX)
    if isinstance(message, CommitBatch):
        return commands.CommitBatch(client_id, message.batch_key, message.parts)
    if isinstance(message, DropBatch):
        name = commands.BatchName(client_id, message.batch_key)
        return commands.DropBatches((name,), session.by)
    groups = tuple(_addressed(group, address) for group in message.groups)
    names = (client_id, message.batch_key, message.part, message.number)
    return commands.StageJobs(*names, groups, BATCH_JOBS_MAX)


def _addressed(group: StagedGroup, address: Address) -> StagedGroup:
    queue, options = address(group.queue, group.options)
    return replace(group, queue=queue, exec_name=exec_name(group.exec_name), options=options)


def expired_batches(state: GridState, now_ms: int) -> list[commands.Command]:
    """Commands that drop batches without a change for too long."""
    before_ms = began_before_ms(state, now_ms, STAGED_MS_MAX)
    old = takewhile(lambda one: one.stamp_ms <= before_ms, state.staged.values())
    names = tuple(commands.BatchName(batch.client_id, batch.batch_key) for batch in old)
    return [commands.DropBatches(names, EXPIRED)] if names else []


class BatchUnpacker:
    """Proposes the unpack steps of committed batches, each once."""

    __slots__ = ("_batch", "_proposed")

    def __init__(self) -> None:
        self._batch: CommittedBatch | None = None  # the oldest committed one
        self._proposed = 0  # steps up to this position are proposed; batch.position <= _proposed

    def due(self, state: GridState) -> list[commands.Command]:
        """The next steps of the oldest committed batch, a few ahead of what is applied."""
        batch = next(iter(state.committed.values()), None)
        if batch is None:
            return []
        if batch is not self._batch:
            self._batch, self._proposed = batch, batch.position
        first = max(self._proposed, batch.position)
        self._proposed = max(first, batch.position + min(UNPACKS_AHEAD, len(batch.chunks)))
        return [
            commands.UnpackBatch(batch.client.client_id, batch.batch_key, position)
            for position in range(first, self._proposed)
        ]
