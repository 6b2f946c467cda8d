"""Topics as the members agreed on them: what was published to their subjects, and where those who
read them stand. Plain data, as `state` is; the rules are in `topics`.
"""

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
    size_bytes: int  # that it counts for


def message_bytes(subject: str, reply_to: str, payload_bytes: int) -> int:
    """What a message counts for."""
    return KEPT_MESSAGE_BYTES + len(subject) + len(reply_to) + payload_bytes


class Cursor(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where a durable subscription stands."""

    index: int  # of the last message that it is done with
    stamp_ms: int  # when it said so, or was made


class TopicRecord(msgspec.Struct, eq=False):
    """What is published to some subjects, numbered from the oldest that is kept to the newest."""

    name: str
    patterns: tuple[str, ...]
    age_ms: int  # 0: for ever
    bytes_max: int
    count_max: int
    stamp_ms: int  # when it was put
    by: str
    first_index: int  # of the oldest that is kept; if none is, of the next
    # By index, without gaps: any of them is found at once, however many there are.
    messages: dict[int, KeptMessage] = msgspec.field(default_factory=dict)
    cursors: dict[str, Cursor] = msgspec.field(default_factory=dict)
    # derived
    size_bytes: int = 0  # of `messages`

    @property
    def last_index(self) -> int:
        """Of the newest message, kept or not; before the first one: one less than it will have."""
        return self.first_index + len(self.messages) - 1


class TopicTable:
    """All topics. The sums are there for the hash of the state: two members that differ in any
    index differ in one of them."""

    __slots__ = ("by_name", "cursor_sum", "first_sum", "last_sum", "removed_index", "size_bytes")

    def __init__(self) -> None:
        self.by_name: dict[str, TopicRecord] = {}
        # The highest index that a removed topic had: new ones begin after it, so that nobody who
        # stood in a topic of the same name takes new messages for old ones.
        self.removed_index = 0
        # derived
        self.size_bytes = 0  # of all that is kept
        self.first_sum = 0  # of `first_index` of all topics
        self.last_sum = 0  # of `last_index`
        self.cursor_sum = 0  # of the indexes of all cursors
