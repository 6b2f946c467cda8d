"""The mark beside the log: rot of the last page is told from a torn write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.raft.types import HardState, Position
from rollq.store.disk import Disk
from rollq.store.real_disk import RealDisk
from rollq.store.synced import NAME, SLOT_BYTES, Vouched, read_vouched, write_vouched
from rollq.store.wal import Wal
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import IDENTITY, entry

SEGMENT = "wal/000000000001.log"
SEGMENT_BYTES = 16 * 1024
COUNT = 20


@pytest.fixture(params=["virtual", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "virtual":
        yield VirtualDisk()
        return
    real = RealDisk(tmp_path / "state")
    yield real
    real.close()


def filled(disk: Disk) -> Wal:
    wal, _ = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    wal.create_identity(IDENTITY)
    for index in range(1, COUNT + 1):
        wal.append(HardState(1, 7, index - 1), [entry(index)])
        wal.sync()
    return wal


def end_of(disk: Disk) -> int:
    return len(disk.read(SEGMENT, 0, SEGMENT_BYTES).rstrip(b"\0"))


def flip(disk: Disk, begin: int, end: int) -> None:
    damaged = bytes(byte ^ 0x55 for byte in disk.read(SEGMENT, begin, end - begin))
    disk.write(SEGMENT, begin, damaged)
    disk.sync(SEGMENT)


@pytest.mark.parametrize("size", [1, 50, 96, 500, 4_096])
@pytest.mark.parametrize("damage", ["flipped", "zeroed"])
def test_rot_of_the_last_page_after_a_clean_stop_is_told(
    disk: Disk, size: int, damage: str
) -> None:
    filled(disk).close()
    end = end_of(disk)
    begin = max(0, end - size)
    if damage == "flipped":
        flip(disk, begin, end)
    else:
        disk.write(SEGMENT, begin, bytes(end - begin))
    if begin == 0:  # the identity went with it
        with pytest.raises(DiskError) as caught:
            Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
        assert caught.value.code is ErrorCode.DISK_CORRUPT
        return
    _, found = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    assert not found.torn
    is_whole = len(found.entries) == COUNT
    assert (found.suspect is None) == is_whole
    assert found.suspect in (None, Position(1, COUNT))
    assert found.hard_state.term == 1
    assert found.hard_state.vote == 7
    if size >= 500:
        assert not is_whole


def test_every_bit_of_the_tail_is_vouched_for() -> None:
    """Whichever byte of the last records rots, nothing is lost without a word."""
    sound = VirtualDisk()
    filled(sound).close()
    end = end_of(sound)
    for place in range(end - 400, end):
        disk = VirtualDisk()
        disk.restore(sound.snapshot())
        disk.rot(SEGMENT, place, place % 8)
        _, found = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
        assert len(found.entries) == COUNT or found.suspect == Position(1, COUNT), place


def test_a_member_that_found_rot_does_not_forget_it() -> None:
    disk = VirtualDisk()
    filled(disk).close()
    flip(disk, end_of(disk) - 600, end_of(disk))
    for _ in range(3):
        wal, found = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
        assert found.suspect == Position(1, COUNT)
        wal.close()


def test_what_is_newer_than_the_mark_may_be_torn(disk: Disk) -> None:
    wal = filled(disk)
    wal.vouch()
    vouched = end_of(disk)
    wal.append(HardState(1, 7, COUNT), [entry(COUNT + 1)])  # never synced, never acknowledged
    flip(disk, vouched + 50, end_of(disk))
    _, found = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    assert found.torn
    assert found.suspect is None
    assert len(found.entries) == COUNT


def test_a_promise_of_term_and_vote_outlives_the_record_that_held_it(disk: Disk) -> None:
    wal = filled(disk)
    before = end_of(disk)
    wal.append(HardState(5, 9, COUNT), [])
    wal.close()
    flip(disk, before, end_of(disk))
    _, found = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    assert (found.hard_state.term, found.hard_state.vote) == (5, 9)
    assert len(found.entries) == COUNT
    assert found.suspect is None


def test_a_mark_costs_nothing_while_nothing_is_new() -> None:
    disk = VirtualDisk()
    wal = filled(disk)
    wal.vouch()
    written = disk.snapshot()
    wal.vouch()
    assert disk.snapshot() == written


def test_one_slot_is_enough(disk: Disk) -> None:
    for seq in (1, 2, 3):
        write_vouched(disk, Vouched(seq, 1, 7, Position(1, seq)))
    assert read_vouched(disk).seq == 3
    disk.write(NAME, 0, b"\0" * 20)  # the third is in the first slot
    assert read_vouched(disk).seq == 2
    disk.write(NAME, SLOT_BYTES, b"\0" * 20)
    assert read_vouched(disk) == Vouched()


def test_a_mark_of_a_newer_rollq_stops_the_member(disk: Disk) -> None:
    write_vouched(disk, Vouched(1, 1, 7, Position(1, 1)))
    data = bytearray(disk.read(NAME, 0, 48))
    data[4] = 2
    disk.write(NAME, 0, bytes(data) + crc32(bytes(data)).to_bytes(4, "little"))
    with pytest.raises(DiskError) as caught:
        read_vouched(disk)
    assert caught.value.code is ErrorCode.DISK_VERSION
