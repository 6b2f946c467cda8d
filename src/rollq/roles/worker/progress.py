"""Progress of jobs, as reported by programs and functions: the latest of each is published, at a
limited rate. Lost reports are replaced by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from rollq.base.job_events import (
    PROGRESS,
    PROGRESS_MS,
    JobEvent,
    JobProgress,
    encode_event,
)
from rollq.base.jobs import AttemptRef
from rollq.subjects.reserved import job_event_subject


class ProgressBook:
    """The latest progress of running attempts; bounded by the slots of the worker.

    Args:
        publish: Publishes to a subject, if there is a leader.
    """

    def __init__(self, publish: Callable[[str, bytes], None]) -> None:
        self._publish = publish
        self._latest: dict[AttemptRef, JobProgress] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # from `open` to `close`
        self._thread = 0  # of the loop

    def open(self) -> None:
        """Begin, in the running loop."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def report(self, ref: AttemptRef | None, progress: JobProgress) -> None:
        """As `note`, from any thread: a coroutine function may use other threads. Ignored without
        an attempt."""
        loop = self._loop
        if ref is None or loop is None:
            return
        if threading.get_ident() == self._thread:
            self.note(ref, progress)
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed just now
                loop.call_soon_threadsafe(self.note, ref, progress)

    def note(self, ref: AttemptRef, progress: JobProgress) -> None:
        """Note the progress of an attempt."""
        if self._loop is None:
            return
        self._latest[ref] = progress
        if self._timer is None:
            self._timer = self._loop.call_later(PROGRESS_MS / 1_000, self._publish_all)

    def over(self, ref: AttemptRef) -> None:
        """An attempt has ended: publish its last progress before its result."""
        progress = self._latest.pop(ref, None)
        if progress is not None:
            self._publish_one(ref, progress)

    def close(self) -> None:
        """Publish nothing any more."""
        self._loop = None
        self._latest.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _publish_all(self) -> None:
        self._timer = None
        latest, self._latest = self._latest, {}
        for ref, progress in latest.items():
            self._publish_one(ref, progress)

    def _publish_one(self, ref: AttemptRef, progress: JobProgress) -> None:
        event = JobEvent(PROGRESS, ref.attempt, progress=progress)
        self._publish(job_event_subject(ref.job_id), encode_event(event))
