"""Links of clients and workers: their numbers, what they say to the driver, and back-pressure."""

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
    """A `Service` for clients and workers. While too much waits for the log, none is read; while
    too much of one session does, that one is not.

    Args:
        driver: Takes what they say.
        wake: Called when the driver has something to do.
        wake_live: Called when there is something to send, and nothing else to do.
    """

    def __init__(
        self, driver: Driver, wake: Callable[[], None], wake_live: Callable[[], None]
    ) -> None:
        self._driver = driver
        self._wake = wake
        self._wake_live = wake_live
        self._last_number = 0  # a number is never used twice
        self._numbers: dict[Link, int] = {}
        self._links: dict[int, Link] = {}  # the inverse of `_numbers`
        self._accounts: dict[int, str] = {}  # of those whose links have proved one
        self._paused = False
        self._long: dict[int, Link] = {}  # those of which too much waits: they are paused
        # Those that do not read what is published, and how many messages they were not sent.
        self._missed: dict[int, int] = {}

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Hand messages to the driver."""
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
            # Nothing of it is for the log, and none waits for consensus to confirm that we lead.
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
        """A session is over."""
        number = self._numbers.pop(link)
        del self._links[number]
        self._accounts.pop(number, None)
        self._long.pop(number, None)
        self._missed.pop(number, None)
        self._driver.session_closed(number)
        self._wake()

    def held(self, link: Link) -> list[Message]:
        """The subscriptions of a session, as it would ask for them now. More than
        SUBSCRIPTIONS_JUDGED_MAX live ones are judged as one subscription to all subjects: a session
        that is refused reconnects, and asks for its subscriptions one by one."""
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
        """The link of a session, while it lasts."""
        return self._links.get(number)

    def deliver(self, batches: Sequence[FanOut]) -> None:
        """Write what was published: each batch is encoded once for all receivers. One that does not
        read is cut off and told, when it has read what waits, how many it missed."""
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
        """Write a batch that stands alone to all who read; what is left of it, for those who do
        not."""
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
        """A session has read on: what is published from now on is sent again."""
        number = self._numbers.get(link)
        count = 0 if number is None else self._missed.pop(number, 0)
        if count:
            self._driver.leader_state.publishing.missed += count
            link.send(Missed(count))

    def account_of(self, number: int) -> str:
        """The account that the link of a session has proved; empty: none."""
        return self._accounts.get(number, "")

    def has_room(self, number: int) -> bool:
        """Whether a session has read most of what it was sent."""
        link = self._links.get(number)
        return link is not None and link.waiting_bytes < OWED_AHEAD_BYTES_MAX

    def maybe_resume(self) -> None:
        """Read again if half of what waited is gone."""
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
