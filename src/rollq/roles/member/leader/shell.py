"""What only the shell around the driver knows, and the leader asks: how far sessions have read,
which accounts they are, which files the members hold, and which other groups there are. The
answers are immediate. The simulator has neither sockets nor files, so the defaults say yes to
everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from rollq.base.digests import DIGEST_BYTES, Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_BYTES_MAX, BLOBS_PER_JOB_MAX
from rollq.gossip.map import FederationView


class BlobKnowledge(Protocol):
    """Which blobs a command may refer to: those that a majority of the members holds."""

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """Those that too few members are known to hold, or hold in another size."""


class AllHeld:
    """Every blob is on every member: for a group without files, as in unit tests."""

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """Nothing."""
        return []


class Shell:
    """Set once by the shell before the first message, and only read afterwards.

    Attributes:
        has_room: Whether a session has read most of what it was sent.
        blobs: Which files the group holds.
        account_of: Which account the link of a session has proved; empty: none.
        has_admin_certificates: Whether links may be let in as admins without an account: then no
            account has to be left that could change accounts.
        logs_jobs: Whether every job is told in the log of the process.
        federation: The groups that gossip knows.
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
        """What a command refers to must survive the loss of any minority before it is proposed.

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
