"""The reader's corner cases, and the link between log and snapshot."""

from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.raft.types import Member, Position
from rollq.store.record import Kind, encode_entries, encode_header
from rollq.store.repair import SnapshotRelation, link, split
from rollq.store.walk import LogView
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import (
    IDENTITY,
    Story,
    crash_everywhere,
    entry,
    hard,
    new_wal,
    open_wal,
)

FIRST = "wal/000000000001.log"


def test_a_view_replaces_its_tail_and_refuses_a_hole() -> None:
    log = LogView(Position(1, 4))
    assert log.last == Position(1, 4)
    assert not log.put([entry(6)])
    assert log.put([entry(5), entry(6)])
    assert log.put([entry(6, 2)])
    assert (log.last, log.term_at(5), log.term_at(4), log.term_at(7)) == (Position(2, 6), 1, 1, 0)
    assert log.put([entry(3, 3)])  # before the base: what lay before is not known any more
    assert (log.base, log.entries) == (Position(0, 2), [entry(3, 3)])


def test_the_link_of_a_log_to_a_snapshot() -> None:
    log = LogView(Position(2, 4), [entry(5, 2), entry(6, 3)])
    assert link(log, Position(2, 4)) is SnapshotRelation.JOINED
    assert link(log, Position(3, 6)) is SnapshotRelation.JOINED
    assert link(log, Position(3, 5)) is SnapshotRelation.STALE
    assert link(log, Position(3, 7)) is SnapshotRelation.STALE
    assert link(log, Position(1, 3)) is SnapshotRelation.GAP
    assert link(LogView(Position(0, 4), [entry(5)]), Position(2, 4)) is SnapshotRelation.GAP


def test_split_keeps_all_entries_in_runs() -> None:
    entries = [entry(index, 1, 50) for index in range(1, 8)]
    runs = list(split(entries, 200))
    assert [each for run in runs for each in run] == entries
    assert [len(run) for run in runs] == [2, 2, 2, 1]
    assert list(split([], 10)) == []
    assert list(split(entries, 1)) == [[each] for each in entries]


ROSTER = tuple(Member(n, f"a-long-host-name-{n}.example:5000" * 2) for n in range(20))


def _wide_heads(disk: VirtualDisk, story: Story) -> None:
    """Heads of several sectors, so that a crash can tear both copies of one."""
    story.wrote(None)
    wal, _ = open_wal(disk, None, 8192)
    wal.create_identity(IDENTITY)
    story.wrote((0, 0))
    wal.join_cluster(b"d" * 16, ROSTER)
    story.synced()
    for index in range(1, 12):
        story.wrote((index, 0))
        wal.append(hard(1), [entry(index, 1, 700)])
        wal.sync()
        story.synced()


def _recover_wide(disk: VirtualDisk) -> object:
    _, found = open_wal(disk, None, 8192)
    if found.identity is None or not found.identity.roster:
        return None
    assert (found.identity.roster, found.suspect) == (ROSTER, None)
    return (len(found.entries), 0)


def test_a_crash_at_every_disk_call_with_heads_of_many_sectors() -> None:
    assert crash_everywhere(_wide_heads, _recover_wide, seeds=40) > 800


def _append_raw(disk: VirtualDisk, kind: int, body: bytes, first: int, last: Position) -> None:
    """A record with sound checksums and a body that makes no sense, then one that proves it."""
    written = disk.read(FIRST, 0, 4096).rstrip(b"\0")
    end, crc = len(written), int.from_bytes(written[-4:], "little")  # the marker has no body
    for seq in (4, 5):
        header, crc = encode_header(
            kind=kind if seq == 4 else Kind.ENTRIES,
            segment=1,
            seq=seq,
            synced_seq=seq - 1,
            prev_crc=crc,
            hard_state=hard(1),
            first_index=first if seq == 4 else last.index + 1,
            last=last,
            body=body if seq == 4 else b"",
        )
        pieces = (header, body) if seq == 4 else (header,)
        disk.write(FIRST, end, *pieces)
        end += sum(map(len, pieces))


@pytest.mark.parametrize("kind", [Kind.HEAD, Kind.ENTRIES])
def test_a_body_that_makes_no_sense_is_rot(kind: int) -> None:
    disk = VirtualDisk()
    new_wal(disk, 4096)
    _append_raw(disk, kind, b"\xc1 nonsense", 1, Position(1, 1))
    _, found = open_wal(disk, None, 4096)
    assert (found.identity, found.entries, found.suspect) == (IDENTITY, [], Position(1, 1))


def test_sound_records_with_a_hole_between_them_are_suspect() -> None:
    disk = VirtualDisk()
    new_wal(disk, 4096)
    _append_raw(disk, Kind.ENTRIES, encode_entries([entry(3)]), 3, Position(1, 3))
    for _ in range(2):
        _, found = open_wal(disk, None, 4096)
        assert (found.entries, found.suspect) == ([], Position(1, 3))


def test_a_disk_that_fails_while_it_is_mended_stops_the_member() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk, 4096)
    wal.append(hard(1), [entry(1)])
    disk.rot(FIRST, len(disk.read(FIRST, 0, 4096).rstrip(b"\0")) - 1, 0)
    disk.fail_next_write = True
    with pytest.raises(DiskError) as caught:
        open_wal(disk, None, 4096)
    assert caught.value.code is ErrorCode.DISK_FAILED
    assert open_wal(disk, None, 4096)[1].torn
