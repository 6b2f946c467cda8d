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
    """A message for a client or worker."""

    session: int
    message: MemberMessage


class CloseSession(msgspec.Struct, frozen=True, gc=False):
    """Close this session once what was sent before is written."""

    session: int
    reason: str


Output: TypeAlias = ToPeer | ClosePeer | ToSession | CloseSession
