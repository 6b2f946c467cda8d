"""The blobs that a majority has promised to keep, as known to the leader. Pure.

A promise is a lease that a member gives with its answer. Only a part of its time counts here, so
that it still holds when the command that relies on it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rollq.base.digests import Digest
from rollq.base.ids import MemberId
from rollq.base.jobs import BlobRef
from rollq.base.limits import BLOB_BOOK_MAX
from rollq.grid.state import GridState


class MajorityBlobs:
    """Blobs with a lease of a majority of the present voters. The oldest entry is evicted."""

    def __init__(self, count_max: int = BLOB_BOOK_MAX) -> None:
        self._count_max = count_max
        self._voters: tuple[MemberId, ...] = ()
        self._held: dict[Digest, tuple[int, int]] = {}  # size, and expiry in ms

    def __len__(self) -> int:
        return len(self._held)

    def vouch(self, digest: Digest, size: int, until_ms: int, voters: tuple[MemberId, ...]) -> None:
        """A majority of the voters holds the blob until then."""
        self._follow(voters)
        self._held.pop(digest, None)
        if len(self._held) >= self._count_max:
            del self._held[next(iter(self._held))]
        self._held[digest] = (size, until_ms)

    def holds(self, ref: BlobRef, now_ms: int, voters: tuple[MemberId, ...]) -> bool:
        """Whether a majority is known to hold the blob in this size."""
        self._follow(voters)
        size, until_ms = self._held.get(ref.digest, (-1, 0))
        return size == ref.size and now_ms < until_ms

    def forget(self, digest: Digest) -> None:
        """A member has lost the blob."""
        self._held.pop(digest, None)

    def _follow(self, voters: tuple[MemberId, ...]) -> None:
        """Drop all entries when the voters change: they are of another majority."""
        if voters != self._voters:
            self._voters = voters
            self._held.clear()


class GroupKnowledge:
    """A `BlobKnowledge`: blobs that the state refers to were held by a majority and are pinned
    since; all others need a lease. For one without, a search begins, so that a retry may
    succeed."""

    def __init__(
        self,
        majority: MajorityBlobs,
        state: Callable[[], GridState],
        voters: Callable[[], tuple[MemberId, ...]],
        now_ms: Callable[[], int],
        look_for: Callable[[Digest], None],
    ) -> None:
        self._majority = majority
        self._state = state
        self._voters = voters
        self._now_ms = now_ms
        self._look_for = look_for

    def lacking(self, refs: Iterable[BlobRef]) -> list[Digest]:
        """The blobs that too few members are known to hold."""
        known, voters, now_ms = self._state().blobs, self._voters(), self._now_ms()
        lacking = [
            ref.digest
            for ref in refs
            if ref.digest not in known and not self._majority.holds(ref, now_ms, voters)
        ]
        for digest in lacking:
            self._look_for(digest)
        return lacking
