"""Links of clients and workers: their numbers, what they say to the driver, and back-pressure."""

from __future__ import annotations

from collections.abc import Callable

from rollq.base.access import Principal
from rollq.base.limits import OWED_AHEAD_BYTES_MAX
from rollq.net.link import Link
from rollq.roles.member.driver import Driver
from rollq.wire.compact import Message
from rollq.wire.messages import ToMemberMessage


class SessionLinks:
    """A `Service` for clients and workers. While too much waits for the log, none is read; while
    too much of one session does, that one is not.

    Args:
        driver: Takes what they say.
        wake: Called when the driver has something to do.
    """

    def __init__(self, driver: Driver, wake: Callable[[], None]) -> None:
        self._driver = driver
        self._wake = wake
        self._last_number = 0  # a number is never used twice
        self._numbers: dict[Link, int] = {}
        self._links: dict[int, Link] = {}  # the inverse of `_numbers`
        self._accounts: dict[int, str] = {}  # of those whose links have proved one
        self._paused = False
        self._long: dict[int, Link] = {}  # those of which too much waits: they are paused

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Hand messages to the driver."""
        number = self._numbers.get(link)
        if number is None:
            self._last_number = number = self._last_number + 1
            self._numbers[link] = number
            self._links[number] = link
            if principal.method:
                self._accounts[number] = principal.account
        take = self._driver.session_message
        for message in messages:
            if isinstance(message, ToMemberMessage):
                take(number, message)
        leader = self._driver.leader_state
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
        self._driver.session_closed(number)
        self._wake()

    def get(self, number: int) -> Link | None:
        """The link of a session, while it lasts."""
        return self._links.get(number)

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
