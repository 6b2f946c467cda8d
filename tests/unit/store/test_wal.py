from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import BROKEN_COPIES_MAX, LIVES_MAX, SEGMENT_BYTES
from rollq.raft.types import Entry, Member, Position, SnapshotMeta
from rollq.store import wal as wal_module
from rollq.store.identity import life_of
from rollq.store.record import HEADER_BYTES
from rollq.store.wal import SMALL_RECORD_BYTES_MAX, ZEROS_AHEAD_BYTES, Wal
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import IDENTITY, Chance, entry, hard, new_wal, open_wal

FIRST = "wal/000000000001.log"


def _filled(disk: VirtualDisk, count: int, segment_bytes: int = 700) -> Wal:
    wal = new_wal(disk, segment_bytes)
    for index in range(1, count + 1):
        wal.append(hard(1, index - 1), [entry(index)])
        wal.sync()
    return wal


def test_an_empty_disk_has_no_identity_and_takes_one_once() -> None:
    disk = VirtualDisk()
    wal, found = open_wal(disk)
    assert (found.identity, found.entries, found.torn) == (None, [], False)
    with pytest.raises(LocalError):
        wal.append(hard(1), [])
    wal.create_identity(IDENTITY)
    assert wal.identity == IDENTITY
    with pytest.raises(DiskError) as caught:
        wal.create_identity(IDENTITY)
    assert caught.value.code is ErrorCode.WRONG_IDENTITY
    disk.crash(Chance(1))
    assert open_wal(disk)[1].identity == IDENTITY


def test_what_was_appended_is_read_back_after_a_kill() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk)
    wal.append(hard(3, 1), [entry(1), entry(2, 3)])
    disk.kill()
    wal, found = open_wal(disk)
    assert (found.hard_state, found.entries) == (hard(3, 1), [entry(1), entry(2, 3)])
    assert wal.last == Position(3, 2)
    disk.crash(Chance(1))  # opening made it durable
    assert open_wal(disk)[1] == found


def test_entries_replace_the_tail() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk)
    wal.append(hard(1), [entry(1), entry(2), entry(3)])
    wal.append(hard(2), [entry(2, 2)])
    assert open_wal(disk)[1].entries == [entry(1), entry(2, 2)]


def test_an_append_with_a_hole_is_our_bug() -> None:
    wal = new_wal(VirtualDisk())
    for entries in ([entry(2)], [entry(0)], [entry(1), entry(3)]):
        with pytest.raises(LocalError):
            wal.append(hard(1), entries)
    wal.append(None, [])  # nothing to do is no batch
    wal.append(None, [entry(1)])
    assert wal.last == Position(1, 1)


def test_boots_notes_and_cluster_survive_rotation_and_compaction() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk, 900)
    assert wal.bump_boot() == 1
    wal.note_peer_boot(8, 3)
    syncs = disk.sync_count
    wal.note_peer_boot(8, 2)  # known better
    assert disk.sync_count == syncs
    wal.join_cluster(b"d" * 16, (Member(7, "a"),))
    for index in range(1, 31):
        wal.append(hard(1), [entry(index)])
    wal.sync()
    wal.compact(29)
    assert wal.segment_count == 1
    _, found = open_wal(disk, SnapshotMeta(29, 1), 900)
    assert found.identity is not None
    assert (found.identity.boot, found.identity.cluster_id) == (1, b"d" * 16)
    assert (found.peer_boots, found.entries) == ({8: 3}, [entry(30)])


def test_rotation_recycles_and_bounds_the_files() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 40)
    wal.compact(30)
    spares = [name for name in disk.names("wal") if name.endswith(".spare")]
    assert len(spares) == 2
    before = disk.used_bytes
    for index in range(41, 46):
        wal.append(None, [entry(index)])
        wal.sync()
    assert disk.used_bytes == before
    _, found = open_wal(disk, SnapshotMeta(30, 1), 700)
    assert found.entries == [entry(index) for index in range(31, 46)]
    assert not found.torn


