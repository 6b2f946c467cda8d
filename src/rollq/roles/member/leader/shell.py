"""Facts that only the shell around the driver has, for the leader: how far sessions have read,
their accounts, the files that members hold, and other groups. Answers are immediate. The simulator
has neither sockets nor files, so the defaults permit everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from rollq.base.digests import DIGEST_BYTES, Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_BYTES_MAX, BLOBS_PER_JOB_MAX
from rollq.gossip.map import FederationView


class BlobKnowledge(Protocol):
    """The blobs that commands may refer to: those on a majority of the members."""

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """Blobs that too few members are known to hold, or hold in another size."""


class AllHeld:
    """A `BlobKnowledge` that holds every blob, for groups without files, as in unit tests."""

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """None."""
        return []


class Shell:
    """Set once by the shell before the first message, and only read afterwards.

    Attributes:
        has_room: Whether a session has read enough of its queue to be sent more.
        blobs: The files that the group holds.
        account_of: The account of a session's link; empty: none.
        has_admin_certificates: Whether client certificates give admin rights without an account:
            then the last account with such rights may be removed.
        logs_jobs: Whether every job is logged.
        federation: The groups known by gossip.
    """

    __slots__ = (
        "account_of",
        "blobs",
        "federation",
        "has_admin_certificates",
        "has_room",
        "logs_jobs",
    )

    def __init__(self) -> None:
        self.has_room: Callable[[int], bool] = lambda _: True
        self.blobs: BlobKnowledge = AllHeld()
        self.account_of: Callable[[int], str] = lambda _: ""
        self.has_admin_certificates = False
        self.logs_jobs = False
        self.federation: Callable[[], FederationView] = FederationView

    def check_held(self, blobs: tuple[BlobRef, ...], count_max: int = BLOBS_PER_JOB_MAX) -> None:
        """Check that a majority holds every blob of a command, before it is proposed.

        Raises:
            RemoteError: BAD_PAYLOAD for an invalid reference, or too many of them.
            StateError: BLOB_MISSING if some must be uploaded first.
        """
        if len(blobs) > count_max:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"{len(blobs)} blobs are referred to; the limit is {count_max}",
            )
        for blob in blobs:
            if len(blob.digest) != DIGEST_BYTES or not 0 <= blob.size <= BLOB_BYTES_MAX:
                raise RemoteError(ErrorCode.BAD_PAYLOAD, "invalid digest or size of a blob")
        lacking = self.blobs.lacking(blobs)
        if lacking:
            first = digest_to_text(lacking[0])
            raise StateError(
                ErrorCode.BLOB_MISSING,
                f"{len(lacking)} of {len(blobs)} blobs are missing (first: {first})",
                "upload them, then send the same request again",
            )
