"""What the machines ask their shells to do. Only records.

A transfer has a number of its own machine: a digest may be given up and asked for again while the
disk is still busy with the first.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollq.base.digests import Digest
from rollq.base.errors import RollqError
from rollq.wire.blob_messages import BlobChunk, BlobMessage
from rollq.wire.fields import MessageId


class Order(Struct, frozen=True, gc=False):
    """Something to do. Of one transfer at most one of Begin … Read is under way at a time."""


class SendMessage(Order, frozen=True):
    """Send this on the link."""

    message: BlobMessage


class GetSizes(Order, frozen=True):
    """Get the sizes of these blobs. Answer: `looked`."""

    request_id: MessageId
    digests: tuple[Digest, ...]


class Begin(Order, frozen=True):
    """Make ready to write a blob. Answer: `begun`, or `failed`. With `proves` whoever gives it is
    asked for all of its bytes, also if it is here."""

    number: int
    digest: Digest
    size: int
    proves: bool = False


class Write(Order, frozen=True):
    """Write what came, in this order. Answer: `written`, or `failed`."""

    number: int
    chunks: tuple[BlobChunk, ...]


class Commit(Order, frozen=True):
    """All is written: verify and keep it. Answer: `committed`, or `failed`."""

    number: int


class ConfirmCopies(Order, frozen=True):
    """A blob is stored here: wait until enough members hold it. Answer: `vouched`, or `failed`."""

    number: int
    digest: Digest


class Open(Order, frozen=True):
    """Make ready to read a blob. Answer: `opened`, or `failed`."""

    number: int
    digest: Digest


class Read(Order, frozen=True):
    """Read this much and cut it into chunks. Answer: `has_read`, or `failed`."""

    number: int
    digest: Digest
    offset: int
    length: int


class CheckCopy(Order, frozen=True):
    """A peer got corrupt bytes from us: verify our copy. No answer."""

    digest: Digest


class Close(Order, frozen=True):
    """Nothing more is read, written or awaited for this transfer. No answer."""

    number: int


class SizesFound(Order, frozen=True):
    """To the caller: these are the sizes, -1 for what is missing."""

    request_id: MessageId
    sizes: tuple[int, ...]


class Moved(Order, frozen=True):
    """To the caller: so many bytes have come."""

    number: int
    offset: int


class TransferEnded(Order, frozen=True):
    """To the caller: the transfer has ended, successfully if there is no error."""

    number: int
    error: RollqError | None = None


AnyOrder: TypeAlias = (
    SendMessage
    | GetSizes
    | Begin
    | Write
    | Commit
    | ConfirmCopies
    | Open
    | Read
    | CheckCopy
    | Close
    | SizesFound
    | Moved
    | TransferEnded
)