def test_head_records_alone_rotate_too() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk, 1000)
    for _ in range(50):
        wal.bump_boot()
    assert wal.segment_count > 5
    wal.compact(0)
    assert wal.segment_count == 1
    identity = open_wal(disk, None, 1000)[1].identity
    assert identity is not None
    assert identity.boot == 50


def test_a_batch_larger_than_a_segment_gets_its_own() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk, 700)
    entries = [entry(1), entry(2, 1, 5000), entry(3)]
    for each in entries:
        wal.append(None, [each])
    wal.sync()
    assert open_wal(disk, None, 700)[1].entries == entries
    wal.compact(2)  # a file of an odd size is not recycled
    assert all(disk.size(f"wal/{name}") == 700 for name in disk.names("wal"))


def test_more_entries_than_a_record_may_hold_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_module, "ENTRIES_BYTES_MAX", 100)
    disk = VirtualDisk()
    wal = new_wal(disk)
    entries = [entry(index) for index in range(1, 8)]
    wal.append(hard(2, 7), entries)
    _, found = open_wal(disk)
    assert (found.entries, found.hard_state) == (entries, hard(2, 7))


def test_mark_writes_once() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 1, 4096)
    wal.mark()
    ops = disk.op_count
    wal.mark()
    assert disk.op_count == ops
    wal.append(hard(2), [])
    wal.mark()
    assert disk.op_count == ops + 4  # write, sync, and again for the marker


def test_rot_is_reported_until_it_is_cleared() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 3, 4096)
    wal.mark()
    data = disk.read(FIRST, 0, 4096)
    disk.rot(FIRST, data.index(b"1/2;"), 3)
    for _ in range(3):
        wal, found = open_wal(disk)
        assert (found.entries, found.suspect) == ([entry(1)], Position(1, 3))
        assert found.hard_state.commit == 0  # only what the sound part says of itself
    assert disk.names("broken") == ["wal-000000000001.rot"]
    wal.append(hard(1, 2), [entry(2), entry(3)])
    wal.clear_suspect()
    wal.clear_suspect()
    _, found = open_wal(disk)
    assert (found.entries, found.suspect) == ([entry(index) for index in (1, 2, 3)], None)


def test_a_commit_behind_the_hole_does_not_commit_what_the_hole_replaced() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 1, 4096)
    wal.append(hard(1, 1), [Entry(1, 2, data=b"old")])
    wal.sync()
    wal.append(hard(2, 1), [Entry(2, 2, data=b"replaces it")])
    wal.sync()
    wal.append(hard(2, 2), [])
    wal.sync()
    wal.mark()
    disk.rot(FIRST, disk.read(FIRST, 0, 4096).index(b"replaces it"), 3)
    _, found = open_wal(disk)
    assert found.entries == [entry(1), Entry(1, 2, data=b"old")]
    assert found.suspect == Position(2, 2)
    assert found.hard_state == hard(2, 1)  # term and vote hold, the commit of index 2 does not


def test_what_a_failed_sync_left_in_the_cache_is_durable_once_it_is_read() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 1, 4096)
    wal.append(hard(1), [entry(2)])
    disk.fail_next_sync = True
    with pytest.raises(DiskError):
        wal.sync()
    disk.kill()  # the process dies, the page cache lives on
    _, found = open_wal(disk)
    assert entry(2) in found.entries
    disk.crash(Chance(1))
    _, found = open_wal(disk)
    assert entry(2) in found.entries


def test_rot_below_the_snapshot_harms_nothing() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 5, 4096)
    wal.mark()
    disk.rot(FIRST, disk.read(FIRST, 0, 4096).index(b"1/2;"), 3)
    for _ in range(2):
        _, found = open_wal(disk, SnapshotMeta(2, 1))
        assert (found.entries, found.suspect) == ([entry(3), entry(4), entry(5)], None)
    _, found = open_wal(disk, None)
    assert (found.entries, found.suspect) == ([], Position(1, 5))


