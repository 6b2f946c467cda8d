"""One turn of the member's loop: the only place where the order of steps matters.

A turn, whatever woke it:

1. inputs have changed memory (`tick`, `peer_message`, `session_message`, …);
2. `begin`: the leader adds its own commands (timers, assignments), all waiting commands become
   one raft entry, `Ready` is taken, and messages that need no disk are handed out;
3. `work.run()`: everything is written, with one fsync, on the persist thread; `meanwhile` applies
   what was committed before;
4. `finish`: messages that had to wait for the disk are sent, the other committed entries are
   applied, and raft advances. Outcomes and effects of applied entries become messages.

Beside the turns, at most one snapshot is under way (`begin_snapshot`, `finish_snapshot`).

No client, worker or peer sees an effect before its entry is committed and, here, on disk. Each
boundary is a named crash point for the simulator; in production it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rollq.base.errors import DiskError, RemoteError, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.base.limits import EARLY_MS_MAX, PEER_SILENT_MS, REPORT_TICKS
from rollq.base.log_events import SNAPSHOT_INSTALLED
from rollq.base.stamp import Calendar, Clock, Jitter
from rollq.grid.command_codec import encode_batch
from rollq.grid.readers import held_from
from rollq.grid.state import GridState
from rollq.raft.ready import Ready
from rollq.raft.types import Entry, RaftMessage, Role
from rollq.roles.member import membership
from rollq.roles.member.early_messages import EarlyMessages
from rollq.roles.member.group_clock import GroupClock
from rollq.roles.member.leader.runs import outputs_in_runs
from rollq.roles.member.leader.state import LeaderState
from rollq.roles.member.metrics.counted import MemberCounters
from rollq.roles.member.metrics.families import families
from rollq.roles.member.metrics.steps import RoundTrips, StepTimer
from rollq.roles.member.outputs import Mishap, Output, Outputs
from rollq.roles.member.peers import Peers
from rollq.roles.member.read_points import ReadPoints
from rollq.roles.member.recovery import recover, start_of_cluster
from rollq.roles.member.reports import Reports
from rollq.roles.member.rollcall import JoinPhase, older_copy
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.snapshot_order import SnapshotOrder
from rollq.roles.member.snapshot_schedule import SnapshotSchedule
from rollq.roles.member.work import Work
from rollq.store.disk import Disk
from rollq.wire.messages import (
    AssignJob,
    LeaderHello,
    NotLeader,
    PeerMessage,
    Result,
    ToMemberMessage,
)

PROMOTE_EVERY_TICKS = 8
GAPS_EVERY_TICKS = 16
IDLE_TICKS_BEFORE_MARK = 2
IDLE_TICKS_BEFORE_SNAPSHOT = 20
SCRUB_EVERY_TICKS = 400


class Driver:
    """One member, without threads and sockets."""

    def __init__(
        self,
        setup: MemberSetup,
        disk: Disk,
        clock: Clock,
        jitter: Jitter,
        crash_point: Callable[[str], None],
        *,
        calendar: Calendar,
    ) -> None:
        self._setup = setup
        self._clock = clock
        self._jitter = jitter
        self._crash_point = crash_point
        recovered = recover(setup, disk, jitter)
        self._store = recovered.store
        self.replica = recovered.replica
        self.raft = recovered.raft
        self.damage = recovered.damage
        self._suspect_on_disk = self.raft.suspect is not None
        self._outputs = Outputs()
        self.counters = MemberCounters()
        self._steps = StepTimer(clock, self.counters.step_us)
        self.reports = Reports(clock, self.replica.lacks_history, setup.is_unprotected)
        self._peers = Peers(
            recovered.roll,
            setup.peers,
            recovered.peer_boots,
            jitter,
            silent_ticks=PEER_SILENT_MS // setup.tick_ms,
            outputs=self._outputs,
            reports=self.reports,
            round_trips=RoundTrips(clock, self.counters.round_trip_us),
        )
        self.time = GroupClock(clock, self.state.time_ms)
        self.roll = recovered.roll
        self.leader_state = LeaderState(
            *(self.replica, setup.group, clock, jitter),
            calendar=calendar,
            outputs=self._outputs,
            time=self.time,
            reports=self.reports,
            raft=lambda: self.raft,
            metrics=lambda: families(self),
        )
        self._gateway = self.leader_state.gateway
        self.read_points = ReadPoints()
        self._leading_term = 0  # the term in which it leads (see `leading`); 0: none
        self._early = EarlyMessages()  # empty while this member leads
        self.snapshots = SnapshotSchedule(self._store, crash_point, self.replica)
        self._ticks = 0
        self._applied_tick = 0  # of the last applied entry
        self._idle_ticks = 0
        self._unled_ticks = 0  # without a known leader, since the group formed
        self._scrub_at = SCRUB_EVERY_TICKS
        self._admitted = False  # the group has just admitted this member; not on disk yet
        self._work: Work | None = None
        self._failure: DiskError | None = None  # between turns; the next `begin` raises it
        self.roll.settle(self.raft.config, self.state.applied_index)

    @property
    def state(self) -> GridState:
        """The replicated state as applied on this member."""
        return self.replica.state

    @property
    def leading(self) -> bool:
        """Whether this member is elected and has applied everything committed before."""
        return self._leading_term != 0

    @property
    def is_about_to_lead(self) -> bool:
        """Whether session messages wait: this member may be elected, and has not applied all
        committed entries."""
        return not self.leading and self._holds

    @property
    def _holds(self) -> bool:
        """Whether to let clients wait instead of redirecting them: this member is about to lead
        (the only voter is, from its start), the group is still forming, or a leader is being
        elected."""
        raft, options = self.raft, self._setup.raft
        if raft.role is Role.LEADER:
            return True
        if options.fixed_leader and all(v.id == raft.member_id for v in raft.config.voters):
            return True
        if self.roll.phase is not JoinPhase.PRESENT:
            return self._ticks * self._setup.tick_ms < EARLY_MS_MAX
        return not raft.leader_id and self._unled_ticks < options.election_ticks_max

    def hello(self, address: str) -> LeaderHello:
        """The first message on a link to the member at an address."""
        return self.roll.hello(self.raft.config, self.raft.last_index, address)

    def close(self) -> None:
        """Close the log in the form that recovers fastest. The last call."""
        self.snapshots.close(self.raft)
        self.replica.history.seal_rest()
        self._store.wal.close()

    def take_outputs(self) -> list[Output]:
        """The outputs to send now; drained after every `begin` and `finish`."""
        return outputs_in_runs(self._outputs.take(), self.leader_state.sessions.takes_runs)

    # --- inputs

    def tick(self) -> None:
        """Advance time by one tick; called every `tick_ms`."""
        self._ticks += 1
        self._idle_ticks += 1
        raft = self.raft
        is_electing = self.roll.phase is JoinPhase.PRESENT and not raft.leader_id
        self._unled_ticks = self._unled_ticks + 1 if is_electing else 0
        self._peers.tick(raft, leads=self.leading)
        if self.roll.phase is not JoinPhase.PRESENT:
            return
        raft.tick()
        if self.leading and self._ticks % PROMOTE_EVERY_TICKS == 0:
            membership.promote_caught_up(raft)
        if self._ticks % GAPS_EVERY_TICKS == 0:
            self._peers.ask_for_gap(raft, self.replica)
        if self._ticks % REPORT_TICKS == 0:
            if self.leading:
                self._check_reports()
            elif raft.leader_id and raft.role is not Role.LEADER:
                is_idle = self._ticks - self._applied_tick > REPORT_TICKS
                known = self.replica.known_hash(is_idle=is_idle)
                report = self.reports.own(raft.member_id, *known)
                self._peers.report(raft, report)

    def _check_reports(self) -> None:
        """Raise alarms on members; move the group's time forward to the majority of the members'
        clocks, or slow it down."""
        to_ms = self.reports.check(self.raft, self.time, self._outputs)
        if to_ms is not None:
            self.leader_state.maybe_leap(to_ms)

    def peer_message(
        self,
        address: str,
        message: RaftMessage | PeerMessage,
        boot: int = 0,
        *,
        is_proven: bool = False,
    ) -> str:
        """Handle a message of another member. `boot` is of the sender's LeaderHello on this link: a
        response of an earlier boot may promise what that member has lost since. `is_proven`:
        whether the link has proved the cluster key.

        Returns:
            Why the link must be closed; empty if it need not.
        """
        peers = self._peers
        is_trusted = is_proven or not peers.keys.is_guarded
        try:
            if not is_trusted and (refusal := peers.refusal(message, self.raft)):
                return refusal
            if is_trusted:
                peers.note_alive(address)
            if isinstance(message, PeerMessage):
                take = peers.message if is_trusted else peers.unproven
                take(address, message, self.raft, self.replica, leads=self.leading, boot=boot)
            elif self.roll.phase is JoinPhase.PRESENT and message.to == self.raft.member_id:
                self._consensus_message(address, message, boot)
        except RemoteError as error:  # a protocol violation
            return str(error)
        except DiskError as error:  # while reading for a follower: the next `begin` raises it
            self._failure = error
        except Exception as error:
            name = type(message).__name__
            self._outputs.append(Mishap(f"member at {address}: {name}", error))
            return f"cannot handle {name}: {error!r}"
        return ""

    def _consensus_message(self, address: str, message: RaftMessage, boot: int) -> None:
        sender = message.sender
        membership.check_sender(self.raft, message)
        if boot and self._peers.is_outdated(address, sender, boot, self.raft, self.replica):
            return
        self._peers.note_address(message, address)
        self.raft.step(message)

    def peer_lost(self, address: str) -> None:
        """The link to a member broke: if it was the leader, do not wait for the election
        timeout."""
        if self.roll.phase is not JoinPhase.PRESENT:
            return
        for member in self.raft.config.voters + self.raft.config.learners:
            if member.address == address:
                self.raft.report_unreachable(member.id)
                self.raft.leader_lost(member.id)

    def session_message(self, session: int, message: ToMemberMessage) -> None:
        """A message of a client or worker; the first of a session must be a hello."""
        if self.leading:
            self._gateway.message(session, message)
        elif not self._holds or not self._early.add(session, message):
            self._redirect(session)

    def session_closed(self, session: int) -> None:
        """The connection of a session closed."""
        if self.leading:
            self._gateway.closed(session)
        else:
            self._early.add_end(session)

    def kept(self, ticket: int, refs: Sequence[BlobRef], error: RollqError | None = None) -> None:
        """Result of a `KeepBlobs`: the blobs are on a majority, or an error."""
        self.leader_state.keeping.kept(ticket, refs, error)

    def completed(self, ticket: int, message: AssignJob | Result | None) -> None:
        """Result of a `Complete`; None: it failed for now."""
        self.leader_state.deliveries.completed(ticket, message)

    # --- the loop

    def begin(self) -> Work | None:
        """Start a turn; None if there is nothing to do."""
        assert self._work is None, "the turn before is not finished"
        if self._failure is not None:
            raise self._failure
        if self.roll.superseded:
            raise older_copy()
        self._crash_point("turn_begun")
        self._follow_role()
        if self.leading:
            self._steps.begin()
            self.leader_state.propose_own()
            self._steps.over("decide")
            self._propose()
            self._steps.over("propose")
        work = self._collect()
        self._crash_point("ready_taken")
        self._work = work
        return work

    def meanwhile(self, work: Work) -> None:
        """While the work is being written: apply committed entries that are already on disk."""
        if work.ready is not None:
            self._apply(work.ready.ready_to_apply)
            self._crash_point("applied_meanwhile")

    def finish(self, work: Work) -> None:
        """End a turn whose work is on disk."""
        assert work is self._work, "not the work that was begun"
        self._work = None
        self._crash_point("persisted")
        if work.cluster is not None:
            self._join()
        if work.key is not None:
            self._peers.key_written(work.key, self.raft)
        self._peers.boots_written(work.boots, work.boots_relayed, self.raft, self.replica)
        if work.clear_suspect:
            self._suspect_on_disk = False
        self._peers.snapshot_wanted |= work.rotten
        if work.ready is not None:
            if work.rejected is not None:
                self.raft.snapshot_failed()
            self._after_persist(work.ready, work.loaded)
            self._apply_newly_committed()
        self.snapshots.settle(self.raft)
        self._follow_role()
        if self.leading:
            self._steps.begin()
            self.leader_state.reads.answer()
            self._steps.over("answer")

    def begin_snapshot(self) -> SnapshotOrder | None:
        """Order a snapshot if one is due and none is under way. The caller must fork or write it
        before the state changes again, publish it on the persist thread, and pass the order to
        `finish_snapshot`; turns go on meanwhile."""
        if self.snapshots.order is not None or not self._is_snapshot_due():
            return None
        self._peers.snapshot_wanted = False
        return self.snapshots.begin(self.raft)

    def finish_snapshot(self, order: SnapshotOrder) -> None:
        """A snapshot is published or has failed; a failure delays the next one."""
        self.snapshots.finished(order)
        if self._work is None:  # else at the end of the turn
            self.snapshots.settle(self.raft)

    # --- begin, in order

    def _propose(self) -> None:
        proposals = self.leader_state.proposals
        for batch in proposals.batches():
            self.leader_state.start_at_once(batch)
            data = encode_batch(self.time.now_ms(), [command for command, _, _ in batch])
            try:
                index = self.raft.propose(data)
            except StateError:
                proposals.put_back(batch)  # leadership is being transferred, or the window is full
                return
            proposals.proposed(index, batch, self._clock.now_us())

    def _collect(self) -> Work | None:
        """Everything that must go to disk now."""
        work = Work(self._store, self._crash_point)
        peers = self._peers
        if peers.cluster_found:
            work.cluster = (self.roll.cluster_id, self.roll.roster)
            peers.cluster_found = False
        work.key = peers.keys.found
        work.boots, peers.boot_notes = peers.boot_notes, []
        work.boots_relayed, peers.boots_relayed = peers.boots_relayed, {}
        work.rows, peers.rows = peers.rows, []
        work.doubted, peers.snapshot_doubted = peers.snapshot_doubted, None
        work.clear_suspect = self._suspect_on_disk and self.raft.suspect is None
        work.admitted, self._admitted = self._admitted, False
        # Until roll call is over raft gets no input: there is only the committed log to apply.
        if self.roll.phase is not JoinPhase.NEWCOMER and self.raft.has_ready():
            work.ready = self.raft.ready()
            peers.send(self.raft, work.ready.send_now, self._store.snapshots)
        elif self._idle_ticks == IDLE_TICKS_BEFORE_MARK:
            work.mark = True
            self._idle_ticks += 1
        # A member that is never idle applies its retention too, only later.
        if self._ticks >= self._scrub_at + SCRUB_EVERY_TICKS * (work.ready is not None):
            work.scrub = work.ready is None
            self._scrub_at = self._ticks + SCRUB_EVERY_TICKS
            if self._setup.retention.is_bounded:
                sweep, held = self._setup.retention.sweep, held_from(self.state)
                work.sweep = partial(sweep, now_ms=self.time.now_ms(), hold_from=held)
        if work.ready is not None:
            self._idle_ticks = 0
            if work.ready.installs:
                work.unsealed = self.replica.history.unsealed(self.state.applied_index)
        return work if work.is_due else None

    # --- finish, in order

    def _after_persist(self, ready: Ready, loaded: GridState | None = None) -> None:
        self._peers.send(self.raft, ready.send_after_persist, self._store.snapshots)
        self._crash_point("sent_after_persist")
        if loaded is not None:
            self._store.states.retire(self.replica.state)
            self.replica.replace(loaded)
            self.time.follow(self.state.time_ms)
            self.snapshots.installed()
            self._outputs.log(SNAPSHOT_INSTALLED, index=loaded.applied_index)
        self._apply(ready.committed)
        self._crash_point("applied")
        self.raft.advance(ready)
        self.leader_state.reads.ready(ready.reads)
        self.read_points.ready(ready.reads)
        self.roll.settle(self.raft.config, self.state.applied_index)
        self._admitted |= self.roll.note_config(self.raft.config)

    def _apply_newly_committed(self) -> None:
        """Apply what this write committed in the same turn, if nothing else has to be written, so
        its outcomes do not wait for another turn. Otherwise it is applied during the next write."""
        raft = self.raft
        if not self.leading or self.leader_state.proposals:
            return
        if raft.has_ready() and not raft.needs_disk():
            ready = raft.ready()
            self._peers.send(raft, ready.send_now, self._store.snapshots)
            if ready.hard_state is not None:
                self._store.wal.carry(ready.hard_state.commit)
            self._after_persist(ready)

    def _apply(self, committed: list[Entry]) -> None:
        """Apply the entries that `meanwhile` did not apply."""
        self._steps.begin()
        for entry in committed:
            if entry.index > self.state.applied_index:
                applied = self.replica.apply(entry)
                if self.leading:
                    self.time.reach(self.state.time_ms)
                    self.leader_state.settle(applied)
                elif applied.stamp_ms:  # an entry of raft itself has no stamp
                    self.time.follow(self.state.time_ms)
                self._applied_tick = self._ticks
        if committed:
            self._steps.over("apply")

    def _follow_role(self) -> None:
        """Start or stop leading as raft's role changes."""
        raft = self.raft
        self.counters.follow_leader(raft.leader_id)
        if self._leading_term and (raft.role is not Role.LEADER or raft.term != self._leading_term):
            self._leading_term = 0
            self.leader_state.lose(raft.leader_address, raft.config)
        if not self._holds:
            while self._early:
                session, message = self._early.take()
                if message is not None:
                    self._redirect(session)
        elif (
            raft.role is Role.LEADER
            and not self._leading_term
            and raft.term_at(self.state.applied_index) == raft.term
        ):
            self._leading_term = raft.term
            self.counters.led += 1
            self.time.lead(self.state.time_ms)
            self.reports.clear()
            self.leader_state.gain(raft.member_id)
            self._check_reports()
            while self._early:
                session, message = self._early.take()
                if message is None:
                    self._gateway.closed(session)
                else:
                    self._gateway.message(session, message)

    # --- helpers

    def _is_snapshot_due(self) -> bool:
        if self._peers.snapshot_wanted:
            return True
        if self._early:  # clients wait for a leader: a fork would delay the election
            return False
        is_idle = self._ticks - self._applied_tick >= IDLE_TICKS_BEFORE_SNAPSHOT
        return self.snapshots.is_due(idle=is_idle)

    def _join(self) -> None:
        """The cluster is on disk: raft starts with its roster."""
        self.raft = start_of_cluster(
            self._setup, self._store.wal, self.raft.member_id, self.roll.roster, self._jitter
        )
        self.roll.joined()

    def _redirect(self, session: int) -> None:
        members = tuple(member.address for member in self.raft.config.voters)
        leader = self.raft.leader_address if self.raft.role is not Role.LEADER else ""
        self._outputs.mail(session).append(NotLeader(leader, members))
        self._outputs.close(session, "not the leader")
