"""The state of one Raft member, and the input of its recovery.

`RaftState` is plain data: functions in `roles`, `election`, `replication`, `snapshots` and `reads`
change it, `node` owns it. No logic here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from rollq.base import limits
from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import MemberId
from rollq.base.stamp import Jitter
from rollq.raft.log import LogReader, RaftLog
from rollq.raft.membership import voter_ids
from rollq.raft.progress import Progress
from rollq.raft.ready import ReadReady, SnapshotChunk
from rollq.raft.types import (
    NO_MEMBER,
    Config,
    Entry,
    HardState,
    Position,
    RaftMessage,
    RequestVote,
    Role,
    SnapshotMeta,
)


@dataclass(slots=True, frozen=True)
class RaftOptions:
    """Options of a member. The shell defines the length of a tick."""

    # An election starts after a number of silent ticks drawn from [min, max) for each wait. `min`
    # is also the leader's lease.
    election_ticks_min: int = 10
    election_ticks_max: int = 20
    heartbeat_ticks: int = 4
    pre_vote: bool = True
    check_quorum: bool = True
    # A leader that got no response from a majority in this time steps down; 0:
    # `election_ticks_min`. A larger value tolerates slow followers; reads and commits are confirmed
    # by majorities anyway.
    quorum_ticks: int = 0
    append_bytes_max: int = limits.APPEND_BYTES_MAX
    apply_bytes_max: int = limits.APPLY_BYTES_MAX
    inflight_appends_max: int = limits.INFLIGHT_APPENDS_MAX
    inflight_bytes_max: int = limits.INFLIGHT_BYTES_MAX
    uncommitted_bytes_max: int = limits.UNCOMMITTED_BYTES_MAX
    snapshot_chunk_bytes_max: int = limits.SNAPSHOT_CHUNK_BYTES_MAX
    reads_pending_max: int = limits.READS_PENDING_MAX
    # Applied entries kept in memory; older ones are read from disk for a follower that lags.
    log_tail_bytes: int = limits.LOG_TAIL_BYTES
    # Campaign at once instead of waiting for an election timeout; only for a group of one voter.
    fixed_leader: bool = False

    def check(self) -> None:
        """Refuse options with which no leader could be elected or kept."""
        if not 0 < self.heartbeat_ticks < self.election_ticks_min < self.election_ticks_max:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "ticks must obey 0 < heartbeat_ticks < election_ticks_min < election_ticks_max",
            )
        if min(self.inflight_appends_max, self.snapshot_chunk_bytes_max) < 1:
            raise LocalError(ErrorCode.BAD_OPTIONS, "windows and chunks must hold something")


@dataclass(slots=True)
class RaftStart:
    """What recovery found on disk; all empty for a new member.

    The first members of a group start from a snapshot at index 0 with their configuration.
    """

    hard_state: HardState = field(default_factory=HardState)
    # Index 0: none. Its config is the configuration at that index.
    snapshot: SnapshotMeta = field(default_factory=SnapshotMeta)
    # Contiguous, from snapshot.index + 1.
    entries: list[Entry] = field(default_factory=list)
    # Damage was found: the log, which may have been acknowledged, once reached this position.
    suspect: Position | None = None
    # Reads the log on disk; None: every entry stays in memory.
    reader: LogReader | None = None


@dataclass(slots=True)
class ReadRound:
    """Reads that a response to heartbeat round `number`, or a later one, confirms."""

    number: int
    index: int
    requests: list[tuple[MemberId, int]]


@dataclass(slots=True)
class ReadQueue:
    """Pending reads; see `reads`."""

    # The last heartbeat round. Monotonic, so a response can never confirm a later round.
    number: int = 0
    # Leader: (requester, request) in no round yet.
    waiting: list[tuple[MemberId, int]] = field(default_factory=list)
    # Leader: rounds under way, oldest first; the number of reads in them or waiting; and the newest
    # round that each member has answered.
    rounds: deque[ReadRound] = field(default_factory=deque)
    pending: int = 0
    answered: dict[MemberId, int] = field(default_factory=dict)
    # Follower: ticket -> (request, tick when it was sent to the leader).
    forwarded: dict[int, tuple[int, int]] = field(default_factory=dict)
    ticket: int = 0
    # For the next Ready.
    done: list[ReadReady] = field(default_factory=list)


@dataclass(slots=True)
class IncomingSnapshot:
    """A snapshot that is being received."""

    meta: SnapshotMeta
    # Term of the leader that sends it: within a term, only a newer snapshot replaces it.
    term: int
    offset: int = 0
    # All bytes are received; the log is replaced when the Ready that carries the last chunk is
    # advanced.
    complete: bool = False


@dataclass(slots=True)
class RaftState:
    """The complete state of a member. Fields of the leader role are empty on others."""

    id: MemberId
    options: RaftOptions
    jitter: Jitter
    log: RaftLog
    # The newest snapshot on our disk, or the configuration that the group started with.
    snapshot: SnapshotMeta
    term: int
    vote: MemberId
    suspect: Position | None
    role: Role = Role.FOLLOWER
    leader_id: MemberId = NO_MEMBER
    # In effect: as of the last applied entry.
    config: Config = field(default_factory=Config)
    voters: tuple[MemberId, ...] = ()

    ticks: int = 0
    election_elapsed: int = 0
    election_ticks: int = 0
    heartbeat_elapsed: int = 0

    # The hard state on disk, as confirmed by advance().
    persisted: HardState = field(default_factory=HardState)
    # Follower: a pre-vote request that was not answered because of the leader's lease.
    deferred_vote: RequestVote | None = None
    # Campaigns since this process started.
    campaigns: int = 0
    # Candidate: responses by voter.
    votes: dict[MemberId, bool] = field(default_factory=dict)

    # Leader: all other members, by id.
    progress: dict[MemberId, Progress] = field(default_factory=dict)
    # Leader: index of the first entry of its own term.
    term_start: int = 0
    uncommitted_bytes: int = 0
    transferee: MemberId = NO_MEMBER

    reads: ReadQueue = field(default_factory=ReadQueue)
    incoming: IncomingSnapshot | None = None

    # For the next Ready.
    chunks: list[SnapshotChunk] = field(default_factory=list)
    send_now: list[RaftMessage] = field(default_factory=list)
    send_after_persist: list[RaftMessage] = field(default_factory=list)

    @property
    def installing(self) -> bool:
        """Whether a complete snapshot is about to replace the log."""
        return self.incoming is not None and self.incoming.complete

    @property
    def committed_own_term(self) -> bool:
        """Leader: whether its commit index is known to cover every committed entry."""
        return self.log.commit >= self.term_start


def start_state(
    member_id: MemberId, options: RaftOptions, start: RaftStart, jitter: Jitter
) -> RaftState:
    """A follower, from what recovery found."""
    options.check()
    if member_id == NO_MEMBER:
        raise LocalError(ErrorCode.BAD_OPTIONS, "0 is no member id")
    snapshot, hard_state = start.snapshot, start.hard_state
    # Entries and hard state are written together; a torn write may have kept the entries alone.
    # Then no vote of their term was sent.
    term = max(hard_state.term, start.entries[-1].term if start.entries else snapshot.term)
    return RaftState(
        id=member_id,
        options=options,
        jitter=jitter,
        log=RaftLog(
            snapshot.index,
            snapshot.term,
            entries=start.entries,
            commit=hard_state.commit,
            reader=start.reader,
        ),
        snapshot=snapshot,
        term=term,
        vote=hard_state.vote if term == hard_state.term else NO_MEMBER,
        suspect=start.suspect,
        config=snapshot.config,
        voters=voter_ids(snapshot.config),
        election_ticks=jitter.draw(options.election_ticks_min, options.election_ticks_max),
        persisted=hard_state,
    )