def test_rot_of_a_head_copy_is_mended_before_the_other_rots() -> None:
    disk = VirtualDisk()
    _filled(disk, 2, 4096).close()
    for _ in range(40):
        name = f"wal/{disk.names('wal')[-1]}"
        disk.rot(name, 120, 3)
        _, found = open_wal(disk)
        assert (found.identity, found.entries) == (IDENTITY, [entry(1), entry(2)])
        assert found.suspect is None
    assert len(disk.names("broken")) == BROKEN_COPIES_MAX


def test_a_missing_segment_is_rot() -> None:
    disk = VirtualDisk()
    _filled(disk, 12).close()
    disk.remove("wal/000000000002.log")
    _, found = open_wal(disk, None, 700)
    assert found.suspect == Position(1, 12)
    assert found.entries == [entry(index + 1) for index in range(len(found.entries))]
    assert 0 < len(found.entries) < 12


def test_a_log_that_starts_behind_the_snapshot_is_suspect() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 12)
    wal.compact(9)
    for _ in range(2):
        _, found = open_wal(disk, SnapshotMeta(2, 1), 700)
        assert (found.entries, found.suspect) == ([], Position(1, 12))


def test_a_snapshot_of_another_history_voids_the_log() -> None:
    disk = VirtualDisk()
    _filled(disk, 5, 4096)
    snapshot = SnapshotMeta(4, 3)  # the log has term 1 there
    for _ in range(2):
        wal, found = open_wal(disk, snapshot)
        assert (found.entries, found.suspect) == ([], None)
        assert wal.last == Position(3, 4)
    wal.append(hard(3, 4), [entry(5, 3)])
    wal.sync()
    assert open_wal(disk, snapshot)[1].entries == [entry(5, 3)]
    # Without that snapshot the voided entries must not come back.
    _, found = open_wal(disk, None)
    assert (found.entries, found.suspect) == ([], Position(3, 5))


def test_rot_of_the_record_that_voids_the_log_is_seen_through() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 5, 4096)
    start = len(disk.read(FIRST, 0, 4096).rstrip(b"\0"))
    wal.install(SnapshotMeta(9, 2))
    wal.append(None, [entry(10, 2)])
    wal.sync()
    disk.rot(FIRST, start + 96, 0)  # its one byte of body
    _, found = open_wal(disk, SnapshotMeta(9, 2))
    assert (found.entries, found.suspect) == ([entry(10, 2)], None)


def test_data_without_an_identity_is_refused_and_left_alone() -> None:
    disk = VirtualDisk()
    _filled(disk, 3, 4096)
    end = disk.read(FIRST, 0, 4096).index(b"1/1;") - 200
    for offset in range(100, end, 100):
        disk.rot(FIRST, offset, 1)
    image = disk.snapshot()
    with pytest.raises(DiskError) as caught:
        open_wal(disk)
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    assert "state directory" in caught.value.hint
    assert disk.snapshot() == image
    with pytest.raises(DiskError) as caught:
        open_wal(VirtualDisk(), SnapshotMeta(1, 1))
    assert caught.value.code is ErrorCode.DISK_CORRUPT


def test_a_failed_sync_is_final() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 1)
    wal.append(hard(2), [entry(2)])
    disk.fail_next_sync = True
    for _ in range(2):
        with pytest.raises(DiskError) as caught:
            wal.sync()
        assert caught.value.code is ErrorCode.DISK_FAILED
    with pytest.raises(DiskError):
        wal.append(hard(3), [])
    wal.close()  # must not write
    disk.crash(Chance(0))
    assert open_wal(disk, None, 700)[1].entries == [entry(1)]


