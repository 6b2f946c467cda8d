"""Handlers of named readers: history is retained until they have read it.

Retention is local to each member; what no member may delete is replicated. A reader that is silent
for READER_HOLD_MS_MAX is freed by the leader, so that a forgotten name does not fill the disks.
"""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.limits import READER_HOLD_MS_MAX, READER_NAME_BYTES_MAX, READERS_MAX
from rollq.grid.admission import is_long, refused_bounds
from rollq.grid.commands import Command, FreeHistory, HoldHistory
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.outcomes import DONE_ONE, DUPLICATE_OPEN, READERS_FULL
from rollq.grid.state import GridState, ReaderRecord
from rollq.grid.times import elapsed_ms


class ReaderView(msgspec.Struct, frozen=True, array_like=True):
    """A reader: the index from which history is retained for it, and when it last reported."""

    name: str
    index: int
    stamp_ms: int


def hold_history(state: GridState, command: HoldHistory, out: Applied) -> Outcome:
    """Retain history for a reader from an index on; it may be lower than before."""
    if not command.name or is_long(command.name, READER_NAME_BYTES_MAX):
        return refused_bounds("the name of a reader is empty or too long")
    if command.index < 1:
        return refused_bounds("the log begins with index 1")
    if command.name not in state.readers and len(state.readers) >= READERS_MAX:
        return READERS_FULL
    state.readers[command.name] = ReaderRecord(command.index, out.stamp_ms)
    state.readers.move_to_end(command.name)
    return DONE_ONE


def free_history(state: GridState, command: FreeHistory, out: Applied) -> Outcome:
    """Stop retaining history for a reader."""
    reader = state.readers.get(command.name)
    if reader is None:
        return Refused(ErrorCode.UNKNOWN_READER, f"no reader {command.name[:64]!r}")
    if command.stamp_ms and reader.stamp_ms != command.stamp_ms:
        return DUPLICATE_OPEN  # it has reported since
    del state.readers[command.name]
    return DONE_ONE


def held_from(state: GridState) -> int | None:
    """The lowest index that a reader has not read; None: there is no reader."""
    return min((reader.index for reader in state.readers.values()), default=None)


def silent_readers(state: GridState, now_ms: int) -> list[Command]:
    """Commands that free the readers that are silent for too long."""
    return [
        FreeHistory(name, reader.stamp_ms, "expired")
        for name, reader in state.readers.items()
        if elapsed_ms(state, reader.stamp_ms, now_ms) >= READER_HOLD_MS_MAX
    ]


def reader_views(state: GridState) -> list[ReaderView]:
    """All readers, by name."""
    return [
        ReaderView(name, reader.index, reader.stamp_ms)
        for name, reader in sorted(state.readers.items())
    ]
