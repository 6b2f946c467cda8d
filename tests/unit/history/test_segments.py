from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.history import lines_file as module
from rollq.history.segments import Segments, name_of
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import Chance, Story, crash_everywhere


def _line(index: int, text: str = "x") -> bytes:
    return f'{{"index":{index},"text":"{text}"}}'.encode()


def _sealed(disk: VirtualDisk, *ranges: tuple[int, int]) -> Segments:
    segments = Segments(disk)
    for first, last in ranges:
        segments.seal(first, last, [_line(index) for index in range(first, last + 1)])
    return segments


def test_sealed_lines_are_read_back_by_range() -> None:
    disk = VirtualDisk()
    _sealed(disk, (1, 5), (6, 9))
    disk.crash(Chance(0))
    segments = Segments(disk)
    assert list(segments.read(1, 9)) == [_line(index) for index in range(1, 10)]
    assert list(segments.read(4, 7)) == [_line(index) for index in range(4, 8)]
    assert list(segments.read(10, 20)) == []
    assert segments.covered_to() == 9
    assert len(segments.names()) == 2


def test_several_lines_of_an_index_and_none_at_all() -> None:
    segments = Segments(VirtualDisk())
    segments.seal(3, 6, [_line(4, "a"), _line(4, "b"), _line(6)])
    segments.seal(7, 8, [])
    assert list(segments.chunks(1, 9)) == [
        (3, []),
        (4, [_line(4, "a"), _line(4, "b")]),
        (5, []),
        (6, [_line(6)]),
        (7, []),
        (8, []),
    ]
    assert list(segments.chunks(4, 5)) == [(4, [_line(4, "a"), _line(4, "b")]), (5, [])]


def test_gaps_and_what_is_covered() -> None:
    segments = Segments(VirtualDisk())
    assert segments.gaps(4) == [(1, 4)]
    assert segments.gaps(0) == []
    segments.seal(3, 5, [])
    segments.seal(8, 9, [])
    assert segments.gaps(12) == [(1, 2), (6, 7), (10, 12)]
    assert segments.gaps(6) == [(1, 2), (6, 6)]
    assert segments.gaps(1) == [(1, 1)]
    assert segments.covered_to() == 0
    segments.seal(1, 6, [])
    assert segments.covered_to() == 6
    assert segments.gaps(9) == [(7, 7)]


def test_overlapping_segments_give_each_line_once() -> None:
    segments = _sealed(VirtualDisk(), (1, 4), (3, 8), (2, 3))
    assert list(segments.read(1, 8)) == [_line(index) for index in range(1, 9)]


def test_sealing_again_is_a_no_op_and_mends_a_damaged_one() -> None:
    disk = VirtualDisk()
    segments = _sealed(disk, (1, 3))
    ops = disk.op_count
    segments.seal(1, 3, [])
    assert disk.op_count == ops
    disk.rot(name_of(1, 3), 10, 0)
    segments.seal(1, 3, [_line(1)])
    assert segments.damaged == [name_of(1, 3)]
    assert list(segments.read(1, 3)) == [_line(1)]


@pytest.mark.parametrize(
    "lines",
    [
        [_line(0)],
        [_line(4)],
        [_line(2), _line(1)],
        [b"{}"],
        [b'{"index":x}'],
        [_line(1) + b"\n"],
    ],
)
def test_lines_that_do_not_belong_are_our_bug(lines: list[bytes]) -> None:
    segments = Segments(VirtualDisk())
    with pytest.raises(LocalError):
        segments.seal(1, 3, lines)
    assert segments.names() == []


def test_every_flipped_bit_makes_a_gap() -> None:
    disk = VirtualDisk()
    _sealed(disk, (1, 2), (3, 4), (5, 6))
    image = disk.snapshot()
    name = name_of(3, 4)
    for place in range(disk.size(name) * 8):
        disk.restore(image)
        disk.rot(name, place // 8, place % 8)
        segments = Segments(disk)
        read: list[bytes] = []
        with pytest.raises(DiskError) as caught:
            read.extend(segments.read(1, 6))
        assert caught.value.code is ErrorCode.DISK_CORRUPT
        assert segments.gaps(6) == [(3, 4)]
        assert disk.names("broken") == ["history-" + name.removeprefix("history/")]


def test_every_cut_makes_a_gap() -> None:
    disk = VirtualDisk()
    _sealed(disk, (1, 2))
    image = disk.snapshot()
    for length in range(disk.size(name_of(1, 2))):
        disk.restore(image)
        disk.truncate(name_of(1, 2), length)
        segments = Segments(disk)
        assert segments.scrub() == [name_of(1, 2)]
        assert segments.gaps(2) == [(1, 2)]
        assert segments.scrub() == []


def test_a_newer_format_stops_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = VirtualDisk()
    monkeypatch.setattr(module, "VERSION", 2)
    _sealed(disk, (1, 2))
    monkeypatch.undo()
    with pytest.raises(DiskError) as caught:
        Segments(disk).scrub()
    assert caught.value.code is ErrorCode.DISK_VERSION


def test_long_segments_are_written_and_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 64)
    segments = _sealed(VirtualDisk(), (1, 50))
    assert list(segments.read(1, 50)) == [_line(index) for index in range(1, 51)]


def test_other_names_are_ignored() -> None:
    disk = VirtualDisk()
    for name in ("history/1-x.jsonl", "history/notes.txt", "history/12.jsonl"):
        disk.write(name, 0, b"x")
    assert Segments(disk).names() == []


def _seal_three(disk: VirtualDisk, story: Story) -> None:
    segments = Segments(disk)
    story.wrote(())
    lines: tuple[bytes, ...] = ()
    for first in (1, 4, 7):
        lines += tuple(_line(index, "y" * 300) for index in range(first, first + 3))
        story.wrote(lines)
        segments.seal(first, first + 2, lines[first - 1 :])
        story.synced()


def test_a_crash_at_every_disk_call_of_sealing() -> None:
    crashes = crash_everywhere(
        _seal_three, lambda disk: tuple(Segments(disk).read(1, 99)), seeds=20
    )
    assert crashes >= 300