def test_a_failed_write_is_final() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 1)
    disk.fail_next_write = True
    with pytest.raises(DiskError):
        wal.append(hard(2), [])
    with pytest.raises(DiskError):
        wal.sync()


def test_a_full_disk_loses_nothing_and_starts_without_a_copy() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 3)
    disk.bytes_max = disk.used_bytes
    index = 3
    code = None
    while code is None:
        try:
            wal.append(None, [entry(index + 1)])
            index += 1
        except DiskError as error:
            code = error.code
    assert code is ErrorCode.DISK_FULL
    name = f"wal/{disk.names('wal')[-1]}"
    used = len(disk.read(name, 0, 9999).rstrip(b"\0"))
    disk.rot(name, used - 1, 0)
    _, found = open_wal(disk, None, 700)
    assert found.torn
    assert found.entries == [entry(n) for n in range(1, index)]
    assert disk.names("broken") == []


def test_torn_copies_are_bounded() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk, 1 << 16)
    for index in range(1, BROKEN_COPIES_MAX + 5):
        wal.append(None, [entry(index)])
        wal.append(None, [entry(index + 1)])
        disk.rot(FIRST, len(disk.read(FIRST, 0, 1 << 16).rstrip(b"\0")) - 1, 0)
        wal, found = open_wal(disk, None, 1 << 16)
        assert found.torn
        assert len(found.entries) == index
    assert len(disk.names("broken")) == BROKEN_COPIES_MAX


def test_small_records_go_over_zeros_and_large_ones_are_written_once() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk, SEGMENT_BYTES)
    begun = disk.size(FIRST)
    wal.append(hard(1), [entry(1)])
    assert ZEROS_AHEAD_BYTES <= begun == disk.size(FIRST) < 2 * ZEROS_AHEAD_BYTES
    large = SMALL_RECORD_BYTES_MAX + 1
    for index in range(2, 60):
        wal.append(hard(1), [entry(index, size=large)])
    wal.sync()
    end = disk.size(FIRST)
    assert end - len(disk.read(FIRST, 0, end).rstrip(b"\0")) < 2 * HEADER_BYTES
    wal.append(hard(1), [entry(60)])
    wal.sync()
    assert disk.size(FIRST) >= end + ZEROS_AHEAD_BYTES - HEADER_BYTES
    _, found = open_wal(disk, None, SEGMENT_BYTES)
    assert [one.index for one in found.entries] == list(range(1, 61))


def test_stale_records_of_a_recycled_file_are_not_read() -> None:
    disk = VirtualDisk()
    wal = _filled(disk, 30)
    wal.compact(28)
    wal.append(hard(9), [entry(31)])
    wal.append(hard(9), [entry(32)])
    wal.sync()
    for seed in range(20):
        disk.crash(Chance(seed))
        _, found = open_wal(disk, SnapshotMeta(28, 1), 700)
        assert (found.hard_state.term, found.suspect, found.torn) == (9, None, False)
        assert found.entries[-1] == entry(32)


def test_a_disk_whose_naming_was_torn_can_be_named_again() -> None:
    disk = VirtualDisk()
    disk.write(FIRST, 0, b"torn before its first head was whole")
    wal, found = open_wal(disk, None, 700)
    assert (found.identity, found.torn) == (None, True)
    assert disk.names("broken") == ["wal-000000000001.rot"]
    wal.create_identity(IDENTITY)
    assert wal.segment_count == 1
    wal.append(hard(1), [entry(1)])
    wal.sync()
    wal.compact(1)  # must not touch the segment that is in use
    assert open_wal(disk, None, 700)[1].entries == [entry(1)]


def test_a_disk_remembers_its_last_starts() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk)
    for nonce in range(LIVES_MAX + 5):
        wal.bump_boot(nonce)
    wal, _ = open_wal(disk)
    assert len(wal.lives) == LIVES_MAX
    assert wal.lives[-1] == life_of(LIVES_MAX + 5, LIVES_MAX + 4)
