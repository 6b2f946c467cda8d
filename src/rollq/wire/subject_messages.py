"""Messages to publish to subjects, and to subscribe to them.

A publish goes to every session with a matching subscription; of those that name the same queue
group, to one. `Deliver` does not depend on its receiver, so that it is encoded once for all of
them: a receiver finds its own subscriptions by their patterns. A subscription is numbered by its
subscriber. A topic keeps what is published to its subjects (`topic`, `durable`, `index`).
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from rollq.base.ids import NIL_ID
from rollq.base.limits import PATTERN_BYTES_MAX
from rollq.base.subject_limits import (
    DURABLE_NAME_BYTES_MAX,
    PUBLISH_BYTES_MAX,
    QUEUE_GROUP_BYTES_MAX,
    TOPIC_NAME_BYTES_MAX,
)
from rollq.wire.fields import Count, Id, MessageId, Number, Subject
from rollq.wire.messages import ClientMessage, MemberMessage, WorkerMessage
from rollq.wire.rules import INT64_MAX, Bytes, Int, Text

FROM_START: Final = -1  # instead of an index: all that the topic keeps

Published: TypeAlias = Annotated[bytes, Bytes(PUBLISH_BYTES_MAX)]
Pattern: TypeAlias = Annotated[str, Text(PATTERN_BYTES_MAX)]
QueueGroup: TypeAlias = Annotated[str, Text(QUEUE_GROUP_BYTES_MAX)]
TopicName: TypeAlias = Annotated[str, Text(TOPIC_NAME_BYTES_MAX)]
DurableName: TypeAlias = Annotated[str, Text(DURABLE_NAME_BYTES_MAX)]


class Publish(ClientMessage, WorkerMessage, frozen=True, gc=False, tag=101):
    """Publish this. With a `request_id` it is answered with Accepted, whose count is the number of
    subscriptions it was sent to (of a topic: its index), or with Error; with `reply_to` as well it
    is a request, and NO_RESPONDERS without a subscriber."""

    subject: Subject
    payload: Published
    reply_to: Subject = ""
    request_id: Id = NIL_ID


class Subscribe(ClientMessage, WorkerMessage, frozen=True, gc=False, tag=102):
    """Subscribe to subjects of this pattern. Answered with Accepted or Error. One that reads a
    topic begins at its durable cursor, if the group has it, else with `from_index` (0: with what is
    new; -1: with all that is kept)."""

    request_id: MessageId
    number: Count
    pattern: Pattern
    queue_group: QueueGroup = ""
    topic: TopicName = ""
    durable: DurableName = ""
    from_index: Annotated[int, Int(FROM_START, INT64_MAX)] = 0


class Unsubscribe(ClientMessage, WorkerMessage, frozen=True, gc=False, tag=103):
    """End that subscription, at once or `after` so many more messages."""

    number: Count
    after: Count = 0


class Deliver(MemberMessage, frozen=True, gc=False, tag=104):
    """A published message. With a queue group it is for one subscription of that group; without,
    for all others that match. `index` is its index in its topic; with a `number` it is for that
    subscription only, which reads the topic."""

    subject: Subject
    payload: Published
    reply_to: Subject = ""
    queue_group: QueueGroup = ""
    topic: TopicName = ""
    index: Number = 0
    stamp_ms: Number = 0
    number: Count = 0


class Missed(MemberMessage, frozen=True, gc=False, tag=105):
    """So many messages were not delivered: the receiver was too slow, or (with the number of a
    subscription that reads a topic) they were dropped before it reached them, and it continues with
    `index`."""

    count: Number
    number: Count = 0
    index: Number = 0


class Consumed(ClientMessage, WorkerMessage, frozen=True, gc=False, tag=106):
    """That subscription has processed everything up to this index of its topic."""

    number: Count
    index: Number
