"""Handlers of topics: they keep messages published to their subjects, and the cursors of durable
subscriptions.

The leader determines the topic of a subject: a command names the topic. A publish is O(1) in kept
messages: it is appended, and messages beyond a bound are dropped from the front. Indexes of a topic
have no gaps and are never reused, also not by a later topic of the same name.

A publish has no row in the history, which would hold everything twice; creation and removal of
topics do.
"""

from __future__ import annotations

from sys import intern

from rollq.base.errors import ErrorCode
from rollq.base.limits import (
    DURATION_MS_MAX,
    INLINE_BYTES_MAX,
    PATTERN_BYTES_MAX,
    SUBJECT_BYTES_MAX,
)
from rollq.base.subject_limits import DURABLE_NAME_BYTES_MAX, TOPIC_NAME_BYTES_MAX
from rollq.base.topic_limits import (
    TOPIC_BYTES_MAX,
    TOPIC_BYTES_MIN,
    TOPIC_COUNT_MAX,
    TOPIC_PATTERNS_MAX,
    TOPICS_BYTES_MAX,
)
from rollq.grid.admission import is_long, refused_bounds
from rollq.grid.effects import Applied, Done, Kept, Outcome, Refused, SendKept, TellTopic
from rollq.grid.events import CURSOR_FORGOTTEN, TOPIC_PUT, TOPIC_REMOVED, AccessFact, Event
from rollq.grid.outcomes import CURSORS_FULL, DONE_ONE, DUPLICATE_OPEN, TOPICS_FULL
from rollq.grid.state import GridState
from rollq.grid.topic_commands import (
    ForgetCursor,
    MoveCursors,
    OpenCursor,
    PublishKept,
    PutTopic,
    RemoveTopic,
    TrimTopics,
)
from rollq.grid.topic_records import Cursor, KeptMessage, TopicRecord, message_bytes
from rollq.subjects.grammar import SEPARATOR
from rollq.subjects.overlap import tokens_overlap

FROM_START = -1  # in place of an index: all that is kept


def put_topic(state: GridState, command: PutTopic, out: Applied) -> Outcome:
    """Create or change a topic."""
    refusal = refuse_topic(state, command)
    if refusal is not None:
        return refusal
    table = state.topics
    topic = table.by_name.get(command.name)
    wanted = command.patterns, command.age_ms, command.bytes_max, command.count_max
    if topic is None:
        topic = TopicRecord(
            command.name,
            *wanted,
            stamp_ms=out.stamp_ms,
            by=command.by,
            first_index=table.removed_index + 1,
        )
        table.by_name[topic.name] = topic
        table.first_sum += topic.first_index
        table.last_sum += topic.last_index
    elif (topic.patterns, topic.age_ms, topic.bytes_max, topic.count_max) == wanted:
        return DUPLICATE_OPEN
    else:
        topic.patterns, topic.age_ms, topic.bytes_max, topic.count_max = wanted
        topic.stamp_ms, topic.by = out.stamp_ms, command.by
        _cut_to_bounds(state, topic)
    detail = f"{topic.name} {' '.join(topic.patterns)}"
    out.events.append(topic_fact(TOPIC_PUT, topic.name, detail, command.by))
    out.effects.append(TellTopic(topic.name))
    return DONE_ONE


def refuse_topic(state: GridState, command: PutTopic) -> Refused | None:
    """Why this topic is not valid."""
    if not command.name or is_long(command.name, TOPIC_NAME_BYTES_MAX):
        return refused_bounds("the name of the topic is empty or too long")
    if not 0 < len(command.patterns) <= TOPIC_PATTERNS_MAX:
        return refused_bounds(f"a topic has 1 to {TOPIC_PATTERNS_MAX} patterns")
    if any(not one or is_long(one, PATTERN_BYTES_MAX) for one in command.patterns):
        return refused_bounds("a pattern is empty or too long")
    if not 0 <= command.age_ms <= DURATION_MS_MAX:
        return refused_bounds(f"age_ms is not 0 to {DURATION_MS_MAX}")
    if not TOPIC_BYTES_MIN <= command.bytes_max <= TOPIC_BYTES_MAX:
        return refused_bounds(f"bytes_max is not {TOPIC_BYTES_MIN} to {TOPIC_BYTES_MAX}")
    if not 0 < command.count_max <= TOPIC_COUNT_MAX:
        return refused_bounds(f"count_max is not 1 to {TOPIC_COUNT_MAX}")
    others = [one for one in state.topics.by_name.values() if one.name != command.name]
    if len(others) >= state.bounds.topics:
        return TOPICS_FULL
    free_bytes = TOPICS_BYTES_MAX - sum(topic.bytes_max for topic in others)
    if command.bytes_max > free_bytes:
        reason = f"of {TOPICS_BYTES_MAX} bytes for all topics {free_bytes} are left"
        return Refused(ErrorCode.GRID_FULL, reason)
    return refuse_overlap(command.patterns, others)


