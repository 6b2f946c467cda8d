"""The commands about topics and their durable subscriptions (version 10). The rules of `commands`
apply to these too."""

from __future__ import annotations

from typing import TypeAlias

from rollq.grid.stored import Stored


class PutTopic(Stored, frozen=True, tag=60):
    """Create or change a topic: it keeps what is published to subjects of these patterns (in
    canonical form), bounded by age (0: unbounded), size and count."""

    name: str
    patterns: tuple[str, ...]
    age_ms: int
    bytes_max: int
    count_max: int
    by: str = ""


class RemoveTopic(Stored, frozen=True, gc=False, tag=61):
    """Delete a topic with its messages and cursors."""

    name: str
    by: str = ""


class PublishKept(Stored, frozen=True, tag=62):
    """Append these messages to a topic, in this order. Columns: one value per message."""

    topic: str
    subjects: tuple[str, ...]
    payloads: tuple[bytes, ...]
    reply_to: tuple[str, ...] = ()  # empty: no message has one


class CursorMove(Stored, frozen=True, gc=False):
    """A durable subscription has processed everything up to this index."""

    topic: str
    durable: str
    index: int


class MoveCursors(Stored, frozen=True, tag=63):
    """Advance durable subscriptions. An unknown one, or one that is further, is not changed."""

    moves: tuple[CursorMove, ...]


class TopicTrim(Stored, frozen=True, gc=False):
    """The messages of a topic before this index are over its age."""

    topic: str
    before: int


class TrimTopics(Stored, frozen=True, tag=64):
    """Delete messages that are over age."""

    trims: tuple[TopicTrim, ...]


class OpenCursor(Stored, frozen=True, gc=False, tag=65):
    """Record the cursor of a durable subscription. A new one begins with this index (0: with what
    is published from now on; -1: with all that is kept)."""

    topic: str
    durable: str
    from_index: int = 0


class ForgetCursor(Stored, frozen=True, gc=False, tag=66):
    """Delete a durable subscription."""

    topic: str
    durable: str
    by: str = ""


TopicCommand: TypeAlias = (
    PutTopic | RemoveTopic | PublishKept | MoveCursors | TrimTopics | OpenCursor | ForgetCursor
)
