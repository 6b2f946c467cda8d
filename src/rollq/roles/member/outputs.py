"""What the driver hands to its shell to send. The shell encodes and writes; it decides nothing."""

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
    """Cut the connection to another member: it says nothing."""

    address: str
    reason: str


class ProvePeer(msgspec.Struct, frozen=True, gc=False):
    """If the connection to another member does not prove our cluster key: make one that does."""

    address: str


class ToSession(msgspec.Struct, frozen=True, gc=False):
    """Messages for a client or worker, in order."""

    session: int
    messages: list[MemberMessage]


class CloseSession(msgspec.Struct, frozen=True, gc=False):
    """Close this session once what was sent before is written."""

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
    knows_blobs: bool  # whether the peer that is to get it does


class Tell(msgspec.Struct, frozen=True):
    """Write this to the log of the process."""

    event: LogEvent
    fields: dict[str, Any]


class Mishap(msgspec.Struct, frozen=True):
    """A handler raised what it must not: to be written to the log. The link that sent what it
    handled is cut off; nothing that is replicated was touched."""

    where: str
    error: Exception


Output: TypeAlias = (
    ToPeer | ClosePeer | ProvePeer | ToSession | CloseSession | KeepBlobs | Complete | Tell | Mishap
)


class Outputs:
    """What was said since the last `take`: one output a session, everything else in order."""

    __slots__ = ("_all", "_mail")

    def __init__(self) -> None:
        self._all: list[Output] = []
        self._mail: dict[int, list[MemberMessage]] = {}

    def append(
        self, output: ToPeer | ClosePeer | ProvePeer | KeepBlobs | Complete | Tell | Mishap
    ) -> None:
        """Say something to a member, end a link to one, ask for work with blobs, or write to the
        log."""
        self._all.append(output)

    def tell(self, event: LogEvent, /, **fields: Any) -> None:
        """Write an event to the log of the process."""
        self._all.append(Tell(event, fields))

    def close(self, session: int, reason: str) -> None:
        """End a session with what it was told so far; what is put into its mail now is lost."""
        self._all.append(CloseSession(session, reason))
        self._mail[session] = []

    def mail(self, session: int) -> list[MemberMessage]:
        """Where to put what a session is to be told in this turn."""
        messages = self._mail.get(session)
        if messages is None:
            messages = self._mail[session] = []
            self._all.append(ToSession(session, messages))
        return messages

    def take(self) -> list[Output]:
        """Everything, to be sent now."""
        outputs, self._all = self._all, []
        self._mail.clear()
        return outputs
