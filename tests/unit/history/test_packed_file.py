"""Segments of packed events: whole or not at all, read by range, and beside their lines."""

from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.grid.events import Event, Run
from rollq.history import packed, packed_file
from rollq.history.packed import PackedIndex, pack
from rollq.history.segments import Segments, columns_name, name_of, packed_name
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import Chance, Story, crash_everywhere


def _index(index: int, jobs: int = 3) -> PackedIndex:
    """What one entry left: every fifth nothing, else two events, one of them of a run."""
    if index % 5 == 0:
        return pack(index, 1_000 + index, [])
    run = Run(b"".join((100 * index + n).to_bytes(16, "big") for n in range(jobs)))
    events = [Event("enqueue", queue="q", run=run), Event("worker_up", detail="w" * 40)]
    return pack(index, 1_000 + index, events)


def _lines(first: int, last: int) -> list[bytes]:
    return [line for index in range(first, last + 1) for line in _index(index).lines()]


def _sealed(disk: VirtualDisk, *ranges: tuple[int, int]) -> Segments:
    segments = Segments(disk)
    for first, last in ranges:
        segments.seal_packed(first, last, map(_index, range(first, last + 1)))
    return segments


@pytest.fixture(params=[200, 512 * 1024])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of an index or two, and one block."""
    monkeypatch.setattr(packed_file, "BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("_blocks")
def test_what_was_sealed_packed_is_read_as_lines_by_range() -> None:
    disk = VirtualDisk()
    _sealed(disk, (1, 12), (13, 19))
    disk.crash(Chance(0))
    segments = Segments(disk)
    assert list(segments.read(1, 19)) == _lines(1, 19)
    assert list(segments.read(4, 14)) == _lines(4, 14)
    assert list(segments.read(20, 30)) == []
    chunks = list(segments.chunks(4, 14))
    assert [index for index, _ in chunks] == list(range(4, 15))
    assert dict(chunks)[5] == []
    assert (segments.covered_to(), segments.gaps(20)) == (19, [(20, 20)])
    assert segments.newest_ms(13, 19) == 1_019


def test_indexes_that_are_left_out_are_covered() -> None:
    segments = Segments(VirtualDisk())
    segments.seal_packed(1, 9, [_index(2), _index(6)])
    segments.seal_packed(10, 12, [])
    assert [index for index, lines in segments.chunks(1, 12) if lines] == [2, 6]
    assert [index for index, _ in segments.chunks(1, 12)] == list(range(1, 13))
    assert segments.gaps(12) == []
    assert segments.newest_ms(10, 12) == 0


def test_what_was_compressed_in_memory_is_sealed_as_any_other() -> None:
    large = _index(1, jobs=3_000)
    assert len(large.packed) < large.packed_bytes
    segments = Segments(VirtualDisk())
    segments.seal_packed(1, 1, [large])
    assert list(segments.read(1, 1)) == large.lines()
    footer = segments.packed(1, 1)
    assert footer is not None
    assert footer.blocks[0].plain_bytes > large.packed_bytes


def test_packed_and_lines_of_different_ranges_are_one_history() -> None:
    segments = Segments(VirtualDisk())
    segments.seal(1, 4, _lines(1, 4))
    segments.seal_packed(5, 8, map(_index, range(5, 9)))
    segments.seal(9, 12, _lines(9, 12))
    assert list(segments.read(1, 12)) == _lines(1, 12)
    assert segments.ranges() == [(1, 4), (5, 8), (9, 12)]


def test_lines_beside_a_packed_segment_are_a_copy_and_serve_when_it_is_damaged() -> None:
    disk = VirtualDisk()
    segments = _sealed(disk, (1, 4))
    segments.seal(1, 4, _lines(1, 4))
    assert segments.ranges() == [(1, 4)]
    disk.write(columns_name(1, 4), 0, b"arrow")
    all_bytes = disk.size(packed_name(1, 4)) + disk.size(name_of(1, 4)) + len(b"arrow")
    assert segments.sizes() == [(1, 4, all_bytes)]
    assert list(segments.read(1, 4)) == _lines(1, 4)
    disk.rot(packed_name(1, 4), 30, 0)
    assert list(segments.read(1, 4)) == _lines(1, 4)
    assert segments.damaged == [packed_name(1, 4)]
    assert segments.gaps(4) == []
    assert segments.newest_ms(1, 4) == 1_004


def test_both_files_of_a_segment_go_at_once() -> None:
    disk = VirtualDisk()
    segments = _sealed(disk, (1, 4), (5, 8))
    segments.seal(1, 4, _lines(1, 4))
    segments.forget(4)
    assert segments.names() == [packed_name(5, 8).removeprefix("history/")]


def test_sealing_again_is_a_no_op_and_mends_a_damaged_one() -> None:
    disk = VirtualDisk()
    segments = _sealed(disk, (1, 3))
    ops = disk.op_count
    _sealed(disk, (1, 3))
    assert disk.op_count == ops
    disk.rot(packed_name(1, 3), 10, 0)
    segments.seal_packed(1, 3, [_index(1)])
    assert segments.damaged == [packed_name(1, 3)]
    assert list(segments.read(1, 3)) == _index(1).lines()


@pytest.mark.usefixtures("_blocks")
def test_every_flipped_bit_makes_a_gap() -> None:
    disk = VirtualDisk()
    _sealed(disk, (1, 2), (3, 8), (9, 10))
    image = disk.snapshot()
    name = packed_name(3, 8)
    for place in range(disk.size(name) * 8):
        disk.restore(image)
        disk.rot(name, place // 8, place % 8)
        segments = Segments(disk)
        with pytest.raises(DiskError) as caught:
            list(segments.read(1, 10))
        assert caught.value.code is ErrorCode.DISK_CORRUPT
        assert segments.gaps(10) == [(3, 8)]
        assert disk.names("broken") == ["history-" + name.removeprefix("history/")]


@pytest.mark.usefixtures("_blocks")
def test_every_cut_makes_a_gap() -> None:
    disk = VirtualDisk()
    _sealed(disk, (1, 4))
    image = disk.snapshot()
    for length in range(disk.size(packed_name(1, 4))):
        disk.restore(image)
        disk.truncate(packed_name(1, 4), length)
        segments = Segments(disk)
        assert segments.newest_ms(1, 4) is None
        assert segments.scrub() == [packed_name(1, 4)]
        assert segments.gaps(4) == [(1, 4)]
        assert segments.scrub() == []


def test_a_file_under_the_name_of_another_is_damaged() -> None:
    disk = VirtualDisk()
    segments = _sealed(disk, (1, 4))
    disk.rename(packed_name(1, 4), packed_name(1, 5))
    assert segments.scrub() == [packed_name(1, 5)]


def test_a_newer_format_stops_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = VirtualDisk()
    monkeypatch.setattr(packed_file, "VERSION", 2)
    _sealed(disk, (1, 2))
    monkeypatch.undo()
    with pytest.raises(DiskError) as caught:
        Segments(disk).scrub()
    assert caught.value.code is ErrorCode.DISK_VERSION


def test_a_large_segment_is_synced_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_file, "SYNC_BYTES", 256)
    monkeypatch.setattr(packed_file, "BLOCK_BYTES", 200)
    disk = VirtualDisk()
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync", synced.append)
    _sealed(disk, (1, 40))
    assert len(synced) > 5


def _seal_three(disk: VirtualDisk, story: Story) -> None:
    segments = Segments(disk)
    story.wrote(())
    for first in (1, 5, 9):
        story.wrote(tuple(_lines(1, first + 3)))
        segments.seal_packed(first, first + 3, map(_index, range(first, first + 4)))
        story.synced()


def test_a_crash_at_every_disk_call_of_sealing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_file, "BLOCK_BYTES", 200)
    crashes = crash_everywhere(
        _seal_three, lambda disk: tuple(Segments(disk).read(1, 99)), seeds=20
    )
    assert crashes >= 300


def test_a_reader_that_does_not_know_runs_gets_the_same_facts() -> None:
    index = _index(7, jobs=2_000)
    plain = index.without_runs()
    assert plain.lines() == index.lines()
    assert [event for event in plain.events() if event.run is not None] == []
    alone = pack(8, 5, [Event("worker_up")])
    assert alone.without_runs() is alone
    assert packed.pack(9, 5, []).without_runs().lines() == []
