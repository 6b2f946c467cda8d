"""Views of topics."""

from __future__ import annotations

import msgspec

from rollq.grid.state import GridState
from rollq.grid.topic_records import TopicRecord


class CursorView(msgspec.Struct, frozen=True, array_like=True):
    """A durable subscription: the index of the last processed message, when it advanced, and how
    many kept messages it has not processed."""

    durable: str
    index: int
    stamp_ms: int
    behind: int


class TopicView(msgspec.Struct, frozen=True, array_like=True):
    """A topic: its patterns, bounds and cursors. If it is empty, `first_index` is the index of the
    next message."""

    name: str
    patterns: tuple[str, ...]
    age_ms: int  # 0: unbounded
    bytes_max: int
    count_max: int
    stamp_ms: int  # when it was created or changed
    by: str
    first_index: int
    last_index: int
    count: int
    size_bytes: int
    cursors: tuple[CursorView, ...]


def topic_view(state: GridState, name: str) -> TopicView | None:
    """A topic by its name."""
    topic = state.topics.by_name.get(name)
    return None if topic is None else _view(topic)


def topic_page(state: GridState, after: str, limit: int) -> list[TopicView]:
    """Up to `limit` topics whose names come after this one, by name."""
    names = sorted(name for name in state.topics.by_name if name > after)
    return [_view(state.topics.by_name[name]) for name in names[:limit]]


def _view(topic: TopicRecord) -> TopicView:
    last = topic.last_index
    return TopicView(
        topic.name,
        topic.patterns,
        age_ms=topic.age_ms,
        bytes_max=topic.bytes_max,
        count_max=topic.count_max,
        stamp_ms=topic.stamp_ms,
        by=topic.by,
        first_index=topic.first_index,
        last_index=last,
        count=len(topic.messages),
        size_bytes=topic.size_bytes,
        cursors=tuple(
            CursorView(name, one.index, one.stamp_ms, min(last - one.index, len(topic.messages)))
            for name, one in sorted(topic.cursors.items())
        ),
    )
