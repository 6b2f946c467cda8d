"""The orders of the machines to their shells. Only records.

Transfers are identified by a number, not by their digest: a transfer may be cancelled and requested
again while a disk operation of the first is still running.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollq.base.digests import Digest
from rollq.base.errors import RollqError
from rollq.wire.blob_messages import BlobChunk, BlobMessage
from rollq.wire.fields import MessageId


class Order(Struct, frozen=True, gc=False):
    """Base of all orders. A transfer has at most one of Begin … Read pending at a time."""


class SendMessage(Order, frozen=True):
    """Send a message on the link."""

    message: BlobMessage


class GetSizes(Order, frozen=True):
    """Get the sizes of these blobs. Result: `sizes_found`."""

    request_id: MessageId
    digests: tuple[Digest, ...]


class Begin(Order, frozen=True):
    """Open a blob for writing. Result: `begun`, or `failed`. With `proves` the peer must send all
    bytes, even if the blob is stored already."""

    number: int
    digest: Digest
    size: int
    proves: bool = False


class Write(Order, frozen=True):
    """Write these chunks, in order. Result: `written`, or `failed`."""

    number: int
    chunks: tuple[BlobChunk, ...]


class Commit(Order, frozen=True):
    """All is written: verify and keep it. Result: `committed`, or `failed`."""

    number: int


class ConfirmCopies(Order, frozen=True):
    """A blob is stored here: wait for enough copies. Result: `copies_confirmed`, or `failed`."""

    number: int
    digest: Digest


class Open(Order, frozen=True):
    """Open a blob for reading. Result: `opened`, or `failed`."""

    number: int
    digest: Digest


class Read(Order, frozen=True):
    """Read a range in chunks. Result: `has_read`, or `failed`."""

    number: int
    digest: Digest
    offset: int
    length: int


class CheckCopy(Order, frozen=True):
    """A peer received corrupt bytes: verify our copy. No result."""

    digest: Digest


class Close(Order, frozen=True):
    """The transfer needs no more reads, writes or waits. No result."""

    number: int


class SizesFound(Order, frozen=True):
    """To the caller: the sizes, -1 for missing blobs."""

    request_id: MessageId
    sizes: tuple[int, ...]


class Moved(Order, frozen=True):
    """To the caller: progress in bytes."""

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
