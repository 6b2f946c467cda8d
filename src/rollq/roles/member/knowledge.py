"""What the leader knows of the content that commands refer to. Pure: asked, it answers at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rollq.base.digests import DIGEST_BYTES, Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_BYTES_MAX, BLOBS_PER_JOB_MAX


def check_held(
    knowledge: BlobKnowledge, blobs: tuple[BlobRef, ...], count_max: int = BLOBS_PER_JOB_MAX
) -> None:
    """What a command refers to must outlive any minority before the command is proposed.

    Raises:
        RemoteError: BAD_PAYLOAD for what refers to no blob, or to too many.
        StateError: BLOB_MISSING if some must be uploaded first.
    """
    if len(blobs) > count_max:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD, f"{len(blobs)} blobs; at most {count_max} may be referred to"
        )
    for blob in blobs:
        if len(blob.digest) != DIGEST_BYTES or not 0 <= blob.size <= BLOB_BYTES_MAX:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, "a digest or a size that no blob has")
    lacking = knowledge.lacking(blobs)
    if lacking:
        raise StateError(
            ErrorCode.BLOB_MISSING,
            f"{len(lacking)} of {len(blobs)} blobs lack, {digest_to_text(lacking[0])} first",
            "upload them, then send the same again",
        )


class BlobKnowledge(Protocol):
    """Which blobs the group may refer to: those that a majority of its members holds."""

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """Those that too few members hold for all that is known here, or in another size."""


class AllHeld:
    """Everything is everywhere: for a group whose content nobody keeps, as in the simulator."""

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """Nothing."""
        return []
