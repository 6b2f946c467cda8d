"""Effects of applied entries as the messages that they become, with what only the state can add."""

from __future__ import annotations

from rollq.base.ids import ClientId, JobId, guid_to_text
from rollq.base.jobs import Status
from rollq.grid.effects import SendAssign, SendResult
from rollq.grid.state import GridState
from rollq.grid.views import worker_called
from rollq.policy.hints import expect_ms_of
from rollq.roles.member.leader.addressing import Spellings
from rollq.subjects.queues import assign_subject
from rollq.wire.kept import body_kept, result_kept
from rollq.wire.messages import AssignJob, Result
from rollq.wire.models import STATUS_FAILED, JobResult, encode_model


def assignment(state: GridState, effect: SendAssign, spellings: Spellings) -> AssignJob:
    """To a worker: run this attempt, of one job."""
    return AssignJob(
        effect.job_ids,
        effect.attempt,
        effect.fence,
        effect.lease_ms,
        assign_subject(spellings.of(effect.queue, effect.exec_name)),
        effect.exec_name,
        effect.bodies[0],
        effect.options,
        effect.client_id,
        effect.task_number,
        effect.blobs[0] if effect.blobs else (),
        expect_ms_of(state, effect.exec_name),
    )


def outcome_of(state: GridState, effect: SendResult) -> Result:
    """To a client: how its one job ended."""
    end = effect.ends[0]
    return Result(
        effect.job_ids,
        effect.outcome,
        end.status,
        end.result,
        effect.exec_name,
        exit_code=end.exit_code,
        signal=end.signal,
        run_ms=end.run_ms,
        attempt=effect.attempt,
        cause=end.cause,
        detail=end.detail,
        client_id=effect.client_id,
        count=effect.count,
        blobs=end.blobs,
        job_key=effect.keys,
        worker=worker_called(state, effect.worker_id),
    )


def needs_blobs(message: AssignJob | Result, *, knows_blobs: bool) -> bool:
    """Whether the bytes of blobs must be put into a message before a peer is sent it."""
    if not message.blobs:
        return False
    if isinstance(message, AssignJob):
        return body_kept(message.body, message.blobs) is not None
    if message.outcome != "done":
        return False  # what an earlier attempt left is not the job's result
    return not knows_blobs or result_kept(message.result, message.blobs) is not None


def refusal_of(job_id: JobId, client_id: ClientId, why: str) -> Result:
    """To a client that reads no errors: its job was not taken, and why."""
    return Result(job_id, "done", Status.FAILED, failed_report(job_id, client_id, why))


def failed_report(job_id: JobId, client_id: ClientId, why: str) -> bytes:
    """A JobResult that a member makes."""
    text = f"rollq: {why}\n"
    return encode_model(
        JobResult(guid_to_text(job_id), client_id, None, STATUS_FAILED, "", text, None)
    )
