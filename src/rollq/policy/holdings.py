"""Which workers hold which blobs, as far as this leader has seen.

A worker that was assigned a job is assumed to hold the job's files for a while: it fetched them.
Placement uses this as a preference only. The table is bounded by least recent use, of blobs and of
the workers of each; a new leader starts with an empty one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rollq.base.digests import Digest
from rollq.base.ids import WorkerId
from rollq.base.jobs import BlobRef
from rollq.grid.state import JobRecord

if TYPE_CHECKING:
    from rollq.policy.lanes import Item
    from rollq.policy.pools import DispatchSession

BLOBS_MAX: Final = 65_536  # least recently used are evicted first
HOLDERS_MAX: Final = 8  # workers of one blob
LARGEST_MAX: Final = 8  # the largest files of a job are used

_size = attrgetter("size")


class BlobHolders:
    """A bounded table from blob to the workers that fetched it."""

    __slots__ = ("_blobs_max", "_holders", "_holders_max", "_sessions", "is_used")

    def __init__(
        self,
        sessions: Mapping[WorkerId, DispatchSession],
        *,
        blobs_max: int = BLOBS_MAX,
        holders_max: int = HOLDERS_MAX,
    ) -> None:
        self._blobs_max = blobs_max
        self._holders_max = holders_max
        self._sessions = sessions  # the open sessions, owned by `DispatchIndex`
        self.is_used = False  # whether some policy uses it; else nothing is recorded
        self._holders: OrderedDict[Digest, dict[WorkerId, None]] = OrderedDict()

    def note(self, worker_id: WorkerId, item: Item) -> None:
        """A worker is assigned a job, and fetches its files."""
        for blob in _largest(item):
            holders = self._holders.setdefault(blob.digest, {})
            holders.pop(worker_id, None)
            holders[worker_id] = None
            if len(holders) > self._holders_max:
                del holders[next(iter(holders))]
            self._holders.move_to_end(blob.digest)
        while len(self._holders) > self._blobs_max:
            self._holders.popitem(last=False)

    def held_bytes(self, item: Item) -> dict[WorkerId, int]:
        """By worker: how many bytes of a job's files it holds. Workers that hold none are
        absent."""
        held: dict[WorkerId, int] = {}
        for blob in _largest(item):
            for worker_id in self._holders.get(blob.digest, ()):
                held[worker_id] = held.get(worker_id, 0) + blob.size
        return held

    def sessions(self, held: Mapping[WorkerId, int]) -> list[tuple[DispatchSession, int]]:
        """The same by session, for workers that are connected."""
        find = self._sessions.get
        return [
            (one, count)
            for worker_id, count in held.items()
            if (one := find(worker_id)) is not None
        ]

    def clear(self) -> None:
        """Forget everything."""
        self._holders.clear()


def _largest(item: Item) -> Sequence[BlobRef]:
    owner = item.array or item.past if isinstance(item, JobRecord) else item
    blobs = owner.blobs if owner is not None else ()
    return blobs if len(blobs) <= LARGEST_MAX else sorted(blobs, key=_size)[-LARGEST_MAX:]
