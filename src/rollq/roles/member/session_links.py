"""Links of clients and workers: their session numbers, messages to the driver, and
back-pressure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollq.base.access import Principal
from rollq.base.ids import NIL_ID
from rollq.base.limits import OWED_AHEAD_BYTES_MAX
from rollq.base.subject_limits import SUBSCRIBER_BYTES_MAX, SUBSCRIPTIONS_JUDGED_MAX
from rollq.net.link import Link
from rollq.roles.member.driver import Driver
from rollq.roles.member.leader.publishing import FanOut
from rollq.subjects.grammar import ANY_REST
from rollq.wire.compact import Message
from rollq.wire.messages import ToMemberMessage
from rollq.wire.shared_frames import SharedFrames
from rollq.wire.subject_messages import Missed, Publish, Subscribe


class SessionLinks:
    """A `Service` for clients and workers. No link is read while the backlog of proposals is too
    large; one link is not read while its own share of it is.

    Args:
        driver: Handles the messages.
        wake: Called when the driver has something to do.
        wake_live: Called when there is only something to send.
    """

    def __init__(
        self, driver: Driver, wake: Callable[[], None], wake_live: Callable[[], None]
    ) -> None:
        self._driver = driver
        self._wake = wake
        self._wake_live = wake_live
        self._last_number = 0  # of a session; never reused
        self._numbers: dict[Link, int] = {}
        self._links: dict[int, Link] = {}  # the inverse of `_numbers`
        self._accounts: dict[int, str] = {}  # of the sessions that logged in to one
        self._paused = False
        self._long: dict[int, Link] = {}  # paused, as their own backlog is too large
        # Slow subscribers, and how many published messages each has missed.
        self._missed: dict[int, int] = {}

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Pass messages to the driver."""
        number = self._numbers.get(link)
        if number is None:
            self._last_number = number = self._last_number + 1
            self._numbers[link] = number
            self._links[number] = link
            if principal.method:
                self._accounts[number] = principal.account
        driver, leader = self._driver, self._driver.leader_state
        publishes = [message for message in messages if type(message) is Publish]
        if len(publishes) == len(messages) and driver.leading:
            leader.gateway.publishes(number, publishes)
            # Nothing of it goes into the log, and no read waits for a confirmation of leadership.
            if not leader.proposals and not leader.reads.is_asking:
                self._wake_live()
                return
        else:
            for message in messages:
                if isinstance(message, ToMemberMessage):
                    driver.session_message(number, message)
        if leader.proposals.is_busy_with(number):
            self._long[number] = link
            link.pause()
        if not self._paused and leader.is_busy():
            self._paused = True
            for each in self._links.values():
                each.pause()
        self._wake()

    def closed(self, link: Link, reason: str) -> None:
        """The link of a session closed."""
        number = self._numbers.pop(link)
        del self._links[number]
        self._accounts.pop(number, None)
        self._long.pop(number, None)
        self._missed.pop(number, None)
        self._driver.session_closed(number)
        self._wake()

    def held(self, link: Link) -> list[Message]:
        """The subscriptions of a session as messages, to check them against new rules. More than
        SUBSCRIPTIONS_JUDGED_MAX live ones count as one subscription to all subjects: a session that
        is refused reconnects, and subscribes again one by one."""
        number = self._numbers.get(link)
        if number is None:
            return []
        leader = self._driver.leader_state
        patterns = leader.publishing.subscriptions.patterns_of(number)
        if len(patterns) > SUBSCRIPTIONS_JUDGED_MAX:
            patterns = [ANY_REST]
        live = [Subscribe(NIL_ID, 0, pattern) for pattern in patterns]
        return [*live, *leader.topics.held_by(number)]

    def get(self, number: int) -> Link | None:
        """The link of a session, while it is open."""
        return self._links.get(number)

    def deliver(self, batches: Sequence[FanOut]) -> None:
        """Write published messages: each batch is encoded once for all receivers. A slow receiver
        gets no more until it has read its queue, then the number of missed messages."""
        written: dict[Link, None] = {}
        links, missed = self._links, self._missed
        if len(batches) == 1 and not missed:
            batches = self._write(batches[0])
        for batch in batches:
            shared = SharedFrames(batch.messages)
            for number in batch.receivers:
                link = links.get(number)
                form = None if link is None else link.connection.form
                if link is None or form is None:
                    continue
                if number in missed or link.waiting_bytes > SUBSCRIBER_BYTES_MAX:
                    missed[number] = missed.get(number, 0) + len(batch.messages)
                else:
                    link.post_frames(shared.encoded(form))
                written[link] = None
        for link in written:
            link.flush()
            if missed and self._numbers.get(link) in missed:
                self._await_drained(link)

    def _write(self, batch: FanOut) -> list[FanOut]:
        """Write a batch to all receivers but the slow ones; returns the batch for those."""
        shared = SharedFrames(batch.messages)
        slow = []
        for number in batch.receivers:
            link = self._links.get(number)
            form = None if link is None else link.connection.form
            if link is None or form is None:
                continue
            if link.waiting_bytes > SUBSCRIBER_BYTES_MAX:
                slow.append(number)
            else:
                link.write_now(shared.encoded(form))
        return [FanOut(tuple(slow), batch.messages)] if slow else []

    def _await_drained(self, link: Link) -> None:
        if link.waiting_bytes:
            link.notify_drained(self._drained)
        else:
            self._drained(link)

    def _drained(self, link: Link) -> None:
        """A slow session has read its queue: report what it missed, and deliver again."""
        number = self._numbers.get(link)
        count = 0 if number is None else self._missed.pop(number, 0)
        if count:
            self._driver.leader_state.publishing.missed += count
            link.send(Missed(count))

    def account_of(self, number: int) -> str:
        """The account of a session; empty: none."""
        return self._accounts.get(number, "")

    def has_room(self, number: int) -> bool:
        """Whether a session has read enough of its queue to be sent more."""
        link = self._links.get(number)
        return link is not None and link.waiting_bytes < OWED_AHEAD_BYTES_MAX

    def maybe_resume(self) -> None:
        """Read paused links again once the backlog has halved."""
        leader = self._driver.leader_state
        for number in [one for one in self._long if not leader.proposals.is_busy_with(one, 2)]:
            link = self._long.pop(number)
            if not self._paused:
                link.resume()
        if self._paused and not leader.is_busy(2):
            self._paused = False
            for number, link in self._links.items():
                if number not in self._long:
                    link.resume()
