"""Reading the log back: walk the segments in order and classify the first invalid record.

Nothing is written here; `repair` repairs what `read_log` reports. An invalid record where
batch k should be means:

- the next segment opens with batch k: this segment ended;
- the record certainly held nothing that is needed (the other copy of a head is valid, an empty
  batch, entries that the snapshot covers): go on behind it;
- a later valid header, or the mark beside the log (`synced`), says that batch k was synced:
  CORRUPTION. It may have been acknowledged;
- else it was never acknowledged: a TORN tail, or, if nothing was written, the clean end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from rollq.base.limits import LARGE_BODY_BYTES_MIN
from rollq.raft.types import Entry, HardState, Position
from rollq.store.disk import Disk
from rollq.store.identity import IdentityHead, decode_head
from rollq.store.places import FOLDER, SUFFIX, LogPlaces, segment_name
from rollq.store.record import (
    HEADER_BYTES,
    HEADS,
    Kind,
    RecordHeader,
    decode_body,
    decode_entries,
    decode_header,
    find_headers,
    has_sound_body,
)
from rollq.store.synced import Vouched, read_vouched


def segment_numbers(disk: Disk) -> list[int]:
    """The numbers of all segment files, ascending."""
    stems = [name.removesuffix(SUFFIX) for name in disk.names(FOLDER) if name.endswith(SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isdecimal())


@dataclass(slots=True)
class WalSegment:
    """One file of the log. It may be deleted when the log is compacted to `last_index` or
    beyond."""

    number: int
    last_index: int = 0


@dataclass(slots=True)
class LogView:
    """The entries after `base`, as the records build, replace and void them. The term of `base`
    is 0 if it is not known."""

    base: Position = field(default_factory=Position)
    entries: list[Entry] = field(default_factory=list)

    @property
    def last(self) -> Position:
        """Where the log ends."""
        return (
            Position(self.entries[-1].term, self.entries[-1].index) if self.entries else self.base
        )

    def put(self, entries: list[Entry]) -> bool:
        """Replace the tail from entries[0] on; False if that would leave a hole."""
        place = entries[0].index - self.base.index - 1
        if place > len(self.entries):
            return False
        if place < 0:
            self.reset(Position(0, entries[0].index - 1))
        else:
            del self.entries[place:]
        self.entries.extend(entries)
        return True

    def reset(self, base: Position) -> None:
        """Void everything; the log goes on after `base`."""
        self.base = base
        self.entries = []

    def term_at(self, index: int) -> int:
        """The term at an index; 0 if the log does not say."""
        place = index - self.base.index - 1
        if place == -1:
            return self.base.term
        return self.entries[place].term if 0 <= place < len(self.entries) else 0


@dataclass(slots=True)
class Walk:
    """The content of the segments. `number` and `offset` are where the next record belongs."""

    log: LogView = field(default_factory=LogView)
    places: LogPlaces = field(default_factory=LogPlaces)
    hard_state: HardState = field(default_factory=HardState)
    head: IdentityHead | None = None
    # The last position that any valid header names.
    highest: Position = field(default_factory=Position)
    seq: int = 0  # the highest batch seen; 0: there is no valid record at all
    crc: int = 0
    segments: list[WalSegment] = field(default_factory=list)  # those that hold the log
    number: int = 0
    offset: int = 0
    corrupt: bool = False
    torn: bool = False
    damage_skipped: bool = False  # a damaged record was skipped: it held nothing needed
    hole: bool = False  # a valid record does not follow on the entries before it
    unborn: list[int] = field(default_factory=list)  # files after the end that never began
    void: list[int] = field(default_factory=list)  # files that a rewritten log superseded


@dataclass(slots=True)
class ResyncPoint:
    """A valid header behind the invalid record."""

    place: int  # in the walker's list of segments
    offset: int
    header: RecordHeader
    data: bytes


def read_log(disk: Disk, snapshot_index: int, large_bytes_min: int = LARGE_BODY_BYTES_MIN) -> Walk:
    """Walk all segments. Raises DiskError DISK_VERSION, or what reading raises."""
    vouched = read_vouched(disk)  # before the log: a member may be writing while we look
    numbers = segment_numbers(disk)
    first = next((n for n in reversed(numbers) if _opens_base(disk, n)), 0)
    walker = _Walker(disk, [n for n in numbers if n >= first], snapshot_index, vouched)
    walker.walk.void = [n for n in numbers if n < first]
    walker.walk.places = LogPlaces(large_bytes_min)
    walker.run()
    return walker.walk


def _opens_base(disk: Disk, number: int) -> bool:
    data = disk.read(segment_name(number), 0, HEADER_BYTES)
    header = decode_header(data, 0, number)
    if header is None:  # its copy still has it
        data = _load(disk, number)
        header = next((found for _, found in find_headers(data, 0, number)), None)
    return header is not None and header.kind == Kind.BASE


def _load(disk: Disk, number: int) -> bytes:
    name = segment_name(number)
    return disk.read(name, 0, max(disk.size(name), 0))


class _Walker:
    """The state of one walk."""

    def __init__(
        self, disk: Disk, numbers: list[int], snapshot_index: int, vouched: Vouched
    ) -> None:
        self.disk = disk
        self.vouched = vouched
        self.numbers = numbers
        self.snapshot_index = snapshot_index
        self.walk = Walk()
        self.crc: int | None = None  # of the record before; None: any chain will do
        self.before: RecordHeader | None = None
        self.left = (0, 0, 0, 0)  # where the segment before ended: number, offset, seq, crc

    def run(self) -> None:
        """Take every record up to the end or the first damage that matters."""
        place, offset = 0, 0
        while place < len(self.numbers):
            number = self.numbers[place]
            data = _load(self.disk, number)
            if number != self.walk.number:
                self._enter(number)
            offset = self._take_all(data, number, offset)
            self.walk.offset = offset
            if self._goes_on(place + 1):
                place, offset = place + 1, 0
                continue
            later = list(self._later(place, offset, data))
            if not later:
                self.walk.corrupt = self.vouched.seq > self.walk.seq
                written = data[offset : offset + HEADER_BYTES].strip(b"\0") != b""
                self.walk.torn = written and not self.walk.corrupt
                self._end(place)
                return
            resume = self._resume(place, offset, data, later)
            if resume is None:
                self._end(place)
                return
            place, offset = resume.place, resume.offset

    def _enter(self, number: int) -> None:
        walk = self.walk
        self.left = (walk.number, walk.offset, walk.seq, walk.crc)
        walk.number = number
        walk.segments.append(WalSegment(number))

    def _take_all(self, data: bytes, number: int, offset: int) -> int:
        """Take valid records that follow each other; return where the next one belongs."""
        while True:
            header = self._sound_header(data, number, offset)
            if header is None:
                return offset
            if header.kind == Kind.ENTRIES and header.last.index <= self.snapshot_index:
                # Most of a log may be so, and to read its entries would take longest.
                if not has_sound_body(header, data, offset):
                    return offset
                self._pass_over(header)
                offset += header.record_bytes
                continue
            body = decode_body(header, data, offset)
            if body is None or not self._take(header, body, offset):
                return offset
            offset += header.record_bytes

    def _sound_header(self, data: bytes, number: int, offset: int) -> RecordHeader | None:
        """The header at `offset` if it is the very next of the chain."""
        header = decode_header(data, offset, number)
        if header is None or (offset == 0 and header.kind not in HEADS):
            return None
        if self.walk.seq and header.seq != self.walk.seq + 1:
            return None
        return header if self.crc is None or header.prev_crc == self.crc else None

    def _take(self, header: RecordHeader, body: bytes, offset: int) -> bool:
        walk = self.walk
        if header.kind in HEADS:
            head = decode_head(body)
            if head is None:
                return False
            walk.head = head
            if not walk.seq:
                walk.log.reset(header.last)
        elif header.kind == Kind.RESET:
            self._reset(header)
        else:
            entries = decode_entries(header, body)
            if entries is None:
                return False
            if entries:
                walk.hole = walk.hole or not walk.log.put(entries)
                walk.places.put(entries, header.segment, offset, header.body_bytes)
                self._named(header)
        self._passed(header)
        return True

    def _pass_over(self, header: RecordHeader) -> None:
        """Entries that the snapshot covers: nobody will ask for them."""
        if header.body_bytes:
            self.walk.log.reset(header.last)
            self._named(header)
        self._passed(header)

    def _reset(self, header: RecordHeader) -> None:
        self.walk.log.reset(header.last)
        self.walk.places.reset()
        self.walk.hole = False
        self._named(header)

    def _named(self, header: RecordHeader) -> None:
        segment = self.walk.segments[-1]
        segment.last_index = max(segment.last_index, header.last.index)

    def _passed(self, header: RecordHeader) -> None:
        self.walk.seq = header.seq
        self.walk.crc = self.crc = header.crc
        self.walk.hard_state = header.hard_state
        self.walk.highest = max(self.walk.highest, header.last)
        self.before = header

    def _goes_on(self, place: int) -> bool:
        """Whether the next segment opens with the very next batch."""
        if place >= len(self.numbers) or not self.walk.seq:
            return False
        number = self.numbers[place]
        data = self.disk.read(segment_name(number), 0, HEADER_BYTES)
        return self._sound_header(data, number, 0) is not None

    def _later(self, place: int, offset: int, data: bytes) -> Iterator[ResyncPoint]:
        """Valid headers behind the damage, in this and all later segments."""
        for at in range(place, len(self.numbers)):
            number = self.numbers[at]
            if at > place:
                data = _load(self.disk, number)
            start = offset + 1 if at == place else 0
            for found, header in find_headers(data, start, number):
                yield ResyncPoint(at, found, header, data)

    def _resume(
        self, place: int, offset: int, data: bytes, later: list[ResyncPoint]
    ) -> ResyncPoint | None:
        """Where to go on behind an invalid record; None: here the log ends, torn or corrupt."""
        found = later[0]
        seq = self.walk.seq + 1 if self.walk.seq else found.header.seq - 1
        proven = any(each.header.synced_seq >= seq for each in later) or self.vouched.seq >= seq
        header = self._sound_header(data, self.numbers[place], offset)
        at_hand = found.place == place and found.offset - offset == HEADER_BYTES
        if found.header.seq == seq + 1 and self._needless(header, found, at_hand, proven):
            self.walk.seq, self.crc, self.before = seq, None, header
            self.walk.damage_skipped = True
            return found
        self.walk.corrupt, self.walk.torn = proven, not proven
        if proven:
            self._learn(later)
        return None

    def _needless(
        self, header: RecordHeader | None, found: ResyncPoint, at_hand: bool, proven: bool
    ) -> bool:
        """Whether the invalid record before `found` held nothing that is not known otherwise."""
        if found.header.kind in HEADS and found.header.copy == 1:
            if decode_body(found.header, found.data, found.offset) is None:
                return False
            if not self.walk.head:  # nothing is taken yet: this head says where the log begins
                self.walk.log.reset(found.header.last)
            return True
        if not proven:
            return False
        if self.before is not None and self.before.kind in HEADS and self.before.copy == 0:
            return True
        if header is None:
            return at_hand
        if header.kind == Kind.RESET:  # all it says is in its header
            self._reset(header)
            return True
        if header.kind == Kind.ENTRIES and header.last.index <= self.snapshot_index:
            self.walk.log.reset(header.last)
            self._named(header)
            return True
        return False

    def _learn(self, later: list[ResyncPoint]) -> None:
        """Corruption: collect what the records behind it still show."""
        for found in later:
            header = found.header
            self.walk.highest = max(self.walk.highest, header.last)
            if header.seq <= self.walk.seq:
                continue
            self.walk.seq = header.seq
            # Term and vote hold, but what was committed behind the hole may not be
            # what the entries before it say: they may have been replaced by those that are lost.
            commit = self.walk.hard_state.commit
            self.walk.hard_state = msgspec.structs.replace(header.hard_state, commit=commit)
            if header.kind in HEADS:
                body = decode_body(header, found.data, found.offset)
                self.walk.head = (decode_head(body) if body is not None else None) or self.walk.head

    def _use_mark(self) -> None:
        """Corruption: what was written by the time of the mark, if no later record shows it."""
        walk, vouched = self.walk, self.vouched
        walk.highest = max(walk.highest, vouched.last)
        if vouched.seq > walk.seq:
            walk.seq = vouched.seq
            commit = walk.hard_state.commit
            walk.hard_state = HardState(vouched.term, vouched.vote, commit)

    def _end(self, place: int) -> None:
        walk = self.walk
        if walk.corrupt:
            self._use_mark()
            return
        walk.unborn = self.numbers[place + 1 :]
        if walk.offset == 0 and walk.seq:  # not even its head was written: the one before goes on
            walk.unborn.insert(0, walk.number)
            walk.segments.pop()
            walk.number, walk.offset, walk.seq, walk.crc = self.left
