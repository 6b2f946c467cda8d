"""When a snapshot is ordered, and what is released once it is on disk. At most one is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rollq.raft.node import RaftNode
from rollq.raft.types import SnapshotMeta
from rollq.roles.member.replica import Replica
from rollq.roles.member.snapshot_order import SnapshotOrder
from rollq.roles.member.work import MemberStore
from rollq.store.snapshots import OpenSnapshot

Wanted: TypeAlias = Callable[[SnapshotMeta | None], None]  # None: the snapshot failed


class SnapshotSchedule:
    """The snapshots of one driver.

    Attributes:
        order: The one under way: from `begin` until `settle` after `finished`.
    """

    def __init__(
        self, store: MemberStore, crash_point: Callable[[str], None], replica: Replica
    ) -> None:
        self.order: SnapshotOrder | None = None
        self._is_over = False  # `order` is published or failed, but not settled
        self._store = store
        self._crash_point = crash_point
        self._replica = replica
        self._last_index = replica.state.applied_index  # of the last one ordered or installed
        self._wanted: list[tuple[int, Wanted]] = []  # requests: lowest index, callback

    def is_due(self, *, idle: bool) -> bool:
        """Whether the log since the last one is long enough, or a snapshot is requested."""
        if self._wanted:
            return True
        is_behind = self._replica.state.applied_index > self._last_index
        return is_behind and self._replica.pace.is_due(idle=idle)

    def want(self, index: int, done: Wanted) -> None:
        """Request a snapshot at or after an applied index; `done` is called when that is over."""
        self._wanted.append((index, done))

    def open(self, meta: SnapshotMeta) -> OpenSnapshot:
        """Open a snapshot for reading on any thread. Raises DiskError SNAPSHOT_CORRUPT."""
        return self._store.snapshots.open(meta)

    def begin(self, raft: RaftNode) -> SnapshotOrder:
        """Order a snapshot of the present state; none may be under way."""
        assert self.order is None, "one is under way"
        self.order = self._make(raft)
        return self.order

    def finished(self, order: SnapshotOrder) -> None:
        """The order is published or has failed; a failure delays the next one."""
        assert order is self.order, "not the snapshot that was ordered"
        self._is_over = True

    def settle(self, raft: RaftNode) -> None:
        """Release the memory that a finished snapshot covers; not between `Ready` and its
        advance."""
        order = self.order
        if order is None or not self._is_over:
            return
        self.order, self._is_over = None, False
        order.close()
        if order.taken is not None:
            self._replica.history.sealed(order.index)
            self._replica.pace.taken(order.file_bytes)
            raft.snapshot_taken(order.taken, min(order.compact_to, order.index))
        self._answer(order.index, order.taken)

    def installed(self) -> None:
        """A snapshot of another member was installed."""
        self._last_index = self._replica.state.applied_index
        self._answer(self._last_index, None)

    def close(self, raft: RaftNode) -> None:
        """The member stops: take a snapshot if the next start would replay much. One that was
        ordered and is not published by now has failed."""
        order, self.order = self.order, None
        if order is not None and order.taken is not None:
            self._replica.pace.taken(order.file_bytes)
            self._replica.history.sealed(order.index)
        if self._replica.pace.is_due_at_stop():
            order = self._make(raft)
            order.publish(order.write())
            self._replica.history.sealed(order.index)

    def _answer(self, index: int, taken: SnapshotMeta | None) -> None:
        due = [done for wanted, done in self._wanted if wanted <= index]
        self._wanted = [one for one in self._wanted if one[0] > index]
        for done in due:
            done(taken)

    def _make(self, raft: RaftNode) -> SnapshotOrder:
        state = self._replica.state
        self._last_index = state.applied_index
        self._replica.pace.ordered()
        return SnapshotOrder(
            self._store,
            self._crash_point,
            state=state,
            position=(raft.term_at(state.applied_index) or 0, raft.config),
            unsealed=self._replica.history.unsealed(state.applied_index),
        )
