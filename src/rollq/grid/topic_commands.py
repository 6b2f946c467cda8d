"""The commands about topics and about those who read them (version 10). What counts for all
commands (`commands`) counts for these.
"""

from __future__ import annotations

from typing import TypeAlias

from rollq.grid.stored import Stored


class PutTopic(Stored, frozen=True, tag=60):
    """Make a topic, or change what it keeps: what is published to subjects of these patterns (in
    canonical form), so long (0: for ever), so much and so many at most."""

    name: str
    patterns: tuple[str, ...]
    age_ms: int
    bytes_max: int
    count_max: int
    by: str = ""


class RemoveTopic(Stored, frozen=True, gc=False, tag=61):
    """Forget a topic with all that it keeps and all who stand somewhere in it."""

    name: str
    by: str = ""


class PublishKept(Stored, frozen=True, tag=62):
    """Keep these messages in a topic, in this order. Columns: one value a message."""

    topic: str
    subjects: tuple[str, ...]
    payloads: tuple[bytes, ...]
    reply_to: tuple[str, ...] = ()  # empty: no message has one


class CursorMove(Stored, frozen=True, gc=False):
    """A durable subscription is done with all up to this index."""

    topic: str
    durable: str
    index: int


class MoveCursors(Stored, frozen=True, tag=63):
    """Durable subscriptions went on. One that is not there, or is further, stays as it is."""

    moves: tuple[CursorMove, ...]


class TopicTrim(Stored, frozen=True, gc=False):
    """What a topic has before this index is over its age."""

    topic: str
    before: int


class TrimTopics(Stored, frozen=True, tag=64):
    """Drop what is over age."""

    trims: tuple[TopicTrim, ...]


class OpenCursor(Stored, frozen=True, gc=False, tag=65):
    """Remember where a durable subscription stands. If it is not known, it begins with this index
    (0: with what is published from now on; -1: with all that is kept)."""

    topic: str
    durable: str
    from_index: int = 0


class ForgetCursor(Stored, frozen=True, gc=False, tag=66):
    """A durable subscription will not come back."""

    topic: str
    durable: str
    by: str = ""


TopicCommand: TypeAlias = (
    PutTopic | RemoveTopic | PublishKept | MoveCursors | TrimTopics | OpenCursor | ForgetCursor
)
