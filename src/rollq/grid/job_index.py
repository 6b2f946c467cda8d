"""All jobs in the order of their sequence numbers, readable from any number on in both directions.

Lists of jobs are read in pages, and a page must cost what it shows, however many jobs there are and
whichever are forgotten meanwhile. Twelve bytes a job: an offset and a pointer to an id that the
table of jobs holds anyway. Places are in chunks, so that no change moves more than one of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from rollq.base.ids import JobId

CHUNK_JOBS: Final = 1_024
OFFSET_MAX: Final = 2**32 - 1


class Chunk:
    """Jobs that were accepted one after another. A removed one leaves None until many have."""

    __slots__ = ("ids", "live", "offsets")

    def __init__(self, job_id: JobId) -> None:
        self.offsets = array("I", (0,))  # from the sequence number of the first
        self.ids: list[JobId | None] = [job_id]
        self.live = 1


class JobIndex:
    """Ids of jobs by growing sequence number."""

    __slots__ = ("_chunks", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []  # of each chunk, the number that its offsets count from
        self._chunks: list[Chunk] = []

    def add(self, seq: int, job_id: JobId) -> None:
        """Put a job at the end; `seq` must be higher than all before it."""
        if self._chunks:
            chunk = self._chunks[-1]
            offset = seq - self._firsts[-1]
            if len(chunk.ids) < CHUNK_JOBS and offset <= OFFSET_MAX:
                chunk.offsets.append(offset)
                chunk.ids.append(job_id)
                chunk.live += 1
                return
        self._firsts.append(seq)
        self._chunks.append(Chunk(job_id))

    def remove(self, seq: int) -> None:
        """Take away what stands at this number; KeyError if nothing does."""
        at = bisect_right(self._firsts, seq) - 1
        if at < 0:
            raise KeyError(seq)
        chunk, first = self._chunks[at], self._firsts[at]
        place = bisect_left(chunk.offsets, seq - first)
        is_there = place < len(chunk.ids) and chunk.offsets[place] == seq - first
        if not is_there or chunk.ids[place] is None:
            raise KeyError(seq)
        chunk.ids[place] = None
        chunk.live -= 1
        if not chunk.live:
            del self._chunks[at], self._firsts[at]
        elif chunk.live * 4 < len(chunk.ids):
            kept = [number for number, one in enumerate(chunk.ids) if one is not None]
            chunk.offsets = array("I", [chunk.offsets[number] for number in kept])
            chunk.ids = [chunk.ids[number] for number in kept]

    def after(self, seq: int) -> Iterator[tuple[int, JobId]]:
        """(seq, id) of all with a higher number, in order."""
        for at in range(max(0, bisect_right(self._firsts, seq) - 1), len(self._chunks)):
            first, chunk = self._firsts[at], self._chunks[at]
            for place in range(bisect_right(chunk.offsets, seq - first), len(chunk.ids)):
                job_id = chunk.ids[place]
                if job_id is not None:
                    yield first + chunk.offsets[place], job_id

    def before(self, seq: int) -> Iterator[tuple[int, JobId]]:
        """(seq, id) of all with a lower number, backwards."""
        for at in range(bisect_left(self._firsts, seq) - 1, -1, -1):
            first, chunk = self._firsts[at], self._chunks[at]
            for place in range(bisect_left(chunk.offsets, seq - first) - 1, -1, -1):
                job_id = chunk.ids[place]
                if job_id is not None:
                    yield first + chunk.offsets[place], job_id

    def __len__(self) -> int:
        return sum(chunk.live for chunk in self._chunks)
