"""What follows from the applied log, on every member alike: state, dispatch index, history."""

from __future__ import annotations

from rollq.grid.apply import apply_entry
from rollq.grid.effects import Applied
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState
from rollq.history.segments import Segments
from rollq.policy.dispatch import Dispatcher
from rollq.raft.types import Entry, EntryKind
from rollq.roles.member.history_log import HistoryLog


class Replica:
    """One member's copy of the grid."""

    def __init__(self, segments: Segments, placement: str) -> None:
        self.state = GridState()
        self.dispatcher = Dispatcher(self.state, placement)
        self.history = HistoryLog(segments)
        self._placement = placement

    def apply(self, entry: Entry) -> Applied:
        """Apply one committed entry. A configuration entry means nothing to the grid."""
        data = entry.data if entry.kind == EntryKind.NORMAL else b""
        applied = apply_entry(self.state, entry.index, data)
        self.history.add(applied)
        self.dispatcher.observe(applied.events)
        return applied

    def load(self, body: bytes) -> None:
        """Replace everything by a snapshot; its rows, if we lack them, are asked of the peers."""
        self.state = decode_snapshot(body)
        self.dispatcher = Dispatcher(self.state, self._placement)
        self.history.sealed(self.state.applied_index)

    def snapshot(self) -> bytes:
        """The state as canonical bytes."""
        return encode_snapshot(self.state)
