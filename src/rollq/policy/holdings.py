"""Which workers hold which contents, as far as this leader has seen.

A worker that was given a job holds the files of the job for a while: it fetched them. That is a
guess and only ever a preference. Known are the contents that were used last, and of each the
workers that used it last; a new leader begins without.
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

CONTENTS_MAX: Final = 65_536  # that are known; those that were used longest ago go first
HOLDERS_MAX: Final = 8  # workers of one content
LARGEST_MAX: Final = 8  # files of a job that are looked at, the largest

_size = attrgetter("size")


class Holdings:
    """A bounded table of who used what."""

    __slots__ = ("_holders", "_sessions", "is_used")

    def __init__(self, sessions: Mapping[WorkerId, DispatchSession]) -> None:
        self._sessions = sessions  # those that are open
        self.is_used = False  # whether some policy asks; nothing is noted otherwise
        self._holders: OrderedDict[Digest, dict[WorkerId, None]] = OrderedDict()

    def note(self, worker_id: WorkerId, item: Item) -> None:
        """A worker is given a job, and fetches its files."""
        for blob in _largest(item):
            holders = self._holders.setdefault(blob.digest, {})
            holders.pop(worker_id, None)
            holders[worker_id] = None
            if len(holders) > HOLDERS_MAX:
                del holders[next(iter(holders))]
            self._holders.move_to_end(blob.digest)
        while len(self._holders) > CONTENTS_MAX:
            self._holders.popitem(last=False)

    def held_bytes(self, item: Item) -> dict[WorkerId, int]:
        """By worker: how many bytes of the files of a job it holds, of those that hold some."""
        held: dict[WorkerId, int] = {}
        for blob in _largest(item):
            for worker_id in self._holders.get(blob.digest, ()):
                held[worker_id] = held.get(worker_id, 0) + blob.size
        return held

    def sessions(self, held: Mapping[WorkerId, int]) -> list[tuple[DispatchSession, int]]:
        """The same by session, of workers that are connected."""
        find = self._sessions.get
        return [(one, count) for who, count in held.items() if (one := find(who)) is not None]

    def clear(self) -> None:
        """Leadership is lost."""
        self._holders.clear()


def _largest(item: Item) -> Sequence[BlobRef]:
    owner = item.array or item.past if isinstance(item, JobRecord) else item
    blobs = owner.blobs if owner is not None else ()
    return blobs if len(blobs) <= LARGEST_MAX else sorted(blobs, key=_size)[-LARGEST_MAX:]
