"""Bugs of the leader: what it sends, what it still has to deliver, and its counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from rollq.base.ids import JobId
from rollq.grid import commands
from rollq.grid.effects import SendAssign
from rollq.grid.runs import ids_in
from rollq.grid.state import GridState
from rollq.policy.dispatch import Dispatcher
from rollq.policy.index import DispatchIndex
from rollq.roles.member.leader.attempts import AttemptRequests
from rollq.roles.member.leader.clients import Clients
from rollq.roles.member.leader.jobs import JobRequests
from rollq.roles.member.leader.sessions import ClientSession, Session, WorkerSession
from rollq.roles.member.leader.state import LeaderState
from rollq.roles.member.leader.topics import TopicReader, TopicRequests
from rollq.testing.bugs.registry import mutant
from rollq.wire import messages as wire
from rollq.wire.run_messages import RunAccepted, SubmitRun
from rollq.wire.subject_messages import Publish


@mutant("result_dropped_on_client_death", Clients, "owe_results", faults=("client_crash",))
def _result_dropped(old: Any) -> Any:
    return lambda self, session: None


@mutant("accepted_before_commit", JobRequests, "submit_run", faults=("isolate_leader",))
def _accepted_early(old: Any) -> Any:
    def submit_run(self: Any, session: ClientSession, message: SubmitRun) -> None:
        old(self, session, message)
        accepted = RunAccepted(message.request_id, len(message.bodies))
        self._replies.send(session.number, accepted)

    return submit_run


@mutant("given_back_counts_as_attempt", AttemptRequests, "nack", faults=("worker_drain",))
def _given_back_counts(old: Any) -> Any:
    def nack(self: Any, session: WorkerSession, message: wire.Nack) -> None:
        old(self, session, msgspec.structs.replace(message, not_started=False))

    return nack


@mutant("assigned_before_commit", LeaderState, "propose_own", faults=("isolate_leader", "pause"))
def _assigned_early(old: Any) -> Any:
    def propose_own(self: Any) -> None:
        replica = self._replica
        decide = replica.dispatcher.decide
        fence = replica.state.last_fence

        def decide_early(count_max: int, now_ms: int) -> Any:
            nonlocal fence
            decided = decide(count_max, now_ms)
            for command in decided:
                if isinstance(command, commands.AssignRun):
                    for job_id in ids_in(command.job_ids):
                        fence += 1
                        early = _early_assignment(replica.state, command, job_id, fence)
                        self._attempts.assign(early)
            return decided

        known, replica.dispatcher = (
            replica.dispatcher,
            _Early(replica.dispatcher, decide_early),
        )
        try:
            old(self)
        finally:
            replica.dispatcher = known

    return propose_own


class _Early:
    """A dispatcher with a replaced `decide`."""

    def __init__(self, dispatcher: Dispatcher, decide: Callable[[int, int], Any]) -> None:
        self._dispatcher = dispatcher
        self.decide = decide

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)


def _early_assignment(
    state: GridState, command: commands.AssignRun, job_id: JobId, fence: int
) -> SendAssign:
    job = state.jobs[job_id]
    return SendAssign(
        command.worker_id,
        job_id,
        command.attempt,
        fence,
        command.lease_ms,
        job.client.client_id,
        job.queue,
        job.exec_name,
        (state.bodies.load(job.body),),
        job.options,
    )


@mutant("credit_counted_twice", Dispatcher, "grant", slots=1, workers=2)
def _credit_twice(old: Any) -> Any:
    return lambda self, worker_id, credits: old(self, worker_id, 2 * credits)


_KEPT_CREDITS: dict[bytes, int] = {}


@mutant("credit_survives_the_session", DispatchIndex, "close_worker", faults=("cut_sessions",))
def _credit_kept(old: Any) -> Any:
    _KEPT_CREDITS.clear()

    def close_worker(self: Any, worker_id: bytes) -> None:
        if self.credit(worker_id):
            _KEPT_CREDITS[worker_id] = self.credit(worker_id)
        old(self, worker_id)

    return close_worker


@mutant("credit_survives_the_session", Dispatcher, "open_worker", faults=("cut_sessions",))
def _credit_given_back(old: Any) -> Any:
    def open_worker(self: Any, worker_id: bytes, *arguments: Any, **named: Any) -> None:
        old(self, worker_id, *arguments, **named)
        self.grant(worker_id, _KEPT_CREDITS.pop(worker_id, 0))

    return open_worker


@mutant("topic_remembers_what_was_sent", TopicRequests, "_pump", faults=("client_crash",))
def _remembers_sent(old: Any) -> Any:
    def pump(self: Any, reader: TopicReader) -> None:
        old(self, reader)
        if reader.opened:
            self._note(reader, reader.next_index - 1)

    return pump


@mutant("topic_drops_without_a_word", TopicRequests, "_pump", faults=("client_crash", "pause"))
def _drops_silently(old: Any) -> Any:
    def pump(self: Any, reader: TopicReader) -> None:
        topic = self._replica.state.topics.by_name.get(reader.topic)
        if topic is not None and reader.opened:
            reader.next_index = max(reader.next_index, topic.first_index)
        old(self, reader)

    return pump


@mutant("publish_accepted_before_commit", TopicRequests, "publish", faults=("isolate_leader",))
def _published_early(old: Any) -> Any:
    def publish(self: Any, session: Session, message: Publish, topic: str) -> None:
        index = self._replica.state.topics.by_name[topic].last_index + 1
        self._replies.accept(session.number, message.request_id, index)
        old(self, session, message, topic)

    return publish
