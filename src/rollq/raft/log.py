"""The log in memory: a base (what a snapshot stands for) and the entries after it.

Five markers move over it, each only where the one before has been:

    base <= applied <= applying <= commit <= last        (what the state machine knows)
    base <= stable <= handed <= last                     (what the disk knows)

`applying` and `handed` are what the outstanding `Ready` carries. Truncation lowers `handed` and
`stable`, so that entries which replace others under the same index are written again. No method
costs more than the entries it moves (plus a logarithm for the term search).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.raft.types import Entry, EntryKind

# What an entry weighs beyond its data, so that a run of empty entries is bounded too.
ENTRY_OVERHEAD_BYTES: Final = 16
_CONFIG = int(EntryKind.CONFIG)
_term_of = attrgetter("term")


class RaftLog:
    """Entries after `base_index`, and the markers over them."""

    __slots__ = (
        "applied",
        "applying",
        "base_index",
        "base_term",
        "commit",
        "config_indexes",
        "entries",
        "handed",
        "stable",
    )

    def __init__(self, base_index: int, base_term: int, entries: list[Entry], commit: int) -> None:
        """Take over what recovery found; everything in it is on disk, nothing of it is applied."""
        _check_recovered(base_index, base_term, entries)
        self.base_index = base_index
        self.base_term = base_term
        self.entries = entries
        self.stable = self.handed = base_index + len(entries)
        self.applied = self.applying = base_index
        # CONFIG entries after `applied`, ascending.
        self.config_indexes = [entry.index for entry in entries if entry.kind == _CONFIG]
        # The persisted commit may lag behind (it is not synced) or, after rot, point past the end.
        # It must not lag behind a change of configuration that has a successor in this log: a
        # leader proposes one only when it has applied the one before, so the successor proves it
        # committed, and to campaign in a configuration two steps old would break the overlap of
        # majorities.
        proven = self.config_indexes[-2] if len(self.config_indexes) > 1 else 0
        self.commit = max(base_index, min(commit, self.last_index), proven)

    @property
    def first_index(self) -> int:
        """The first index that may still be here as an entry."""
        return self.base_index + 1

    @property
    def last_index(self) -> int:
        """The index of the newest entry, or the base."""
        return self.base_index + len(self.entries)

    @property
    def last_term(self) -> int:
        """The term of the newest entry, or of the base."""
        return self.entries[-1].term if self.entries else self.base_term

    def term_at(self, index: int) -> int | None:
        """The term at an index; None if it is compacted away or not there yet."""
        offset = index - self.base_index
        if 0 < offset <= len(self.entries):
            return self.entries[offset - 1].term
        return self.base_term if offset == 0 else None

    def conflict_hint(self, index: int, term: int) -> tuple[int, int]:
        """The furthest place at or before `index` where a log that has `term` there may agree.

        Terms never fall along a log, so every index of ours with a greater term can be skipped.
        The second value is our term at that place, 0 if it is unknown.
        """
        index = min(index, self.last_index)
        if index < self.base_index:
            return index, 0
        found = bisect_right(self.entries, term, 0, index - self.base_index, key=_term_of)
        if found:
            return self.base_index + found, self.entries[found - 1].term
        if self.base_term <= term:
            return self.base_index, self.base_term
        return max(self.base_index - 1, 0), 0

    def append(self, entry: Entry) -> None:
        """Add one entry at the end; its index must be the next."""
        self.entries.append(entry)
        if entry.kind == _CONFIG:
            self.config_indexes.append(entry.index)

    def merge(self, prev_index: int, entries: Sequence[Entry]) -> int:
        """Make the log hold `entries` after `prev_index`, which must match; returns the last index.

        What is already there stays, also beyond the last of `entries`: only a conflict truncates.

        Raises:
            RemoteError: BAD_PAYLOAD, if a committed entry would have to go.
        """
        last = self.last_index
        for position, entry in enumerate(entries):
            index = prev_index + 1 + position
            if index <= last and self.term_at(index) == entry.term:
                continue
            if index <= self.commit:
                raise RemoteError(
                    ErrorCode.BAD_PAYLOAD,
                    f"entry {index} of term {entry.term} conflicts with a committed one",
                    "the logs of this group have diverged: stop and compare them",
                )
            if index <= last:
                self._truncate(index)
            for new in entries[position:]:
                self.append(new)
            break
        return prev_index + len(entries)

    def commit_to(self, index: int) -> bool:
        """Move the commit marker forward, never past the end; says whether it moved."""
        index = min(index, self.last_index)
        if index <= self.commit:
            return False
        self.commit = index
        return True

    def take_unstable(self) -> list[Entry]:
        """Entries that the disk does not have; they count as handed out from now on."""
        entries = self.entries[self.handed - self.base_index :]
        self.handed = self.last_index
        return entries

    def persisted(self) -> None:
        """What was handed out, and has not been truncated since, is on disk."""
        self.stable = self.handed

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """Committed entries not handed out yet, about `bytes_max` of them and at least one."""
        if self.applying >= self.commit:
            return []
        entries = self.slice(self.applying + 1, self.commit + 1, bytes_max)
        self.applying += len(entries)
        return entries

    def holds_change(self, index: int) -> bool:
        """Whether a change of configuration that is not applied yet lies at or before `index`."""
        return bool(self.config_indexes) and self.config_indexes[0] <= index

    def applied_to(self, index: int) -> None:
        """The state machine has applied everything up to `index`."""
        self.applied = index
        self.applying = max(self.applying, index)
        while self.config_indexes and self.config_indexes[0] <= index:
            del self.config_indexes[0]

    def slice(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries of [low, high): at least one if there is any, then while they fit."""
        start = low - self.base_index - 1
        end = min(high - self.base_index - 1, len(self.entries))
        if end - start <= 1:
            return self.entries[start:end]
        size = 0
        for position in range(start, end):
            size += len(self.entries[position].data) + ENTRY_OVERHEAD_BYTES
            if size > bytes_max and position > start:
                return self.entries[start:position]
        return self.entries[start:end]

    def compact(self, index: int) -> None:
        """Forget entries up to `index`; a snapshot stands for them."""
        if index <= self.base_index:
            return
        if index > self.applied:
            raise LocalError(ErrorCode.BUG, f"compaction to {index} past applied {self.applied}")
        dropped = index - self.base_index
        self.base_term = self.entries[dropped - 1].term
        del self.entries[:dropped]
        self.base_index = index

    def restore(self, index: int, term: int) -> None:
        """Start anew at a snapshot's position, without any entry."""
        self.base_index = self.stable = self.handed = index
        self.base_term = term
        self.applied = self.applying = self.commit = index
        self.entries = []
        self.config_indexes = []

    def _truncate(self, index: int) -> None:
        """Drop the entries from `index` on."""
        del self.entries[index - self.base_index - 1 :]
        self.stable = min(self.stable, index - 1)
        self.handed = min(self.handed, index - 1)
        while self.config_indexes and self.config_indexes[-1] >= index:
            self.config_indexes.pop()


def _check_recovered(base_index: int, base_term: int, entries: list[Entry]) -> None:
    index, term = base_index, base_term
    for entry in entries:
        if entry.index != index + 1 or entry.term < term:
            raise LocalError(
                ErrorCode.BUG,
                f"recovered log breaks at {entry.index} (term {entry.term}) "
                f"after {index} (term {term})",
                "entries must follow the snapshot without a gap and with rising terms",
            )
        index, term = entry.index, entry.term
