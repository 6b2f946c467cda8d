"""Filters of job lists, and the notes by which whole chunks of the job index are skipped. Read
only.

`apply` maintains nothing for this: an index by queue, client and state would cost every job
something, and most jobs are never listed. Instead a reader leaves a note on a chunk, which stays
valid because of what cannot change: a job keeps its queue, client, program and key as long as it
keeps its sequence number, and one that has ended stays ended (a redrive gives it another number).
So the first list over a million jobs walks over them, in steps; later ones skip every chunk whose
note rules its jobs out (ADR 0031).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.access_rules import is_client_of
from rollq.base.ids import JobId, guid_to_text
from rollq.base.outcomes import CANCELLED as CANCELLED_WORD
from rollq.base.outcomes import DEAD as DEAD_WORD
from rollq.base.outcomes import FAILED, OK, state_word
from rollq.grid.job_index import IndexChunk
from rollq.grid.state import CANCELLED, DEAD, DONE, JobRecord, JobState

NAME_BITS: Final = 16_384  # bits of a note: a name sets two; other names seldom the same two
ID_DIGITS: Final = frozenset("0123456789abcdef-")


class JobFilter(msgspec.Struct, frozen=True, array_like=True):
    """The jobs of a list; empty: any. `after` is the position where the last page ended."""

    state: str = ""
    queue: str = ""
    client_id: str = ""
    exec_name: str = ""
    after: int = 0
    newest: bool = False  # newest first
    key: str = ""  # what its owner calls it
    # Part of its id, key, program, queue, client or cause of its end, ignoring case. Arguments are
    # not searched: they may be on disk.
    text: str = ""
    since_ms: int = 0  # its state changed at this time or later
    until_ms: int = 0  # its state has not changed since; 0: no bound


class ChunkNote:
    """Summary of the jobs of a chunk.

    Attributes:
        names: Two bits for each of their queues, clients, programs and keys.
        words: How they ended, in the words for people; empty: some had not, when it was looked.
        first_ms, last_ms: When they ended, if they have.
    """

    __slots__ = ("first_ms", "last_ms", "names", "words")

    def __init__(self, records: list[JobRecord]) -> None:
        bits = bytearray(NAME_BITS // 8)
        for kind, name_of in enumerate(NAMES):
            for name in dict.fromkeys(map(name_of, records)):
                one, other = _bits(kind, name)
                bits[one >> 3] |= 1 << (one & 7)
                bits[other >> 3] |= 1 << (other & 7)
        self.names = bytes(bits)
        self.words: tuple[str, ...] = ()
        self.first_ms = self.last_ms = 0

    def ended(self, records: list[JobRecord]) -> None:
        """Whether all of them have ended."""
        stamps = list(map(_stamp_ms, records))
        self.words = tuple(dict.fromkeys(map(_end_word, records)))
        self.first_ms, self.last_ms = min(stamps), max(stamps)


class Matching:
    """Evaluates a filter.

    Args:
        wanted: The filter.
        account: Of whose clients; empty: of all.
    """

    def __init__(self, wanted: JobFilter, account: str = "") -> None:
        self._wanted = wanted
        self._account = account
        self._text = wanted.text.casefold()
        self._seeks_id = ID_DIGITS.issuperset(self._text)
        self._in_ok, self._in_failed = (_fits_word(DONE, one, wanted.state) for one in (0, 1))
        self._in_state = [_fits_word(state, 0, wanted.state) for state in JobState]
        self._in_state[DONE] |= self._in_failed
        names = (wanted.queue, wanted.client_id, wanted.exec_name, wanted.key)
        self._bits = [bit for kind, name in enumerate(names) if name for bit in _bits(kind, name)]
        # The words of a note that match.
        self._words = [OK] * self._in_ok + [FAILED] * self._in_failed
        self._words += [DEAD_WORD] * self._in_state[DEAD]
        self._words += [CANCELLED_WORD] * self._in_state[CANCELLED]
        self._clients: dict[str, bool] = {}  # by client: whether it belongs to the account

    @property
    def cost(self) -> int:
        """The cost of checking a job, relative to a check of state and names only."""
        return 4 if self._text else 1

    @property
    def takes_all(self) -> bool:
        """Whether every job matches, so that a note is not worth making."""
        wanted = msgspec.structs.replace(self._wanted, after=0, newest=False)
        return wanted == JobFilter() and not self._account

    def may_be_in(self, chunk: IndexChunk) -> bool:
        """Whether a chunk may contain a match, by its note."""
        note = chunk.note
        if not isinstance(note, ChunkNote):
            return True
        names = note.names
        if any(not names[bit >> 3] & 1 << (bit & 7) for bit in self._bits):
            return False
        if not note.words:
            return True
        wanted = self._wanted
        if wanted.since_ms > note.last_ms or 0 < wanted.until_ms <= note.first_ms:
            return False
        return any(word in note.words for word in self._words)

    def sift(self, records: list[JobRecord]) -> list[JobRecord]:
        """The jobs that match. One test at a time over all jobs, because most fail the first: a
        fifth of the cost of all tests per job."""
        wanted = self._wanted
        if wanted.state:
            in_state = self._in_state
            records = [one for one in records if in_state[one.state]]
            if self._in_ok is not self._in_failed:
                records = [one for one in records if self._ended_so(one)]
        if wanted.queue:
            records = [one for one in records if one.queue == wanted.queue]
        if wanted.client_id:
            records = [one for one in records if one.client.client_id == wanted.client_id]
        if wanted.exec_name:
            records = [one for one in records if one.exec_name == wanted.exec_name]
        if wanted.key:
            records = [one for one in records if one.key == wanted.key]
        if wanted.since_ms:
            records = [one for one in records if one.stamp_ms >= wanted.since_ms]
        if wanted.until_ms:
            records = [one for one in records if one.stamp_ms < wanted.until_ms]
        if self._account:
            records = [one for one in records if self._is_own(one.client.client_id)]
        return [one for one in records if self._has_text(one)] if self._text else records

    def _ended_so(self, record: JobRecord) -> bool:
        """Whether the jobs' programs ended as the filter wants."""
        if record.state is not DONE or record.end is None:
            return True
        return self._in_failed if record.end.status else self._in_ok

    def _is_own(self, client_id: str) -> bool:
        found = self._clients.get(client_id)
        if found is None:
            found = self._clients[client_id] = is_client_of(client_id, self._account)
        return found

    def _has_text(self, record: JobRecord) -> bool:
        end = record.end
        texts = (
            record.key,
            record.exec_name,
            record.queue,
            record.client.client_id,
            "" if end is None else end.detail,
        )
        text = self._text
        if any(text in one.casefold() for one in texts):
            return True
        return self._seeks_id and text in guid_to_text(record.job_id)


