"""Topics of a group, which keep what is published to their subjects: made, changed, looked at."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from rollq.base.topic_limits import TOPIC_AGE_MS, TOPIC_BYTES, TOPIC_COUNT
from rollq.grid.topic_views import CursorView as CursorView  # noqa: PLC0414 (part of the API)
from rollq.grid.topic_views import TopicView as TopicView  # noqa: PLC0414 (part of the API)
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.asking import PAGE, GroupCalls


class TopicCalls(GroupCalls):
    """An operator's view of topics."""

    async def put_topic(
        self,
        name: str,
        *patterns: str,
        age_ms: int = TOPIC_AGE_MS,
        bytes_max: int = TOPIC_BYTES,
        count_max: int = TOPIC_COUNT,
    ) -> None:
        """Make a topic, or change one. What is published to its subjects from then on is kept, and
        dropped oldest first when it is beyond a bound.

        Args:
            name: Small letters, digits and dashes, with dots in between.
            patterns: Of the subjects, `prices.>`; none may overlap those of another topic.
            age_ms: How long a message is kept; 0: for ever.
            bytes_max: How much is kept; a message counts 256 bytes more than it carries.
            count_max: How many messages are kept.

        Raises:
            StateError: TOPIC_CONFLICT; GRID_FULL, if all topics together may not keep so much.
            RemoteError: BAD_OPTIONS, BAD_SUBJECT.
        """
        bounds = {"age_ms": age_ms, "bytes_max": bytes_max, "count_max": count_max}
        await self._change("put_topic", name=name, patterns=patterns, **bounds)

    async def remove_topic(self, name: str) -> None:
        """Forget a topic, all that it keeps, and all durable subscriptions of it.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
        await self._change("remove_topic", name=name)

    async def forget_cursor(self, topic: str, durable: str) -> None:
        """Forget a durable subscription: if it comes back, it begins anew.

        Raises:
            StateError: UNKNOWN_TOPIC.
        """
        await self._change("forget_cursor", topic=topic, durable=durable)

    async def topic(self, name: str) -> TopicView | None:
        """One topic, with its durable subscriptions."""
        return decode_known(await self._query("topic", name.encode()), TopicView)

    async def topics(self) -> AsyncGenerator[TopicView, None]:
        """Every topic, by name."""
        after = ""
        while page := decode_as(await self._query("topics", after.encode(), PAGE), list[TopicView]):
            for view in page:
                yield view
            after = page[-1].name
