"""Messages to stage a batch: parts with their jobs, then one commit that accepts them all. Each is
answered by Accepted or Error under its request id, and is idempotent."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from rollq.base import limits as most
from rollq.base.staged import StagedGroup, StagedPart
from rollq.wire.fields import BatchKey, ClientId, MessageId, Number
from rollq.wire.messages import ClientMessage
from rollq.wire.rules import Many, Struct

StagedGroups: TypeAlias = Annotated[
    tuple[StagedGroup, ...], Many(most.STAGE_CHUNK_JOBS_MAX, Struct(StagedGroup))
]
StagedParts: TypeAlias = Annotated[
    tuple[StagedPart, ...], Many(most.STAGED_PARTS_MAX, Struct(StagedPart))
]


class StageJobs(ClientMessage, frozen=True, tag=96):
    """Stage these jobs until their batch is committed. `number` counts the messages of the part
    from 0; `client_id` is the owner (empty: the sender)."""

    request_id: MessageId
    batch_key: BatchKey
    part: BatchKey
    number: Number
    groups: StagedGroups
    client_id: ClientId = ""


class CommitBatch(ClientMessage, frozen=True, tag=97):
    """Accept all jobs of these parts, all or none, and delete the other parts of the batch."""

    request_id: MessageId
    batch_key: BatchKey
    parts: StagedParts
    client_id: ClientId = ""


class DropBatch(ClientMessage, frozen=True, gc=False, tag=98):
    """Delete the staged jobs of a batch that is not committed."""

    request_id: MessageId
    batch_key: BatchKey
    client_id: ClientId = ""
