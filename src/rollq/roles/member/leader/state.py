"""The leader's own state, beside the replicated state.

Sessions, credits, timers and waiting proposals are not replicated. They begin with `gain` and end
with `lose`; in between, outcomes and effects of applied entries become messages, and timers and
credits become commands. Each family of requests is a module that knows only the arguments of its
constructor; here they are wired up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rollq.base.counters import Family
from rollq.base.ids import GUID_BYTES
from rollq.base.limits import TURN_COMMANDS_MAX, TURN_JOBS_MAX
from rollq.base.schedule_limits import FIRINGS_PER_TURN_MAX
from rollq.base.stamp import Calendar, Clock, Jitter
from rollq.grid.commands import AdvanceTime, AssignRun, AssignTasks, SubmitRun
from rollq.grid.effects import (
    Applied,
    Outcome,
    SendAssign,
    SendCancel,
    SendDrain,
    SendKept,
    SendResult,
    TellTopic,
)
from rollq.grid.readers import silent_readers
from rollq.grid.state import ArrayRecord, JobRecord
from rollq.policy.expiry import Expiry
from rollq.policy.firing import Firing
from rollq.raft.node import RaftNode
from rollq.raft.types import Config
from rollq.roles.member.group_clock import GroupClock
from rollq.roles.member.leader.addressing import Addressing
from rollq.roles.member.leader.admin import AdminRequests
from rollq.roles.member.leader.attempts import AttemptRequests
from rollq.roles.member.leader.batches import BatchRequests, BatchUnpacker, expired_batches
from rollq.roles.member.leader.cache_relay import CacheRelay
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.clients import Clients
from rollq.roles.member.leader.flows import ChildSettler
from rollq.roles.member.leader.gateway import Gateway
from rollq.roles.member.leader.job_events import JobEvents
from rollq.roles.member.leader.job_log import JobLog
from rollq.roles.member.leader.jobs import JobRequests
from rollq.roles.member.leader.joining import count_of
from rollq.roles.member.leader.keeping import Deliveries, Keeping
from rollq.roles.member.leader.large import LargeMessages
from rollq.roles.member.leader.origins import SILENT, Origin
from rollq.roles.member.leader.output_watches import OutputWatches
from rollq.roles.member.leader.proposals import ProposalBatch, Proposals, size_bytes_of
from rollq.roles.member.leader.publishing import Publishing
from rollq.roles.member.leader.reads import Reads
from rollq.roles.member.leader.refusals import RefusalNotes
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.schedules import ScheduleRequests
from rollq.roles.member.leader.session_log import SessionLog
from rollq.roles.member.leader.sessions import Sessions
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.leader.topics import TopicRequests
from rollq.roles.member.leader.workers import Workers
from rollq.roles.member.metrics.counted import LeaderCounters
from rollq.roles.member.outputs import Outputs
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.wire.messages import NotLeader

LOOK_MS = 10_000  # between checks for expired batches and silent readers


class LeaderState:
    """The state of one leader, from `gain` to `lose`; reused for later terms.

    Attributes:
        shell: Facts of the shell, which sets them.
        sessions: Connected clients and workers.
        proposals: Commands that are not applied yet.
        keeping: Large bodies and results that are being stored as blobs.
        deliveries: Messages that wait for blob contents.
        gateway: Handles session messages.
        reads: Queries that wait for their read index.
        addressing: Resolves subjects to queues.
        refusals: Refused requests for the history.
        replies: Answers to sessions.
        publishing: Publishes and subscriptions.
        topics: Publishes to topics, and their readers.
        job_events: Job events for subscribers.
        counted: Metrics of this member as a leader; kept across terms.
    """

    def __init__(
        self,
        replica: Replica,
        group: str,
        clock: Clock,
        jitter: Jitter,
        *,
        calendar: Calendar,
        outputs: Outputs,
        time: GroupClock,
        reports: Reports,
        raft: Callable[[], RaftNode],
        metrics: Callable[[], list[Family]],
    ) -> None:
        self._replica, self._clock, self._jitter, self._time = replica, clock, jitter, time
        self._reports = reports
        self.counted, self._look_at_ms = LeaderCounters(), 0  # time of the next check, see LOOK_MS
        self.shell, self.sessions = shell, sessions = Shell(), Sessions()
        self.proposals = proposals = Proposals()
        self._expiry = expiry = Expiry()
        self._calendar, self._firing = calendar, Firing(calendar)
        self._log = log = SessionLog(replica, clock, outputs)
        self._job_log = JobLog(shell, clock, outputs)
        self.replies = replies = Replies(group, sessions, outputs, lambda: raft().config)
        self.keeping = Keeping(outputs, clock)
        self.deliveries = deliveries = Deliveries(outputs, clock, shell)
        self.addressing = addressing = Addressing()
        common = replica, sessions, proposals, replies
        self._workers = workers = Workers(
            *common, expiry=expiry, names=addressing.workers, log=log, clock=clock, jitter=jitter
        )
        self._clients = Clients(
            *common, deliveries=deliveries, shell=shell, outputs=outputs, log=log, jitter=jitter
        )
        large = LargeMessages(self.keeping, replies.refuse, workers.results_kept)
        self.caches = caches = GroupCaches(replica, sessions, replies, clock)
        self._relay = relay = CacheRelay(
            sessions, replies, shell, caches, clock=clock, jitter=jitter
        )
        self._attempts = AttemptRequests(
            *common,
            expiry=expiry,
            caches=caches,
            deliveries=deliveries,
            large=large,
            spellings=addressing.spellings,
            shell=shell,
            outputs=outputs,
            jitter=jitter,
        )
        self.watches = watches = OutputWatches(replica, sessions, shell, outputs)
        self.unpacker, self.refusals = BatchUnpacker(), RefusalNotes()
        self.settler = ChildSettler()
        self.reads = reads = Reads(
            *(replica, replies, caches, reports),
            sessions=sessions,
            raft=raft,
            metrics=metrics,
            shell=shell,
        )
        self.topics = topics = TopicRequests(*common, reads=reads, shell=shell, outputs=outputs)
        self.publishing = Publishing(replica, replies, topics, reads)
        self.job_events = JobEvents(replica, self.publishing)
        self.gateway = self._make_gateway(large, raft)
        reads.progress_of = self.job_events.latest
        sessions.on_opened += [relay.opened, caches.opened, watches.worker_opened]
        sessions.on_gone += [log.left, watches.left, deliveries.gone, relay.gone, caches.gone]
        sessions.on_gone += [workers.gone, self.publishing.left, topics.gone]

    def _make_gateway(self, large: LargeMessages, raft: Callable[[], RaftNode]) -> Gateway:
        sessions, proposals, replies = self.sessions, self.proposals, self.replies
        addressing, shell, caches, workers = self.addressing, self.shell, self.caches, self._workers
        jobs = JobRequests(
            sessions, proposals, replies, addressing=addressing, shell=shell, large=large
        )
        self._admin = admin = AdminRequests(
            *(proposals, replies, workers, caches, jobs),
            schedules=ScheduleRequests(self._replica, addressing, self._calendar, self._time),
            replica=self._replica,
            shell=shell,
            raft=raft,
            reports=self._reports,
        )
        return Gateway(
            sessions,
            replies,
            clients=self._clients,
            workers=workers,
            jobs=jobs,
            attempts=self._attempts,
            batches=BatchRequests(proposals, replies, addressing, shell),
            relay=self._relay,
            watches=self.watches,
            admin=admin,
            reads=self.reads,
            publishing=self.publishing,
            topics=self.topics,
        )

    # --- leadership

    def gain(self, member_id: int) -> None:
        """This member leads, and its state has every committed entry."""
        self.replies.member_id = member_id
        self._expiry.gain(self._replica.state, self._clock.now_ms(), self._time.now_ms())
        self._firing.gain(self._replica.state)
        self._replica.dispatcher.nearest = self.caches.nearest
        self._workers.learn_names()

    def lose(self, leader: str, config: Config) -> None:
        """Leadership is lost: redirect all sessions, drop everything."""
        members = tuple(member.address for member in config.voters)
        for number in self.sessions.clear():
            self.replies.send(number, NotLeader(leader, members))
            self.replies.close(number, "not the leader any more")
        self.watches.clear()
        self.proposals.clear()
        self.unpacker, self.settler = BatchUnpacker(), ChildSettler()
        self.refusals.clear()
        self.publishing.clear()
        self.job_events.clear()
        self.topics.clear()
        self._relay.clear()
        self.caches.clear()
        self.keeping.clear()
        self.deliveries.clear()
        self.reads.clear()
        self._admin.changes.clear()
        self._expiry.step_down()
        self._firing.step_down()
        self._replica.dispatcher.step_down()

    # --- once a turn

    def is_busy(self, share: int = 1) -> bool:
        """Whether the backlog is so large that sessions are not read for now."""
        return self.proposals.is_busy(share) or self.keeping.is_busy(share)

    def propose_own(self) -> None:
        """Propose the leader's own commands: due timers, steps of batches, and assignments for free
        credit. Sends owed results."""
        now_ms = self._clock.now_ms()
        state, proposals = self._replica.state, self.proposals
        due = self._expiry.due(state, now_ms, self._jitter, TURN_COMMANDS_MAX)
        if due:
            self._log.lost(due)
            self._workers.propose_due(due)
        if self.sessions.owing:
            self._clients.send_owed()
        if self.keeping:
            self.keeping.pump()
        if self.deliveries:
            self.deliveries.pump()
        self._relay.expire(now_ms)
        self.caches.due()
        proposals.add_own(self.unpacker.due(state))
        proposals.add_own(self.settler.due(state))
        proposals.add_own(self.refusals.due(now_ms))
        proposals.add_own(self.topics.due(now_ms, self._time.now_ms()))
        proposals.add_own(self._firing.due(state, self._time.now_ms(), FIRINGS_PER_TURN_MAX))
        if now_ms >= self._look_at_ms:  # proposals of the last check are applied by now
            self._look_at_ms = now_ms + LOOK_MS
            time_ms = self._time.now_ms()
            proposals.add_own(expired_batches(state, time_ms))
            proposals.add_own(silent_readers(state, time_ms))
        self._workers.leave_silent(now_ms)
        decided = self._replica.dispatcher.decide(TURN_JOBS_MAX, self._time.rates_ms())
        self._count_waits(decided)
        proposals.add_own(decided, self._attempts.assigned)

    def _count_waits(self, decided: Sequence[AssignRun | AssignTasks]) -> None:
        """Count how long assigned jobs waited: each job of a run as long as its first, the
        longest."""
        state, time_ms, wait_ms = self._replica.state, self._time.now_ms(), self.counted.wait_ms
        for run in decided:
            item: JobRecord | ArrayRecord | None
            if isinstance(run, AssignRun):
                item = state.jobs.get(run.job_ids[:GUID_BYTES])
            else:
                item = state.array_of(run.array_id)
            if item is not None:
                wait_ms.add(max(0, time_ms - item.stamp_ms), count_of(run))

    def wait_ms(self) -> int | None:
        """How long until a rate limit lets the next waiting job start; None: no job waits for
        one."""
        next_ms = self._replica.dispatcher.next_ms
        return None if next_ms is None else max(0, next_ms - self._time.rates_ms())

    def maybe_leap(self, to_ms: int) -> None:
        """Propose to move the group's time forward, unless a leap is under way. In an entry of its
        own: a start behind it in one entry would have a stamp from before the leap, and the leap
        would count as time for the rate of its limit."""
        if not self._time.is_leaping:
            self._time.begin_leap()
            self.proposals.add_alone(AdvanceTime(to_ms), Origin(self._settle_leap))

    def _settle_leap(
        self, origin: Origin, command: AdvanceTime, outcome: Outcome, applied: Applied
    ) -> None:
        self._time.end_leap()

    def start_at_once(self, batch: ProposalBatch) -> None:
        """Add assignments for jobs that this very batch submits, as far as workers are free."""
        dispatcher = self._replica.dispatcher
        for command, _, _ in list(batch):
            if type(command) is SubmitRun:
                for run in dispatcher.start_at_once(command):
                    batch.append((run, self._attempts.assigned, size_bytes_of(run)))
                    self.counted.wait_ms.add(0, count_of(run))

    # --- after every applied entry

    def settle(self, applied: Applied) -> None:
        """Settle the origins of an applied entry's commands, and carry out its effects."""
        self._expiry.observe(applied.events, self._replica.state, self._clock.now_ms())
        if self._replica.state.schedules.by_name:
            self._firing.observe(applied.events, self._replica.state)
        self._job_log.observe(applied.events)
        self.job_events.observe(applied)
        if self._admin.changes and (answer := self._admin.changes.pop(applied.index, None)):
            answer()
        batch = self.proposals.settled(applied.index)
        if batch:
            self.counted.commit_us.add(self._clock.now_us() - batch.proposed_us)
            for (command, origin, _), outcome in zip(batch, applied.outcomes, strict=True):
                if origin is not SILENT:
                    origin.settle(origin, command, outcome, applied)
        for effect in applied.effects:
            if type(effect) is SendAssign:
                self._attempts.assign(effect)
            elif type(effect) is SendResult:
                self._clients.send_result(effect)
            elif type(effect) is SendCancel:
                self._attempts.stop(effect)
            elif type(effect) is SendDrain:
                self._workers.send_drain(effect)
            elif type(effect) is SendKept:
                self.topics.kept(effect)
                self.publishing.kept(effect)
            elif type(effect) is TellTopic:
                self.topics.changed(effect)
                self.publishing.subscriptions.forget_routes()
        if self.watches:
            self.watches.follow(applied.effects)
