"""Attempts between the leader and its workers: assignments out, acks and nacks in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from rollq.base.errors import RollqError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import DETAIL_BYTES_MAX, RUN_BYTES_MAX
from rollq.base.log_events import RESULT_NOT_KEPT
from rollq.base.stamp import Jitter
from rollq.grid import commands
from rollq.grid.effects import (
    Applied,
    Outcome,
    Refused,
    RunDone,
    SendAssign,
    SendCancel,
    each_effect,
)
from rollq.grid.refs import caches_of
from rollq.grid.runs import alone
from rollq.policy.expiry import Expiry
from rollq.policy.retry import give_back_delay_ms, retry_delay_ms
from rollq.roles.member.leader.addressing import Spellings
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.effect_messages import assign_run, assignment, needs_blobs
from rollq.roles.member.leader.joining import count_of
from rollq.roles.member.leader.keeping import Deliveries, Delivery
from rollq.roles.member.leader.large import LargeMessages, failed_ack, is_large
from rollq.roles.member.leader.origins import Origin
from rollq.roles.member.leader.proposals import Proposals
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import Sessions, WorkerSession
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.outputs import Outputs
from rollq.roles.member.replica import Replica
from rollq.wire import messages
from rollq.wire.run_messages import AckRun, AcksTaken


class AttemptRequests:
    """Handles the attempts of one leader.

    Attributes:
        assigned: The origin of assignments: a refused one returns its credit.
    """

    def __init__(
        self,
        replica: Replica,
        sessions: Sessions,
        proposals: Proposals,
        replies: Replies,
        *,
        expiry: Expiry,
        caches: GroupCaches,
        deliveries: Deliveries,
        large: LargeMessages,
        spellings: Spellings,
        shell: Shell,
        outputs: Outputs,
        jitter: Jitter,
    ) -> None:
        self._replica = replica
        self._sessions = sessions
        self._proposals = proposals
        self._replies = replies
        self._expiry = expiry
        self._caches = caches
        self._deliveries = deliveries
        self._large = large
        self._spellings = spellings
        self._shell = shell
        self._outputs = outputs
        self._jitter = jitter
        self.assigned: Final = Origin(self._settle_assignment)

    # --- effects of applied entries

    def assign(self, effect: SendAssign) -> None:
        """Send assignments to their worker: as a run, if it supports runs and they need no
        blobs."""
        session = self._sessions.worker(effect.worker_id)
        if session is not None and session.opened and session.takes_runs:
            state = self._replica.state
            run = None if state.caches else assign_run(state, effect, self._spellings)
            if run is not None:
                self._expiry.sent(effect.job_ids)
                self._outputs.mail(session.number).append(run)
                return
        for one in each_effect((effect,)):
            assert isinstance(one, SendAssign), "`each_effect` keeps the type"
            self._assign_one(one)

    def _assign_one(self, effect: SendAssign) -> None:
        session = self._sessions.worker(effect.worker_id)
        state = self._replica.state
        if session is None or not session.opened:
            # Sent again when the worker's session opens, or lost after its grace period.
            self._expiry.not_sent(state, effect.job_ids, effect.attempt)
            return
        self._expiry.sent(effect.job_ids)
        if not session.names_attempts:
            ref = AttemptRef(effect.job_ids, effect.attempt, effect.fence)
            session.sent[effect.job_ids] = ref
        if state.caches:
            self._caches.needed(session, caches_of(state, effect.job_ids))
        message = assignment(state, effect, self._spellings)
        if not effect.blobs or not needs_blobs(message, knows_blobs=True):
            self._outputs.mail(session.number).append(message)
            return
        is_current = partial(self._is_current, effect)
        self._deliveries.add(Delivery(session.number, message, True, is_current, _nothing))

    def stop(self, effect: SendCancel) -> None:
        """Send a worker the request to stop an attempt."""
        session = self._sessions.worker(effect.worker_id)
        if session is not None and session.opened:
            stop = messages.StopJob(effect.job_id, effect.attempt, effect.fence)
            self._replies.send(session.number, stop)

    # --- messages of workers

    def ack(self, session: WorkerSession, message: messages.AckJob) -> None:
        """Handle the end of an attempt. A result that is too large for the log is stored as a blob
        first; if that fails, the attempt fails."""
        ref = session.attempt_of(message.job_id, message.attempt, message.fence)
        try:
            if is_large(message.result):
                self._large.result(session, message, partial(self._ack, session.number, ref))
                return
        except RollqError as error:
            job = guid_to_text(message.job_id)
            self._replies.log(RESULT_NOT_KEPT, job=job, cause=str(error))
            message = failed_ack(message, error)
        self._ack(session.number, ref, message)

    def ack_run(self, session: WorkerSession, message: AckRun) -> None:
        """Handle the ends of several attempts. A refused one does not affect the others."""
        by_end: dict[tuple[int, int, int, int], list[messages.AckJob]] = {}
        for ack in message.acks:
            is_plain = ack.status == Status.OK and not ack.blobs and not is_large(ack.result)
            if is_plain and session.names_attempts:
                ended = ack.attempt, ack.status, ack.exit_code, ack.signal
                by_end.setdefault(ended, []).append(ack)
                continue
            try:
                self.ack(session, ack)
            except RollqError as error:
                self._replies.refuse(session.number, ack, error)
        for acks in by_end.values():
            for part in parts_of(acks):
                self._proposals.add(_run_of(part), Origin(self._settle_acks, session.number))

    def nack(self, session: WorkerSession, message: messages.Nack) -> None:
        """Handle an attempt that a worker returns."""
        ref = session.attempt_of(message.job_id, message.attempt, message.fence)
        self._proposals.add(
            commands.NackJob(
                message.job_id,
                ref.attempt,
                ref.fence,
                message.detail[:DETAIL_BYTES_MAX],
                self._retry_delay_ms(message.job_id, not_started=message.not_started),
                message.not_started,
            ),
            Origin(self._settle_ack, session.number, message.job_id, ref.attempt),
        )

    def _ack(self, number: int, ref: AttemptRef, message: messages.AckJob) -> None:
        if message.blobs:
            self._shell.check_held(message.blobs)
        is_failed = message.status == Status.FAILED
        self._proposals.add(
            commands.AckRun(
                ref.attempt,
                message.status,
                message.job_id,
                (ref.fence,),
                (message.result,),
                message.exit_code,
                message.signal,
                self._retry_delay_ms(message.job_id) if is_failed else 0,
                run_ms=(message.run_ms,) if message.run_ms else (),
                peak_bytes=(message.peak_bytes,) if message.peak_bytes else (),
                fetched_bytes=(message.fetched_bytes,) if message.fetched_bytes else (),
                held_bytes=(message.held_bytes,) if message.held_bytes else (),
                blobs=(message.blobs,) if message.blobs else (),
            ),
            Origin(self._settle_ack, number, message.job_id, ref.attempt),
        )

    def _retry_delay_ms(self, job_id: JobId, *, not_started: bool = False) -> int:
        """How long this job would wait if its present attempt failed."""
        state = self._replica.state
        job = state.jobs.get(job_id)
        if job is None:
            return 0
        delay_ms = give_back_delay_ms if not_started else retry_delay_ms
        return delay_ms(state, job, self._jitter)

    # --- outcomes

    def _settle_ack(
        self, origin: Origin, command: commands.Command, outcome: Outcome, applied: Applied
    ) -> None:
        session = self._sessions.get(origin.session)
        if type(session) is not WorkerSession:
            return
        if not session.names_attempts:
            sent = session.sent.get(origin.request_id)
            if sent is not None and sent.attempt == origin.attempt:
                del session.sent[origin.request_id]
        self._outputs.mail(origin.session).append(
            messages.AckTaken(origin.request_id, origin.attempt, type(alone(outcome)) is Refused)
        )

    def _settle_acks(
        self, origin: Origin, command: commands.AckRun, outcome: Outcome, applied: Applied
    ) -> None:
        if self._sessions.get(origin.session) is None:
            return
        count = count_of(command)
        stale: tuple[int, ...] = tuple(range(count)) if type(outcome) is Refused else ()
        if type(outcome) is RunDone and outcome.others:
            stale = tuple([at for at, other in outcome.others if type(other) is Refused])
        taken = AcksTaken(command.job_ids, (command.attempt,) * count, stale)
        self._outputs.mail(origin.session).append(taken)

    def _settle_assignment(
        self,
        origin: Origin,
        command: commands.AssignRun | commands.AssignTasks,
        outcome: Outcome,
        applied: Applied,
    ) -> None:
        if type(outcome) is Refused:
            self._replica.dispatcher.refused(command, range(count_of(command)))
        elif type(outcome) is RunDone and outcome.others:
            self._replica.dispatcher.refused(command, [at for at, _ in outcome.others])

    def _is_current(self, effect: SendAssign) -> bool:
        """Whether an attempt is the latest of its job."""
        job = self._replica.state.jobs.get(effect.job_ids)
        return job is not None and job.attempt == effect.attempt


def parts_of(acks: list[messages.AckJob]) -> Iterator[list[messages.AckJob]]:
    """Split acks into parts whose results fit an entry."""
    part: list[messages.AckJob] = []
    size_bytes = 0
    for ack in acks:
        if part and size_bytes + len(ack.result) > RUN_BYTES_MAX:
            yield part
            part, size_bytes = [], 0
        part.append(ack)
        size_bytes += len(ack.result)
    yield part


def _run_of(acks: Sequence[messages.AckJob]) -> commands.AckRun:
    """The command for acks that differ only in their columns."""
    first = acks[0]
    run_ms = tuple([ack.run_ms for ack in acks])
    peak_bytes = tuple([ack.peak_bytes for ack in acks])
    fetched_bytes = tuple([ack.fetched_bytes for ack in acks])
    held_bytes = tuple([ack.held_bytes for ack in acks])
    return commands.AckRun(
        first.attempt,
        first.status,
        b"".join([ack.job_id for ack in acks]),
        tuple([ack.fence for ack in acks]),
        tuple([ack.result for ack in acks]),
        first.exit_code,
        first.signal,
        run_ms=run_ms if any(run_ms) else (),
        peak_bytes=peak_bytes if any(peak_bytes) else (),
        fetched_bytes=fetched_bytes if any(fetched_bytes) else (),
        held_bytes=held_bytes if any(held_bytes) else (),
    )


def _nothing() -> None:
    """A `Delivery.sent` without effect."""
