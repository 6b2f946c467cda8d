"""What is said on a link for blobs: who has what, and the bytes themselves.

Such a link carries nothing else, so that no job ever waits behind a chunk. The dialer asks: it
gives a blob (put) or takes one (get), several at once, each named by its digest. Both ways resume:
the receiver says from which offset on it lacks the bytes. A sender is never more than
BLOB_WINDOW_BYTES ahead of what the receiver has told to be written (`BlobMore`).

Written as the messages of `messages`; the same law of appended fields holds.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits as most
from rollq.wire.fields import (
    Digest,
    ErrorNumber,
    Features,
    GroupName,
    Keyword,
    Line,
    MessageId,
    Number,
    Payload,
)
from rollq.wire.rules import INT64_MAX, Free, Int, Many

# Who dials, as a hello tells it. A member is served by any other, and asks for one copy alone; one
# that only reads is served by any member too.
CLIENT: Final = "client"
WORKER: Final = "worker"
MEMBER: Final = "member"
READER: Final = "reader"

MISSING: Final = -1  # instead of a size: there is no such blob
COMPLETE: Final = -1  # instead of an offset: nothing is lacking

Digests: TypeAlias = Annotated[tuple[Digest, ...], Many(most.BLOB_ASK_MAX, Free())]
Sizes: TypeAlias = Annotated[
    tuple[int, ...], Many(most.BLOB_ASK_MAX, Int(MISSING, most.BLOB_BYTES_MAX))
]


class BlobMessage(msgspec.Struct, array_like=True, frozen=True):
    """Said on a link for blobs, by either end."""


class HelloBlobs(BlobMessage, frozen=True, tag=70):
    """This link is for blobs of that group (empty: whichever is yours)."""

    who: Keyword
    group: GroupName = ""
    features: Features = ()


class BlobAsk(BlobMessage, frozen=True, tag=71):
    """Which of these do you have?"""

    request_id: MessageId
    digests: Digests


class BlobHave(BlobMessage, frozen=True, tag=72):
    """The sizes of what was asked for, in its order; -1 is missing."""

    request_id: MessageId
    sizes: Sizes


class BlobPut(BlobMessage, frozen=True, gc=False, tag=73):
    """I want to give you this blob."""

    digest: Digest
    size: Number


class BlobGo(BlobMessage, frozen=True, gc=False, tag=74):
    """Send it from this offset on (-1: it is stored already); or why not."""

    digest: Digest
    offset: Annotated[int, Int(COMPLETE, INT64_MAX)]
    error: ErrorNumber = 0
    detail: Line = ""


class BlobChunk(BlobMessage, frozen=True, gc=False, tag=75):
    """Bytes of a blob: as they are, or compressed by zstd, and then `packed` is their number."""

    digest: Digest
    offset: Number
    data: Payload
    packed: Annotated[int, Int(0, most.BLOB_CHUNK_BYTES_MAX)] = 0


class BlobStored(BlobMessage, frozen=True, gc=False, tag=76):
    """What you put is verified and stored where it is safe; or why not."""

    digest: Digest
    error: ErrorNumber = 0
    detail: Line = ""


class BlobGet(BlobMessage, frozen=True, gc=False, tag=77):
    """Send me this blob from that offset on."""

    digest: Digest
    offset: Number = 0


class BlobInfo(BlobMessage, frozen=True, gc=False, tag=78):
    """The blob you want to get has this size, and its chunks follow; or why not."""

    digest: Digest
    size: Number
    error: ErrorNumber = 0
    detail: Line = ""


class BlobMore(BlobMessage, frozen=True, gc=False, tag=79):
    """Everything before this offset is written: the window is open from here. Said again without
    news, it means no more than: I am at it."""

    digest: Digest
    offset: Number


class BlobDrop(BlobMessage, frozen=True, gc=False, tag=80):
    """I, who asked for this transfer, give it up. `error` is BLOB_CORRUPT if what came is not what
    the digest says: look after your copy."""

    digest: Digest
    error: ErrorNumber = 0
