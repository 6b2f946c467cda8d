"""Effects of applied entries as the messages that they become, with what only the state can add."""

from __future__ import annotations

from rollq.grid.effects import SendAssign, SendResult
from rollq.grid.state import GridState
from rollq.grid.views import worker_called
from rollq.policy.hints import expect_ms_of
from rollq.subjects.queues import assign_subject
from rollq.wire.messages import AssignJob, Result


def assignment(state: GridState, effect: SendAssign) -> AssignJob:
    """To a worker: run this attempt."""
    return AssignJob(
        effect.job_id,
        effect.attempt,
        effect.fence,
        effect.lease_ms,
        assign_subject(effect.queue),
        effect.exec_name,
        effect.body,
        effect.options,
        effect.client_id,
        effect.task_number,
        effect.blobs,
        expect_ms_of(state, effect.exec_name),
    )


def outcome_of(state: GridState, effect: SendResult) -> Result:
    """To a client: how its job ended."""
    return Result(
        effect.job_id,
        effect.outcome,
        effect.status,
        effect.result,
        effect.exec_name,
        effect.exit_code,
        effect.signal,
        effect.run_ms,
        effect.attempt,
        effect.cause,
        effect.detail,
        effect.client_id,
        effect.count,
        effect.blobs,
        effect.key,
        worker_called(state, effect.worker_id),
    )
