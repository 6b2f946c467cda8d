"""Browser sessions and failed logins. They are in memory: after a restart users log in again. No
IO; the time is an argument."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from rollq.base.errors import ErrorCode
from rollq.security.secret import Secret
from rollq.web.errors import RequestError
from rollq.web.limits import (
    LOGIN_ADDRESSES_MAX,
    LOGINS_FAILED_MAX,
    LOGINS_S,
    SESSION_IDLE_S,
    SESSIONS_MAX,
)


@dataclass(slots=True)
class BrowserSession:
    """A logged-in browser."""

    token: Secret
    used_at: float


class BrowserSessions:
    """The open sessions, most recently used last."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, BrowserSession] = OrderedDict()

    def add(self, token: Secret, now: float) -> str:
        """Open a session; returns the value of its cookie."""
        name = secrets.token_urlsafe(32)
        self._open[name] = BrowserSession(token, now)
        while len(self._open) > SESSIONS_MAX:
            self._open.popitem(last=False)
        return name

    def find(self, name: str, now: float) -> Secret | None:
        """The token of a session; None if it is unknown or was idle for too long."""
        session = self._open.get(name)
        if session is None:
            return None
        if now - session.used_at > SESSION_IDLE_S:
            del self._open[name]
            return None
        session.used_at = now
        self._open.move_to_end(name)
        return session.token

    def remove(self, name: str) -> None:
        """Close a session."""
        self._open.pop(name, None)


class FailedLogins:
    """Recent failed logins by address."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, list[float]] = OrderedDict()

    def check(self, address: str, now: float) -> None:
        """Raises RequestError, if there are too many."""
        recent = [at for at in self._failed.get(address, ()) if now - at < LOGINS_S]
        if len(recent) >= LOGINS_FAILED_MAX:
            raise RequestError(
                429,
                ErrorCode.OVERLOADED,
                f"{len(recent)} logins of {address} failed within {LOGINS_S:g} s",
                "check the token, and try again in a minute",
            )

    def failed(self, address: str, now: float) -> None:
        """Record a failed login."""
        recent = [at for at in self._failed.pop(address, ()) if now - at < LOGINS_S]
        self._failed[address] = [*recent, now]
        while len(self._failed) > LOGIN_ADDRESSES_MAX:
            self._failed.popitem(last=False)
