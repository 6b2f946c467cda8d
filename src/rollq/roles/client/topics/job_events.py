"""The event stream of one job: state changes and reported progress."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from rollq.base.errors import DeadlineError, ErrorCode, StateError
from rollq.base.ids import JobId, guid_to_text
from rollq.base.job_events import JobEvent, decode_event
from rollq.base.jobs import Status
from rollq.grid.views import RawJobView
from rollq.roles.client.answers import decode_known
from rollq.subjects.reserved import job_event_subject
from rollq.wire.messages import Query

if TYPE_CHECKING:
    from rollq.roles.client.engine.one_group import GroupEngine

END_KINDS: Final = frozenset({"ack", "dlq", "expire", "cancel"})
LOOK_S: Final = 5.0  # without events for this long, query the job: a fail-over may lose its end


async def events_of(engine: GroupEngine, job_id: JobId) -> AsyncGenerator[JobEvent, None]:
    """See `Client.events`."""
    async with await engine.subjects.subscribe(job_event_subject(job_id), "", None) as heard:
        ended = await _end_of(engine, job_id)
        # Asked after the subscription is in force: no progress is lost between the two, but the
        # same one may come by both, and older ones behind it.
        last = await last_progress(engine, job_id) if ended is None else None
        if last is not None:
            yield last
        while ended is None:
            try:
                message = await heard.next(LOOK_S)
            except DeadlineError:
                ended = await _end_of(engine, job_id)
                continue
            event = decode_event(message.payload)
            if event is not None and event != last:
                last = event
                yield event
                if event.kind in END_KINDS:
                    return
        yield ended


async def last_progress(engine: GroupEngine, job_id: JobId) -> JobEvent | None:
    """The last progress that a running job reported to this leader; None if there is none."""
    query = Query(secrets.token_bytes(16), "progress", job_id)
    return decode_known((await engine.call(query)).value, JobEvent)


async def _end_of(engine: GroupEngine, job_id: JobId) -> JobEvent | None:
    """The end of a job as an event; None if it has not ended. Raises StateError UNKNOWN_JOB."""
    query = Query(secrets.token_bytes(16), "job", job_id)
    view = decode_known((await engine.call(query)).value, RawJobView)
    if view is None:
        raise StateError(ErrorCode.UNKNOWN_JOB, f"no job has id {guid_to_text(job_id)}")
    if view.end is None:
        return None
    kind = {"done": "ack", "dead": "dlq"}.get(view.state, "cancel")
    end = view.end
    status = Status(end.status).name.lower() if kind == "ack" else ""
    return JobEvent(
        kind,
        view.attempt,
        view.stamp_ms,
        status=status,
        exit_code=end.exit_code,
        detail=end.detail,
    )
