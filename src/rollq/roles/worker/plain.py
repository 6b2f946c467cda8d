"""What a worker says of an attempt to a legacy leader, which knows results alone. Pure."""

from __future__ import annotations

from rollq.base.ids import guid_to_text
from rollq.base.jobs import Status
from rollq.roles.worker.attempts import OFFERED, REFUSED, Held
from rollq.wire.messages import AckJob
from rollq.wire.models import STATUS_FAILED, JobResult, encode_model


def plain_ack(held: Held) -> AckJob | None:
    """The result of an attempt, or why it cannot be run; None: it is not over."""
    job_id, record = held.ref.job_id, held.record
    if held.phase is REFUSED:
        report = JobResult(guid_to_text(job_id), None, None, STATUS_FAILED, "", held.detail)
        return AckJob(job_id, status=Status.FAILED, result=encode_model(report))
    if held.phase is OFFERED and record is not None:
        return AckJob(job_id, status=record.status, result=record.result)
    return None
