"""What an application holds of a subscription, and of what is published to it.

A subscription keeps a bounded number of messages for its reader; what comes when it is full is
counted and dropped, so that a slow reader never holds up jobs on the same connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rollq.base.errors import DeadlineError, ErrorCode, LocalError, RollqError, StateError
from rollq.base.subject_limits import SUBSCRIPTION_BYTES_MAX, SUBSCRIPTION_MESSAGES_MAX
from rollq.roles.client.topic_places import TopicPlace
from rollq.wire.subject_messages import Subscribe

if TYPE_CHECKING:
    from rollq.roles.client.subjects import Subjects


@dataclass(slots=True, repr=False)
class Publication:
    """A message that was published.

    Attributes:
        subject: Where, in small letters.
        payload: As it was published.
        reply_to: Where an answer goes; empty: none is waited for.
        queue_group: The group of the subscription that got it.
        topic: Which keeps it; empty: none, it is live.
        index: Its place in that topic.
        stamp_ms: When that topic took it.
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
        """The payload as UTF-8; what is none is replaced."""
        return self.payload.decode(errors="replace")

    async def respond(self, payload: bytes | str = b"") -> None:
        """Answer whoever asked.

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
    """What is published to a pattern, as it comes. Iterate over it; leaving the block of `async
    with`, or `close`, ends it.

    Attributes:
        pattern: What it is for.
        queue_group: Whose one member gets each message; empty: all do.
        missed: How many messages did not come: this reader was slow, or the connection was, in
            which case the member does not know for which of its subscriptions they were, and all
            are told. Of one that reads a topic: how many the topic dropped before their turn.
        topic: That it reads; empty: it is live.
        durable: The name under which the group remembers where it stands; empty: it does not.
    """

    pattern: str
    queue_group: str
    missed: int
    topic: str
    durable: str

    def __init__(self, subjects: Subjects, asked: Subscribe) -> None:
        self.pattern = asked.pattern
        self.queue_group = asked.queue_group
        self.missed = 0
        self.topic = asked.topic
        self.durable = asked.durable
        self.place = TopicPlace(asked) if asked.topic else None
        self._subjects = subjects
        self._request_id = asked.request_id
        self._queue: deque[Publication] = deque()
        self._queued_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: RollqError | None = None
        self._is_over = False

    async def __aexit__(self, *exc: object) -> None:
        self.close()
        await asyncio.sleep(0)  # the leader is told in this turn of the loop

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Publication:
        self._next_asked()
        while not self._queue:
            if not await self._wait():
                raise StopAsyncIteration
        message = self._queue.popleft()
        self._queued_bytes -= len(message.payload)
        self._handed(message)
        return message

    async def next(self, timeout: float | None = None) -> Publication:
        """The next message.

        Raises:
            DeadlineError: none came in time.
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
        """All messages that are here, at least one; empty: it is closed."""
        self._next_asked()
        while not self._queue:
            if not await self._wait():
                return []
        taken = list(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._handed(taken[-1])
        return taken

    def consumed(self, message: Publication) -> None:
        """Be done with a message of a topic and with all before it, before the next is asked for,
        which says the same. The group remembers it for a durable subscription, some tenths of a
        second later.

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
        self._subjects.tell_consumed(self)

    def close(self) -> None:
        """Get no more. What came before can still be read."""
        if not self._is_over:
            self._is_over = True
            self._subjects.close(self, self._request_id)
            self._wake()

    # --- for the client

    def deliver(self, message: Publication) -> None:
        """A message came. Of a topic no more come than TOPIC_WINDOW: none is dropped."""
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
        """Nothing more will come, for this reason."""
        self._error = self._error or error
        self._is_over = True
        self._wake()

    def _next_asked(self) -> None:
        if self.place is not None:
            self.place.next_asked()
            self._subjects.tell_consumed(self)

    def _handed(self, message: Publication) -> None:
        if self.place is not None:
            self.place.handed(message.index)

    async def _wait(self) -> bool:
        """Wait for something to be here; false if nothing more comes."""
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
