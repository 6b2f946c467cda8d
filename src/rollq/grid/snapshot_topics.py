"""Topics in snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from sys import intern

from rollq.base.sealed import sealed_bytes
from rollq.grid.bodies import Adopt, Token
from rollq.grid.snapshot_rows import Head, TopicRow
from rollq.grid.state import GridState
from rollq.grid.topic_records import KeptMessage, TopicRecord, message_bytes


def topic_rows(state: GridState) -> list[TopicRow]:
    """All topics, by name."""
    return [_row(state, topic) for topic in _in_order(state)]


def _in_order(state: GridState) -> list[TopicRecord]:
    return sorted(state.topics.by_name.values(), key=attrgetter("name"))


def _row(state: GridState, topic: TopicRecord) -> TopicRow:
    kept = list(_messages(topic))
    replies = [message.reply_to for message in kept]
    return TopicRow(
        topic.name,
        topic.patterns,
        age_ms=topic.age_ms,
        bytes_max=topic.bytes_max,
        count_max=topic.count_max,
        stamp_ms=topic.stamp_ms,
        by=topic.by,
        first_index=topic.first_index,
        cursors=sorted(topic.cursors.items()),
        subjects=[message.subject for message in kept],
        reply_to=replies if any(replies) else [],
        stamps_ms=[message.stamp_ms for message in kept],
        sizes=[state.bodies.size(message.payload) for message in kept],
    )


def _messages(topic: TopicRecord) -> Iterator[KeptMessage]:
    return (topic.messages[at] for at in range(topic.first_index, topic.last_index + 1))


def payloads_of(state: GridState) -> list[Token]:
    """The payloads at the end of the snapshot, in the order of the rows."""
    return [message.payload for topic in _in_order(state) for message in _messages(topic)]


def put_topics_back(state: GridState, head: Head, adopt: Adopt, offset: int) -> int:
    """Restore topics; returns the offset after the last payload. Raises ValueError if a column
    contradicts another."""
    table = state.topics
    table.removed_index = head.topics_removed_index
    tokens = iter(adopt(offset, list(chain.from_iterable(row.sizes for row in head.topics))))
    for row in head.topics:
        topic = table.by_name[row.name] = _topic(row, tokens)
        table.size_bytes += topic.size_bytes
        table.first_sum += topic.first_index
        table.last_sum += topic.last_index
        table.cursor_sum += sum(cursor.index for cursor in topic.cursors.values())
    return offset + sum(sealed_bytes(size) for row in head.topics for size in row.sizes)


def _topic(row: TopicRow, tokens: Iterator[Token]) -> TopicRecord:
    topic = TopicRecord(
        row.name,
        row.patterns,
        age_ms=row.age_ms,
        bytes_max=row.bytes_max,
        count_max=row.count_max,
        stamp_ms=row.stamp_ms,
        by=row.by,
        first_index=row.first_index,
        cursors=dict(row.cursors),
    )
    replies = row.reply_to or [""] * len(row.subjects)
    columns = zip(row.subjects, replies, row.stamps_ms, row.sizes, strict=True)
    for index, (subject, reply_to, stamp_ms, size) in enumerate(columns, row.first_index):
        size_bytes = message_bytes(subject, reply_to, size)
        message = KeptMessage(intern(subject), next(tokens), reply_to, stamp_ms, size_bytes)
        topic.messages[index] = message
        topic.size_bytes += size_bytes
    return topic
