"""Sessions of browsers, and how often a login may fail. In memory: a restart asks everybody for
their token again. No IO; the time is handed in."""

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
class Session:
    """A browser that logged in."""

    token: Secret
    used_at: float


class Sessions:
    """Those that are open, the one that was used last at the end."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Session] = OrderedDict()

    def add(self, token: Secret, now: float) -> str:
        """A new one; what its cookie says."""
        name = secrets.token_urlsafe(32)
        self._open[name] = Session(token, now)
        while len(self._open) > SESSIONS_MAX:
            self._open.popitem(last=False)
        return name

    def find(self, name: str, now: float) -> Secret | None:
        """The token of a session; None if there is none, or it was not used for too long."""
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
        """It is over."""
        self._open.pop(name, None)


class FailedLogins:
    """How often logins failed lately, by the address that they came from."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, list[float]] = OrderedDict()

    def check(self, address: str, now: float) -> None:
        """Raises RequestError, if too many failed."""
        recent = [at for at in self._failed.get(address, ()) if now - at < LOGINS_S]
        if len(recent) >= LOGINS_FAILED_MAX:
            raise RequestError(
                429,
                ErrorCode.OVERLOADED,
                f"{len(recent)} logins of {address} failed within {LOGINS_S:g} s",
                "check the token, and try again in a minute",
            )

    def failed(self, address: str, now: float) -> None:
        """One more."""
        recent = [at for at in self._failed.pop(address, ()) if now - at < LOGINS_S]
        self._failed[address] = [*recent, now]
        while len(self._failed) > LOGIN_ADDRESSES_MAX:
            self._failed.popitem(last=False)
