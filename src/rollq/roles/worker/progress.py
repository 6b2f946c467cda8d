"""How far jobs are, as their programs and functions say: told to the leader, the latest of each and
not too often. What nobody took is no loss: the next replaces it.
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
    """The latest progress of attempts that run. Each attempt is in it once, so it is no larger than
    the slots of the worker.

    Args:
        publish: Says something to a subject, if there is a leader.
    """

    def __init__(self, publish: Callable[[str, bytes], None]) -> None:
        self._publish = publish
        self._latest: dict[AttemptRef, JobProgress] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # from `open` to `close`
        self._thread = 0  # in which that runs

    def open(self) -> None:
        """Begin, in the loop that runs."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def report(self, ref: AttemptRef | None, progress: JobProgress) -> None:
        """As `note`, from any thread: a coroutine function may have work done in others. Without an
        attempt nothing is said."""
        loop = self._loop
        if ref is None or loop is None:
            return
        if threading.get_ident() == self._thread:
            self.note(ref, progress)
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed just now
                loop.call_soon_threadsafe(self.note, ref, progress)

    def note(self, ref: AttemptRef, progress: JobProgress) -> None:
        """An attempt is so far."""
        if self._loop is None:
            return
        self._latest[ref] = progress
        if self._timer is None:
            self._timer = self._loop.call_later(PROGRESS_MS / 1_000, self._tell_all)

    def over(self, ref: AttemptRef) -> None:
        """An attempt has ended: what it said last goes before its result."""
        progress = self._latest.pop(ref, None)
        if progress is not None:
            self._tell(ref, progress)

    def close(self) -> None:
        """Tell nothing any more."""
        self._loop = None
        self._latest.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell_all(self) -> None:
        self._timer = None
        latest, self._latest = self._latest, {}
        for ref, progress in latest.items():
            self._tell(ref, progress)

    def _tell(self, ref: AttemptRef, progress: JobProgress) -> None:
        event = JobEvent(PROGRESS, ref.attempt, progress=progress)
        self._publish(job_event_subject(ref.job_id), encode_event(event))
