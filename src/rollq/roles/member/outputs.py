"""Outputs of the driver for its shell to carry out. The shell encodes and writes; it decides
nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from rollq.base.log_events import LogEvent
from rollq.raft.types import RaftMessage
from rollq.wire.messages import AssignJob, MemberMessage, PeerMessage, Result


class ToPeer(msgspec.Struct, frozen=True, gc=False):
    """A message for another member."""

    address: str
    message: RaftMessage | PeerMessage


class ClosePeer(msgspec.Struct, frozen=True, gc=False):
    """Close the connection to another member, which is silent."""

    address: str
    reason: str


class ProvePeer(msgspec.Struct, frozen=True, gc=False):
    """Replace the connection to another member if it has not proved our cluster key."""

    address: str


class ToSession(msgspec.Struct, frozen=True, gc=False):
    """Messages for a client or worker, in order."""

    session: int
    messages: list[MemberMessage]


class CloseSession(msgspec.Struct, frozen=True, gc=False):
    """Close this session after the messages before are written."""

    session: int
    reason: str


class KeepBlobs(msgspec.Struct, frozen=True, gc=False):
    """Keep these bytes as blobs on a majority; answer with `Driver.kept`."""

    ticket: int
    parts: tuple[bytes, ...]


class Complete(msgspec.Struct, frozen=True, gc=False):
    """Put the bytes of blobs into a message; answer with `Driver.completed`."""

    ticket: int
    message: AssignJob | Result
    knows_blobs: bool  # whether the receiver supports blobs


class LogLine(msgspec.Struct, frozen=True):
    """Write this event to the log of the process."""

    event: LogEvent
    fields: dict[str, Any]


class Mishap(msgspec.Struct, frozen=True):
    """A handler raised an unexpected exception: to be logged. The link of the message is closed; no
    replicated state was touched."""

    where: str
    error: Exception


Output: TypeAlias = (
    ToPeer
    | ClosePeer
    | ProvePeer
    | ToSession
    | CloseSession
    | KeepBlobs
    | Complete
    | LogLine
    | Mishap
)


class Outputs:
    """Outputs since the last `take`: one per session, everything else in order."""

    __slots__ = ("_all", "_mail")

    def __init__(self) -> None:
        self._all: list[Output] = []
        self._mail: dict[int, list[MemberMessage]] = {}

    def append(
        self, output: ToPeer | ClosePeer | ProvePeer | KeepBlobs | Complete | LogLine | Mishap
    ) -> None:
        """Add an output that is not for a session."""
        self._all.append(output)

    def log(self, event: LogEvent, /, **fields: Any) -> None:
        """Write an event to the log of the process."""
        self._all.append(LogLine(event, fields))

    def close(self, session: int, reason: str) -> None:
        """Close a session after its messages so far; later messages in this turn are dropped."""
        self._all.append(CloseSession(session, reason))
        self._mail[session] = []

    def mail(self, session: int) -> list[MemberMessage]:
        """The list for this turn's messages to a session."""
        messages = self._mail.get(session)
        if messages is None:
            messages = self._mail[session] = []
            self._all.append(ToSession(session, messages))
        return messages

    def take(self) -> list[Output]:
        """Remove and return all outputs."""
        outputs, self._all = self._all, []
        self._mail.clear()
        return outputs
