"""History goes by size and by age, oldest first, and never from under a reader."""

from __future__ import annotations

import pytest

from rollq.history.retention import DAY_MS, Retention
from rollq.history.segments import Segments
from rollq.testing.disk import VirtualDisk
from rollq.testing.faults import SimulatedCrash

NOW_MS = 100 * DAY_MS


def row(index: int, ts: int) -> bytes:
    """A line as long as any other."""
    return b'{"index":%d,"ordinal":0,"ts":%d,"type":"ack"}' % (index, ts)


def history(disk: VirtualDisk) -> Segments:
    """Ten segments of ten indexes, one a day; the last is of today. The fifth has no rows."""
    segments = Segments(disk)
    for number in range(10):
        first = 1 + number * 10
        stamp_ms = NOW_MS - (9 - number) * DAY_MS
        lines = [] if number == 4 else [row(first + n, stamp_ms) for n in range(10)]
        segments.seal(first, first + 9, lines)
    return segments


def kept(segments: Segments) -> list[int]:
    """The first indexes of what is left."""
    return [first for first, _, _ in segments.sizes()]


def test_without_bounds_everything_stays() -> None:
    segments = history(VirtualDisk())
    assert not Retention().is_bounded
    assert Retention().sweep(segments, NOW_MS) == 0
    assert len(kept(segments)) == 10


@pytest.mark.parametrize(
    ("days", "left"),
    [(20, 10), (9, 10), (8, 9), (6, 7), (5, 5), (4, 5), (0, 1)],  # the fifth goes with the fourth
)
def test_by_age(days: int, left: int) -> None:
    segments = history(VirtualDisk())
    floor = Retention(age_ms_max=days * DAY_MS or 1).sweep(segments, NOW_MS)
    assert (len(kept(segments)), floor) == (left, 10 * (10 - left))


def test_by_size() -> None:
    segments = history(VirtualDisk())
    size = segments.sizes()[-1][2]
    assert Retention(bytes_max=3 * size).sweep(segments, NOW_MS) == 70
    assert kept(segments) == [71, 81, 91]
    assert Retention(bytes_max=3 * size).sweep(segments, NOW_MS) == 70


def test_a_reader_holds_back_what_it_has_not_read() -> None:
    segments = history(VirtualDisk())
    assert Retention(bytes_max=1).sweep(segments, NOW_MS, hold_from=25) == 20
    assert kept(segments)[0] == 21
    assert Retention(bytes_max=1).sweep(segments, NOW_MS, hold_from=31) == 30
    assert Retention(bytes_max=1).sweep(segments, NOW_MS) == 100


def test_what_went_is_no_gap() -> None:
    segments = history(VirtualDisk())
    Retention(bytes_max=1).sweep(segments, NOW_MS, hold_from=41)
    assert segments.gaps(120) == [(101, 120)]
    assert segments.gaps(30) == []
    assert segments.covered_to() == 100
    assert [line[:12] for line in segments.read(1, 60)][:1] == [b'{"index":51,']


def test_a_crash_at_any_call_leaves_no_gap() -> None:
    image = VirtualDisk()
    history(image)
    start = image.op_count
    for steps in range(1, 40):
        disk = VirtualDisk()
        disk.restore(image.snapshot())
        segments = Segments(disk)
        disk.crash_at(disk.op_count + steps)
        try:
            Retention(bytes_max=1).sweep(segments, NOW_MS, hold_from=51)
        except SimulatedCrash:
            disk.kill()
            assert Segments(disk).gaps(100) == []
            assert Retention(bytes_max=1).sweep(Segments(disk), NOW_MS, hold_from=51) == 50
        else:
            assert steps > 5
            break
        assert kept(Segments(disk))[0] == 51
        assert len([name for name in disk.names("history") if name.endswith(".floor")]) == 1
    assert start > 0


def test_a_damaged_segment_does_not_count_as_old() -> None:
    disk = VirtualDisk()
    segments = history(disk)
    name = f"history/{1:020d}-{10:020d}.jsonl"
    disk.truncate(name, 30)
    assert Retention(age_ms_max=8 * DAY_MS).sweep(segments, NOW_MS) == 0
    assert segments.scrub() == [name]
    assert Retention(age_ms_max=7 * DAY_MS).sweep(segments, NOW_MS) == 20
