"""What follows from the applied log, on every member alike: state, dispatch index, history."""

from __future__ import annotations

from rollq.grid.apply import apply_entry
from rollq.grid.effects import Applied
from rollq.grid.state import GridState
from rollq.policy.dispatch import Dispatcher
from rollq.raft.types import Entry, EntryKind
from rollq.roles.member.history_log import HistoryLog
from rollq.roles.member.snapshot_order import SnapshotPace


class Replica:
    """One member's copy of the grid."""

    def __init__(
        self, state: GridState, history: HistoryLog, pace: SnapshotPace, placement: str
    ) -> None:
        self.state = state
        self.dispatcher = Dispatcher(state, placement)
        self.history = history
        self.pace = pace
        self._placement = placement

    def apply(self, entry: Entry) -> Applied:
        """Apply one committed entry. A configuration entry means nothing to the grid."""
        data = entry.data if entry.kind == EntryKind.NORMAL else b""
        applied = apply_entry(self.state, entry.index, data)
        self.pace.applied(len(data) + self.history.add(applied))
        self.dispatcher.observe(applied.events)
        return applied

    def replace(self, state: GridState) -> None:
        """Go on from another state; its rows, if we lack them, are asked of the peers."""
        self.state = state
        self.dispatcher = Dispatcher(state, self._placement)
        self.history.sealed(state.applied_index)
