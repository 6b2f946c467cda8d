"""Links that are opened before their member serves: while it still reads its disk.

Their messages wait here in the order of arrival, bounded by number, bytes and time; then the door
handles them. Redialing would take longer than the rest of the recovery.
"""

from __future__ import annotations

import asyncio

from rollq.base.limits import EARLY_MS_MAX, HELD_BYTES_MAX, HELD_MESSAGES_MAX
from rollq.net.link import Link
from rollq.roles.member.early_messages import held_bytes
from rollq.wire.compact import Message

NOT_SERVING = "not serving yet"


class EarlyLinks:
    """Messages of links that wait until the member serves."""

    def __init__(self) -> None:
        # At most HELD_MESSAGES_MAX messages of HELD_BYTES_MAX in all.
        self._waiting: dict[Link, list[Message]] = {}
        self._timers: dict[Link, asyncio.TimerHandle] = {}  # of the links in `_waiting`
        self._count = 0
        self._bytes = 0

    def add(self, link: Link, messages: list[Message]) -> None:
        """Queue messages of a link; close it if there is no room for them."""
        size_bytes = sum(map(held_bytes, messages))
        if (
            self._count + len(messages) > HELD_MESSAGES_MAX
            or self._bytes + size_bytes > HELD_BYTES_MAX
        ):
            link.close(NOT_SERVING)
            return
        self._count += len(messages)
        self._bytes += size_bytes
        waiting = self._waiting.get(link)
        if waiting is None:
            self._waiting[link] = messages
            self._timers[link] = link.loop.call_later(EARLY_MS_MAX / 1000, link.close, NOT_SERVING)
        else:
            waiting += messages

    def closed(self, link: Link) -> None:
        """The link closed: drop its messages."""
        waiting = self._waiting.pop(link, None)
        if waiting is not None:
            self._timers.pop(link).cancel()
            self._count -= len(waiting)
            self._bytes -= sum(map(held_bytes, waiting))

    def hand_over(self) -> None:
        """Pass all waiting messages to the handlers, once the member serves."""
        while self._waiting:
            link, waiting = next(iter(self._waiting.items()))
            self.closed(link)
            if link.is_open:
                link.hand_over(waiting)
