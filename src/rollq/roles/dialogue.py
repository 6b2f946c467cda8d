"""The part of a role's machine that client and worker share: a session with one member.

What their shells tell (events) and are asked to do (instructions) about the connection and the
time. Only records.
"""

from __future__ import annotations

from msgspec import Struct

from rollq.wire.messages import Error, MemberMessage, ToMemberMessage


class Record(Struct, frozen=True, gc=False):
    """An event or an instruction. Nobody changes one, and none is part of a cycle."""


# --- events


class Started(Record, frozen=True):
    """The process is up and wants a leader."""


class Connected(Record, frozen=True):
    """The connection that the last `Connect` asked for is open."""


class Disconnected(Record, frozen=True):
    """That connection broke, or could not be made; `refusal` if that is because we are not let in.
    Never told after a `Disconnect`."""

    refusal: Error | None = None


class Received(Record, frozen=True):
    """A message came on the open connection."""

    message: MemberMessage


class Tick(Record, frozen=True):
    """Time passes. `now_ms` is monotonic."""

    now_ms: int


# --- instructions


class Send(Record, frozen=True):
    """Send this on the open connection."""

    message: ToMemberMessage


class Connect(Record, frozen=True):
    """Dial this member after so long; answer with `Connected` or `Disconnected`."""

    address: str
    delay_ms: int


class Disconnect(Record, frozen=True):
    """Close the connection; say nothing more of it. One that is `stuck` is not waited for: what was
    sent on it and is not taken yet is dropped."""

    stuck: bool = False
