"""Repairs the log on disk after `walk` has read it, so that the next reading finds it valid.

Nothing is destroyed: bytes that are cut or superseded are first copied to `broken/`. A crash may
follow every step; repeating all of them must lead to the same log.

- A torn tail is copied, then overwritten with zeros.
- A corrupt log is rewritten into one new segment that opens with a BASE head (it voids every
  earlier segment and carries the suspect position); only when that is durable are the old files
  moved away.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import APPEND_BYTES_MAX
from rollq.raft.types import Entry, HardState, Position
from rollq.store.body_files import BodyFiles
from rollq.store.disk import BROKEN, Disk, prune_broken
from rollq.store.identity import Identity, IdentityHead, encode_head
from rollq.store.places import FOLDER, SUFFIX, segment_name
from rollq.store.record import BLANK, Kind, encode_entries, encode_header
from rollq.store.walk import LogView, Walk, WalSegment, segment_numbers

ZEROS: Final = bytes(1024 * 1024)
ENTRY_OVERHEAD_BYTES: Final = 32  # at most, of term, index, kind and lengths


class SnapshotRelation(enum.Enum):
    """The relation of the log to the snapshot that was loaded."""

    JOINED = "joined"  # the log continues the snapshot
    STALE = "stale"  # the snapshot came from a leader and the log is of an older history
    GAP = "gap"  # entries between the two are missing


@dataclass(slots=True)
class Recovered:
    """The state found on disk at the start."""

    identity: Identity | None = None  # None: empty disk
    hard_state: HardState = field(default_factory=HardState)
    entries: list[Entry] = field(default_factory=list)  # contiguous, after the snapshot
    # Corruption: the log once reached this position; `entries` stop before the corrupt one.
    suspect: Position | None = None
    torn: bool = False  # a torn tail was cut; a copy is under broken/
    damaged: bool = False  # parts were unreadable: the log was rewritten, the old one is in broken/
    peer_boots: dict[int, int] = field(default_factory=dict)


def put_aside_all(disk: Disk, walk: Walk, files: BodyFiles) -> Recovered:
    """There is nothing valid on this disk: move away what a crash during its naming left."""
    put_aside(disk, segment_numbers(disk), files)
    walk.segments, walk.offset = [], 0
    return Recovered(torn=walk.torn)


def mend(
    disk: Disk, walk: Walk, base: Position, *, segment_bytes: int, files: BodyFiles
) -> Recovered:
    """Repair the disk as `walk` describes, and return what was found."""
    head, log = walk.head, walk.log
    assert head is not None
    how = link(log, base)
    lost = walk.corrupt or walk.hole or how is SnapshotRelation.GAP
    # Skipped damage counts too: corruption may destroy the other copy next.
    damaged = lost or walk.damage_skipped
    entries = log.entries[base.index - log.base.index :] if how is SnapshotRelation.JOINED else []
    if how is SnapshotRelation.GAP:
        log.reset(base)
    reached = max(log.last, base) if how is SnapshotRelation.JOINED else base
    if lost and walk.highest > max(reached, head.suspect or Position()):
        head = msgspec.structs.replace(head, suspect=walk.highest)
    hard_state = walk.hard_state
    commit = max(base.index, min(hard_state.commit, reached.index))
    hard_state = msgspec.structs.replace(hard_state, commit=commit)
    _sweep(disk, walk, files)
    if damaged:
        rewrite_log(
            disk, walk, head=head, hard_state=hard_state, segment_bytes=segment_bytes, files=files
        )
        if head.suspect is None:
            prune_broken(disk, ".rot")
    elif walk.torn:
        cut_tail(disk, walk.number, walk.offset)
    _write_again(disk, segment_name(walk.number), walk.offset)
    walk.hard_state = hard_state
    return Recovered(
        head.identity,
        hard_state,
        entries=entries,
        suspect=head.suspect,
        torn=walk.torn,
        damaged=damaged,
        peer_boots=dict(head.peer_boots),
    )


def _write_again(disk: Disk, name: str, length: int) -> None:
    """Make durable what was read: it may be in the page cache only. A sync that failed before our
    start has left those pages clean, so that another sync alone would do nothing."""
    disk.write(name, 0, disk.read(name, 0, length))
    disk.sync(name)


def _sweep(disk: Disk, walk: Walk, files: BodyFiles) -> None:
    """Delete files that are not part of the log, and move files that a rewritten log superseded."""
    put_aside(disk, walk.void, files)
    for number in walk.unborn:
        disk.remove(segment_name(number))
    for name in disk.names(FOLDER):
        if not name.endswith(SUFFIX):
            disk.remove(f"{FOLDER}/{name}")
    disk.sync_dir(FOLDER)


def link(log: LogView, snapshot: Position) -> SnapshotRelation:
    """Whether the entries after the snapshot continue it."""
    if log.base.index > snapshot.index:
        return SnapshotRelation.GAP
    if log.last.index < snapshot.index:
        return SnapshotRelation.STALE
    term = log.term_at(snapshot.index)
    if term == snapshot.term:
        return SnapshotRelation.JOINED
    return (
        SnapshotRelation.STALE if term else SnapshotRelation.GAP
    )  # term 0: unknown to the log, so do not guess


def cut_tail(disk: Disk, number: int, offset: int) -> None:
    """Keep a copy of a torn tail and overwrite it with zeros, durably."""
    name = segment_name(number)
    size = disk.size(name)
    keep_copy(disk, f"{BROKEN}/wal-{number:012d}-{offset:012d}.torn", disk.read(name, offset, size))
    write_zeros(disk, name, offset, size)
    disk.sync(name)


def keep_copy(disk: Disk, copy: str, data: bytes) -> None:
    """Store bytes under `broken/`. A full disk does not prevent the start."""
    try:
        disk.truncate(copy, 0)
        disk.write(copy, 0, data.rstrip(b"\0"))
        disk.sync(copy)
    except DiskError as error:
        if error.code != ErrorCode.DISK_FULL:
            raise
        disk.remove(copy)
    prune_broken(disk, ".torn")
    disk.sync_dir(BROKEN)


def write_zeros(disk: Disk, name: str, begin: int, end: int) -> None:
    """Zero a range piece by piece."""
    for offset in range(begin, end, len(ZEROS)):
        disk.write(name, offset, ZEROS[: min(len(ZEROS), end - offset)])


def rewrite_log(
    disk: Disk,
    walk: Walk,
    *,
    head: IdentityHead,
    hard_state: HardState,
    segment_bytes: int,
    files: BodyFiles,
) -> None:
    """Write the log of `walk` as a new segment that voids all others, and move those away. `walk`
    then describes the new one."""
    old = segment_numbers(disk)
    number = old[-1] + 1
    records: list[bytes] = []
    last = walk.log.base
    seq, crc = walk.seq, 0
    length = 0
    walk.places.reset()
    for kind, copy, entries in _base_batches(walk.log.entries):
        first = entries[0].index if entries else last.index + 1
        last = Position(entries[-1].term, entries[-1].index) if entries else last
        body = encode_entries(entries) if kind == Kind.ENTRIES else encode_head(head)
        seq += 1
        header, crc = encode_header(
            kind=kind,
            segment=number,
            seq=seq,
            synced_seq=seq - 1,
            prev_crc=crc,
            hard_state=hard_state,
            first_index=first,
            last=last,
            body=body,
            copy=copy,
        )
        if entries:
            walk.places.put(entries, number, length, len(body))
        records += (header, body)
        length += len(header) + len(body)
    data = b"".join(records)
    fresh = f"{FOLDER}/{number:012d}.new"
    disk.write(fresh, 0, data)
    write_zeros(disk, fresh, len(data), segment_bytes)
    disk.sync(fresh)
    disk.rename(fresh, segment_name(number))
    disk.sync_dir(FOLDER)
    put_aside(disk, old, files)
    walk.head, walk.hard_state, walk.seq, walk.crc = head, hard_state, seq, crc
    walk.segments = [WalSegment(number, last.index)]
    walk.number, walk.offset = number, len(data)


def _base_batches(entries: list[Entry]) -> Iterator[tuple[int, int, Sequence[Entry]]]:
    yield Kind.BASE, 0, ()
    yield Kind.BASE, 1, ()
    for batch in split(entries, APPEND_BYTES_MAX):
        yield Kind.ENTRIES, 0, batch
    # An empty batch at the end tells corruption of the last one from a torn write.
    yield Kind.ENTRIES, 0, ()


def split(entries: Sequence[Entry], bytes_max: int) -> Iterator[Sequence[Entry]]:
    """Runs of entries of at most about `bytes_max` each, never an empty one."""
    begin, total = 0, 0
    for place, entry in enumerate(entries):
        size = len(entry.data) + ENTRY_OVERHEAD_BYTES
        if total and total + size > bytes_max:
            yield entries[begin:place]
            begin, total = place, 0
        total += size
    if begin < len(entries):
        yield entries[begin:]


def put_aside(disk: Disk, numbers: Iterable[int], files: BodyFiles) -> None:
    """Move segments to `broken/`, or to the folder of body files if a snapshot refers to them."""
    moved = False
    for number in numbers:
        if files.is_held(number):
            files.take(number)
        else:
            disk.rename(segment_name(number), f"{BROKEN}/wal-{number:012d}.rot")
        moved = True
    if moved:
        disk.sync_dir(BROKEN)
        disk.sync_dir(FOLDER)


def blank_after(offset: int, segment_bytes: int) -> bytes:
    """Zeros that end the log after a record: a recycled file has old records after it."""
    return BLANK[: max(0, min(len(BLANK), segment_bytes - offset))]
