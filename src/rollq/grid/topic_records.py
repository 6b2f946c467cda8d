"""Records of topics: the messages published to their subjects, and the cursors of durable
subscriptions. Plain data, as `state`; the logic is in `topics`."""

from __future__ import annotations

import msgspec

from rollq.base.topic_limits import KEPT_MESSAGE_BYTES
from rollq.grid.bodies import Token


class KeptMessage(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One message of a topic."""

    subject: str
    payload: Token
    reply_to: str
    stamp_ms: int
    size_bytes: int  # its size for the bounds


def message_bytes(subject: str, reply_to: str, payload_bytes: int) -> int:
    """The size of a message for the bounds."""
    return KEPT_MESSAGE_BYTES + len(subject) + len(reply_to) + payload_bytes


class Cursor(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The position of a durable subscription."""

    index: int  # of the last processed message
    stamp_ms: int  # when it advanced, or was created


class TopicRecord(msgspec.Struct, eq=False):
    """The messages published to some subjects, numbered from the oldest kept to the newest."""

    name: str
    patterns: tuple[str, ...]
    age_ms: int  # 0: unbounded
    bytes_max: int
    count_max: int
    stamp_ms: int  # when it was put
    by: str
    first_index: int  # of the oldest kept message; if there is none, of the next one
    # By index, without gaps: O(1) access, however many there are.
    messages: dict[int, KeptMessage] = msgspec.field(default_factory=dict)
    cursors: dict[str, Cursor] = msgspec.field(default_factory=dict)
    # derived
    size_bytes: int = 0  # of `messages`

    @property
    def last_index(self) -> int:
        """The index of the newest message, kept or not; before the first one: one less than it will
        have."""
        return self.first_index + len(self.messages) - 1


class TopicTable:
    """All topics. The sums are part of the state hash: two members that differ in any index differ
    in one of them."""

    __slots__ = ("by_name", "cursor_sum", "first_sum", "last_sum", "removed_index", "size_bytes")

    def __init__(self) -> None:
        self.by_name: dict[str, TopicRecord] = {}
        # The highest index of a removed topic: new topics begin after it, so that a subscriber of
        # an earlier topic of the same name does not take new messages for old ones.
        self.removed_index = 0
        # derived
        self.size_bytes = 0  # of all that is kept
        self.first_sum = 0  # of `first_index` of all topics
        self.last_sum = 0  # of `last_index`
        self.cursor_sum = 0  # of the indexes of all cursors
