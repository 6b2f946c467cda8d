"""Where a subscription that reads a topic stands, as the application sees it. Pure.

A message is done with when the next one is asked for, or when the application says so earlier. What
comes twice, because a leader was lost before it heard of that, is passed over by its index.
"""

from __future__ import annotations

from msgspec.structs import replace

from rollq.wire.subject_messages import Consumed, Deliver, Missed, Subscribe


class TopicPlace:
    """The place of one subscription.

    Attributes:
        asked: As it is asked for.
        is_untold: Whether the leader is to be told what is done with.
    """

    __slots__ = ("_consumed", "_handed", "_last", "asked", "is_untold")

    def __init__(self, asked: Subscribe) -> None:
        self.asked = asked
        self.is_untold = False
        self._last = 0  # index of the last message that came, or is known to be dropped
        self._handed = 0  # that the application got
        self._consumed = 0  # that it is done with

    def takes(self, message: Deliver) -> bool:
        """Whether a message is new."""
        if message.index <= self._last:
            self.is_untold |= message.index <= self._consumed  # the leader does not know
            return False
        self._last = message.index
        return True

    def missed(self, message: Missed) -> int:
        """How many messages that nobody has told of before were dropped."""
        before = message.index - 1
        count = before - max(self._last, before - message.count)
        self._last = max(self._last, before)
        return max(0, count)

    def handed(self, index: int) -> None:
        """The application got a message."""
        self._handed = max(self._handed, index)

    def next_asked(self) -> None:
        """It wants more: it is done with what it got."""
        self.consumed(self._handed)

    def consumed(self, index: int) -> None:
        """It is done with all up to this."""
        if index > self._consumed:
            self._consumed = index
            self.is_untold = True

    def take_told(self) -> Consumed:
        """What the leader is told."""
        self.is_untold = False
        return Consumed(self.asked.number, self._consumed)

    def resumed(self) -> Subscribe:
        """What the next leader is asked for. It knows where a durable one stands, and of others
        what the application has is asked for no more."""
        if self._last and not self.asked.durable:
            self.asked = replace(self.asked, from_index=self._last + 1)
        return self.asked
