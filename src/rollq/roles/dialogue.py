"""Events and instructions of the machines of client and worker: a session with one member.

Events come from the shell, instructions go to it. Only records.
"""

from __future__ import annotations

from msgspec import Struct

from rollq.wire.messages import Error, MemberMessage, ToMemberMessage


class Record(Struct, frozen=True, gc=False):
    """An event or an instruction. Immutable, and never part of a reference cycle."""


# --- events


class Started(Record, frozen=True):
    """The process has started."""


class Connected(Record, frozen=True):
    """The connection of the last `Connect` is open."""


class Disconnected(Record, frozen=True):
    """The connection broke, or could not be opened; with `refusal` if the member refused the
    session. Never follows a `Disconnect`."""

    refusal: Error | None = None


class Received(Record, frozen=True):
    """A message arrived on the open connection."""

    message: MemberMessage


class Tick(Record, frozen=True):
    """Time has passed. `now_ms` is monotonic."""

    now_ms: int


# --- instructions


class SendToLeader(Record, frozen=True):
    """Send a message on the open connection."""

    message: ToMemberMessage


class Connect(Record, frozen=True):
    """Dial this member after a delay; answer with `Connected` or `Disconnected`."""

    address: str
    delay_ms: int


class Disconnect(Record, frozen=True):
    """Close the connection; no event follows. With `stuck`, do not wait for the peer: unsent data
    is dropped."""

    stuck: bool = False
