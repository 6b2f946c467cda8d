"""Load generators: how many are outstanding, and that they end."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from bench import window
from bench.window import (
    Recorder,
    drive,
    drive_async,
    drive_calls,
    drive_until,
    fill_s,
    keep_busy,
)


class Echo:
    """Acks everything that was sent, some at a time."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self.waiting = 0
        self.most = 0

    def send(self, count: int) -> None:
        self.waiting += count
        self.most = max(self.most, self.waiting)

    def acked(self) -> int:
        count = min(self._at_once, self.waiting)
        self.waiting -= count
        return count


def test_a_pipeline_keeps_its_window_and_ends_empty() -> None:
    echo = Echo(at_once=3)
    rate = drive(echo, window=10, seconds=0)
    assert (echo.most, echo.waiting) == (10, 0)
    assert rate.count == len(rate.latencies_s) >= 40
    assert rate.per_s > 0
    assert [sample.figure for sample in rate.samples(10)] == [
        "submit10_per_s",
        "submit10_p50_ms",
        "submit10_p99_ms",
    ]


def test_a_pipeline_is_bounded_in_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "COUNT_MAX", 25)
    assert 25 <= drive(Echo(at_once=2), window=10, seconds=60).count <= 27


def test_coroutines_keep_their_window() -> None:
    outstanding = most = 0

    async def submit() -> None:
        nonlocal outstanding, most
        outstanding += 1
        most = max(most, outstanding)
        await asyncio.sleep(0)
        outstanding -= 1

    rate = asyncio.run(drive_async(submit, 5, 0))
    assert (most, outstanding) == (5, 0)
    assert rate.count == 20


def test_coroutines_are_bounded_in_count() -> None:
    async def submit() -> None:
        await asyncio.sleep(0)

    assert asyncio.run(drive_async(submit, 5, 60, count_max=5)).count == 5


def test_one_after_the_other_until_something_else_is_over() -> None:
    calls: list[int] = []

    async def submit() -> None:
        calls.append(1)

    rate = asyncio.run(drive_until(submit, lambda: len(calls) == 3, 60))
    assert rate.count == len(rate.latencies_s) == 3


def test_a_recorded_load_is_told_by_parts() -> None:
    now = 100.0
    seen = Recorder(lambda: now)
    for number in range(32):  # eight a second for two seconds, then four, which take longer
        now += 0.125 if number < 16 else 0.25
        seen.add(now, 0.01 if number < 16 else 0.05)
    rate = seen.rate()
    assert (rate.count, rate.seconds) == (32, 6.0)
    first, last = rate.part(0, 2), rate.part(2, 6)
    assert (first.count, last.count) == (16, 16)
    assert (first.per_s, last.per_s) == (8, 4)
    assert (round(first.ms(0.99)), round(last.ms(0.99))) == (10, 50)


def test_what_is_only_counted_has_no_latency() -> None:
    seen = Recorder(lambda: 0.0)
    seen.count(0.5)
    seen.time(0.25)
    seen.count(0.6)
    assert (seen.rate().count, list(seen.rate().latencies_s)) == (2, [0.25])


def test_calls_come_one_after_the_other() -> None:
    calls: list[int] = []
    rate = drive_calls(lambda: calls.append(1), 0.001)
    assert rate.count == len(calls) > 0


def test_a_busy_peer_gets_all_its_jobs_and_no_more_than_its_window() -> None:
    waiting: deque[int] = deque()
    left = 30
    most = 0

    def submit() -> None:
        nonlocal left, most
        left -= 1
        waiting.append(left)
        most = max(most, len(waiting))

    def collect() -> int:
        waiting.popleft()
        return 1

    assert keep_busy(submit, collect, 7, 60, lambda: left > 0).count == 30
    assert (left, len(waiting), most) == (0, 0, 7)


def test_a_fill_stores_exactly_as_many_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "FILL_WINDOW", 8)
    stored = 0

    class Counting(Echo):
        def acked(self) -> int:
            nonlocal stored
            count = super().acked()
            assert count, "nothing is on the way, so this would wait for ever"
            stored += count
            return count

    for count in (0, 1, 7, 8, 9, 50):
        stored = 0
        echo = Counting(at_once=3)
        assert fill_s(echo, count) >= 0
        assert (stored, echo.waiting) == (count, 0)
        assert echo.most <= 8