def refuse_overlap(patterns: tuple[str, ...], others: list[TopicRecord]) -> Refused | None:
    """Why its patterns overlap another topic's: a subject belongs to at most one topic."""
    for topic in others:
        for theirs in topic.patterns:
            for ours in patterns:
                # The patterns are canonical already.
                if tokens_overlap(tuple(ours.split(SEPARATOR)), tuple(theirs.split(SEPARATOR))):
                    reason = f"{ours!r} overlaps {theirs!r} of the topic {topic.name!r}"
                    return Refused(ErrorCode.TOPIC_CONFLICT, reason)
    return None


def remove_topic(state: GridState, command: RemoveTopic, out: Applied) -> Outcome:
    """Delete a topic and its messages."""
    table = state.topics
    topic = table.by_name.get(command.name)
    if topic is None:
        return unknown_topic(command.name)
    out.events.append(topic_fact(TOPIC_REMOVED, topic.name, topic.name, command.by))
    out.effects.append(TellTopic(topic.name))
    _drop_before(state, topic, topic.last_index + 1)
    for name in list(topic.cursors):
        _drop_cursor(state, topic, name)
    table.removed_index = max(table.removed_index, topic.last_index)
    table.first_sum -= topic.first_index
    table.last_sum -= topic.last_index
    del table.by_name[topic.name]
    return DONE_ONE


def publish_kept(state: GridState, command: PublishKept, out: Applied) -> Outcome:
    """Append messages, all or none; the outcome has the index of the first."""
    topic = state.topics.by_name.get(command.topic)
    if topic is None:
        return unknown_topic(command.topic)
    subjects, payloads, replies = command.subjects, command.payloads, command.reply_to
    count = len(subjects)
    if not count or len(payloads) != count or (replies and len(replies) != count):
        return refused_bounds("the columns of a publish have different lengths")
    if any(not one or is_long(one, SUBJECT_BYTES_MAX) for one in subjects):
        return refused_bounds("a subject is empty or too long")
    if any(is_long(one, SUBJECT_BYTES_MAX) for one in replies):
        return refused_bounds("reply_to is too long")
    if max(map(len, payloads)) > INLINE_BYTES_MAX:
        return refused_bounds(f"a topic keeps payloads of up to {INLINE_BYTES_MAX} bytes")
    first = topic.last_index + 1
    tokens = state.bodies.keep_all(payloads)
    added_bytes = 0
    for at, token in enumerate(tokens):
        subject, reply_to = intern(subjects[at]), replies[at] if replies else ""
        size_bytes = message_bytes(subject, reply_to, len(payloads[at]))
        message = KeptMessage(subject, token, reply_to, out.stamp_ms, size_bytes)
        topic.messages[first + at] = message
        added_bytes += size_bytes
    topic.size_bytes += added_bytes
    state.topics.size_bytes += added_bytes
    state.topics.last_sum += count
    _cut_to_bounds(state, topic)
    out.effects.append(SendKept(topic.name, first, subjects, payloads, replies, out.stamp_ms))
    return Kept(first, count)


def trim_topics(state: GridState, command: TrimTopics, out: Applied) -> Outcome:
    """Delete messages that are over age."""
    dropped = 0
    for trim in command.trims:
        topic = state.topics.by_name.get(trim.topic)
        if topic is not None:
            dropped += _drop_before(state, topic, min(trim.before, topic.last_index + 1))
    return Done(dropped)


