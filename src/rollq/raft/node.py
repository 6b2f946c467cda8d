"""`RaftNode`: one member of a group, without IO. The only public class of consensus.

The shell passes inputs (`tick`, `step`, `propose` and so on change memory only), takes a `Ready`,
performs its actions in order, and confirms with `advance`. Inputs are allowed while a Ready is
outstanding. Messages may be lost, duplicated, reordered or delayed; the disk must be truthful.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.ids import MemberId
from rollq.base.stamp import Jitter
from rollq.raft import election, membership, reads, replication, roles, snapshots, step
from rollq.raft.codec import decode_change, encode_change
from rollq.raft.progress import ProgressState, ProgressView
from rollq.raft.ready import Ready, SnapshotChunk
from rollq.raft.state import RaftOptions, RaftStart, start_state
from rollq.raft.types import (
    NO_MEMBER,
    Config,
    ConfigChange,
    Entry,
    EntryKind,
    HardState,
    Position,
    RaftMessage,
    Role,
    SnapshotMeta,
)

__all__ = ["ProgressView", "RaftNode", "RaftOptions", "RaftStart"]

_NORMAL: Final = int(EntryKind.NORMAL)
_CONFIG: Final = int(EntryKind.CONFIG)


class RaftNode:
    """One member of a group. See the module docstring for how to drive it."""

    __slots__ = ("_hard_state", "_number", "_outstanding", "_soft_state", "_state")

    def __init__(
        self, member_id: MemberId, options: RaftOptions, start: RaftStart, jitter: Jitter
    ) -> None:
        self._state = start_state(member_id, options, start, jitter)
        self._number = 0
        self._outstanding: Ready | None = None
        self._hard_state = start.hard_state
        self._soft_state = (Role.FOLLOWER, NO_MEMBER)
        if election.is_sole_leader(self._state):
            self.campaign()

    # Inputs. They change memory only.

    def tick(self) -> None:
        """One tick of the shell's clock has passed."""
        election.tick(self._state)

    def step(self, message: RaftMessage) -> None:
        """A message arrived.

        Raises:
            RemoteError: BAD_PAYLOAD, if no correct member could have sent it. It has no effect
                then.
        """
        state = self._state
        if message.to == state.id and message.sender != state.id:
            step.handle(state, message)

    def propose(self, data: bytes) -> int:
        """Append `data` to the group's log; returns its index if it commits.

        Raises:
            StateError: NOT_LEADER; PROPOSAL_DROPPED during a leadership transfer, or while too many
                bytes wait to be committed.
        """
        state = self._state
        self._check_leads()
        waiting = state.uncommitted_bytes
        if waiting and waiting + len(data) > state.options.uncommitted_bytes_max:
            raise StateError(
                ErrorCode.PROPOSAL_DROPPED,
                f"{waiting} bytes wait to be committed",
                "try again when the followers have caught up",
            )
        return replication.append(state, _NORMAL, data)

    def propose_config(self, change: ConfigChange) -> int:
        """Append a change of configuration; it takes effect when it is applied.

        Raises:
            StateError: NOT_LEADER; PROPOSAL_DROPPED; CONFIG_CHANGE_PENDING while another is not
                applied, or before an entry of this term is committed; BAD_CONFIG_CHANGE.
        """
        state = self._state
        self._check_leads()
        if state.log.config_indexes or not state.committed_own_term:
            raise StateError(
                ErrorCode.CONFIG_CHANGE_PENDING,
                "an earlier change of configuration may not be applied yet",
                "try again shortly",
            )
        membership.apply_change(state.config, change)
        return replication.append(state, _CONFIG, encode_change(change))

    def read_index(self, request: int) -> None:
        """Request an index that is safe to read at; the response is in `Ready.reads`."""
        reads.ask(self._state, request)

    def transfer_leadership(self, to: MemberId) -> None:
        """Transfer leadership to a voter; proposals are dropped until it leads or an election
        timeout ends.

        Raises:
            StateError: NOT_LEADER; WRONG_STATE if `to` is no voter.
        """
        election.transfer(self._state, to)

    def campaign(self) -> None:
        """Start an election (by a pre-vote if that is on), if this member may lead."""
        election.campaign(self._state)

    def leader_lost(self, member: MemberId) -> None:
        """The link to `member` broke: if it led, start an election without waiting."""
        election.leader_lost(self._state, member)

    def member_restarted(self, member: MemberId, last_index: int) -> None:
        """Leader: `member` restarted with a log that ends at `last_index`, maybe short of what it
        acknowledged. No response of its earlier process may be stepped after this."""
        state = self._state
        progress = state.progress.get(member)
        if progress is not None:
            progress.restarted(last_index)
            replication.send_append(state, member, progress, even_empty=True)

    def report_unreachable(self, member: MemberId) -> None:
        """Leader: messages to `member` were probably lost."""
        progress = self._state.progress.get(member)
        if progress is not None and progress.state is ProgressState.REPLICATE:
            progress.become_probe()

    # Outputs.

    def has_ready(self) -> bool:
        """Whether `ready()` would return anything; False while one is outstanding."""
        state = self._state
        log = state.log
        return self._outstanding is None and bool(
            log.persisting < log.last_index
            or state.send_now
            or state.send_after_persist
            or log.applying < log.commit
            or state.chunks
            or state.reads.done
            or self._soft_state != (state.role, state.leader_id)
            or self._hard_state != HardState(state.term, state.vote, log.commit)
        )

    def needs_disk(self) -> bool:
        """Whether the next Ready has data to persist before its entries are applied."""
        state = self._state
        log = state.log
        return bool(
            log.persisting < log.last_index
            or state.chunks
            or state.installing
            or self._hard_state.term != state.term
            or self._hard_state.vote != state.vote
            or log.holds_change(log.commit)
        )

    def ready(self) -> Ready:
        """All pending actions; the shell performs them and calls `advance`."""
        if self._outstanding is not None:
            raise LocalError(ErrorCode.BUG, "ready() before the last Ready was advanced")
        state = self._state
        log = state.log
        self._number += 1
        chunks: list[SnapshotChunk] = []
        # A complete snapshot waits for the log that it replaces. What is committed is applied
        # first: the snapshot has its state but not its events, which no other member may hold.
        # Entries are persisted first: they are acknowledged, and stay if the snapshot is corrupt.
        is_settled = log.applying == log.commit and log.persisting == log.last_index
        if is_settled or not state.installing:
            chunks, state.chunks = state.chunks, []
        ready = Ready(
            self._number,
            entries=log.take_unstable(),
            snapshot_chunks=chunks,
            send_now=state.send_now,
            send_after_persist=state.send_after_persist,
            committed=log.take_committed(state.options.apply_bytes_max),
            reads=state.reads.done,
        )
        state.send_now, state.send_after_persist = [], []
        state.reads.done = []
        soft = (state.role, state.leader_id)
        if soft != self._soft_state:
            ready.role, ready.leader_id = self._soft_state = soft
        hard_state = HardState(state.term, state.vote, log.commit)
        old = self._hard_state
        if hard_state != old:
            ready.hard_state = self._hard_state = hard_state
        ready.must_sync = bool(
            ready.entries
            or hard_state.term != old.term
            or hard_state.vote != old.vote
            or ready.installs
        )
        if ready.committed and log.holds_change(ready.committed[-1].index):
            # A member that applied a configuration must still have it after a power failure: the
            # members of the previous one may be gone by then, so that no leader could be elected
            # with it.
            ready.hard_state = hard_state
            ready.must_sync = ready.changes_config = True
        self._outstanding = ready
        return ready

    def advance(self, ready: Ready) -> None:
        """Everything in `ready` has been persisted, sent and applied."""
        if self._outstanding is not ready:
            raise LocalError(ErrorCode.BUG, "advance() of a Ready that is not out")
        self._outstanding = None
        state = self._state
        if ready.hard_state is not None:
            state.persisted = ready.hard_state
        state.log.persisted()
        if state.installing and ready.installs:
            meta = ready.snapshot_chunks[-1].meta
            snapshots.install(state, meta)
            roles.switch_config(state, meta.config)
        if state.suspect is not None:
            self._clear_suspect(state.suspect)
        if ready.committed:
            self._applied(ready.committed)
            self._evict_applied()
        if state.role is Role.LEADER:
            if ready.entries and replication.commit_by_counting(state):
                replication.broadcast(state)
        elif state.role is Role.CANDIDATE:
            election.count_own_vote(state)

    # Compaction of the log, between two Readys.

    def snapshot_taken(self, meta: SnapshotMeta, compact_to: int) -> None:
        """A snapshot of our own state is on disk; entries up to `compact_to` may be dropped."""
        state = self._state
        if meta.index > state.log.applied or compact_to > meta.index:
            raise LocalError(
                ErrorCode.BUG,
                f"snapshot at {meta.index}, compaction to {compact_to}, "
                f"but applied is {state.log.applied}",
            )
        if meta.index > state.snapshot.index:
            state.snapshot = meta
        state.log.compact(min(compact_to, state.snapshot.index))
        self._evict_applied()

    def snapshot_failed(self) -> None:
        """The snapshot in the outstanding Ready is corrupt: receive it again from the start. Call
        before `advance`."""
        snapshots.abandon(self._state)

    # Views.

    @property
    def member_id(self) -> MemberId:
        """The id of this member."""
        return self._state.id

    @property
    def role(self) -> Role:
        """Its role in this term."""
        return self._state.role

    @property
    def term(self) -> int:
        """The newest known term."""
        return self._state.term

    @property
    def vote(self) -> MemberId:
        """The candidate it voted for in this term."""
        return self._state.vote

    @property
    def leader_id(self) -> MemberId:
        """The known leader; NO_MEMBER if unknown."""
        return self._state.leader_id

    @property
    def leader_address(self) -> str:
        """The address of the leader; empty if unknown."""
        return membership.address_of(self._state.config, self._state.leader_id)

    @property
    def commit(self) -> int:
        """The highest index known to be committed."""
        return self._state.log.commit

    @property
    def applied(self) -> int:
        """The highest index that advance() has confirmed as applied."""
        return self._state.log.applied

    @property
    def first_index(self) -> int:
        """The first index in the log (or the next one if it is empty)."""
        return self._state.log.first_index

    @property
    def last_index(self) -> int:
        """The newest index in the log."""
        return self._state.log.last_index

    @property
    def last_term(self) -> int:
        """The term at `last_index`."""
        return self._state.log.last_term

    @property
    def config(self) -> Config:
        """The configuration in effect."""
        return self._state.config

    @property
    def suspect(self) -> Position | None:
        """The position up to which damage may have removed acknowledged entries; None: none did."""
        return self._state.suspect

    @property
    def snapshot(self) -> SnapshotMeta:
        """The newest snapshot that can be sent."""
        return self._state.snapshot

    @property
    def transferee(self) -> MemberId:
        """Leader: the target of the leadership transfer."""
        return self._state.transferee

    @property
    def campaign_count(self) -> int:
        """Campaigns since this process started."""
        return self._state.campaigns

    @property
    def progress(self) -> dict[MemberId, ProgressView]:
        """Leader: the progress of every member, itself included, by ascending id."""
        state = self._state
        if state.role is not Role.LEADER:
            return {}
        own = ProgressView(
            ProgressState.REPLICATE, match=state.log.stable, next=state.log.last_index + 1
        )
        views = {member_id: progress.view() for member_id, progress in state.progress.items()}
        views[state.id] = own
        return dict(sorted(views.items()))

    def entry_slice(self, low: int, high: int) -> list[Entry]:
        """The entries of [low, high) that are in memory."""
        log = self._state.log
        return log.slice(max(low, log.evicted + 1), high, 1 << 62)

    def term_at(self, index: int) -> int | None:
        """The term at an index; None if it is compacted or past the end."""
        return self._state.log.term_at(index)

    def _check_leads(self) -> None:
        """Refuse a proposal that this member cannot append now."""
        if self._state.role is not Role.LEADER:
            raise StateError(
                ErrorCode.NOT_LEADER,
                f"member {self._state.id} is not the leader",
                f"ask {self.leader_address or 'another member'}",
            )
        if self._state.transferee:
            raise StateError(
                ErrorCode.PROPOSAL_DROPPED,
                f"leadership is being transferred to member {self._state.transferee}",
                "try again shortly",
            )

    def _evict_applied(self) -> None:
        """Evict the older part of a long log from memory. Entries that a snapshot covers are
        dropped."""
        state = self._state
        state.log.maybe_evict(state.options.log_tail_bytes)
        state.log.compact(min(state.log.evicted, state.snapshot.index))

    def _clear_suspect(self, suspect: Position) -> None:
        """The log on disk reaches past the suspect position: nothing acknowledged is missing."""
        log = self._state.log
        if Position(log.term_at(log.stable) or 0, log.stable) >= suspect:
            self._state.suspect = None

    def _applied(self, committed: list[Entry]) -> None:
        """The state machine has applied these entries: put their configurations into effect."""
        state = self._state
        if state.role is Role.LEADER:
            own = (len(e.data) for e in committed if e.index > state.term_start)
            state.uncommitted_bytes -= sum(own)
        changes = bool(state.log.config_indexes)
        state.log.applied_to(committed[-1].index)
        if not changes:
            return
        for entry in committed:
            if entry.kind == _CONFIG:
                change = decode_change(entry.data)
                if state.config.voters:
                    config = membership.apply_change(state.config, change)
                else:
                    config = membership.apply_bootstrap(change)
                roles.switch_config(state, config)
