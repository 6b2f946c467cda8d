"""What a client says to stage a batch: parts with their jobs, then one word that accepts them all.

Each is answered by Accepted or Error under its request id, and may be sent again: what was taken
before is known.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from rollq.base.ids import GUID_BYTES, ClientId
from rollq.base.staged import StagedGroup, StagedPart

MessageId: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=GUID_BYTES, max_length=GUID_BYTES)]


class StageJobs(msgspec.Struct, array_like=True, frozen=True, tag=96):
    """Keep these jobs until their batch is committed. `number` counts the messages of the part from
    0; `client_id` is whose jobs they will be (empty: mine)."""

    request_id: MessageId
    batch_key: str
    part: str
    number: int
    groups: tuple[StagedGroup, ...]
    client_id: ClientId = ""


class CommitBatch(msgspec.Struct, array_like=True, frozen=True, tag=97):
    """Accept all jobs of these parts, all or none, and forget the other parts of the batch."""

    request_id: MessageId
    batch_key: str
    parts: tuple[StagedPart, ...]
    client_id: ClientId = ""


class DropBatch(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=98):
    """Forget what was staged for a batch, if it is not committed."""

    request_id: MessageId
    batch_key: str
    client_id: ClientId = ""
