"""Deadlines on a loop whose time the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rollq.roles.client.engine.base import Deadlines


class HandLoop:
    """The part of a loop that timers need."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[HandTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[..., None], *args: Any) -> HandTimer:
        timer = HandTimer(at, call, args)
        self.timers.append(timer)
        return timer

    def call_later(self, seconds: float, call: Callable[..., None], *args: Any) -> HandTimer:
        return self.call_at(self.now + seconds, call, *args)

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        due = [one for one in self.timers if one.at <= self.now]
        self.timers = [one for one in self.timers if one.at > self.now]
        for timer in due:
            if not timer.is_cancelled:
                timer.call(*timer.args)

    @property
    def armed(self) -> list[float]:
        return [one.at for one in self.timers if not one.is_cancelled]


class HandTimer:
    def __init__(self, at: float, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.at = at
        self.call = call
        self.args = args
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandFuture:
    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.ended = 0

    def get_loop(self) -> HandLoop:
        return self._loop

    def done(self) -> bool:
        return bool(self.ended)

    def set_result(self, result: None) -> None:
        self.ended += 1


def test_each_ends_in_its_time_with_one_timer() -> None:
    loop = HandLoop()
    deadlines = Deadlines()
    futures: list[Any] = [HandFuture(loop) for _ in range(4)]
    for future, seconds in zip(futures, (30, 10, 20, 30), strict=True):
        deadlines.add(future, seconds)
    assert loop.armed == [110.0]
    deadlines.remove(futures[2])
    loop.pass_(10)
    assert [one.ended for one in futures] == [0, 1, 0, 0]
    assert loop.armed == [130.0]
    deadlines.remove(futures[1])
    futures[3].ended = 1  # answered, and not yet removed
    loop.pass_(20)
    assert [one.ended for one in futures] == [1, 1, 0, 1]
    assert loop.armed == []


def test_what_comes_after_a_quiet_time_is_watched_too() -> None:
    loop = HandLoop()
    deadlines = Deadlines()
    first: Any = HandFuture(loop)
    deadlines.add(first, 5)
    deadlines.remove(first)
    loop.pass_(5)
    assert loop.armed == []
    second: Any = HandFuture(loop)
    deadlines.add(second, 5)
    deadlines.stop()
    assert loop.armed == []
    deadlines.add(second, 7)
    loop.pass_(7)
    assert (first.ended, second.ended) == (0, 1)
