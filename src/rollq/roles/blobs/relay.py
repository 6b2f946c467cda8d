"""A blob that is passed on to others while it comes in, and is taken no faster than they follow.
Pure.

So a follower that takes over has nearly as much of it as we have, and little of it is sent
again. One that stands still, or is slow, is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rollq.base.limits import BLOB_RELAY_SLOW_TICKS_MAX, BLOB_WINDOW_BYTES


class Relay:
    """One blob, and those who are given it.

    Args:
        offset: So much of it is here from an earlier time.
        give_up: Called if it does not come to its end.

    Attributes:
        growth: How much of it is here.
    """

    def __init__(self, offset: int, give_up: Callable[[], None]) -> None:
        self.growth = Growth(offset)
        self._give_up = give_up
        self._followers: dict[str, Follower] = {}
        self._then: Callable[[], None] | None = None

    def grown(self, offset: int, then: Callable[[], None]) -> None:
        """So much is written here; `then` is called when more may be, perhaps at once."""
        self._then = then
        self.growth.grow(offset)
        self._go_on()

    def moved(self, who: str, offset: int) -> None:
        """A follower has so many bytes. It is waited for only after the first such report."""
        one = self._followers.get(who)
        if one is None:
            one = self._followers[who] = Follower()
        one.offset = offset
        one.is_awaited = one.is_awaited or self._is_near(one)
        self._go_on()

    def left(self, who: str) -> None:
        """A follower has all of it, or takes no more."""
        self._followers.pop(who, None)
        self._go_on()

    def tick(self) -> None:
        """A second has passed."""
        for one in self._followers.values():
            is_slow = one.offset - one.offset_before < BLOB_WINDOW_BYTES and not self._is_near(one)
            one.slow_ticks = one.slow_ticks + 1 if is_slow else 0
            one.offset_before = one.offset
            if one.slow_ticks >= BLOB_RELAY_SLOW_TICKS_MAX:
                one.is_awaited = False
        self._go_on()

    def end(self) -> None:
        """Nothing more of it comes."""
        self._then = None
        self._give_up()

    def _go_on(self) -> None:
        then = self._then
        if then is not None and all(
            self._is_near(one) for one in self._followers.values() if one.is_awaited
        ):
            self._then = None
            then()

    def _is_near(self, one: Follower) -> bool:
        return self.growth.ready - one.offset <= BLOB_WINDOW_BYTES


class Follower:
    """How far one of the others is."""

    __slots__ = ("is_awaited", "offset", "offset_before", "slow_ticks")

    def __init__(self) -> None:
        self.offset = 0
        self.offset_before = 0  # a tick ago
        self.slow_ticks = 0
        self.is_awaited = True


class Growth:
    """Attributes:
    ready: So many of its bytes can be read.
    """

    def __init__(self, ready: int) -> None:
        self.ready = ready
        self._listeners: list[Callable[[int], None]] = []

    def grow(self, ready: int) -> None:
        """More can be read."""
        self.ready = ready
        for listener in tuple(self._listeners):
            listener(ready)

    @contextmanager
    def told(self, listener: Callable[[int], None]) -> Iterator[None]:
        """Call the listener on growth inside the block."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)
