from __future__ import annotations

import pytest

from rollq.base.jobs import AttemptRef
from rollq.testing.checkers.base import Violation
from rollq.testing.clock import (
    EPOCH_MS,
    EVENTS_PER_SECOND_MAX,
    MS,
    SECOND,
    VirtualClock,
    VirtualTimeline,
)
from rollq.testing.jitter import Streams
from rollq.testing.trace import Trace


def test_things_happen_in_time_and_equal_times_in_order() -> None:
    timeline = VirtualTimeline()
    seen: list[tuple[str, int]] = []
    for name, at_us in (("late", 30), ("a", 10), ("b", 10), ("never", 99)):
        timeline.after(at_us, lambda name=name: seen.append((name, timeline.now_us)))
    timeline.after(10, lambda: timeline.after(5, lambda: seen.append(("nested", timeline.now_us))))
    timeline.run_until(40)
    assert seen == [("a", 10), ("b", 10), ("nested", 15), ("late", 30)]
    assert timeline.now_us == 40
    assert timeline.event_count == 5


def test_a_storm_is_a_violation_and_the_same_work_spread_is_not() -> None:
    def again(every_us: int, left: int) -> None:
        if left:
            timeline.after(every_us, again, every_us, left - 1)

    timeline = VirtualTimeline()
    again(10, 2 * EVENTS_PER_SECOND_MAX)
    timeline.run_until(10 * SECOND)
    again(0, 2 * EVENTS_PER_SECOND_MAX)
    with pytest.raises(Violation, match="storm"):
        timeline.run_until(20 * SECOND)


def test_a_clock_drifts_jumps_and_leaps_after_a_sleep() -> None:
    timeline = VirtualTimeline()
    clock = VirtualClock(timeline, drift_ppm=1_000, base_ms=7)
    timeline.run_until(10 * SECOND)
    assert clock.now_ms() == 7 + 10_010
    assert clock.wall_ms() == EPOCH_MS + 10_010
    clock.jump(-3_600_000)
    assert clock.wall_ms() == EPOCH_MS + 10_010 - 3_600_000
    assert clock.now_ms() == 10_017
    clock.correct()
    clock.stall(500)
    assert clock.now_ms() == 10_517
    assert clock.wall_ms() == EPOCH_MS + 10_010


def test_streams_do_not_move_each_other() -> None:
    one, two = Streams(5), Streams(5)
    one.net.draw(0, 1_000)
    assert [one.disk.draw(0, 1 << 30) for _ in range(5)] == [
        two.disk.draw(0, 1 << 30) for _ in range(5)
    ]
    assert Streams(6).disk.draw(0, 1 << 30) != Streams(5).disk.draw(0, 1 << 30)
    assert all(3 <= two.net.draw(3, 5) < 5 for _ in range(100))
    assert not any(two.net.chance(0) for _ in range(100))
    assert all(two.net.chance(1_000) for _ in range(100))


def test_a_trace_is_readable_and_bounded_per_value() -> None:
    timeline = VirtualTimeline()
    trace = Trace(timeline)
    timeline.run_until(1_500 * MS)
    trace.note("w1", "holds", AttemptRef(bytes(range(16)), 2, 3), b"12345", [1] * 9, None)
    (line,) = trace.lines(10)
    assert line.startswith("  1.500000 w1       holds")
    assert "AttemptRef(job_id=0001020f attempt=2 fence=3)" in line
    assert "<5 bytes>" in line
    assert "[1,1,1,1,1,1,…]" in line
