"""The read position of a subscription to a topic, on the client. Pure.

Reading the next message acknowledges the one before; the application may acknowledge earlier.
Messages that a new leader repeats are recognized by their index and dropped.
"""

from __future__ import annotations

from msgspec.structs import replace

from rollq.wire.subject_messages import Consumed, Deliver, Missed, Subscribe


class TopicPosition:
    """The position of one subscription.

    Attributes:
        asked: The request for the next leader.
        has_unsent_ack: Whether there is an acknowledgement to send.
    """

    __slots__ = ("_consumed", "_last", "_last_read", "asked", "has_unsent_ack")

    def __init__(self, asked: Subscribe) -> None:
        self.asked = asked
        self.has_unsent_ack = False
        self._last = 0  # index of the last message received, or known to be dropped
        self._last_read = 0  # index of the last one that the application has read
        self._consumed = 0  # index of the last one that is acknowledged

    def takes(self, message: Deliver) -> bool:
        """Whether a message is new."""
        if message.index <= self._last:
            self.has_unsent_ack |= message.index <= self._consumed  # the leader lacks the ack
            return False
        self._last = message.index
        return True

    def missed(self, message: Missed) -> int:
        """How many dropped messages were not counted before."""
        before = message.index - 1
        count = before - max(self._last, before - message.count)
        self._last = max(self._last, before)
        return max(0, count)

    def mark_read(self, index: int) -> None:
        """The application has read a message."""
        self._last_read = max(self._last_read, index)

    def reads_on(self) -> None:
        """The application reads on, which acknowledges the messages before."""
        self.consumed(self._last_read)

    def consumed(self, index: int) -> None:
        """Acknowledge all messages up to this index."""
        if index > self._consumed:
            self._consumed = index
            self.has_unsent_ack = True

    def take_ack(self) -> Consumed:
        """The acknowledgement to send."""
        self.has_unsent_ack = False
        return Consumed(self.asked.number, self._consumed)

    def resumed(self) -> Subscribe:
        """The request for the next leader, which knows the position of a durable subscription; any
        other begins after the last message received."""
        if self._last and not self.asked.durable:
            self.asked = replace(self.asked, from_index=self._last + 1)
        return self.asked
