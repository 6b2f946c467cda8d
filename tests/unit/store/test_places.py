"""Entries of the log, read back from its segments."""

from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.raft.types import Entry, HardState, SnapshotMeta
from rollq.store.identity import Identity
from rollq.store.places import READ_BYTES, segment_name
from rollq.store.record import HEADER_BYTES
from rollq.store.wal import Wal
from rollq.testing.disk import VirtualDisk

SEGMENT_BYTES = 4096


def entries(first: int, last: int, size: int = 100, term: int = 1) -> list[Entry]:
    return [
        Entry(term, index, 0, index.to_bytes(4, "big") * (size // 4))
        for index in range(first, last + 1)
    ]


def make_wal(disk: VirtualDisk) -> Wal:
    wal, found = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    if found.identity is None:
        wal.create_identity(Identity(bytes(16), 1, "a:1"))
    return wal


def test_what_was_written_is_read_back_over_segments_and_records() -> None:
    disk = VirtualDisk()
    wal = make_wal(disk)
    written = entries(1, 90)
    for at in range(0, 90, 3):
        wal.append(HardState(1, 0, at), written[at : at + 3])
        wal.append(HardState(1, 0, at + 1), ())  # records without entries stand between
    wal.sync()
    assert wal.segment_count > 2
    for low in (1, 2, 3, 4, 50, 90):
        assert wal.entries(low, 91, 1 << 20) == written[low - 1 :]
    assert wal.entries(7, 8, 1 << 20) == written[6:7]


def test_reading_stops_at_the_size_but_gives_at_least_one() -> None:
    wal = make_wal(VirtualDisk())
    written = entries(1, 20)
    wal.append(None, written)
    assert wal.entries(5, 21, 1) == written[4:5]
    assert wal.entries(5, 21, 3 * (100 + 16)) == written[4:7]


def test_entries_that_replaced_others_are_the_ones_that_count() -> None:
    wal = make_wal(VirtualDisk())
    old, new, end = entries(1, 10), entries(5, 7, term=2), entries(8, 9, term=3)
    for batch in (old, new, end):
        wal.append(HardState(batch[0].term, 0, 0), batch)
    assert wal.entries(1, 10, 1 << 20) == [*old[:4], *new, *end]


def test_a_reopened_log_is_read_back_too() -> None:
    disk = VirtualDisk()
    wal = make_wal(disk)
    written = entries(1, 60)
    for at in range(0, 60, 4):
        wal.append(HardState(1, 0, at), written[at : at + 4])
    wal.sync()
    assert make_wal(disk).entries(1, 61, 1 << 20) == written


def test_a_rewritten_log_is_read_back_too() -> None:
    disk = VirtualDisk()
    wal = make_wal(disk)
    written = entries(1, 10)
    for entry in written:
        wal.append(HardState(1, 0, 0), [entry])
        wal.sync()
    wal.mark()
    name = segment_name(1)
    data = disk.read(name, 0, disk.size(name))
    at = data.index(written[7].data)
    disk.write(name, at, b"\xff")
    disk.sync(name)
    wal = make_wal(disk)
    assert wal.last.index == 7
    assert wal.entries(1, 8, 1 << 20) == written[:7]


def test_a_record_larger_than_one_read_is_read_whole() -> None:
    disk = VirtualDisk()
    wal = make_wal(disk)
    small, large = entries(1, 1), entries(2, 2, size=2 * READ_BYTES)
    wal.append(None, small)
    wal.append(None, large)
    assert wal.entries(1, 3, 1 << 30) == [*small, *large]


def test_compaction_and_a_snapshot_forget_places() -> None:
    disk = VirtualDisk()
    wal = make_wal(disk)
    written = entries(1, 90)
    for entry in written:
        wal.append(None, [entry])
    wal.compact(60)
    assert wal.entries(61, 91, 1 << 20) == written[60:]
    with pytest.raises(DiskError, match="entry 1 of the log"):
        wal.entries(1, 5, 1 << 20)
    wal.install(SnapshotMeta(100, 1))
    with pytest.raises(DiskError, match="entry 61 of the log"):
        wal.entries(61, 62, 1 << 20)


def test_a_damaged_record_is_an_error_and_no_entry() -> None:
    disk = VirtualDisk()
    wal = make_wal(disk)
    written = entries(1, 3)
    for entry in written:
        wal.append(None, [entry])
    name = segment_name(1)
    at = disk.read(name, 0, SEGMENT_BYTES).index(written[1].data)
    disk.write(name, at, b"\xff")
    assert wal.entries(1, 2, 1 << 20) == written[:1]
    with pytest.raises(DiskError) as caught:
        wal.entries(1, 4, 1 << 20)
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    disk.write(name, at - HEADER_BYTES - 20, bytes(HEADER_BYTES))
    with pytest.raises(DiskError, match="entry 2 of the log"):
        wal.entries(2, 3, 1 << 20)
