"""The log: a base (the position of a snapshot) and the entries after it, the newest in memory.

Seven indexes mark positions in it, each bounded by the previous one:

    base <= evicted <= applied <= applying <= commit <= last   (state machine)
    base <= evicted <= stable <= persisting <= last            (disk)

`applying` and `persisting` are the ends of what the outstanding `Ready` carries. Truncation lowers
`persisting` and `stable`, so that entries which replace others at an index are written again.
Entries up to `evicted` are evicted from memory: only their terms are here, and a follower that lags
is served from disk. Every method is O(entries moved), plus a binary search for terms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, Protocol

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.limits import APPLY_ENTRIES_MAX
from rollq.raft.types import Entry, EntryKind

# The size of an entry beyond its data, so that runs of empty entries are bounded too.
ENTRY_OVERHEAD_BYTES: Final = 16
_CONFIG = int(EntryKind.CONFIG)
_term_of = attrgetter("term")


class LogReader(Protocol):
    """The log on disk."""

    def entries(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries of [low, high), all of which exist: at least one, then while they fit into
        `bytes_max`. Raises the errors of the disk."""


class RaftLog:
    """Entries after `base_index`, and the indexes that mark positions in them."""

    __slots__ = (
        "applied",
        "applied_bytes",
        "applying",
        "base_index",
        "base_term",
        "commit",
        "config_indexes",
        "entries",
        "evicted",
        "persisting",
        "reader",
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
        """Start from what recovery found: all of it is on disk, none of it is applied.

        Args:
            base_index: the index of the snapshot, or 0.
            base_term: the term there.
            entries: the entries after it.
            commit: as it was persisted.
            reader: of the disk; without one every entry stays in memory.
        """
        _check_recovered(base_index, base_term, entries)
        self.base_index = self.evicted = base_index
        self.base_term = base_term
        self.entries = entries  # after `evicted`
        self.reader = reader
        # Terms of evicted entries, run-length encoded: first index and term of each run.
        self.term_firsts: list[int] = []
        self.terms: list[int] = []
        self.applied_bytes = 0  # size of the applied entries in memory
        self.stable = self.persisting = base_index + len(entries)
        self.applied = self.applying = base_index
        # CONFIG entries after `applied`, ascending.
        self.config_indexes = [entry.index for entry in entries if entry.kind == _CONFIG]
        # The persisted commit may lag behind (it is not synced) or, after rot, point past the end.
        # It must not lag behind a change of configuration that is followed by another: a leader
        # proposes one only after applying the previous one, so the later one proves the earlier
        # committed; campaigning in a configuration two changes old would break the overlap of
        # majorities.
        proven = self.config_indexes[-2] if len(self.config_indexes) > 1 else 0
        self.commit = max(base_index, min(commit, self.last_index), proven)

    @property
    def first_index(self) -> int:
        """The first index that may be in the log."""
        return self.base_index + 1

    @property
    def last_index(self) -> int:
        """The index of the newest entry, or the base."""
        return self.evicted + len(self.entries)

    @property
    def last_term(self) -> int:
        """The term of the newest entry, or of the base."""
        if self.entries:
            return self.entries[-1].term
        return self.terms[-1] if self.terms else self.base_term

    def term_at(self, index: int) -> int | None:
        """The term at an index; None if it is compacted or past the end."""
        offset = index - self.evicted
        if 0 < offset <= len(self.entries):
            return self.entries[offset - 1].term
        if index == self.base_index:
            return self.base_term
        if self.base_index < index <= self.evicted:
            return self.terms[bisect_right(self.term_firsts, index) - 1]
        return None

    def conflict_hint(self, index: int, term: int) -> tuple[int, int]:
        """The highest index at or before `index` where a log that has `term` there may agree with
        ours.

        Terms never decrease along a log, so all our indexes with a greater term are skipped. The
        second value is our term at the result, 0 if unknown.
        """
        index = min(index, self.last_index)
        if index < self.base_index:
            return index, 0
        within = max(index - self.evicted, 0)
        found = bisect_right(self.entries, term, 0, within, key=_term_of)
        if found:
            return self.evicted + found, self.entries[found - 1].term
        run = bisect_right(self.terms, term)
        while run and self.term_firsts[run - 1] > index:
            run -= 1
        if run:
            end = self.term_firsts[run] - 1 if run < len(self.terms) else self.evicted
            return min(index, end), self.terms[run - 1]
        if self.base_term <= term:
            return self.base_index, self.base_term
        return max(self.base_index - 1, 0), 0

    def append(self, entry: Entry) -> None:
        """Append one entry; its index must be the next."""
        self.entries.append(entry)
        if entry.kind == _CONFIG:
            self.config_indexes.append(entry.index)

    def merge(self, prev_index: int, entries: Sequence[Entry]) -> int:
        """Store `entries` after `prev_index`, which must match; returns the index of the last one.

        Existing equal entries stay, also beyond the last of `entries`: only a conflict truncates.

        Raises:
            RemoteError: BAD_PAYLOAD, if a committed entry would be replaced.
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
        """Advance the commit index, at most to the last index; returns whether it changed."""
        index = min(index, self.last_index)
        if index <= self.commit:
            return False
        self.commit = index
        return True

    def take_unstable(self) -> list[Entry]:
        """The entries to persist; `persisting` advances past them."""
        entries = self.entries[self.persisting - self.evicted :]
        self.persisting = self.last_index
        return entries

    def persisted(self) -> None:
        """Entries up to `persisting` are on disk."""
        self.stable = self.persisting

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """The next committed entries to apply: about `bytes_max` of them, at least one, at most
        APPLY_ENTRIES_MAX, because the cost of an entry does not follow from its size."""
        if self.applying >= self.commit:
            return []
        last = min(self.commit, self.applying + APPLY_ENTRIES_MAX)
        entries = self.slice(self.applying + 1, last + 1, bytes_max)
        self.applying += len(entries)
        return entries

    def holds_change(self, index: int) -> bool:
        """Whether an unapplied change of configuration is at or before `index`."""
        return bool(self.config_indexes) and self.config_indexes[0] <= index

    def applied_to(self, index: int) -> None:
        """The state machine has applied everything up to `index`."""
        begin, end = self.applied - self.evicted, index - self.evicted
        self.applied_bytes += sum(map(_weight, self.entries[begin:end]))
        self.applied = index
        self.applying = max(self.applying, index)
        while self.config_indexes and self.config_indexes[0] <= index:
            del self.config_indexes[0]

    def slice(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        """Entries of [low, high): at least one if there is any, then while they fit. Those that
        rest on disk come alone."""
        if low <= self.evicted and self.reader is not None:
            return self.reader.entries(low, min(high, self.evicted + 1), bytes_max)
        start = low - self.evicted - 1
        end = min(high - self.evicted - 1, len(self.entries))
        if end - start <= 1:
            return self.entries[start:end]
        size = 0
        for position in range(start, end):
            size += _weight(self.entries[position])
            if size > bytes_max and position > start:
                return self.entries[start:position]
        return self.entries[start:end]

    def maybe_evict(self, tail_bytes: int) -> None:
        """If applied entries take more than `tail_bytes`, evict the older half from memory."""
        if self.applied_bytes <= tail_bytes or self.reader is None:
            return
        count = 0
        for entry in self.entries[: min(self.applied, self.stable) - self.evicted]:
            if self.applied_bytes <= tail_bytes // 2:
                break
            self.applied_bytes -= _weight(entry)
            count += 1
            if not self.terms or self.terms[-1] != entry.term:
                self.terms.append(entry.term)
                self.term_firsts.append(entry.index)
        del self.entries[:count]
        self.evicted += count

    def compact(self, index: int) -> None:
        """Drop entries up to `index`, which a snapshot covers."""
        if index <= self.base_index:
            return
        if index > self.applied:
            raise LocalError(ErrorCode.BUG, f"compaction to {index} past applied {self.applied}")
        self.base_term = self.term_at(index) or 0
        self.base_index = index
        dropped = index - self.evicted
        if dropped > 0:
            self.applied_bytes -= sum(map(_weight, self.entries[:dropped]))
            del self.entries[:dropped]
            self.evicted = index
        runs = bisect_right(self.term_firsts, index + 1) - 1
        if self.evicted == index:
            self.term_firsts, self.terms = [], []
        elif runs > 0:
            del self.term_firsts[:runs], self.terms[:runs]

    def restore(self, index: int, term: int) -> None:
        """Restart at the position of a snapshot, without entries."""
        self.base_index = self.evicted = self.stable = self.persisting = index
        self.base_term = term
        self.term_firsts, self.terms = [], []
        self.applied_bytes = 0
        self.applied = self.applying = self.commit = index
        self.entries = []
        self.config_indexes = []

    def _truncate(self, index: int) -> None:
        """Drop the entries from `index` on."""
        del self.entries[index - self.evicted - 1 :]
        self.stable = min(self.stable, index - 1)
        self.persisting = min(self.persisting, index - 1)
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
