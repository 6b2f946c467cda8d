"""All jobs by sequence number, readable from any number on in both directions.

A page of a list must cost only what it shows, however many jobs exist and whichever are forgotten
meanwhile. Twelve bytes per job: an offset and a pointer to an id that the job table holds anyway.
Entries are in chunks, so that a change moves at most one chunk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rollq.base.ids import JobId

if TYPE_CHECKING:
    from rollq.grid.state import JobRecord

CHUNK_JOBS: Final = 1_024
OFFSET_MAX: Final = 2**32 - 1

_seq = attrgetter("seq")


class IndexChunk:
    """Jobs accepted one after another. A removed one leaves None until there are many."""

    __slots__ = ("first", "ids", "live", "note", "offsets")

    def __init__(self, first: int) -> None:
        self.first = first  # the sequence number that offsets count from
        self.offsets = array("I")
        self.ids: list[JobId | None] = []
        self.live = 0  # ids that are not None
        # The ChunkNote of a reader (`matching`): valid until a job is added.
        self.note: object = None

    @property
    def last(self) -> int:
        """The highest sequence number that is or was here."""
        return self.first + self.offsets[-1]

    def ids_from(self, seq: int, *, newest: bool) -> list[JobId]:
        """The ids with higher numbers, ascending; or with lower ones, descending."""
        at = seq - self.first
        if newest:
            ids = self.ids[: bisect_left(self.offsets, at)]
            ids.reverse()
        else:
            ids = self.ids[bisect_right(self.offsets, at) :]
        return [job_id for job_id in ids if job_id is not None]

    def entries(self, seq: int, *, newest: bool) -> Iterator[tuple[int, JobId]]:
        """As `ids_from`, with their numbers."""
        at = seq - self.first
        if newest:
            places = range(bisect_left(self.offsets, at) - 1, -1, -1)
        else:
            places = range(bisect_right(self.offsets, at), len(self.ids))
        for place in places:
            job_id = self.ids[place]
            if job_id is not None:
                yield self.first + self.offsets[place], job_id

    @property
    def is_full(self) -> bool:
        """Whether no job will be added, unless many are removed."""
        return len(self.ids) >= CHUNK_JOBS


class JobIndex:
    """Ids of jobs by growing sequence number.

    A new job is appended to `fresh`, its `seq` higher than all before it, and is filed with all
    others of its log entry at once (`file_fresh`), at a fifth of the cost of filing one by one.
    Readers file first, so that they see every job; a record keeps its `seq` while it is in `fresh`,
    because only `remove_all` comes before a change of it.
    """

    __slots__ = ("_chunks", "_firsts", "fresh")

    def __init__(self) -> None:
        self.fresh: list[JobRecord] = []
        self._firsts: list[int] = []  # the `first` of each chunk
        self._chunks: list[IndexChunk] = []

    def file_fresh(self) -> None:
        """Move the jobs added since the last call into chunks."""
        fresh, self.fresh = self.fresh, []
        at = 0
        while at < len(fresh):
            first, chunk = self._tail(fresh[at].seq)
            room = at + CHUNK_JOBS - len(chunk.ids)
            fits = bisect_right(fresh, first + OFFSET_MAX, at, min(room, len(fresh)), key=_seq)
            taken = fresh[at:fits]
            chunk.offsets.extend([record.seq - first for record in taken])
            chunk.ids.extend([record.job_id for record in taken])
            chunk.live += len(taken)
            chunk.note = None
            at = fits

    def remove_all(self, seqs: Sequence[int]) -> None:
        """Remove the jobs at these numbers, each given once; KeyError if there is none. Jobs that
        were accepted together are removed at a fraction of the cost of one after the other."""
        if self.fresh:
            self.file_fresh()
        if len(seqs) == 1:
            self._remove_one(seqs[0])
            return
        ascending = sorted(seqs)
        at = 0
        while at < len(ascending):
            at += self._remove_stretch(ascending, at)

    def after(self, seq: int) -> Iterator[tuple[int, JobId]]:
        """(seq, id) of all higher numbers, ascending."""
        for chunk in self.chunks(seq, newest=False):
            yield from chunk.entries(seq, newest=False)

    def before(self, seq: int) -> Iterator[tuple[int, JobId]]:
        """(seq, id) of all lower numbers, descending."""
        for chunk in self.chunks(seq, newest=True):
            yield from chunk.entries(seq, newest=True)

    def chunks(self, seq: int, *, newest: bool) -> Iterator[IndexChunk]:
        """Chunks that may have higher numbers, ascending; or lower ones, descending."""
        self.file_fresh()
        if newest:
            return reversed(self._chunks[: bisect_left(self._firsts, seq)])
        return iter(self._chunks[max(0, bisect_right(self._firsts, seq) - 1) :])

    def __len__(self) -> int:
        return len(self.fresh) + sum(chunk.live for chunk in self._chunks)

    def _remove_one(self, seq: int) -> None:
        number = self._chunk_of(seq)
        chunk, first = self._chunks[number], self._firsts[number]
        place = bisect_left(chunk.offsets, seq - first)
        is_there = place < len(chunk.ids) and chunk.offsets[place] == seq - first
        if not is_there or chunk.ids[place] is None:
            raise KeyError(seq)
        chunk.ids[place] = None
        self._removed(number, 1)

    def _remove_stretch(self, seqs: list[int], at: int) -> int:
        """Remove the job at `seqs[at]`, and as many of those behind it as directly follow in its
        chunk; returns how many."""
        number = self._chunk_of(seqs[at])
        chunk, first = self._chunks[number], self._firsts[number]
        offsets, ids = chunk.offsets, chunk.ids
        place = bisect_left(offsets, seqs[at] - first)
        room = min(len(seqs) - at, len(offsets) - place)
        count = 0
        for wanted, offset in zip(seqs[at : at + room], offsets[place : place + room], strict=True):
            if wanted != first + offset:
                break
            count += 1
        if not count or None in ids[place : place + count]:
            raise KeyError(seqs[at])
        ids[place : place + count] = [None] * count
        self._removed(number, count)
        return count

    def _chunk_of(self, seq: int) -> int:
        """The place of the chunk in which a job with this number must be."""
        number = bisect_right(self._firsts, seq) - 1
        if number < 0:
            raise KeyError(seq)
        return number

    def _removed(self, number: int, count: int) -> None:
        """So many jobs of a chunk were removed: drop it, or its empty places once they are many."""
        chunk = self._chunks[number]
        chunk.live -= count
        if not chunk.live:
            del self._chunks[number], self._firsts[number]
        elif chunk.live * 4 < len(chunk.ids):
            kept = [place for place, one in enumerate(chunk.ids) if one is not None]
            chunk.offsets = array("I", [chunk.offsets[place] for place in kept])
            chunk.ids = [chunk.ids[place] for place in kept]

    def _tail(self, seq: int) -> tuple[int, IndexChunk]:
        """The chunk to which a job with this number is added, and its `first`."""
        if self._chunks:
            first, chunk = self._firsts[-1], self._chunks[-1]
            if len(chunk.ids) < CHUNK_JOBS and seq - first <= OFFSET_MAX:
                return first, chunk
        self._firsts.append(seq)
        self._chunks.append(IndexChunk(seq))
        return seq, self._chunks[-1]
