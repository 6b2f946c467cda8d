"""The next address to dial: shared by the machines of workers and clients. Pure.

Knows the addresses of the group's members, follows a redirect at once, and backs off up to a second
while no member accepts the session: a wait must not outlive the fault. After a lost session the
first tries are quick, as an election takes less time than the first long wait. Two members that
name each other as leader must not cause a busy loop: only the first redirect after a welcome (or
after a wait) is free of a wait.

A member that fell silent is not dialed again during the quick tries, even if others still name it
as the leader: its listening socket accepts connections, and every hello would be lost. It is tried
again if another member cannot be reached either: it may have been electing, or slow. Before the
first welcome it is not avoided: it is probably starting, together with its group.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollq.base.limits import (
    REDIAL_ADDRESSES_MAX,
    REDIAL_MAX_MS,
    REDIAL_MIN_MS,
    REDIAL_QUICK_MS,
    REDIAL_QUICK_TRIES,
    REDIAL_REFUSED_MS,
)
from rollq.base.stamp import Jitter
from rollq.policy.retry import backoff_ms


class Redial:
    """Addresses and backoff."""

    __slots__ = (
        "_addresses",
        "_at",
        "_failures",
        "_jitter",
        "_max_ms",
        "_quick_left",
        "_redirected",
        "_silent",
        "_was_welcomed",
    )

    def __init__(
        self, addresses: Iterable[str], jitter: Jitter, max_ms: int = REDIAL_MAX_MS
    ) -> None:
        self._addresses = list(dict.fromkeys(addresses))
        if not self._addresses:
            raise ValueError("at least one address is needed")
        self._jitter = jitter
        self._max_ms = max_ms  # the longest wait, ± 20 %
        self._at = 0
        self._failures = 0
        self._quick_left = 0
        self._redirected = False
        self._silent = ""  # the member that fell silent, until another welcomes or fails
        self._was_welcomed = False  # by any member

    @property
    def addresses(self) -> tuple[str, ...]:
        """All known members."""
        return tuple(self._addresses)

    @property
    def address(self) -> str:
        """The member that is dialed now, or was last."""
        return self._addresses[self._at]

    def welcomed(self, members: Iterable[str] = ()) -> None:
        """A member sent Welcome, with other addresses: the next search starts with short waits."""
        self._learn(members)
        self._failures = 0
        self._quick_left = REDIAL_QUICK_TRIES
        self._redirected = False
        self._silent = ""
        self._was_welcomed = True

    def failed(self) -> tuple[str, int]:
        """The connection broke or could not be opened: the next address, and the delay."""
        next_one = self._next()
        self._silent = ""
        return next_one

    def refused(self) -> tuple[str, int]:
        """The member refused the session, and others will too: the next address, with a long
        delay."""
        self._advance()
        self._silent = ""
        return self.address, backoff_ms(1, REDIAL_REFUSED_MS, REDIAL_REFUSED_MS, self._jitter)

    def silent(self) -> tuple[str, int]:
        """The dialed member is silent: the next address, without a delay if there is another."""
        silent = self.address
        self._silent = silent if self._was_welcomed else ""
        self._quick_left = REDIAL_QUICK_TRIES
        self._redirected = False
        self._advance()
        return self.address, 0 if self.address != silent else self._wait_ms()

    def reachable(self, address: str) -> tuple[str, int]:
        """A member accepts connections again: dial it at once."""
        self._at = self._addresses.index(address)
        return self.address, 0

    def redirected(self, leader: str, members: Iterable[str]) -> tuple[str, int]:
        """A member named the leader, or knows none: the next address, and the delay."""
        self._learn(members)
        if not leader or leader == self.address:
            return self._next()
        self._learn((leader,))
        if leader not in self._addresses or self._is_avoided(leader):
            return self._next()
        self._at = self._addresses.index(leader)
        if self._redirected:
            return leader, self._wait_ms()
        self._redirected = True
        return leader, 0

    def _learn(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            if len(self._addresses) >= REDIAL_ADDRESSES_MAX:
                return
            if address and address not in self._addresses:
                self._addresses.append(address)

    def _next(self) -> tuple[str, int]:
        self._advance()
        return self.address, self._wait_ms()

    def _advance(self) -> None:
        """Go to the next address, but not yet to the silent member."""
        count = len(self._addresses)
        self._at = (self._at + 1) % count
        if count > 1 and self._is_avoided(self.address):
            self._at = (self._at + 1) % count

    def _is_avoided(self, address: str) -> bool:
        return address == self._silent and self._quick_left > 0

    def _wait_ms(self) -> int:
        self._redirected = False
        if self._quick_left:
            wait_ms = REDIAL_QUICK_MS * (1 + REDIAL_QUICK_TRIES - self._quick_left)
            self._quick_left -= 1
            return backoff_ms(1, wait_ms, wait_ms, self._jitter)
        self._failures += 1
        return backoff_ms(self._failures, REDIAL_MIN_MS, self._max_ms, self._jitter)
