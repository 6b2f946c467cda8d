"""`client.admin`: topics, which store the messages of their subjects."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from rollq.base.topic_limits import TOPIC_AGE_MS, TOPIC_BYTES, TOPIC_COUNT
from rollq.grid.topic_views import CursorView as CursorView  # noqa: PLC0414 (part of the API)
from rollq.grid.topic_views import TopicView as TopicView  # noqa: PLC0414 (part of the API)
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.calls.facades import PAGE, GroupCalls


class TopicCalls(GroupCalls):
    """Create, change, inspect and delete topics."""

    async def put_topic(
        self,
        name: str,
        *patterns: str,
        age_ms: int = TOPIC_AGE_MS,
        bytes_max: int = TOPIC_BYTES,
        count_max: int = TOPIC_COUNT,
    ) -> None:
        """Create or change a topic. It stores messages that are published to its subjects from then
        on. Beyond a bound the oldest are dropped.

        Args:
            name: Lower case letters, digits and dashes, with dots in between.
            patterns: Of its subjects, such as `prices.>`; they must not overlap with another topic.
            age_ms: How long a message is kept; 0: without limit.
            bytes_max: Maximum size; a message counts 256 bytes more than its payload.
            count_max: Maximum number of messages.

        Raises:
            StateError: TOPIC_CONFLICT; GRID_FULL, if the sum over all topics exceeds the limit.
            RemoteError: BAD_OPTIONS, BAD_SUBJECT.
        """
        bounds = {"age_ms": age_ms, "bytes_max": bytes_max, "count_max": count_max}
        await self._change("put_topic", name=name, patterns=patterns, **bounds)

    async def remove_topic(self, name: str) -> None:
        """Delete a topic with its messages and durable subscriptions.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
        await self._change("remove_topic", name=name)

    async def forget_cursor(self, topic: str, durable: str) -> None:
        """Delete the position of a durable subscription; it begins anew if it is used again.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
        await self._change("forget_cursor", topic=topic, durable=durable)

    async def topic(self, name: str) -> TopicView | None:
        """Return a topic with its durable subscriptions; None if it does not exist."""
        return decode_known(await self._query("topic", name.encode()), TopicView)

    async def topics(self) -> AsyncGenerator[TopicView, None]:
        """Iterate over all topics, ordered by name."""
        after = ""
        while page := decode_as(await self._query("topics", after.encode(), PAGE), list[TopicView]):
            for view in page:
                yield view
            after = page[-1].name
