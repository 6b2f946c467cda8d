"""The types of consensus: entries, hard state, configurations, snapshots, messages.

Every struct here is stored or sent as a msgpack array, so fields may be appended with a default but
never removed, reordered or retyped.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from rollq.base.ids import MemberId

NO_MEMBER: MemberId = 0


class Role(enum.IntEnum):
    """The role of a member in its term."""

    FOLLOWER = 0
    PRE_CANDIDATE = 1
    CANDIDATE = 2
    LEADER = 3


class EntryKind(enum.IntEnum):
    """How consensus treats an entry. Empty NORMAL data is the no-op of a new term."""

    NORMAL = 0
    CONFIG = 1


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One slot of the replicated log."""

    term: int
    index: int
    kind: int = 0  # EntryKind; an int so that decoding stays cheap
    data: bytes = b""


class HardState(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """State that must be on disk before any message that depends on it is sent."""

    term: int = 0
    vote: MemberId = NO_MEMBER
    commit: int = 0


class Position(msgspec.Struct, array_like=True, frozen=True, gc=False, order=True):
    """A position in a log. Ordered as Raft compares logs: term first, then index."""

    term: int = 0
    index: int = 0


class Member(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One member of a configuration. The id belongs to a disk, not to an address: a member that
    lost its disk rejoins under a new id, so it can never vote under its old identity."""

    id: MemberId
    address: str = ""


class Config(msgspec.Struct, array_like=True, frozen=True):
    """Voters and learners; both sorted by id."""

    voters: tuple[Member, ...] = ()
    learners: tuple[Member, ...] = ()


class ChangeKind(enum.IntEnum):
    """The one-step changes of a configuration."""

    ADD_VOTER = 0  # a learner becomes a voter, or a new voter joins
    ADD_LEARNER = 1  # a new learner joins, or a voter is demoted
    REMOVE = 2
    UPDATE = 3  # a new address for a known member


class MemberChange(msgspec.Struct, array_like=True, frozen=True):
    """One step of a `ConfigChange`."""

    kind: int  # ChangeKind
    member: Member


class ConfigChange(msgspec.Struct, array_like=True, frozen=True):
    """Data of a CONFIG entry. May touch many learners but at most one voter."""

    changes: tuple[MemberChange, ...] = ()


class SnapshotMeta(msgspec.Struct, array_like=True, frozen=True):
    """A snapshot without its bytes: position and configuration at that position, size, digest."""

    index: int = 0
    term: int = 0
    config: Config = Config()
    size_bytes: int = 0
    sha256: bytes = b""
    # Bodies that the digest does not cover: each has a checksum that it covers
    # (`rollq.store.snapshot_layout`).
    large_count: int = 0


class RequestVote(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """A vote request. `pre`: a pre-vote, which promises nothing; `transfer`: ignores the lease of
    check-quorum."""

    to: MemberId
    sender: MemberId
    term: int
    last_index: int
    last_term: int
    pre: bool = False
    transfer: bool = False


class VoteResponse(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The response to RequestVote. A granted pre-vote carries the requested term. A refusal carries
    the sender's commit index, which may be ahead of the candidate's."""

    to: MemberId
    sender: MemberId
    term: int
    granted: bool
    pre: bool = False
    commit: int = 0
    commit_term: int = 0


class AppendEntries(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """Entries that follow (prev_index, prev_term), and the leader's commit index."""

    to: MemberId
    sender: MemberId
    term: int
    prev_index: int
    prev_term: int
    commit: int
    entries: tuple[Entry, ...] = ()


class AppendResponse(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Accepted: `index` is the follower's last matching index. Rejected: `index` is the refused
    prev_index, and (hint_index, hint_term) the furthest place where the logs may agree."""

    to: MemberId
    sender: MemberId
    term: int
    index: int
    rejected: bool = False
    hint_index: int = 0
    hint_term: int = 0


class RaftHeartbeat(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """A leader's heartbeat. `context` numbers the round for read-index (0: none)."""

    to: MemberId
    sender: MemberId
    term: int
    commit: int
    context: int = 0


class RaftHeartbeatResponse(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The response to a heartbeat; `context` is echoed."""

    to: MemberId
    sender: MemberId
    term: int
    context: int = 0


class InstallSnapshot(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """One chunk of a snapshot. Consensus fills in `meta`, `offset` and `length`; the shell reads
    `data` from its snapshot file just before sending."""

    to: MemberId
    sender: MemberId
    term: int
    meta: SnapshotMeta
    offset: int
    length: int
    data: bytes = b""


class InstallSnapshotResponse(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """The next offset wanted, or `installed`. `index` names the snapshot."""

    to: MemberId
    sender: MemberId
    term: int
    index: int
    offset: int
    installed: bool = False


class TimeoutNow(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """Leadership transfer: campaign at once."""

    to: MemberId
    sender: MemberId
    term: int


class ReadIndex(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """A follower requests an index that is safe to read at."""

    to: MemberId
    sender: MemberId
    term: int
    request: int


class ReadIndexResponse(msgspec.Struct, array_like=True, frozen=True, tag=11):
    """The read is safe once `index` is applied. `index` 0: the leader cannot tell; retry."""

    to: MemberId
    sender: MemberId
    term: int
    request: int
    index: int


RaftMessage: TypeAlias = (
    RequestVote
    | VoteResponse
    | AppendEntries
    | AppendResponse
    | RaftHeartbeat
    | RaftHeartbeatResponse
    | InstallSnapshot
    | InstallSnapshotResponse
    | TimeoutNow
    | ReadIndex
    | ReadIndexResponse
)
