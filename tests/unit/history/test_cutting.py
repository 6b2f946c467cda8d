from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.history.cutting import SegmentFile
from rollq.history.segments import Segments
from rollq.testing.disk import VirtualDisk
from tests.effort import examples

FIRST = 100


def _lines(counts: list[int], width: int) -> list[bytes]:
    """So many lines of every index from FIRST on, of different lengths."""
    return [
        b'{"index":%d,"ordinal":%d,"detail":"%b"}' % (FIRST + n, k, b"x" * (width * (n + k) % 97))
        for n, count in enumerate(counts)
        for k in range(count)
    ]


def _sealed(lines: list[bytes], last: int) -> SegmentFile:
    disk = VirtualDisk()
    Segments(disk).seal(FIRST, last, lines)
    return SegmentFile(disk, FIRST, last)


@settings(max_examples=examples(150))
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=40),
    st.integers(1, 900),
    st.integers(0, 20),
    st.data(),
)
def test_pieces_are_whole_indexes_in_order(
    counts: list[int], piece_bytes: int, width: int, data: st.DataObject
) -> None:
    lines = _lines(counts, width)
    end = FIRST + len(counts) - 1
    first = data.draw(st.integers(FIRST, end))
    last = data.draw(st.integers(first, end + 3))
    expected = [
        line
        for line in lines
        if first <= int(line.split(b",")[0].removeprefix(b'{"index":')) <= last
    ]
    at, text = first, b""
    for begin, finish, piece in _sealed(lines, end).pieces(first, last, piece_bytes):
        assert begin == at
        inside = {int(line.split(b",")[0][9:]) for line in piece.splitlines()}
        assert all(begin <= index <= finish for index in inside)
        at, text = finish + 1, text + piece
    assert at == min(last, end) + 1
    assert text == b"".join(line + b"\n" for line in expected)


def test_an_index_is_found_in_a_long_file() -> None:
    counts = [index % 3 for index in range(30_000)]
    lines = _lines(counts, 7)
    segment = _sealed(lines, FIRST + len(counts) - 1)
    for number in (1, 2, 14_999, 15_000, 29_999):
        [(first, last, piece)] = segment.pieces(FIRST + number, FIRST + number, 1 << 20)
        assert (first, last) == (FIRST + number, FIRST + number)
        prefix = b'{"index":%d,' % (FIRST + number)
        assert piece.splitlines() == [line for line in lines if line.startswith(prefix)]


def test_pieces_are_about_as_long_as_asked_for() -> None:
    segment = _sealed(_lines([1] * 5_000, 7), FIRST + 4_999)
    sizes = [len(piece) for _, _, piece in segment.pieces(FIRST, FIRST + 4_999, 10_000)]
    assert all(5_000 < size <= 10_000 for size in sizes[:-1])


def test_a_segment_without_lines_is_one_empty_piece() -> None:
    assert list(_sealed([], FIRST + 9).pieces(FIRST + 3, FIRST + 20, 100)) == [
        (FIRST + 3, FIRST + 9, b"")
    ]