def look_at(chunk: IndexChunk, jobs: dict[JobId, JobRecord]) -> bool:
    """Create or update the note of a full chunk; returns whether that was any work."""
    note = chunk.note if isinstance(chunk.note, ChunkNote) else None
    if not chunk.is_full if note is None else bool(note.words):
        return False
    have_ended = all(jobs[job_id].end for job_id in chunk.ids if job_id is not None)
    if note is not None and not have_ended:
        return False
    records = [jobs[job_id] for job_id in chunk.ids if job_id is not None]
    if note is None:
        note = chunk.note = ChunkNote(records)
    if have_ended:
        note.ended(records)
    return True


def _fits_word(state: JobState, status: int, word: str) -> bool:
    """Whether a job is in the state of a word: an internal or a displayed one; empty: any."""
    name = state.name.lower()
    return word in ("", name, state_word(name, status))


def _bits(kind: int, name: str) -> tuple[int, int]:
    """The two bits of a name: of a queue (0), a client (1), a program (2) or a key (3)."""
    number = crc32(name.encode(), kind)
    return number % NAME_BITS, (number >> 16) % NAME_BITS


def _end_word(record: JobRecord) -> str:
    if record.state is DONE:
        return FAILED if record.end is not None and record.end.status else OK
    return DEAD_WORD if record.state is DEAD else CANCELLED_WORD


_stamp_ms = attrgetter("stamp_ms")
NAMES: Final[tuple[Callable[[JobRecord], str], ...]] = (
    attrgetter("queue"),
    attrgetter("client.client_id"),
    attrgetter("exec_name"),
    attrgetter("key"),
)
