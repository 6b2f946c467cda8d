"""Reports of results to the leader, in current and legacy form. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rollq.base.ids import guid_to_text
from rollq.base.jobs import Status
from rollq.base.limits import RUN_BYTES_MAX, RUN_JOBS_MAX
from rollq.roles.worker.attempts import OFFERED, REFUSED, Held
from rollq.wire import messages as wire
from rollq.wire.models import STATUS_FAILED, JobResult, encode_model
from rollq.wire.run_messages import AckRun

BLOB_BYTES: Final = 48  # of a blob reference in a message


def ack_of(held: Held) -> wire.AckJob:
    """The ack of an OFFERED attempt."""
    ref, record = held.ref, held.record
    assert record is not None, "an OFFERED attempt has its record"
    return wire.AckJob(
        ref.job_id,
        ref.attempt,
        ref.fence,
        record.status,
        record.result,
        record.exit_code,
        record.signal,
        record.run_ms,
        record.peak_bytes,
        record.blobs,
        record.fetched_bytes,
        record.held_bytes,
    )


def ack_runs(acks: list[wire.AckJob]) -> Iterator[AckRun]:
    """Split acks into runs of bounded size."""
    sizes = [len(ack.result) + BLOB_BYTES * len(ack.blobs) for ack in acks]
    if len(acks) <= RUN_JOBS_MAX and sum(sizes) <= RUN_BYTES_MAX:  # the usual case
        if acks:
            yield AckRun(tuple(acks))
        return
    begin = size_bytes = 0
    for end, more_bytes in enumerate(sizes):
        size_bytes += more_bytes
        if end > begin and (end - begin >= RUN_JOBS_MAX or size_bytes > RUN_BYTES_MAX):
            yield AckRun(tuple(acks[begin:end]))
            begin, size_bytes = end, more_bytes
    yield AckRun(tuple(acks[begin:]))


def legacy_ack(held: Held) -> wire.AckJob | None:
    """The report of an attempt in the legacy protocol, which has only results; None: not ended."""
    job_id, record = held.ref.job_id, held.record
    if held.phase is REFUSED:
        report = JobResult(guid_to_text(job_id), None, None, STATUS_FAILED, "", held.detail)
        return wire.AckJob(job_id, status=Status.FAILED, result=encode_model(report))
    if held.phase is OFFERED and record is not None:
        return wire.AckJob(job_id, status=record.status, result=record.result)
    return None
