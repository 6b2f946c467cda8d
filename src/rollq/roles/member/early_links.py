"""Links that are opened before their member serves: while it still reads its disk.

Their messages wait here in the order of their arrival, bounded by number, by bytes and by time;
then the door takes them as if they had just come. Whoever has to dial again would wait for longer
than the member takes to start.
"""

from __future__ import annotations

import asyncio

from rollq.base.limits import EARLY_MS_MAX, HELD_BYTES_MAX, HELD_MESSAGES_MAX
from rollq.net.link import Link
from rollq.roles.member.early_messages import held_bytes
from rollq.wire.compact import Message

NOT_SERVING = "not serving yet"


class EarlyLinks:
    """What links said so far."""

    def __init__(self) -> None:
        # At most HELD_MESSAGES_MAX messages of HELD_BYTES_MAX in all.
        self._said: dict[Link, list[Message]] = {}
        self._timers: dict[Link, asyncio.TimerHandle] = {}  # of the links in `_said`
        self._count = 0
        self._bytes = 0

    def add(self, link: Link, messages: list[Message]) -> None:
        """Keep messages for later; closes the link if there is no room for them."""
        size_bytes = sum(map(held_bytes, messages))
        if (
            self._count + len(messages) > HELD_MESSAGES_MAX
            or self._bytes + size_bytes > HELD_BYTES_MAX
        ):
            link.close(NOT_SERVING)
            return
        self._count += len(messages)
        self._bytes += size_bytes
        said = self._said.get(link)
        if said is None:
            self._said[link] = messages
            self._timers[link] = link.loop.call_later(EARLY_MS_MAX / 1000, link.close, NOT_SERVING)
        else:
            said += messages

    def closed(self, link: Link) -> None:
        """A link is gone."""
        said = self._said.pop(link, None)
        if said is not None:
            self._timers.pop(link).cancel()
            self._count -= len(said)
            self._bytes -= sum(map(held_bytes, said))

    def hand_over(self) -> None:
        """The member serves: its handlers get everything that waits."""
        while self._said:
            link, said = next(iter(self._said.items()))
            self.closed(link)
            if link.is_open:
                link.hand_over(said)
