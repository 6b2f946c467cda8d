"""Links that were there before their member served. They are stand-ins; no loop runs here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from rollq.base.limits import EARLY_MS_MAX
from rollq.net.link import Link
from rollq.roles.member import early_links
from rollq.roles.member.early_links import EarlyLinks
from rollq.wire import messages as wire
from rollq.wire.compact import Message


class Timer:
    """Runs when the test says so."""

    def __init__(self, delay_s: float, call: Callable[[], object]) -> None:
        self.delay_s = delay_s
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLink:
    """What `EarlyLinks` needs of a link, and its loop."""

    def __init__(self, early: EarlyLinks) -> None:
        self._early = early
        self.loop = self
        self.is_open = True
        self.timers: list[Timer] = []
        self.handed: list[list[Message]] = []

    def call_later(self, delay_s: float, call: Callable[..., object], *args: Any) -> Timer:
        self.timers.append(Timer(delay_s, lambda: call(*args)))
        return self.timers[-1]

    def close(self, reason: str) -> None:
        self.is_open = False
        self._early.closed(cast(Link, self))  # as the listener does

    def hand_over(self, messages: list[Message]) -> None:
        self.handed.append(messages)

    def says(self, *messages: Message) -> FakeLink:
        self._early.add(cast(Link, self), list(messages))
        return self


HELLO = wire.HelloClient("ann")
LARGE = wire.SubmitJob(bytes(16), "ann", "", "exe", bytes(5_000))


def test_what_links_said_is_handed_over_in_its_order_and_once() -> None:
    early = EarlyLinks()
    ann, bob, gone = (FakeLink(early) for _ in range(3))
    ann.says(HELLO)
    gone.says(HELLO).close("the peer hung up")
    bob.says(HELLO, LARGE)
    ann.says(LARGE)
    early.hand_over()
    assert ann.handed == [[HELLO, LARGE]]
    assert bob.handed == [[HELLO, LARGE]]
    assert gone.handed == []
    assert all(timer.is_cancelled for link in (ann, bob, gone) for timer in link.timers)
    early.hand_over()
    assert len(ann.handed) == 1


@pytest.mark.parametrize(("limit", "most"), [("HELD_MESSAGES_MAX", 2), ("HELD_BYTES_MAX", 6_000)])
def test_more_than_may_wait_is_closed_and_makes_no_room(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(early_links, limit, most)
    early = EarlyLinks()
    ann, bob, eve = (FakeLink(early) for _ in range(3))
    ann.says(LARGE)
    assert not bob.says(HELLO, LARGE).is_open
    assert ann.is_open
    ann.close("the peer hung up")
    assert eve.says(HELLO, LARGE).is_open


def test_nobody_waits_for_ever() -> None:
    early = EarlyLinks()
    ann = FakeLink(early).says(HELLO).says(LARGE)
    (timer,) = ann.timers
    assert timer.delay_s == EARLY_MS_MAX / 1000
    timer.call()
    assert not ann.is_open
    early.hand_over()
    assert ann.handed == []
