"""Messages on blob links: which blobs exist, and their bytes.

Such a link carries nothing else, so that no job waits behind a chunk. The dialer starts transfers:
it sends a blob (put) or receives one (get), several at once, each identified by its digest. Both
directions resume: the receiver names the offset from which it lacks the bytes. A sender is never
more than BLOB_WINDOW_BYTES ahead of what the receiver has confirmed as written (`BlobMore`).

Compact dialect only; the rules for appended fields of `messages` apply.
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

# The role of the dialer, in its hello. Any member serves another one, which requests a single copy;
# and any member serves readers.
CLIENT: Final = "client"
WORKER: Final = "worker"
MEMBER: Final = "member"
READER: Final = "reader"

MISSING: Final = -1  # in place of a size: there is no such blob
COMPLETE: Final = -1  # in place of an offset: nothing is missing

Digests: TypeAlias = Annotated[tuple[Digest, ...], Many(most.BLOB_ASK_MAX, Free())]
Sizes: TypeAlias = Annotated[
    tuple[int, ...], Many(most.BLOB_ASK_MAX, Int(MISSING, most.BLOB_BYTES_MAX))
]


class BlobMessage(msgspec.Struct, array_like=True, frozen=True):
    """A message on a blob link, by either end."""


class HelloBlobs(BlobMessage, frozen=True, tag=70):
    """Opens a blob link of a group (empty: whichever the member is in)."""

    who: Keyword
    group: GroupName = ""
    features: Features = ()


class BlobAsk(BlobMessage, frozen=True, tag=71):
    """Request the sizes of these blobs."""

    request_id: MessageId
    digests: Digests


class BlobHave(BlobMessage, frozen=True, tag=72):
    """The sizes of the requested blobs, in order; -1 is missing."""

    request_id: MessageId
    sizes: Sizes


class BlobPut(BlobMessage, frozen=True, gc=False, tag=73):
    """Offer to send this blob."""

    digest: Digest
    size: Number


class BlobGo(BlobMessage, frozen=True, gc=False, tag=74):
    """Send the blob from this offset on (-1: it is stored already); or why not."""

    digest: Digest
    offset: Annotated[int, Int(COMPLETE, INT64_MAX)]
    error: ErrorNumber = 0
    detail: Line = ""


class BlobChunk(BlobMessage, frozen=True, gc=False, tag=75):
    """Bytes of a blob: raw, or compressed by zstd, and then `packed` is their raw length."""

    digest: Digest
    offset: Number
    data: Payload
    packed: Annotated[int, Int(0, most.BLOB_CHUNK_BYTES_MAX)] = 0


class BlobStored(BlobMessage, frozen=True, gc=False, tag=76):
    """The blob is verified and stored durably; or why not."""

    digest: Digest
    error: ErrorNumber = 0
    detail: Line = ""


class BlobGet(BlobMessage, frozen=True, gc=False, tag=77):
    """Request this blob from that offset on."""

    digest: Digest
    offset: Number = 0


class BlobInfo(BlobMessage, frozen=True, gc=False, tag=78):
    """The requested blob has this size, and its chunks follow; or why not."""

    digest: Digest
    size: Number
    error: ErrorNumber = 0
    detail: Line = ""


class BlobMore(BlobMessage, frozen=True, gc=False, tag=79):
    """Everything before this offset is written: the window continues from here. Repeated with the
    same offset it is only a sign of life."""

    digest: Digest
    offset: Number


class BlobDrop(BlobMessage, frozen=True, gc=False, tag=80):
    """The dialer aborts this transfer. `error` is BLOB_CORRUPT if the bytes do not match the
    digest: the server should verify its copy."""

    digest: Digest
    error: ErrorNumber = 0
