"""The log: a base (what a snapshot stands for) and the entries after it, the newest in memory.

Six markers move over it, each only where the one before has been:

    base <= rested <= applied <= applying <= commit <= last   (what the state machine knows)
    base <= rested <= stable <= handed <= last                (what the disk knows)

`applying` and `handed` are what the outstanding `Ready` carries. Truncation lowers `handed` and
`stable`, so that entries which replace others under the same index are written again. Entries up
to `rested` are on disk alone: here are only their terms, and who still wants one (a follower that
lags) has it read. No method costs more than the entries it moves (plus a logarithm for the term
search).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, Protocol

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.limits import APPLY_ENTRIES_MAX
from rollq.raft.types import Entry, EntryKind

# What an entry weighs beyond its data, so that a run of empty entries is bounded too.
ENTRY_OVERHEAD_BYTES: Final = 16
_CONFIG = int(EntryKind.CONFIG)
_term_of = attrgetter("term")


class LogReader(Protocol):
    """The log on disk."""

    def entries(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries of [low, high), which are all there: at least one, then while they fit. Raises
        what the disk raises."""


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
        "reader",
        "rested",
        "settled_bytes",
        "stable",
        "term_firsts",
        "terms",
    )

    def __init__(
        self,
        base_index: int,
        base_term: int,
        entries: list[Entry],
        commit: int,
        reader: LogReader | None = None,
    ) -> None:
        """Take over what recovery found; everything in it is on disk, nothing of it is applied.

        Args:
            base_index: where the snapshot stands, or 0.
            base_term: the term there.
            entries: what follows.
            commit: as it was persisted.
            reader: of the disk; without one every entry stays in memory.
        """
        _check_recovered(base_index, base_term, entries)
        self.base_index = self.rested = base_index
        self.base_term = base_term
        self.entries = entries  # after `rested`
        self.reader = reader
        # The terms after `base_index` up to `rested`: from which index on which one holds.
        self.term_firsts: list[int] = []
        self.terms: list[int] = []
        self.settled_bytes = 0  # of the entries in memory that are applied
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
        return self.rested + len(self.entries)

    @property
    def last_term(self) -> int:
        """The term of the newest entry, or of the base."""
        if self.entries:
            return self.entries[-1].term
        return self.terms[-1] if self.terms else self.base_term

    def term_at(self, index: int) -> int | None:
        """The term at an index; None if it is compacted away or not there yet."""
        offset = index - self.rested
        if 0 < offset <= len(self.entries):
            return self.entries[offset - 1].term
        if index == self.base_index:
            return self.base_term
        if self.base_index < index <= self.rested:
            return self.terms[bisect_right(self.term_firsts, index) - 1]
        return None

    def conflict_hint(self, index: int, term: int) -> tuple[int, int]:
        """The furthest place at or before `index` where a log that has `term` there may agree.

        Terms never fall along a log, so every index of ours with a greater term can be skipped.
        The second value is our term at that place, 0 if it is unknown.
        """
        index = min(index, self.last_index)
        if index < self.base_index:
            return index, 0
        within = max(index - self.rested, 0)
        found = bisect_right(self.entries, term, 0, within, key=_term_of)
        if found:
            return self.rested + found, self.entries[found - 1].term
        run = bisect_right(self.terms, term)
        while run and self.term_firsts[run - 1] > index:
            run -= 1
        if run:
            end = self.term_firsts[run] - 1 if run < len(self.terms) else self.rested
            return min(index, end), self.terms[run - 1]
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
        entries = self.entries[self.handed - self.rested :]
        self.handed = self.last_index
        return entries

    def persisted(self) -> None:
        """What was handed out, and has not been truncated since, is on disk."""
        self.stable = self.handed

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """Committed entries not handed out yet, about `bytes_max` of them and at least one; never
        very many, because what one costs does not follow from its size."""
        if self.applying >= self.commit:
            return []
        last = min(self.commit, self.applying + APPLY_ENTRIES_MAX)
        entries = self.slice(self.applying + 1, last + 1, bytes_max)
        self.applying += len(entries)
        return entries

    def holds_change(self, index: int) -> bool:
        """Whether a change of configuration that is not applied yet lies at or before `index`."""
        return bool(self.config_indexes) and self.config_indexes[0] <= index

    def applied_to(self, index: int) -> None:
        """The state machine has applied everything up to `index`."""
        begin, end = self.applied - self.rested, index - self.rested
        self.settled_bytes += sum(map(_weight, self.entries[begin:end]))
        self.applied = index
        self.applying = max(self.applying, index)
        while self.config_indexes and self.config_indexes[0] <= index:
            del self.config_indexes[0]

    def slice(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries of [low, high): at least one if there is any, then while they fit. Those that
        rest on disk come alone."""
        if low <= self.rested and self.reader is not None:
            return self.reader.entries(low, min(high, self.rested + 1), bytes_max)
        start = low - self.rested - 1
        end = min(high - self.rested - 1, len(self.entries))
        if end - start <= 1:
            return self.entries[start:end]
        size = 0
        for position in range(start, end):
            size += _weight(self.entries[position])
            if size > bytes_max and position > start:
                return self.entries[start:position]
        return self.entries[start:end]

    def maybe_rest(self, tail_bytes: int) -> None:
        """If applied entries take more than `tail_bytes`, leave the older half to the disk."""
        if self.settled_bytes <= tail_bytes or self.reader is None:
            return
        count = 0
        for entry in self.entries[: min(self.applied, self.stable) - self.rested]:
            if self.settled_bytes <= tail_bytes // 2:
                break
            self.settled_bytes -= _weight(entry)
            count += 1
            if not self.terms or self.terms[-1] != entry.term:
                self.terms.append(entry.term)
                self.term_firsts.append(entry.index)
        del self.entries[:count]
        self.rested += count

    def compact(self, index: int) -> None:
        """Forget entries up to `index`; a snapshot stands for them."""
        if index <= self.base_index:
            return
        if index > self.applied:
            raise LocalError(ErrorCode.BUG, f"compaction to {index} past applied {self.applied}")
        self.base_term = self.term_at(index) or 0
        self.base_index = index
        dropped = index - self.rested
        if dropped > 0:
            self.settled_bytes -= sum(map(_weight, self.entries[:dropped]))
            del self.entries[:dropped]
            self.rested = index
        runs = bisect_right(self.term_firsts, index + 1) - 1
        if self.rested == index:
            self.term_firsts, self.terms = [], []
        elif runs > 0:
            del self.term_firsts[:runs], self.terms[:runs]

    def restore(self, index: int, term: int) -> None:
        """Start anew at a snapshot's position, without any entry."""
        self.base_index = self.rested = self.stable = self.handed = index
        self.base_term = term
        self.term_firsts, self.terms = [], []
        self.settled_bytes = 0
        self.applied = self.applying = self.commit = index
        self.entries = []
        self.config_indexes = []

    def _truncate(self, index: int) -> None:
        """Drop the entries from `index` on."""
        del self.entries[index - self.rested - 1 :]
        self.stable = min(self.stable, index - 1)
        self.handed = min(self.handed, index - 1)
        while self.config_indexes and self.config_indexes[-1] >= index:
            self.config_indexes.pop()


def _weight(entry: Entry) -> int:
    return len(entry.data) + ENTRY_OVERHEAD_BYTES


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