def open_cursor(state: GridState, command: OpenCursor, out: Applied) -> Outcome:
    """Create the cursor of a durable subscription if it is new."""
    topic = state.topics.by_name.get(command.topic)
    if topic is None:
        return unknown_topic(command.topic)
    if command.durable in topic.cursors:
        return DUPLICATE_OPEN
    if not command.durable or is_long(command.durable, DURABLE_NAME_BYTES_MAX):
        return refused_bounds("the name of the durable subscription is empty or too long")
    if command.from_index < FROM_START:
        return refused_bounds("from_index is not -1, 0 or an index")
    if len(topic.cursors) >= state.bounds.cursors_per_topic:
        return CURSORS_FULL
    index = start_of(topic, command.from_index) - 1
    topic.cursors[command.durable] = Cursor(index, out.stamp_ms)
    state.topics.cursor_sum += index
    return DONE_ONE


def start_of(topic: TopicRecord, from_index: int) -> int:
    """The first index of a new cursor: 0 is what is published from now on, -1 all that is kept."""
    if from_index == FROM_START:
        return topic.first_index
    return min(from_index, topic.last_index + 1) if from_index else topic.last_index + 1


def move_cursors(state: GridState, command: MoveCursors, out: Applied) -> Outcome:
    """Advance durable subscriptions; none goes back."""
    moved = 0
    for move in command.moves:
        topic = state.topics.by_name.get(move.topic)
        cursor = None if topic is None else topic.cursors.get(move.durable)
        if topic is None or cursor is None:
            continue
        index = min(move.index, topic.last_index)
        if index > cursor.index:
            topic.cursors[move.durable] = Cursor(index, out.stamp_ms)
            state.topics.cursor_sum += index - cursor.index
            moved += 1
    return Done(moved)


def forget_cursor(state: GridState, command: ForgetCursor, out: Applied) -> Outcome:
    """Delete a durable subscription."""
    topic = state.topics.by_name.get(command.topic)
    if topic is None:
        return unknown_topic(command.topic)
    if command.durable not in topic.cursors:
        reason = f"topic {topic.name!r} has no durable subscription {command.durable[:64]!r}"
        return Refused(ErrorCode.UNKNOWN_TOPIC, reason)
    _drop_cursor(state, topic, command.durable)
    detail = f"{topic.name} {command.durable}"
    out.events.append(topic_fact(CURSOR_FORGOTTEN, topic.name, detail, command.by))
    out.effects.append(TellTopic(topic.name))
    return DONE_ONE


def topic_fact(kind: str, name: str, detail: str, by: str) -> Event:
    """An event about a topic."""
    return Event(kind, detail=detail, access=AccessFact(by, resource=f"topic:{name}"))


def unknown_topic(name: str) -> Refused:
    """The refusal of an unknown topic."""
    return Refused(ErrorCode.UNKNOWN_TOPIC, f"no topic {name[:64]!r}")


def _cut_to_bounds(state: GridState, topic: TopicRecord) -> None:
    """Drop messages beyond size or count, oldest first."""
    messages = topic.messages
    before, size_bytes = topic.first_index, topic.size_bytes
    end = topic.last_index + 1
    while end - before > topic.count_max or size_bytes > topic.bytes_max:
        size_bytes -= messages[before].size_bytes
        before += 1
    _drop_before(state, topic, before)


def _drop_before(state: GridState, topic: TopicRecord, before: int) -> int:
    """Drop the messages before an index, at most all; returns how many."""
    count = max(0, before - topic.first_index)
    dropped = [topic.messages.pop(index) for index in range(topic.first_index, before)]
    dropped_bytes = sum([message.size_bytes for message in dropped])
    state.bodies.drop_all([message.payload for message in dropped])
    topic.first_index += count
    topic.size_bytes -= dropped_bytes
    state.topics.size_bytes -= dropped_bytes
    state.topics.first_sum += count
    return count


def _drop_cursor(state: GridState, topic: TopicRecord, name: str) -> None:
    state.topics.cursor_sum -= topic.cursors.pop(name).index
