"""State derived from the applied log, the same on every member: grid, dispatch index, history."""

from __future__ import annotations

from rollq.base.limits import HASH_EVERY, HASHES_KEPT_MAX
from rollq.grid.apply import MONOTONIC_VERSION, apply_entry
from rollq.grid.effects import Applied
from rollq.grid.events import fact_count
from rollq.grid.state import GridState
from rollq.grid.state_hash import hash_state
from rollq.policy.dispatch import Dispatcher
from rollq.raft.types import Entry, EntryKind
from rollq.roles.member.history_log import HistoryLog
from rollq.roles.member.metrics.jobs import JobCounters
from rollq.roles.member.snapshot_order import SnapshotPace


class Replica:
    """One member's copy of the grid.

    Attributes:
        state: As applied on this member.
        history: Events of the applied entries.
        pace: When the next snapshot is due.
        counted: Outcomes of jobs since this process began.
    """

    def __init__(
        self,
        state: GridState,
        history: HistoryLog,
        pace: SnapshotPace,
        placement: str,
        replay_to: int = 0,
    ) -> None:
        """Start from a state.

        Args:
            state: From a snapshot, or empty.
            history: Receives the events.
            pace: When the next snapshot is due.
            placement: How the dispatcher chooses among workers.
            replay_to: The last index of the log on disk. The dispatcher is built once that is
                applied, which costs a fraction of updating it entry by entry.
        """
        self.state = state
        self.history = history
        self.pace = pace
        self._placement = placement
        self._replay_to = replay_to
        # State hashes by log index, at every HASH_EVERY entries; the last HASHES_KEPT_MAX of them.
        self._hashes: dict[int, bytes] = {}
        self._gaps: list[tuple[int, int]] | None = None  # as last looked for; None: not looked yet
        self.counted = JobCounters()
        self._dispatcher: Dispatcher | None = None
        if state.applied_index >= replay_to:
            self._dispatcher = Dispatcher(state, placement)

    @property
    def dispatcher(self) -> Dispatcher:
        """The index of assignable jobs."""
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(self.state, self._placement)
        return self._dispatcher

    @dispatcher.setter
    def dispatcher(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def apply(self, entry: Entry) -> Applied:
        """Apply one committed entry. A configuration entry changes only the applied index."""
        data = entry.data if entry.kind == EntryKind.NORMAL else b""
        self.state.bodies.entering(entry.index, data)
        applied = apply_entry(self.state, entry.index, data)
        if data and data[0] >= MONOTONIC_VERSION:
            hash_state(self.state, applied)
        if entry.index % HASH_EVERY == 0:
            self._note_hash()
        if entry.index > self._replay_to:
            self.counted.observe(applied.events)
        self.pace.applied(len(data) + self.history.add(applied), fact_count(applied.events))
        if self._dispatcher is not None:
            self._dispatcher.observe(applied.events)
        elif entry.index >= self._replay_to:
            self._dispatcher = Dispatcher(self.state, self._placement)
        return applied

    def _note_hash(self) -> None:
        self._hashes[self.state.applied_index] = self.state.state_hash
        if len(self._hashes) > HASHES_KEPT_MAX:
            del self._hashes[next(iter(self._hashes))]

    def known_hash(self, *, is_idle: bool) -> tuple[int, bytes]:
        """A log index and the state hash there: the last that all members note, or the newest while
        the group is idle."""
        if is_idle or not self._hashes:
            return self.state.applied_index, self.state.state_hash
        return next(reversed(self._hashes.items()))

    def hash_at(self, index: int) -> bytes | None:
        """The state hash at a log index, if still known."""
        if index == self.state.applied_index:
            return self.state.state_hash
        return self._hashes.get(index)

    def gaps(self) -> list[tuple[int, int]]:
        """Ranges of log indexes whose rows are missing here, and that other members may have. Reads
        the names of all segments."""
        self._gaps = self.history.gaps(self.state.applied_index)
        return self._gaps

    def lacks_history(self) -> bool:
        """Whether there were gaps when they were last looked for."""
        return bool(self.gaps() if self._gaps is None else self._gaps)

    def replace(self, state: GridState) -> None:
        """Replace the state by another. The rows in memory are sealed; those that this member never
        made are requested from peers."""
        self.state = state
        self._hashes.clear()
        self._gaps = None
        self._dispatcher = Dispatcher(state, self._placement)
        self.history.sealed(state.applied_index)
