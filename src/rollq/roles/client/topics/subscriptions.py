"""Subscriptions and their messages, as the application uses them.

A live subscription buffers a bounded number of messages. When the buffer is full, new messages are
counted and dropped, so that a slow reader never delays jobs on the same connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RollqError, StateError
from rollq.base.subject_limits import SUBSCRIPTION_BYTES_MAX, SUBSCRIPTION_MESSAGES_MAX
from rollq.roles.client.topics.positions import TopicPosition
from rollq.wire.subject_messages import Subscribe

if TYPE_CHECKING:
    from rollq.roles.client.topics.subjects import Subjects


@dataclass(slots=True, repr=False)
class Publication:
    """A message of a subscription.

    Attributes:
        subject: The subject, in lower case.
        payload: As it was published.
        reply_to: The subject for a response; empty: none is expected.
        queue_group: The group of the subscription that received it.
        topic: The topic that stores it; empty: none, it is live.
        index: Its index in the topic.
        stamp_ms: When the topic stored it.
    """

    subject: str
    payload: bytes
    reply_to: str = ""
    queue_group: str = ""
    topic: str = ""
    index: int = 0
    stamp_ms: int = 0
    _subjects: Subjects | None = None

    def __repr__(self) -> str:
        return f"<Publication {self.subject} {len(self.payload)} bytes>"

    @property
    def text(self) -> str:
        """The payload as text; invalid UTF-8 is replaced."""
        return self.payload.decode(errors="replace")

    async def respond(self, payload: bytes | str = b"") -> None:
        """Send a response to a request.

        Raises:
            LocalError: BAD_OPTIONS, if the message is not a request.
        """
        if not self.reply_to or self._subjects is None:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"the message published to {self.subject!r} is not a request",
                "answer only messages with a `reply_to`, sent by `request`",
            )
        await self._subjects.publish(self.reply_to, payload)


class Subscription(AbstractAsyncContextManager["Subscription"]):
    """The messages of a pattern, as an asynchronous iterator. Leaving the `async with` block, or
    `close`, ends it.

    Attributes:
        pattern: The pattern.
        queue_group: Its queue group; empty: none.
        missed: How many messages were lost, because this reader was too slow, or the connection
            was; the latter are counted for all live subscriptions of the client, because the
            member does not know which they were for. For a topic: how many it dropped unread.
        topic: The topic that it reads; empty: it is live.
        durable: The name under which the group stores its position; empty: it does not.
    """

    pattern: str
    queue_group: str
    missed: int
    topic: str
    durable: str

    def __init__(self, subjects: Subjects, request: Subscribe) -> None:
        self.pattern = request.pattern
        self.queue_group = request.queue_group
        self.missed = 0
        self.topic = request.topic
        self.durable = request.durable
        self.place = TopicPosition(request) if request.topic else None
        self._subjects = subjects
        self._request_id = request.request_id
        self._queue: deque[Publication] = deque()
        self._queued_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: RollqError | None = None
        self._is_over = False

    async def __aexit__(self, *exc: object) -> None:
        self.close()
        await asyncio.sleep(0)  # let the loop send the unsubscribe

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Publication:
        self._next_asked()
        while not self._queue:
            if not await self._wait():
                raise StopAsyncIteration
        message = self._queue.popleft()
        self._queued_bytes -= len(message.payload)
        self._mark_read(message)
        return message

    async def next(self, timeout: float | None = None) -> Publication:
        """Return the next message.

        Raises:
            DeadlineError: there was none in time.
            StateError: it is closed.
        """
        try:
            async with asyncio.timeout(timeout):
                return await anext(self)
        except TimeoutError:
            raise DeadlineError(
                ErrorCode.TIMED_OUT, f"nothing was published to {self.pattern!r} in {timeout:g} s"
            ) from None
        except StopAsyncIteration:
            raise StateError(ErrorCode.WRONG_STATE, "the subscription is closed") from None

    async def take(self) -> list[Publication]:
        """Return all messages received so far, waiting for at least one; empty if it is closed."""
        self._next_asked()
        while not self._queue:
            if not await self._wait():
                return []
        taken = list(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._mark_read(taken[-1])
        return taken

    def consumed(self, message: Publication) -> None:
        """Acknowledge a message of a topic and all before it, which reading the next one does too.
        For a durable subscription the group stores the position some tenths of a second later.

        Raises:
            LocalError: BAD_OPTIONS, if this reads no topic, or the message is of another.
        """
        if self.place is None or message.topic != self.topic:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "a live subscription has no acknowledgements",
                "subscribe with topic=…",
            )
        self.place.consumed(message.index)
        self._subjects.schedule_acks(self)

    def close(self) -> None:
        """End the subscription. Messages received before can still be read."""
        if not self._is_over:
            self._is_over = True
            self._subjects.close(self, self._request_id)
            self._wake()

    # --- called by the client

    def deliver(self, message: Publication) -> None:
        """Add a message. Those of a topic are never dropped: TOPIC_WINDOW limits them."""
        size_bytes = self._queued_bytes + len(message.payload)
        is_full = len(self._queue) >= SUBSCRIPTION_MESSAGES_MAX
        if self.place is None and (is_full or size_bytes > SUBSCRIPTION_BYTES_MAX):
            self.missed += 1
            return
        self._queue.append(message)
        self._queued_bytes = size_bytes
        if self._waiter is not None:
            self._wake()

    def fail(self, error: RollqError) -> None:
        """The subscription has ended with an error."""
        self._error = self._error or error
        self._is_over = True
        self._wake()

    def _next_asked(self) -> None:
        if self.place is not None:
            self.place.reads_on()
            self._subjects.schedule_acks(self)

    def _mark_read(self, message: Publication) -> None:
        if self.place is not None:
            self.place.mark_read(message.index)

    async def _wait(self) -> bool:
        """Wait for a message; false if there will be none."""
        if self._error is not None:
            raise self._error
        if self._is_over:
            return False
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiter)
        return True

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def __repr__(self) -> str:
        return f"<Subscription {self.pattern} {len(self._queue)} here, {self.missed} missed>"
