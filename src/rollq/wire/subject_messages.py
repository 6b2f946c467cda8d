"""What is said to publish to subjects, and to get what others publish.

A publish goes to every session with a matching subscription; of those that name the same queue
group, to one. `Deliver` has nothing of its receiver in it, so that its bytes are made once for all
of them: who gets one finds its own subscriptions by their patterns. A subscription is numbered by
whoever made it. A topic keeps what is published to its subjects (`topic`, `durable`, `index`).
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
    """Hand this to whoever listens. With a `request_id` it is answered with Accepted, whose count
    is how many subscriptions it went to (of a topic: its index), or with Error; with `reply_to` as
    well it is a request, and NO_RESPONDERS if nobody gets it."""

    subject: Subject
    payload: Published
    reply_to: Subject = ""
    request_id: Id = NIL_ID


class Subscribe(ClientMessage, WorkerMessage, frozen=True, gc=False, tag=102):
    """Send me what is published to subjects of this pattern. Answered with Accepted or Error. One
    that reads a topic begins where its durable subscription stands, if the group knows it, else
    with `from_index` (0: with what is new; -1: with all that is kept)."""

    request_id: MessageId
    number: Count
    pattern: Pattern
    queue_group: QueueGroup = ""
    topic: TopicName = ""
    durable: DurableName = ""
    from_index: Annotated[int, Int(FROM_START, INT64_MAX)] = 0


class Unsubscribe(ClientMessage, WorkerMessage, frozen=True, gc=False, tag=103):
    """No more of that subscription, or `after` so many messages more."""

    number: Count
    after: Count = 0


class Deliver(MemberMessage, frozen=True, gc=False, tag=104):
    """This was published. With a queue group it is for one subscription of that group; without, for
    all others that match. `index` is its place in its topic; with a `number` it is for that
    subscription alone, which reads the topic."""

    subject: Subject
    payload: Published
    reply_to: Subject = ""
    queue_group: QueueGroup = ""
    topic: TopicName = ""
    index: Number = 0
    stamp_ms: Number = 0
    number: Count = 0


class Missed(MemberMessage, frozen=True, gc=False, tag=105):
    """So many messages did not reach you: you did not read what was sent, or (with the number of a
    subscription that reads a topic) they were dropped before you came to them, and it goes on with
    `index`."""

    count: Number
    number: Count = 0
    index: Number = 0


class Consumed(ClientMessage, WorkerMessage, frozen=True, gc=False, tag=106):
    """That subscription is done with all up to this index of its topic."""

    number: Count
    index: Number
