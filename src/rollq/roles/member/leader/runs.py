"""Runs between the leader and sessions that agreed on `runs`.

A SubmitRun becomes one command, or several if one would be too large, whose outcomes are collected
into one answer; like messages of a turn are joined before they are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from rollq.base.errors import RollqError
from rollq.base.ids import GUID_BYTES, ClientId
from rollq.base.limits import INLINE_BYTES_MAX, RUN_BYTES_MAX, RUN_JOBS_MAX
from rollq.base.staged import KEY_END, ids_of, join_keys
from rollq.grid import commands
from rollq.grid.effects import Applied, Duplicate, Outcome, Refused, RunDone
from rollq.roles.member.leader.addressing import Address
from rollq.roles.member.leader.origins import Origin
from rollq.roles.member.leader.replies import RETRYABLE, Replies
from rollq.roles.member.leader.sessions import Sessions
from rollq.roles.member.outputs import Output, ToSession
from rollq.wire.messages import AckTaken, AssignJob, MemberMessage, Result
from rollq.wire.run_messages import (
    AcksTaken,
    AssignRun,
    RefusedJob,
    ResultRun,
    RunAccepted,
    SubmitRun,
)

PART_JOBS: Final = 128  # jobs of a SubmitRun in one command
PART_BYTES: Final = 32 * 1024  # bytes of their bodies


class RunAnswer:
    """Collects the outcomes of a SubmitRun's jobs, and answers after the last one."""

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

    def origin(self, positions: Sequence[int]) -> Origin:
        """The origin of a command for the jobs at these positions."""
        return Origin(partial(self._settle, positions), self._number, self._request_id)

    def refuse(self, position: int, error: RollqError) -> None:
        """A job cannot be proposed."""
        self._refused.append(
            RefusedJob(position, int(error.code), error.message, error.hint, error.retryable)
        )
        self._done(1)

    def _settle(
        self,
        positions: Sequence[int],
        origin: Origin,
        command: commands.SubmitRun,
        outcome: Outcome,
        applied: Applied,
    ) -> None:
        count = len(positions)
        if isinstance(outcome, Refused):
            others: dict[int, Outcome] = dict.fromkeys(range(count), outcome)
        else:
            assert isinstance(outcome, RunDone)
            others = dict(outcome.others)
        for at, other in others.items():
            if isinstance(other, Refused):
                retryable = other.code in RETRYABLE
                refused = RefusedJob(
                    positions[at], int(other.code), other.message, retryable=retryable
                )
                self._refused.append(refused)
            elif isinstance(other, Duplicate):
                self._known.append(positions[at])
                if other.ended:
                    self._ended.append(positions[at])
        session = self._sessions.get(self._number)
        if session is not None and self._sessions.is_alone(session):
            for at, job_id in enumerate(ids_of(command.job_ids)):
                if not isinstance(others.get(at), Refused):
                    self._sessions.asked(session, job_id)
        self._done(count)

    def _done(self, count: int) -> None:
        self._left -= count
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


def submits_of(
    message: SubmitRun, client_id: ClientId, to: Address, positions: Sequence[int]
) -> Iterator[tuple[Sequence[int], commands.SubmitRun]]:
    """The commands for the jobs of a run at these positions: one, or several light ones (see
    `proposals`), so that other clients have their turn in between. Those of one turn are joined
    again."""
    sizes = [len(message.bodies[at]) for at in positions]
    begin = 0
    while begin < len(positions):
        end, size_bytes = begin, 0
        while end < len(positions) and (
            end == begin or (size_bytes + sizes[end] <= PART_BYTES and end - begin < PART_JOBS)
        ):
            size_bytes += sizes[end]
            end += 1
        part = positions[begin:end]
        yield part, _submit_of(message, client_id, to, part)
        begin = end


def _submit_of(
    message: SubmitRun, client_id: ClientId, to: Address, part: Sequence[int]
) -> commands.SubmitRun:
    job_ids, bodies, keys, blobs = message.job_ids, message.bodies, message.keys, message.blobs
    if len(part) != len(bodies):
        job_ids = b"".join([job_ids[GUID_BYTES * at : GUID_BYTES * (at + 1)] for at in part])
        bodies = tuple([bodies[at] for at in part])
        blobs = tuple([blobs[at] for at in part]) if blobs else ()
        if keys:
            all_keys = keys.split(KEY_END)
            keys = join_keys([all_keys[at] for at in part])
    return commands.SubmitRun(
        client_id,
        to.queue,
        to.exec_name,
        job_ids,
        bodies,
        to.options,
        message.caches,
        keys,
        blobs if any(blobs) else (),
    )


def outputs_in_runs(outputs: list[Output], takes_runs: Callable[[int], bool]) -> list[Output]:
    """The outputs, with messages joined (`in_runs`) for sessions that support runs."""
    for place, output in enumerate(outputs):
        if type(output) is ToSession and takes_runs(output.session):
            outputs[place] = ToSession(output.session, in_runs(output.messages))
    return outputs


def in_runs(messages: Sequence[MemberMessage]) -> list[MemberMessage]:
    """The messages, with consecutive like ones joined into runs. Not joined are messages that are
    too large for a run, and assignments with results or ends of parents."""
    joined: list[MemberMessage] = []
    run: list[Any] = []
    size_bytes = 0
    for message in messages:
        kind = type(message)
        is_child = isinstance(message, AssignJob) and (message.parents or message.ends)
        if kind not in JOINED or is_child:
            joined += _joined(run)
            joined.append(message)
            run, size_bytes = [], 0
            continue
        more_bytes = _size_bytes(message)
        if run and (
            kind is not type(run[0])
            or len(run) >= RUN_JOBS_MAX
            or size_bytes + more_bytes > RUN_BYTES_MAX
            or not JOINED[kind][0](run, message)
        ):
            joined += _joined(run)
            run, size_bytes = [], 0
        run.append(message)
        size_bytes += more_bytes
    return joined + _joined(run)


def _joined(run: list[Any]) -> list[MemberMessage]:
    if not run:
        return []
    if _size_bytes(run[0]) > INLINE_BYTES_MAX or getattr(run[0], "count", 1) != 1:
        return run
    return [JOINED[type(run[0])][1](run)]


def _size_bytes(message: Any) -> int:
    """The bytes of a message's body or result."""
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


# For each kind of message: whether one continues a run, and the message of a run.
JOINED: Final[dict[type, tuple[Callable[..., bool], Callable[..., MemberMessage]]]] = {
    AssignJob: (_follows_assignment, _assign_run),
    Result: (_follows_result, _result_run),
    AckTaken: (_follows_taken, _taken_run),
}
