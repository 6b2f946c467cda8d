"""Requests in flight of one bulk call, with one timeout for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rollq.base.errors import RollqError
from rollq.base.ids import MessageId
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.supply import NOTHING, Supply
from rollq.roles.client.session.group_session import Answer
from rollq.roles.client.session.signals import Request, id_of
from rollq.wire.messages import SubmitJob


class Pump:
    """The requests in flight of one call.

    Args:
        engine: The client that sends them.
        what: What they are, for the timeout error; `{}` in it is their number.
        timeout_s: How long nothing may be answered while the call waits. Reading and uploading
            files counts as progress.
        on_answer: Called with each response. There are none after `close`.
        submits: Whether jobs may be accepted by them.

    Attributes:
        error: Why the call failed; the first error. Raised by `check` and `drain`.
        reading: How many jobs have files that are being read, before they are sent.
    """

    def __init__(
        self,
        engine: Engine,
        what: str,
        timeout_s: float,
        on_answer: Callable[[Answer], None],
        *,
        submits: bool = True,
    ) -> None:
        self.error: Exception | None = None
        self.reading = 0
        self._engine = engine
        self._what = what
        self._timeout_s = timeout_s
        self._on_answer = on_answer
        self._submits = submits
        self._open: dict[MessageId, None] = {}  # in the order of sending
        self._later: dict[MessageId, asyncio.TimerHandle] = {}  # of these, to be sent by a timer
        self._has_files = False
        # By the loop's clock: when the last response came, or the first wait began.
        self._heard_at = 0.0
        self._time: Callable[[], float] = lambda: 0.0  # the loop's clock, after the first send
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: dict[asyncio.Future[None], None] = {}  # of those who wait for a change

    def __len__(self) -> int:
        """How many requests have no response."""
        return len(self._open)

    def __contains__(self, request_id: MessageId) -> bool:
        return request_id in self._open

    def send(self, request: Request, supply: Supply = NOTHING) -> None:
        """Send a request, after its files."""
        request_id = id_of(request)
        self._begin()
        self._open[request_id] = None
        self._has_files |= supply is not NOTHING
        try:
            self._engine.ask(request, self.answered, supply)
        except BaseException:
            del self._open[request_id]
            raise
        if self._waiters:  # the call waits already, so the timer must run
            self._maybe_arm()

    def send_jobs(self, jobs: Sequence[SubmitJob]) -> None:
        """Send jobs without files, in one loop turn."""
        self._begin()
        job_ids = [job.job_id for job in jobs]
        self._open.update(dict.fromkeys(job_ids))
        try:
            self._engine.ask_jobs(jobs, self.answered)
        except BaseException:
            for job_id in job_ids:
                del self._open[job_id]
            raise
        if self._waiters:
            self._maybe_arm()

    def send_later(self, delay_s: float, request: Request, supply: Supply = NOTHING) -> None:
        """Send a request again after a delay; until then it counts as unanswered."""

        def send() -> None:
            del self._later[request_id]
            try:
                self.send(request, supply)
            except RollqError as error:
                self.fail(error)

        request_id = id_of(request)
        self._open[request_id] = None
        self._later[request_id] = self._engine.loop.call_later(delay_s, send)

    def answered(self, answer: Answer) -> None:
        """Handle a response."""
        if answer.request_id in self._open:
            del self._open[answer.request_id]
            self._heard_at = self._time()
            if self._waiters:
                self.wake()
            self._on_answer(answer)

    async def drain(self, open_max: int = 0) -> None:
        """Wait until at most `open_max` requests have no response.

        Raises:
            Exception: `error`; DeadlineError if there was no response for too long.
        """
        self.check()
        while len(self._open) > open_max:
            await self.changed()
            self.check()

    async def changed(self, until: float | None = None) -> None:
        """Wait for a change, or until this time of the loop's clock. `error` is set if there is no
        response for too long."""
        waiter = self._engine.loop.create_future()
        self._waiters[waiter] = None
        self._maybe_arm()
        try:
            async with asyncio.timeout_at(until):
                await waiter
        except TimeoutError:
            pass
        finally:
            del self._waiters[waiter]

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error

    def heard(self) -> None:
        """Record progress."""
        self._heard_at = self._engine.loop.time()
        self.wake()

    def wake(self) -> None:
        """Wake all who wait."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """Set the error, unless there is one, and wake all who wait."""
        self.error = self.error or error
        self.wake()

    def drop(self, request_id: MessageId) -> None:
        """Abandon a request: do not send it again."""
        timer = self._later.pop(request_id, None)
        if timer is not None:
            timer.cancel()
        if request_id in self._open:
            del self._open[request_id]
            self._engine.give_up(request_id)

    def close(self) -> list[MessageId]:
        """Abandon all requests without a response; returns their ids."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()
        left, self._open = list(self._open), {}
        for request_id in left:
            self._engine.give_up(request_id)
        return left

    def _begin(self) -> None:
        if not self._open:
            self._time = self._engine.loop.time
            self._heard_at = self._time()  # nothing was expected before

    def _maybe_arm(self) -> None:
        """Start the timer, unless it runs: consecutive short waits share one timeout."""
        if self._timer is None and (self._open or self.reading):
            loop = self._engine.loop
            self._heard_at = loop.time()
            self._timer = loop.call_later(self._timeout_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waiters or not (self._open or self.reading):
            return  # no call waits, or for nothing; the next wait starts the timer
        loop = self._engine.loop
        heard_at = loop.time() if self.reading else self._heard_at
        if self._has_files:
            heard_at = max(heard_at, self._engine.uploaded_at())
        left_s = heard_at + self._timeout_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._look)
        else:
            what = self._what.format(len(self._open))
            self.fail(self._engine.timeout_error(what, self._timeout_s, submits=self._submits))
