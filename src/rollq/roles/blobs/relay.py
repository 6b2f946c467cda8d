"""Forwards a blob to followers while it is received, with backpressure from the followers. Pure.

So a follower that takes over has nearly as much of the blob as the leader, and little is sent
again. A follower that stalls or is slow does not slow the upload down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rollq.base.limits import BLOB_RELAY_SLOW_TICKS_MAX, BLOB_WINDOW_BYTES


class Relay:
    """One blob and its followers.

    Args:
        offset: How much of it is stored already.
        give_up: Called if the upload does not complete.

    Attributes:
        growth: How much of it is stored here.
    """

    def __init__(self, offset: int, give_up: Callable[[], None]) -> None:
        self.growth = Growth(offset)
        self._prepare_retry = give_up
        self._followers: dict[str, Follower] = {}
        self._then: Callable[[], None] | None = None

    def grown(self, offset: int, then: Callable[[], None]) -> None:
        """So much is written here; `then` is called, perhaps at once, when more may be accepted."""
        self._then = then
        self.growth.grow(offset)
        self._continue()

    def moved(self, who: str, offset: int) -> None:
        """Record the progress of a follower; its first report makes it one that is waited for."""
        one = self._followers.get(who)
        if one is None:
            one = self._followers[who] = Follower()
        one.offset = offset
        one.is_awaited = one.is_awaited or self._is_near(one)
        self._continue()

    def left(self, who: str) -> None:
        """Remove a follower: it has the whole blob, or has failed."""
        self._followers.pop(who, None)
        self._continue()

    def tick(self) -> None:
        """Called each second."""
        for one in self._followers.values():
            is_slow = one.offset - one.offset_before < BLOB_WINDOW_BYTES and not self._is_near(one)
            one.slow_ticks = one.slow_ticks + 1 if is_slow else 0
            one.offset_before = one.offset
            if one.slow_ticks >= BLOB_RELAY_SLOW_TICKS_MAX:
                one.is_awaited = False
        self._continue()

    def end(self) -> None:
        """The upload has ended without completing."""
        self._then = None
        self._prepare_retry()

    def _continue(self) -> None:
        then = self._then
        if then is not None and all(
            self._is_near(one) for one in self._followers.values() if one.is_awaited
        ):
            self._then = None
            then()

    def _is_near(self, one: Follower) -> bool:
        return self.growth.ready - one.offset <= BLOB_WINDOW_BYTES


class Follower:
    """The progress of one follower."""

    __slots__ = ("is_awaited", "offset", "offset_before", "slow_ticks")

    def __init__(self) -> None:
        self.offset = 0
        self.offset_before = 0  # at the last tick
        self.slow_ticks = 0
        self.is_awaited = True


class Growth:
    """The readable prefix of a blob that is being received.

    Attributes:
        ready: Its length in bytes.
    """

    def __init__(self, ready: int) -> None:
        self.ready = ready
        self._listeners: list[Callable[[int], None]] = []

    def grow(self, ready: int) -> None:
        """Extend the readable prefix."""
        self.ready = ready
        for listener in tuple(self._listeners):
            listener(ready)

    @contextmanager
    def listening(self, listener: Callable[[int], None]) -> Iterator[None]:
        """Call the listener on growth inside the block."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
