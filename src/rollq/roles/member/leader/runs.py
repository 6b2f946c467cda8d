"""Runs at the edge of the leader: what a session that agreed on `runs` says and is told.

Inside the leader every job still has a command and a message of its own. A SubmitRun is taken
apart here and its outcomes are collected into one answer; messages of a turn that are alike are
put together before they leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final

from rollq.base.errors import RollqError
from rollq.base.ids import JobId
from rollq.base.limits import INLINE_BYTES_MAX, RUN_BYTES_MAX, RUN_JOBS_MAX
from rollq.base.staged import KEY_END, ids_of, join_keys
from rollq.grid.commands import Command
from rollq.grid.effects import Applied, Known, Outcome, Refused
from rollq.roles.member.leader.proposals import Origin
from rollq.roles.member.leader.replies import RETRYABLE, Replies
from rollq.roles.member.leader.sessions import Sessions
from rollq.wire.messages import AckTaken, AssignJob, MemberMessage, Result, SubmitJob
from rollq.wire.run_messages import (
    AcksTaken,
    AssignRun,
    RefusedJob,
    ResultRun,
    RunAccepted,
    SubmitRun,
)


class RunAnswer:
    """Collects what becomes of the jobs of a SubmitRun; the last one sends the answer."""

    def __init__(
        self, replies: Replies, sessions: Sessions, number: int, message: SubmitRun
    ) -> None:
        self._replies = replies
        self._sessions = sessions
        self._number = number
        self._request_id = message.request_id
        self._left = self._count = len(message.bodies)
        self._known: list[int] = []
        self._ended: list[int] = []
        self._refused: list[RefusedJob] = []

    def origin(self, position: int, job_id: JobId) -> Origin:
        """Of the command of one job."""
        return Origin(partial(self._settle, position), self._number, job_id)

    def refuse(self, position: int, error: RollqError) -> None:
        """A job cannot be proposed."""
        self._refused.append(
            RefusedJob(position, int(error.code), error.message, error.hint, error.retryable)
        )
        self._one_less()

    def _settle(
        self, position: int, origin: Origin, command: Command, outcome: Outcome, applied: Applied
    ) -> None:
        if isinstance(outcome, Refused):
            retryable = outcome.code in RETRYABLE
            self._refused.append(
                RefusedJob(position, int(outcome.code), outcome.message, retryable=retryable)
            )
        else:
            session = self._sessions.get(self._number)
            if session is not None:
                self._sessions.asked(session, origin.request_id)
            if isinstance(outcome, Known):
                self._known.append(position)
                if outcome.ended:
                    self._ended.append(position)
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left or self._sessions.get(self._number) is None:
            return
        refused = sorted(self._refused, key=lambda job: job.position)
        self._replies.send(
            self._number,
            RunAccepted(
                self._request_id,
                self._count - len(refused),
                tuple(self._known),
                tuple(self._ended),
                tuple(refused),
            ),
        )


def jobs_of(run: SubmitRun) -> Iterator[SubmitJob]:
    """The jobs of a run, each as it would have been submitted alone."""
    keys = run.keys.split(KEY_END) if run.keys else repeat("")
    blobs = run.blobs or repeat(())
    columns = zip(ids_of(run.job_ids), run.bodies, keys, blobs, strict=False)
    for job_id, body, key, refs in columns:
        yield SubmitJob(
            job_id,
            run.client_id,
            run.subject,
            run.exec_name,
            body,
            run.options,
            refs,
            run.caches,
            key,
        )


def in_runs(messages: Sequence[MemberMessage]) -> list[MemberMessage]:
    """The same messages to a session that agreed on `runs`: those that follow each other and are
    alike are one run. What is too large for a run stays alone."""
    said: list[MemberMessage] = []
    run: list[Any] = []
    size_bytes = 0
    for message in messages:
        kind = type(message)
        if kind not in JOINED:
            said += _joined(run)
            said.append(message)
            run, size_bytes = [], 0
            continue
        more_bytes = _size_bytes(message)
        if run and (
            kind is not type(run[0])
            or len(run) >= RUN_JOBS_MAX
            or size_bytes + more_bytes > RUN_BYTES_MAX
            or not JOINED[kind][0](run, message)
        ):
            said += _joined(run)
            run, size_bytes = [], 0
        run.append(message)
        size_bytes += more_bytes
    return said + _joined(run)


def _joined(run: list[Any]) -> list[MemberMessage]:
    if not run:
        return []
    if _size_bytes(run[0]) > INLINE_BYTES_MAX or getattr(run[0], "count", 1) != 1:
        return run
    return [JOINED[type(run[0])][1](run)]


def _size_bytes(message: Any) -> int:
    """Of a message that may be part of a run: what its body or result takes."""
    if type(message) is AssignJob:
        return len(message.body)
    return len(message.result) if type(message) is Result else 0


def _follows_assignment(run: list[AssignJob], one: AssignJob) -> bool:
    first, count = run[0], len(run)
    return (
        one.fence == first.fence + count
        and one.task_number == (-1 if first.task_number < 0 else first.task_number + count)
        and one.attempt == first.attempt
        and one.lease_ms == first.lease_ms
        and one.subject == first.subject
        and one.exec_name == first.exec_name
        and one.client_id == first.client_id
        and one.expect_ms == first.expect_ms
        and one.options == first.options
        and len(one.body) <= INLINE_BYTES_MAX
        and len(first.body) <= INLINE_BYTES_MAX
    )


def _assign_run(run: list[AssignJob]) -> AssignRun:
    first = run[0]
    return AssignRun(
        b"".join([one.job_id for one in run]),
        first.attempt,
        first.fence,
        first.lease_ms,
        first.subject,
        first.exec_name,
        tuple([one.body for one in run]),
        first.options,
        first.client_id,
        first.task_number,
        tuple([one.blobs for one in run]) if any(one.blobs for one in run) else (),
        first.expect_ms,
    )


def _follows_result(run: list[Result], one: Result) -> bool:
    first = run[0]
    return (
        one.count == 1
        and first.count == 1
        and one.outcome == first.outcome
        and one.status == first.status
        and one.exec_name == first.exec_name
        and one.exit_code == first.exit_code
        and one.signal == first.signal
        and one.attempt == first.attempt
        and one.cause == first.cause
        and one.detail == first.detail
        and one.client_id == first.client_id
        and one.worker == first.worker
        and len(one.result) <= INLINE_BYTES_MAX
        and len(first.result) <= INLINE_BYTES_MAX
    )


def _result_run(run: list[Result]) -> ResultRun:
    first = run[0]
    return ResultRun(
        b"".join([one.job_id for one in run]),
        tuple([one.result for one in run]),
        first.outcome,
        first.status,
        first.exec_name,
        first.exit_code,
        first.signal,
        first.attempt,
        first.cause,
        first.detail,
        first.client_id,
        first.worker,
        tuple([one.run_ms for one in run]),
        join_keys([one.job_key for one in run]),
        tuple([one.blobs for one in run]) if any(one.blobs for one in run) else (),
    )


def _follows_taken(run: list[AckTaken], one: AckTaken) -> bool:
    return True


def _taken_run(run: list[AckTaken]) -> AcksTaken:
    return AcksTaken(
        b"".join([one.job_id for one in run]),
        tuple([one.attempt for one in run]),
        tuple([position for position, one in enumerate(run) if one.stale]),
    )


# Of each message that may be part of a run: whether one goes on with a run, and the run itself.
JOINED: Final[dict[type, tuple[Callable[..., bool], Callable[..., MemberMessage]]]] = {
    AssignJob: (_follows_assignment, _assign_run),
    Result: (_follows_result, _result_run),
    AckTaken: (_follows_taken, _taken_run),
}
