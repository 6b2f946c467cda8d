"""Handshakes are paced: by a clock that the test moves, and the order in which steps are done."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Any, cast

from rollq.net.handshake_turns import REST_S_MIN, HandshakeTurns

STEP_S = 0.002


class Loop:
    """Timers, and time that passes while steps are done or nothing is to do."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rested_s = 0.0
        self._timers: list[tuple[float, int, Callable[[], Any]]] = []
        self._count = 0

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], Any]) -> None:
        self.call_later(0.0, callback)

    def call_later(self, delay: float, callback: Callable[[], Any]) -> None:
        self._count += 1
        heapq.heappush(self._timers, (self.now + delay, self._count, callback))

    def turn(self) -> None:
        """Until the next callback, which is called."""
        when, _, callback = heapq.heappop(self._timers)
        self.rested_s += max(0.0, when - self.now)
        self.now = max(self.now, when)
        callback()

    def run(self) -> None:
        while self._timers:
            self.turn()


class World:
    """Handshakes on such a loop."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.turns = HandshakeTurns(cast(asyncio.AbstractEventLoop, self.loop), self.loop.time)
        self.done: list[str] = []

    def enter(self, name: str, *, host: str = "a", begun: bool = False, cost_s: float = 0) -> None:
        def step() -> None:
            self.done.append(name)
            self.loop.now += cost_s

        self.turns.enter(host, step, has_begun=begun)


def test_a_turn_of_the_loop_has_one_step() -> None:
    world = World()
    for number in range(3):
        world.enter(f"{number}", cost_s=STEP_S)
    for count in range(4):
        assert len(world.done) == count
        if count < 3:
            world.loop.turn()


def test_others_have_the_loop_for_as_long_as_handshakes() -> None:
    world = World()
    for number in range(50):
        world.enter(f"{number}", cost_s=STEP_S)
    world.loop.run()
    assert len(world.done) == 50
    assert world.loop.rested_s >= 49 * STEP_S * 0.999


def test_a_rest_is_never_too_short_for_a_timer() -> None:
    world = World()
    for number in range(3):
        world.enter(f"{number}", cost_s=REST_S_MIN / 10)
    world.loop.run()
    assert world.loop.rested_s >= 2 * REST_S_MIN * 0.999


def test_a_lone_handshake_does_not_wait() -> None:
    world = World()
    world.enter("hello", cost_s=STEP_S)
    world.loop.run()
    world.loop.now += STEP_S  # as long as its peer takes
    world.enter("finished", begun=True)
    world.loop.run()
    assert world.done == ["hello", "finished"]
    assert world.loop.rested_s == 0


def test_those_that_went_meanwhile_cost_nothing() -> None:
    world = World()
    for number in range(5):
        world.enter(f"{number}")
    world.loop.run()
    assert world.loop.rested_s == 0


def test_a_member_does_not_wait_behind_hundreds_of_strangers() -> None:
    world = World()
    for number in range(500):
        world.enter(f"stranger {number}", host="far", cost_s=STEP_S)
    world.enter("member", host="near", cost_s=STEP_S)
    world.enter("member again", host="near", begun=True, cost_s=STEP_S)
    world.loop.run()
    assert world.done[:4] == ["stranger 0", "member again", "stranger 1", "member"]


def test_a_handshake_that_has_begun_ends_before_others_begin() -> None:
    world = World()
    for number in range(10):
        world.enter(f"new {number}", cost_s=STEP_S)
    world.loop.turn()
    world.enter("new 0 goes on", begun=True, cost_s=STEP_S)
    world.loop.run()
    assert world.done[:3] == ["new 0", "new 0 goes on", "new 1"]


def test_a_step_that_fails_stops_no_other() -> None:
    world = World()

    def broken() -> None:
        raise OSError("gone")

    world.turns.enter("a", broken, has_begun=False)
    world.enter("next")
    try:
        world.loop.turn()
    except OSError:
        world.loop.run()
    assert world.done == ["next"]
