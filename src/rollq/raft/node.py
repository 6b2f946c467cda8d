"""`RaftNode`: one member of a group, without IO. The only public class of consensus.

The shell feeds it (`tick`, `step`, `propose` and so on change memory only), takes a `Ready`,
carries out its duties in their order, and confirms with `advance`. More may be fed while a Ready
is out. Messages may be lost, doubled, reordered or late; the disk may not lie.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.ids import MemberId
from rollq.base.stamp import Jitter
from rollq.raft import election, membership, reads, replication, roles, snapshots, step
from rollq.raft.codec import decode_change, encode_change
from rollq.raft.progress import ProgressState, ProgressView
from rollq.raft.ready import Ready
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
    """One member of a group. See the module's head for how to drive it."""

    __slots__ = ("_hard_state", "_number", "_out", "_soft", "_state")

    def __init__(
        self, member_id: MemberId, options: RaftOptions, start: RaftStart, jitter: Jitter
    ) -> None:
        self._state = start_state(member_id, options, start, jitter)
        self._number = 0
        self._out: Ready | None = None
        self._hard_state = start.hard_state
        self._soft = (Role.FOLLOWER, NO_MEMBER)
        if election.leads_alone(self._state):
            self.campaign()

    # Inputs: they change memory only.

    def tick(self) -> None:
        """One tick of the shell's clock has passed."""
        election.tick(self._state)

    def step(self, message: RaftMessage) -> None:
        """A message came.

        Raises:
            RemoteError: BAD_PAYLOAD, if no correct member could have sent it. Nothing of it is
                taken then.
        """
        state = self._state
        if message.to == state.id and message.sender != state.id:
            step.take(state, message)

    def propose(self, data: bytes) -> int:
        """Append `data` to the group's log; returns the index that it will have if it commits.

        Raises:
            StateError: NOT_LEADER; PROPOSAL_DROPPED while leadership is being handed over, or
                while too many bytes wait to be committed.
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
        """Ask for an index that is safe to read at; the answer comes in `Ready.reads`."""
        reads.ask(self._state, request)

    def transfer_leadership(self, to: MemberId) -> None:
        """Hand over to a voter; proposals are dropped until it leads or an election timeout ends.

        Raises:
            StateError: NOT_LEADER; WRONG_STATE if `to` is no voter.
        """
        election.transfer(self._state, to)

    def campaign(self) -> None:
        """Stand for election now (by way of a pre-vote if that is on), if we may at all."""
        election.campaign(self._state)

    def leader_lost(self, member: MemberId) -> None:
        """The link to `member` broke: if it led, find another leader without waiting."""
        election.leader_lost(self._state, member)

    def member_restarted(self, member: MemberId, last_index: int) -> None:
        """Leader: `member` is back with a log that ends at `last_index`, maybe short of what it
        acknowledged. No answer of its earlier life may be stepped after this."""
        state = self._state
        progress = state.progress.get(member)
        if progress is not None:
            progress.restarted(last_index)
            replication.send_append(state, member, progress, even_empty=True)

    def report_unreachable(self, member: MemberId) -> None:
        """Leader: what was sent to `member` was probably lost."""
        progress = self._state.progress.get(member)
        if progress is not None and progress.state is ProgressState.REPLICATE:
            progress.become_probe()

    # Outputs.

    def has_ready(self) -> bool:
        """Whether `ready()` would carry anything; False while one is out."""
        state = self._state
        log = state.log
        return self._out is None and bool(
            log.handed < log.last_index
            or state.send_now
            or state.send_after_persist
            or (log.applying < log.commit and not state.installing)
            or state.chunks
            or state.reads.done
            or self._soft != (state.role, state.leader_id)
            or self._hard_state != HardState(state.term, state.vote, log.commit)
        )

    def needs_disk(self) -> bool:
        """Whether the next Ready has something to write before its entries are applied."""
        state = self._state
        log = state.log
        return bool(
            log.handed < log.last_index
            or state.chunks
            or state.installing
            or self._hard_state.term != state.term
            or self._hard_state.vote != state.vote
            or log.holds_change(log.commit)
        )

    def ready(self) -> Ready:
        """All duties that have gathered; the shell carries them out and calls `advance`."""
        if self._out is not None:
            raise LocalError(ErrorCode.BUG, "ready() before the last Ready was advanced")
        state = self._state
        log = state.log
        self._number += 1
        ready = Ready(
            self._number,
            # A snapshot that is being installed replaces the log with all that is unstable in it.
            entries=[] if state.installing else log.take_unstable(),
            snapshot_chunks=state.chunks,
            send_now=state.send_now,
            send_after_persist=state.send_after_persist,
            # The snapshot stands for whatever is committed before it.
            committed=[] if state.installing else log.take_committed(state.options.apply_bytes_max),
            reads=state.reads.done,
        )
        state.chunks, state.send_now, state.send_after_persist = [], [], []
        state.reads.done = []
        soft = (state.role, state.leader_id)
        if soft != self._soft:
            ready.role, ready.leader_id = self._soft = soft
        hard_state = HardState(state.term, state.vote, log.commit)
        old = self._hard_state
        if hard_state != old:
            ready.hard_state = self._hard_state = hard_state
        ready.must_sync = bool(
            ready.entries
            or hard_state.term != old.term
            or hard_state.vote != old.vote
            or (ready.snapshot_chunks and ready.snapshot_chunks[-1].done)
        )
        if ready.committed and log.holds_change(ready.committed[-1].index):
            # Who has applied a configuration must still know it after a power cut: members of the
            # one before may be gone by then, so that no leader could be elected by it.
            ready.hard_state = hard_state
            ready.must_sync = ready.changes_config = True
        self._out = ready
        return ready

    def advance(self, ready: Ready) -> None:
        """Everything in `ready` has been persisted, sent and applied."""
        if self._out is not ready:
            raise LocalError(ErrorCode.BUG, "advance() of a Ready that is not out")
        self._out = None
        state = self._state
        if ready.hard_state is not None:
            state.persisted = ready.hard_state
        state.log.persisted()
        if state.installing and ready.snapshot_chunks and ready.snapshot_chunks[-1].done:
            meta = ready.snapshot_chunks[-1].meta
            snapshots.install(state, meta)
            roles.switch_config(state, meta.config)
        if state.suspect is not None:
            self._clear_suspect(state.suspect)
        if ready.committed:
            self._applied(ready.committed)
            self._rest()
        if state.role is Role.LEADER:
            if ready.entries and replication.commit_by_counting(state):
                replication.broadcast(state)
        elif state.role is Role.CANDIDATE:
            election.count_own_vote(state)

    # Housekeeping of the log, between two Readys.

    def snapshot_taken(self, meta: SnapshotMeta, compact_to: int) -> None:
        """A snapshot of our own state is on disk; entries up to `compact_to` may be forgotten."""
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
        self._rest()

    def snapshot_failed(self) -> None:
        """The snapshot in the Ready that is out proved corrupt: receive it anew from the start.
        Call it before `advance`."""
        snapshots.abandon(self._state)

    # Views.

    @property
    def member_id(self) -> MemberId:
        """Who we are."""
        return self._state.id

    @property
    def role(self) -> Role:
        """What we are in this term."""
        return self._state.role

    @property
    def term(self) -> int:
        """The newest term we know of."""
        return self._state.term

    @property
    def vote(self) -> MemberId:
        """Whom we voted for in this term."""
        return self._state.vote

    @property
    def leader_id(self) -> MemberId:
        """Who leads, as far as we know; NO_MEMBER if we do not."""
        return self._state.leader_id

    @property
    def leader_address(self) -> str:
        """Where the leader listens; empty if unknown."""
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
        """The first index that is still in the log (or would be the next)."""
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
        """The position up to which rot may have taken what we acknowledged; None: we are whole."""
        return self._state.suspect

    @property
    def snapshot(self) -> SnapshotMeta:
        """The newest snapshot that we could send."""
        return self._state.snapshot

    @property
    def transferee(self) -> MemberId:
        """Leader: whom it is handing over to."""
        return self._state.transferee

    @property
    def campaign_count(self) -> int:
        """How often this member stood for election since it began."""
        return self._state.campaigns

    @property
    def progress(self) -> dict[MemberId, ProgressView]:
        """Leader: what it knows of every member, itself included, by ascending id."""
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
        """Those entries of [low, high) that are in memory."""
        log = self._state.log
        return log.slice(max(low, log.rested + 1), high, 1 << 62)

    def term_at(self, index: int) -> int | None:
        """The term at an index; None if it is compacted away or not there yet."""
        return self._state.log.term_at(index)

    def _check_leads(self) -> None:
        """Refuse a proposal that this member cannot take now."""
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

    def _rest(self) -> None:
        """Leave the older part of a long log to the disk. What a snapshot stands for is not even
        kept there for long, so it is forgotten at once."""
        state = self._state
        state.log.maybe_rest(state.options.log_tail_bytes)
        state.log.compact(min(state.log.rested, state.snapshot.index))

    def _clear_suspect(self, suspect: Position) -> None:
        """What a leader sent us, now on disk, may reach past all that rot took: we are whole."""
        log = self._state.log
        if Position(log.term_at(log.stable) or 0, log.stable) >= suspect:
            self._state.suspect = None

    def _applied(self, committed: list[Entry]) -> None:
        """The state machine has applied these entries: now their configurations hold."""
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
