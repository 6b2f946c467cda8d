"""Messages made from effects of applied entries and from the state."""

from __future__ import annotations

from rollq.base.ids import ClientId, JobId, guid_to_text
from rollq.base.jobs import Status
from rollq.base.limits import INLINE_BYTES_MAX, RUN_BYTES_MAX, RUN_JOBS_MAX
from rollq.base.staged import ids_of
from rollq.grid.edges import learns_ends, uses_results
from rollq.grid.effects import SendAssign, SendResult
from rollq.grid.state import GridState
from rollq.grid.views import worker_called
from rollq.policy.hints import expect_ms_of
from rollq.roles.member.leader.addressing import Spellings
from rollq.roles.member.leader.flows import ends_for, results_for
from rollq.subjects.queues import assign_subject
from rollq.wire.kept import body_kept, result_kept
from rollq.wire.messages import AssignJob, Result
from rollq.wire.models import STATUS_FAILED, JobResult, encode_model
from rollq.wire.run_messages import AssignRun, ResultRun


def assignment(state: GridState, effect: SendAssign, spellings: Spellings) -> AssignJob:
    """The assignment of one job to a worker."""
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
        results_for(state, effect.job_ids),
        ends_for(state, effect.job_ids),
    )


def assign_run(state: GridState, effect: SendAssign, spellings: Spellings) -> AssignRun | None:
    """The assignments of a run to a worker that supports runs. None: they must be sent one by one,
    because blobs or results or ends of parents must be put into them, or they are too large
    together."""
    if any(effect.blobs) or not _fits(effect.bodies):
        return None
    if state.edges.parents and any(
        uses_results(state, one) or learns_ends(state, one) for one in ids_of(effect.job_ids)
    ):
        return None
    return AssignRun(
        effect.job_ids,
        effect.attempt,
        effect.fence,
        effect.lease_ms,
        assign_subject(spellings.of(effect.queue, effect.exec_name)),
        effect.exec_name,
        effect.bodies,
        effect.options,
        effect.client_id,
        effect.task_number,
        (),
        expect_ms_of(state, effect.exec_name),
    )


def result_run(state: GridState, effect: SendResult) -> ResultRun | None:
    """The results of a run, to a client that supports runs. None: they must be sent one by one,
    because they differ in their ends, or as in `assign_run`."""
    ends, first = effect.ends, effect.ends[0]
    results = tuple([end.result for end in ends])
    ends_by_kind = {(end.status, end.exit_code, end.signal, end.cause, end.detail) for end in ends}
    if effect.count != 1 or len(ends_by_kind) != 1 or any(end.blobs for end in ends):
        return None
    if not _fits(results):
        return None
    return ResultRun(
        effect.job_ids,
        results,
        effect.outcome,
        first.status,
        effect.exec_name,
        first.exit_code,
        first.signal,
        effect.attempt,
        first.cause,
        first.detail,
        effect.client_id,
        worker_called(state, effect.worker_id),
        tuple([end.run_ms for end in ends]),
        effect.keys,
    )


def _fits(payloads: tuple[bytes, ...]) -> bool:
    sizes = list(map(len, payloads))
    is_short = len(sizes) <= RUN_JOBS_MAX and sum(sizes) <= RUN_BYTES_MAX
    return is_short and max(sizes) <= INLINE_BYTES_MAX


def outcome_of(state: GridState, effect: SendResult) -> Result:
    """The result of one job, to its client."""
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
    """Whether blob contents must be put into a message before it is sent."""
    if not message.blobs:
        return False
    if isinstance(message, AssignJob):
        return body_kept(message.body, message.blobs) is not None
    if message.outcome != "done":
        return False  # the blobs of an earlier attempt are not the job's result
    return not knows_blobs or result_kept(message.result, message.blobs) is not None


def refusal_of(job_id: JobId, client_id: ClientId, why: str) -> Result:
    """The result that stands for an error, to a client that reads no errors: its job was
    refused."""
    return Result(job_id, "done", Status.FAILED, failed_report(job_id, client_id, why))


def failed_report(job_id: JobId, client_id: ClientId, why: str) -> bytes:
    """A JobResult made by a member."""
    text = f"rollq: {why}\n"
    return encode_model(
        JobResult(guid_to_text(job_id), client_id, None, STATUS_FAILED, "", text, None)
    )
