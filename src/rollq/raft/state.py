"""The record that consensus works on, and what it starts from.

`RaftState` is plain data: functions in `roles`, `election`, `replication`, `snapshots` and `reads`
change it, `node` owns it. Nothing here decides anything.
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
    """How a member takes part. Ticks are the shell's; consensus does not know their length."""

    # An election starts after a number of silent ticks drawn from [min, max) for each wait. `min`
    # is also the leader's lease.
    election_ticks_min: int = 10
    election_ticks_max: int = 20
    heartbeat_ticks: int = 4
    pre_vote: bool = True
    check_quorum: bool = True
    # In this time a leader must hear from a majority, or it steps down; 0: `election_ticks_min`.
    # More keeps a leader whose followers are slow: only reads and commits need to know of them.
    quorum_ticks: int = 0
    append_bytes_max: int = limits.APPEND_BYTES_MAX
    apply_bytes_max: int = limits.APPLY_BYTES_MAX
    inflight_appends_max: int = limits.INFLIGHT_APPENDS_MAX
    inflight_bytes_max: int = limits.INFLIGHT_BYTES_MAX
    uncommitted_bytes_max: int = limits.UNCOMMITTED_BYTES_MAX
    snapshot_chunk_bytes_max: int = limits.SNAPSHOT_CHUNK_BYTES_MAX
    reads_pending_max: int = limits.READS_PENDING_MAX
    # Of applied entries in memory; older ones are read back from disk for a follower that lags.
    log_tail_bytes: int = limits.LOG_TAIL_BYTES
    # Campaign at once instead of waiting for silence; only a group of one voter does.
    fixed_leader: bool = False

    def check(self) -> None:
        """Refuse options under which no leader could be elected or kept."""
        if not 0 < self.heartbeat_ticks < self.election_ticks_min < self.election_ticks_max:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                "ticks must obey 0 < heartbeat_ticks < election_ticks_min < election_ticks_max",
            )
        if min(self.inflight_appends_max, self.snapshot_chunk_bytes_max) < 1:
            raise LocalError(ErrorCode.BAD_OPTIONS, "windows and chunks must hold something")


@dataclass(slots=True)
class RaftStart:
    """What recovery found on disk; all empty for a newcomer.

    The first members of a group start from a snapshot at index 0 that carries their configuration.
    """

    hard_state: HardState = field(default_factory=HardState)
    # Index 0: none. Its config is the configuration at that index.
    snapshot: SnapshotMeta = field(default_factory=SnapshotMeta)
    # Without gap after snapshot.index.
    entries: list[Entry] = field(default_factory=list)
    # Rot was found: the log, which may have been acknowledged, once reached this position.
    suspect: Position | None = None
    # Of the log on disk; without one every entry stays in memory.
    reader: LogReader | None = None


@dataclass(slots=True)
class ReadRound:
    """Reads that a heartbeat with `number`, or a later one, will confirm."""

    number: int
    index: int
    requests: list[tuple[MemberId, int]]


@dataclass(slots=True)
class ReadQueue:
    """Reads on their way; see `reads`."""

    # The last heartbeat round. Never goes back, so an answer can never confirm a later round.
    number: int = 0
    # Leader: (asker, request) in no round yet.
    waiting: list[tuple[MemberId, int]] = field(default_factory=list)
    # Leader: rounds under way, oldest first; how many reads are in them or wait; and the newest
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
    # Of the leader who sends it: within a term, only a newer snapshot may take its place.
    term: int
    offset: int = 0
    # All bytes are here; the log is replaced when the Ready that carries the last is advanced.
    complete: bool = False


@dataclass(slots=True)
class RaftState:
    """Everything a member knows. Fields that only a leader uses are empty on others."""

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

    # What is on disk, as far as advance() has confirmed.
    persisted: HardState = field(default_factory=HardState)
    # Follower: a pre-vote that was not answered because of the leader's lease.
    asked: RequestVote | None = None
    # How often this member stood for election in this life.
    campaigns: int = 0
    # Candidate: who answered what.
    votes: dict[MemberId, bool] = field(default_factory=dict)

    # Leader: the others, by id.
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
        """Leader: whether its commit index is known to cover all that was ever committed."""
        return self.log.commit >= self.term_start


def start_state(
    member_id: MemberId, options: RaftOptions, start: RaftStart, jitter: Jitter
) -> RaftState:
    """A follower with what recovery found."""
    options.check()
    if member_id == NO_MEMBER:
        raise LocalError(ErrorCode.BAD_OPTIONS, "0 is no member id")
    snapshot, hard_state = start.snapshot, start.hard_state
    # Entries and hard state are written together; a torn write may have kept the entries alone.
    # Then no vote of their term can have left us.
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
