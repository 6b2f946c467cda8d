"""The part of a role's machine that client and worker share: a session with one member.

What their shells tell (events) and are asked to do (instructions) about the connection and the
time. Only records. Nobody changes one after it was made; they are not frozen, because that makes
each three times as dear to make, and every job takes half a dozen.
"""

from __future__ import annotations

from dataclasses import dataclass

from rollq.wire.messages import SessionMessage

# --- events


@dataclass(slots=True)
class Started:
    """The process is up and wants a leader."""


@dataclass(slots=True)
class Connected:
    """The connection that the last `Connect` asked for is open."""


@dataclass(slots=True)
class Disconnected:
    """That connection broke, or could not be made. Never told after a `Disconnect`."""


@dataclass(slots=True)
class Received:
    """A message came on the open connection."""

    message: SessionMessage


@dataclass(slots=True)
class Tick:
    """Time passes. `now_ms` is monotonic."""

    now_ms: int


# --- instructions


@dataclass(slots=True)
class Send:
    """Send this on the open connection."""

    message: SessionMessage


@dataclass(slots=True)
class Connect:
    """Dial this member after so long; answer with `Connected` or `Disconnected`."""

    address: str
    delay_ms: int


@dataclass(slots=True)
class Disconnect:
    """Close the connection; say nothing more of it."""
