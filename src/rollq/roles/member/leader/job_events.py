"""Job events, published to subscribers of `job.event.<job id>`, and the last progress of each
running job. None of it is stored beyond this leader, and without a subscriber nothing is encoded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from rollq.base.ids import JobId
from rollq.base.job_events import (
    PROGRESS_BYTES_MAX,
    PROGRESS_KEPT_MAX,
    JobEvent,
    decode_event,
    encode_event,
)
from rollq.base.jobs import Status
from rollq.base.staged import ids_of
from rollq.grid import events
from rollq.grid.effects import Applied
from rollq.grid.events import Event, each
from rollq.grid.state import ASSIGNED, GridState
from rollq.grid.views import worker_called
from rollq.roles.member.leader.publishing import Publishing
from rollq.roles.member.replica import Replica
from rollq.subjects.reserved import job_event_subject
from rollq.wire.subject_messages import Deliver

PUBLISHED: Final = frozenset(
    {
        events.JOB_ENQUEUED,
        events.JOB_DELAYED,
        events.JOB_RELEASED,
        events.JOB_BLOCKED,
        events.JOB_UNBLOCKED,
        events.JOB_ASSIGNED,
        events.JOB_ACKED,
        events.JOB_TIMED_OUT,
        events.JOB_WORKER_LOST,
        events.JOB_NACKED,
        events.JOB_RETRIED,
        events.JOB_DEAD,
        events.JOB_EXPIRED,
        events.JOB_CANCEL_REQUESTED,
        events.JOB_CANCELLED,
        events.JOB_REDRIVEN,
    }
)


class JobEvents:
    """Publishes the job events of one leader."""

    def __init__(self, replica: Replica, publishing: Publishing) -> None:
        self._replica = replica
        self._publishing = publishing
        publishing.on_job_event = self._note
        # The last progress payload of each job, least recently updated first; at most
        # PROGRESS_KEPT_MAX.
        self._latest: OrderedDict[JobId, bytes] = OrderedDict()

    def observe(self, applied: Applied) -> None:
        """Publish the events of an applied entry that have subscribers."""
        listened = self._publishing.subscriptions.listened
        if not listened:
            return
        for event in applied.events:
            if event.kind in PUBLISHED and listened.has_any(_jobs_of(event)):
                for one in each(event):
                    if one.job_id and listened.has(one.job_id):
                        self._publish(one, applied.stamp_ms)

    def latest(self, job_id: JobId) -> JobEvent | None:
        """The last progress of the job's present attempt; None: none was reported."""
        data = self._latest.get(job_id)
        record = self._replica.state.jobs.get(job_id)
        event = None if data is None else decode_event(data)
        if event is None or record is None or record.state is not ASSIGNED:
            return None
        return event if event.attempt == record.attempt else None

    def clear(self) -> None:
        """Leadership is lost."""
        self._latest.clear()

    def _note(self, job_id: JobId, payload: bytes) -> None:
        """Note the progress that a worker published of a job that it runs."""
        if len(payload) <= PROGRESS_BYTES_MAX:
            self._latest[job_id] = payload
            self._latest.move_to_end(job_id)
            if len(self._latest) > PROGRESS_KEPT_MAX:
                self._latest.popitem(last=False)

    def _publish(self, event: Event, stamp_ms: int) -> None:
        payload = encode_event(_event_of(self._replica.state, event, stamp_ms))
        subject = job_event_subject(event.job_id)
        self._publishing.publish_own(Deliver(subject, payload, stamp_ms=stamp_ms))


def _jobs_of(event: Event) -> Iterable[JobId]:
    return (event.job_id,) if event.run is None else ids_of(event.run.job_ids)


def _event_of(state: GridState, event: Event, stamp_ms: int) -> JobEvent:
    is_end = event.kind == events.JOB_ACKED
    return JobEvent(
        event.kind,
        event.attempt,
        stamp_ms,
        worker=worker_called(state, event.worker_id),
        status=Status(event.status).name.lower() if is_end else "",
        exit_code=event.exit_code,
        detail=event.detail,
    )
