"""The leader's record of one follower: a state machine of three states.

    PROBE      where the logs agree is unknown: one append at a time, then wait for an answer
    REPLICATE  the logs agree: appends are sent ahead of the answers, within a window
    SNAPSHOT   the entries it needs are gone: a snapshot goes over, chunk by chunk

PROBE -> REPLICATE on an accepted append; REPLICATE -> PROBE on a refused or a lost one; any ->
SNAPSHOT when `next` falls below the log; SNAPSHOT -> REPLICATE when it has been installed.
Only the automaton lives here; `replication` and `snapshots` decide what is sent.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

from rollq.raft.types import SnapshotMeta


class ProgressState(enum.IntEnum):
    """How the leader replicates to a follower."""

    PROBE = 0
    REPLICATE = 1
    SNAPSHOT = 2


@dataclass(slots=True, frozen=True)
class ProgressView:
    """The progress of a member, for status pages."""

    state: ProgressState
    match: int
    next: int
    learner: bool = False
    active: bool = True
    paused: bool = False
    inflight: int = 0
    full: bool = False
    # The snapshot that is being sent; 0: none.
    snapshot_index: int = 0


@dataclass(slots=True)
class Progress:
    """One follower. Invariant: 0 <= match < next."""

    next: int
    inflight_max: int
    inflight_bytes_max: int
    learner: bool = False
    # Whether it responded since the last quorum check; and in the period before it.
    active: bool = False
    was_active: bool = False
    # The highest index known to be on its disk and equal to ours.
    match: int = 0
    state: ProgressState = ProgressState.PROBE
    # Nothing more is sent until it responds (to an append or a heartbeat).
    paused: bool = False
    # The highest commit index that was sent to it.
    sent_commit: int = 0
    # Appends in flight: (last index, bytes), oldest first.
    inflight: deque[tuple[int, int]] = field(default_factory=deque)
    inflight_bytes: int = 0
    # In SNAPSHOT: the snapshot, the offset of the chunk in flight, and the heartbeats sent since
    # that chunk.
    snapshot: SnapshotMeta | None = None
    chunk_offset: int = 0
    chunk_heartbeats: int = 0

    @property
    def blocked(self) -> bool:
        """Whether an append may not be sent now."""
        return self.paused or self.state is ProgressState.SNAPSHOT

    @property
    def full(self) -> bool:
        """Whether the window of appends in flight is used up."""
        return (
            len(self.inflight) >= self.inflight_max
            or self.inflight_bytes >= self.inflight_bytes_max
        )

    def become_probe(self) -> None:
        """Search again for the last index that agrees, from the known match."""
        self._enter(ProgressState.PROBE)
        self.next = self.match + 1
        self.sent_commit = min(self.sent_commit, self.match)

    def become_replicate(self) -> None:
        """Pipeline appends from the known match."""
        self._enter(ProgressState.REPLICATE)
        self.next = self.match + 1

    def become_snapshot(self, meta: SnapshotMeta) -> None:
        """Send a snapshot."""
        self._enter(ProgressState.SNAPSHOT)
        self.snapshot = meta
        self.next = meta.index + 1
        self.sent_commit = meta.index

    def sent(self, count: int, size_bytes: int, commit: int) -> None:
        """An append with `count` entries has been sent."""
        self.sent_commit = commit
        if self.state is ProgressState.REPLICATE:
            if count:
                self.next += count
                self.inflight.append((self.next - 1, size_bytes))
                self.inflight_bytes += size_bytes
            self.paused = self.full
        elif count:
            self.paused = True

    def accept(self, index: int) -> bool:
        """It holds our log up to `index`; returns whether `match` advanced."""
        if index <= self.match:
            return False
        self.match = index
        self.next = max(self.next, index + 1)
        self.paused = False
        return True

    def free(self, index: int) -> None:
        """Appends up to `index` were received: remove them from the window."""
        inflight = self.inflight
        while inflight and inflight[0][0] <= index:
            self.inflight_bytes -= inflight.popleft()[1]

    def refuse(self, rejected: int, hint: int) -> bool:
        """It rejected an append after `rejected`; returns whether that changed anything.

        Responses may be late or duplicated: one for an index that has matched since, or that is not
        the one being probed, is ignored.
        """
        if self.state is ProgressState.SNAPSHOT or rejected <= self.match:
            return False
        if self.state is ProgressState.REPLICATE:
            # All other appends in flight will be rejected too: empty the window.
            self.become_probe()
            return True
        if rejected != self.next - 1:
            return False
        self.next = max(min(rejected, hint + 1), self.match + 1)
        self.sent_commit = min(self.sent_commit, self.next - 1)
        self.paused = False
        return True

    def restarted(self, last_index: int) -> None:
        """It restarted with a log that ends at `last_index`. Its earlier acknowledgements are void:
        where damage removed a record, older entries may stand in place of ours."""
        probed = min(self.next, last_index + 1)
        self.match = 0
        self.become_probe()
        self.next = max(probed, 1)

    def wants_commit(self, commit: int) -> bool:
        """Whether sending `commit` now could advance its commit index."""
        return commit > self.sent_commit and self.sent_commit < self.next - 1

    def view(self) -> ProgressView:
        """A copy for status pages."""
        return ProgressView(
            state=self.state,
            match=self.match,
            next=self.next,
            learner=self.learner,
            # Right after a check it had no time to respond: it still counts as active.
            active=self.active or self.was_active,
            paused=self.blocked,
            inflight=len(self.inflight),
            full=self.full,
            snapshot_index=self.snapshot.index if self.snapshot else 0,
        )

    def _enter(self, state: ProgressState) -> None:
        self.state = state
        self.paused = False
        self.snapshot = None
        self.chunk_offset = self.chunk_heartbeats = 0
        self.inflight.clear()
        self.inflight_bytes = 0
