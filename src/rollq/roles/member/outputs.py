"""What the driver hands to its shell to send. The shell encodes and writes; it decides nothing."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from rollq.raft.types import RaftMessage
from rollq.wire.messages import MemberMessage, PeerMessage


class ToPeer(msgspec.Struct, frozen=True, gc=False):
    """A message for another member."""

    address: str
    message: RaftMessage | PeerMessage


class ClosePeer(msgspec.Struct, frozen=True, gc=False):
    """Cut the link to another member: what it said no correct member says."""

    address: str
    reason: str


class ToSession(msgspec.Struct, frozen=True, gc=False):
    """Messages for a client or worker, in order."""

    session: int
    messages: list[MemberMessage]


class CloseSession(msgspec.Struct, frozen=True, gc=False):
    """Close this session once what was sent before is written."""

    session: int
    reason: str


Output: TypeAlias = ToPeer | ClosePeer | ToSession | CloseSession


class Outputs:
    """What was said since the last `take`: one output a session, everything else in order."""

    __slots__ = ("_all", "_mail")

    def __init__(self) -> None:
        self._all: list[Output] = []
        self._mail: dict[int, list[MemberMessage]] = {}

    def append(self, output: ToPeer | ClosePeer) -> None:
        """Say something to a member, or end a link to one."""
        self._all.append(output)

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
