"""Publishes and subscriptions of one client.

A message has a subject and no subscription id: matching subscriptions are found here, and cached by
subject. Messages that are published in one loop turn are sent by one write.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from rollq.base.errors import (
    DeadlineError,
    DialError,
    ErrorCode,
    LocalError,
    RemoteError,
    RollqError,
    StateError,
)
from rollq.base.ids import NIL_ID, MessageId
from rollq.base.subject_limits import (
    CLIENT_SUBJECTS_KEPT_MAX,
    PUBLISH_AHEAD_BYTES_MAX,
    PUBLISH_AT_ONCE_BYTES_MAX,
    PUBLISH_AT_ONCE_MAX,
    PUBLISH_BYTES_MAX,
)
from rollq.net.link import Link
from rollq.roles.client.answers import error_of
from rollq.roles.client.session.group_session import Answer
from rollq.roles.client.session.older_leaders import TOO_OLD
from rollq.roles.client.topics.subscriptions import Publication, Subscription
from rollq.subjects.grammar import Tokens, parse_pattern, parse_subject
from rollq.subjects.queues import check_typed
from rollq.subjects.reserved import INBOX
from rollq.subjects.trie import Trie
from rollq.wire import messages as wire
from rollq.wire.subject_messages import Deliver, Missed, Publish, Subscribe

if TYPE_CHECKING:
    from rollq.roles.client.engine.one_group import GroupEngine

STOPPED: Final = "the client was stopped"
DRAIN_LOOK_S: Final = 0.1  # poll interval for a lost link, while waiting for its buffer to drain


class Subjects:
    """Publishes and subscriptions of one client."""

    def __init__(self, engine: GroupEngine) -> None:
        self._engine = engine
        engine.session.on_published = self._on_published
        self._last_number = 0
        self._by_id: dict[MessageId, Subscription] = {}
        self._readers: dict[int, Subscription] = {}  # of topics, by number
        self._acks_scheduled = False  # acknowledgements are sent at the end of this loop turn
        self._trie: Trie[Subscription] = Trie()
        # Cache by subject and queue group; cleared when a subscription is added or removed.
        self._routes: dict[tuple[str, str], list[Subscription]] = {}
        self._turn_counters: dict[str, int] = {}  # round-robin counters of queue groups
        self._valid: dict[str, None] = {}  # checked subjects; at most CLIENT_SUBJECTS_KEPT_MAX
        self._posted = 0  # messages and bytes since the last flush
        self._posted_bytes = 0
        # Resolved when the buffer of the link has drained; shared by all that wait for it.
        self._drained: tuple[Link, asyncio.Future[None]] | None = None
        self._leader_waiters: dict[asyncio.Future[None], None] = {}  # calls that wait for a leader
        self._inbox = ""  # reply subject prefix of this session; empty: none yet
        self._inbox_id: MessageId = NIL_ID
        self._inbox_ready: asyncio.Task[None] | None = None
        self._replies: dict[str, asyncio.Future[Publication]] = {}  # by reply subject
        self._reply_count = 0

    # --- publishing

    async def publish(
        self,
        subject: str,
        payload: bytes | str,
        *,
        confirm: bool = False,
        timeout_s: float | None = None,
    ) -> int:
        """See `SubjectCalls.publish`."""
        data = self._checked(subject, payload)
        if confirm:
            asked = Publish(subject, data, request_id=secrets.token_bytes(16))
            return int((await self._engine.call(asked, timeout_s)).count)
        link = self._engine.session.link or await self._opened(timeout_s)
        if link.connection.form is None:
            raise StateError(ErrorCode.UNSUPPORTED_VERSION, TOO_OLD)
        link.send(Publish(subject, data))
        self._posted += 1
        self._posted_bytes += len(data)
        if self._posted >= PUBLISH_AT_ONCE_MAX or self._posted_bytes >= PUBLISH_AT_ONCE_BYTES_MAX:
            await self._flush(link)
        return 0

    async def request(
        self, subject: str, payload: bytes | str, timeout_s: float | None
    ) -> Publication:
        """See `SubjectCalls.request`."""
        data = self._checked(subject, payload)
        wait_s = self._engine.timeout_s if timeout_s is None else timeout_s
        replied: asyncio.Future[Publication] = self._engine.loop.create_future()
        reply_to, request_id = "", secrets.token_bytes(16)

        def on_answer(answer: Answer) -> None:
            if type(answer) is wire.Error and not replied.done():
                replied.set_exception(error_of(answer))

        try:
            async with asyncio.timeout(wait_s):
                while not self._inbox:  # it is lost with its session
                    await self._open_inbox()
                self._reply_count += 1
                reply_to = f"{self._inbox}.{self._reply_count}"
                self._replies[reply_to] = replied
                self._engine.ask(Publish(subject, data, reply_to, request_id), on_answer)
                return await replied
        except TimeoutError:
            if not self._engine.session.is_open or not reply_to:
                raise self._engine.timeout_error("a request", wait_s, submits=False) from None
            raise DeadlineError(
                ErrorCode.TIMED_OUT,
                f"no answer within {wait_s:g} s to a request to {subject!r}",
                "the subscriber is slow or does not answer: give a longer timeout, or check it",
            ) from None
        finally:
            self._replies.pop(reply_to, None)
            self._engine.give_up(request_id)

    # --- subscriptions

    async def subscribe(
        self,
        pattern: str,
        queue_group: str,
        timeout_s: float | None,
        *,
        topic: str = "",
        durable: str = "",
        from_index: int = 0,
    ) -> Subscription:
        """See `SubjectCalls.subscribe`."""
        _parsed(parse_pattern, pattern)
        if (durable or from_index) and not topic:
            what = "durable" if durable else "from_index"
            raise LocalError(ErrorCode.BAD_OPTIONS, f"{what} without topic", "name the topic")
        self._last_number += 1
        ident = secrets.token_bytes(16), self._last_number, pattern, queue_group
        asked = Subscribe(*ident, topic, durable, from_index)
        subscription = Subscription(self, asked)
        # Registered before the request: the first message may precede its response.
        self._by_id[asked.request_id] = subscription
        self._register(subscription)
        try:
            await self._engine.call(asked, timeout_s)
        except BaseException:
            subscription.close()
            raise
        return subscription

    def close(self, subscription: Subscription, request_id: MessageId) -> None:
        """End a subscription."""
        if self._by_id.pop(request_id, None) is not None:
            self._send_acks()  # its last acknowledgement
            self._unregister(subscription)
            if subscription.queue_group:
                self._turn_counters.pop(subscription.queue_group, None)
            self._engine.session.unsubscribe(request_id)

    def schedule_acks(self, subscription: Subscription) -> None:
        """Send the acknowledgements of topic readers, once per loop turn. Without a leader, they
        are sent when the next leader repeats messages."""
        if (
            subscription.place is not None
            and subscription.place.has_unsent_ack
            and not self._acks_scheduled
        ):
            self._acks_scheduled = True
            self._engine.loop.call_soon(self._send_acks)

    def _send_acks(self) -> None:
        self._acks_scheduled = False
        link = self._engine.session.link
        if link is None:
            return
        for reader in self._readers.values():
            if reader.place is not None and reader.place.has_unsent_ack:
                link.send(reader.place.take_ack())

    def _register(self, subscription: Subscription) -> None:
        """Register a subscription: by number if it reads a topic, else by pattern."""
        if subscription.place is not None:
            self._readers[subscription.place.asked.number] = subscription
        else:
            self._trie.insert(subscription.pattern, subscription)
            self._routes.clear()

    def _unregister(self, subscription: Subscription) -> None:
        if subscription.place is not None:
            self._readers.pop(subscription.place.asked.number, None)
        else:
            self._trie.remove(subscription.pattern, subscription)
            self._routes.clear()

    def session_changed(self, *, is_open: bool) -> None:
        """A session was opened or lost. The inbox is lost with the session, so pending requests
        fail."""
        if is_open:
            for waiter in self._leader_waiters:
                if not waiter.done():
                    waiter.set_result(None)
        else:
            for reader in self._readers.values():
                if reader.place is not None:
                    self._engine.session.resume(reader.place.resumed())
            self._lose_inbox(
                StateError(
                    ErrorCode.OUTCOME_UNKNOWN,
                    "the session broke before the answer came",
                    "repeat the request, if handling it twice does no harm",
                )
            )

    def stop(self) -> None:
        """The client stops: fail all subscriptions and pending calls."""
        error = DialError(ErrorCode.DISCONNECTED, STOPPED)
        self._lose_inbox(error)
        for waiter in self._leader_waiters:
            if not waiter.done():
                waiter.set_exception(error)
        for subscription in list(self._by_id.values()):
            subscription.fail(error)
        self._by_id.clear()
        self._readers.clear()
        self._trie = Trie()
        self._routes.clear()
        self._turn_counters.clear()

    # --- received messages

    def _on_published(self, messages: Sequence[Deliver | Missed | wire.Error]) -> None:
        routes = self._routes
        for message in messages:
            if type(message) is Deliver and message.number:
                self._on_topic_message(message)
            elif type(message) is Deliver:
                key = (message.subject, message.queue_group)
                targets = routes.get(key)
                if targets is None:
                    if message.subject in self._replies:
                        self._resolve_reply(message)
                        continue
                    targets = self._route(key)
                if targets:
                    given = self._publication(message)
                    for target in targets:
                        target.deliver(given)
            elif type(message) is Missed:
                self._on_missed(message)
            elif type(message) is wire.Error:
                self._on_error(message)

    def _on_topic_message(self, message: Deliver) -> None:
        """Deliver a message of a topic to its subscription."""
        reader = self._readers.get(message.number)
        if reader is not None and reader.place is not None:
            if reader.place.takes(message):
                reader.deliver(self._publication(message))
            self.schedule_acks(reader)

    def _on_missed(self, message: Missed) -> None:
        if not message.number:
            for subscription in self._by_id.values():
                if subscription.place is None:
                    subscription.missed += message.count
        elif (reader := self._readers.get(message.number)) is not None and reader.place is not None:
            reader.missed += reader.place.missed(message)

    def _route(self, key: tuple[str, str]) -> list[Subscription]:
        """The subscriptions that get a message: all without a queue group, or the next of the
        group."""
        subject, queue_group = key
        found = [one for one in self._trie.match(subject) if one.queue_group == queue_group]
        if len(found) > 1 and queue_group:
            turn = self._turn_counters.get(queue_group, 0)
            self._turn_counters[queue_group] = turn + 1
            return [found[turn % len(found)]]
        if len(self._routes) >= CLIENT_SUBJECTS_KEPT_MAX:
            self._routes.clear()
        self._routes[key] = found
        return found

    def _resolve_reply(self, message: Deliver) -> None:
        replied = self._replies.pop(message.subject)
        if not replied.done():
            replied.set_result(self._publication(message))

    def _publication(self, message: Deliver) -> Publication:
        return Publication(
            message.subject,
            message.payload,
            message.reply_to,
            message.queue_group,
            topic=message.topic,
            index=message.index,
            stamp_ms=message.stamp_ms,
            _subjects=self,
        )

    def _on_error(self, error: wire.Error) -> None:
        subscription = self._by_id.pop(error.request_id, None)
        if subscription is not None:
            self._unregister(subscription)
            subscription.fail(error_of(error))

    # --- helpers

    def _checked(self, subject: str, payload: bytes | str) -> bytes:
        """Check a message here, because the leader drops an invalid one without a response."""
        if subject not in self._valid:
            if not _parsed(parse_subject, subject):
                raise LocalError(ErrorCode.BAD_SUBJECT, "the subject is empty", "as in prices.eur")
            if len(self._valid) >= CLIENT_SUBJECTS_KEPT_MAX:
                self._valid.clear()
            self._valid[subject] = None
        data = payload.encode() if isinstance(payload, str) else bytes(payload)
        if len(data) > PUBLISH_BYTES_MAX:
            raise LocalError(
                ErrorCode.BAD_PAYLOAD,
                f"a payload of {len(data)} bytes",
                f"publish at most {PUBLISH_BYTES_MAX}; `upload` more, and publish the digest",
            )
        return data

    async def _opened(self, timeout_s: float | None) -> Link:
        """Wait for a leader; returns the connection to it."""
        wait_s = self._engine.timeout_s if timeout_s is None else timeout_s
        loop = self._engine.loop
        try:
            async with asyncio.timeout(wait_s):
                while (link := self._engine.session.link) is None:
                    waiter = loop.create_future()
                    self._leader_waiters[waiter] = None
                    try:
                        await waiter
                    finally:
                        del self._leader_waiters[waiter]
        except TimeoutError:
            raise self._engine.timeout_error("a publish", wait_s, submits=False) from None
        return link

    async def _flush(self, link: Link) -> None:
        """Flush, wait while the send buffer is too full, and let other tasks run."""
        self._posted = self._posted_bytes = 0
        link.flush()
        if link.waiting_bytes > PUBLISH_AHEAD_BYTES_MAX:
            if self._drained is None or self._drained[0] is not link or self._drained[1].done():
                # The callback is not called for a lost link, so the loop below polls that.
                self._drained = link, asyncio.get_running_loop().create_future()
                link.notify_drained(self._on_drained)
            drained = self._drained[1]
            while not drained.done() and link.is_open:
                await asyncio.wait((drained,), timeout=DRAIN_LOOK_S)
        else:
            await asyncio.sleep(0)

    def _on_drained(self, link: Link) -> None:
        if self._drained is not None and self._drained[0] is link and not self._drained[1].done():
            self._drained[1].set_result(None)

    async def _open_inbox(self) -> None:
        """Subscribe to an inbox, once per session."""
        if self._inbox_ready is None:
            self._inbox_ready = self._engine.loop.create_task(self._subscribe_inbox())
        ready = self._inbox_ready
        await asyncio.shield(ready)

    async def _subscribe_inbox(self) -> None:
        inbox = f"{INBOX}.{secrets.token_hex(16)}"
        self._last_number += 1
        asked = Subscribe(secrets.token_bytes(16), self._last_number, f"{inbox}.>")
        try:
            await self._engine.call(asked)
            self._inbox, self._inbox_id = inbox, asked.request_id
        except BaseException:
            self._engine.session.unsubscribe(asked.request_id)
            raise
        finally:
            self._inbox_ready = None

    def _lose_inbox(self, error: RollqError) -> None:
        if self._inbox:
            self._inbox = ""
            self._engine.session.unsubscribe(self._inbox_id)
        replies, self._replies = self._replies, {}
        for replied in replies.values():
            if not replied.done():
                replied.set_exception(error)


def _parsed(parse: Callable[[str], Tokens], text: str) -> Tokens:
    """Parse a subject or pattern; an error is raised as LocalError."""
    check_typed(text)
    try:
        return parse(text)
    except RemoteError as error:
        raise LocalError(error.code, error.message, error.hint) from None
