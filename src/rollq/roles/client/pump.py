"""The one pump of all calls that send many requests: what is sent and not answered, one timer for
all of it, and one waiter that wakes when something has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rollq.base.errors import RollqError
from rollq.base.ids import MessageId
from rollq.roles.client.engine import Engine
from rollq.roles.client.session import Answer
from rollq.roles.client.signals import Request, id_of
from rollq.roles.client.supply import NOTHING, Supply
from rollq.wire.messages import SubmitJob


class Pump:
    """Requests of one call on their way.

    Args:
        engine: The client that sends them.
        what: What they are, for the error; a plural, behind their count.
        timeout_s: How long nothing may be answered while somebody waits. Files that are read or
            uploaded count as answers.
        on_answer: Told the answer to each request. What is closed gets none.

    Attributes:
        error: Why nothing more is to come; the first one counts. Raised by `check` and `drain`.
        reading: For how many jobs files are being read now, before they can be sent.
    """

    def __init__(
        self,
        engine: Engine,
        what: str,
        timeout_s: float,
        on_answer: Callable[[Answer], None],
    ) -> None:
        self.error: Exception | None = None
        self.reading = 0
        self._engine = engine
        self._what = what
        self._timeout_s = timeout_s
        self._on_answer = on_answer
        self._open: dict[MessageId, None] = {}  # in the order of their sending
        self._later: dict[MessageId, asyncio.TimerHandle] = {}  # of these, not sent yet
        self._has_files = False
        # By the loop's clock: the last answer; if there was none, when the first wait began.
        self._heard_at = 0.0
        self._time: Callable[[], float] = lambda: 0.0  # that clock, once something was sent
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """How many requests are not answered."""
        return len(self._open)

    def __contains__(self, request_id: MessageId) -> bool:
        return request_id in self._open

    def send(self, request: Request, supply: Supply = NOTHING) -> None:
        """Send one more, after its files."""
        request_id = id_of(request)
        self._begin()
        self._open[request_id] = None
        self._has_files |= supply is not NOTHING
        try:
            self._engine.ask(request, self.answered, supply)
        except BaseException:
            del self._open[request_id]
            raise
        if self._waiter is not None:  # it was sent for somebody who waits already
            self._maybe_arm()

    def send_jobs(self, jobs: Sequence[SubmitJob]) -> None:
        """Send jobs without files, in one turn."""
        self._begin()
        job_ids = [job.job_id for job in jobs]
        self._open.update(dict.fromkeys(job_ids))
        try:
            self._engine.ask_jobs(jobs, self.answered)
        except BaseException:
            for job_id in job_ids:
                del self._open[job_id]
            raise
        if self._waiter is not None:
            self._maybe_arm()

    def send_later(self, delay_s: float, request: Request, supply: Supply = NOTHING) -> None:
        """Send one again after a while; until then it counts as unanswered."""

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
        """The answer to a request."""
        if answer.request_id in self._open:
            del self._open[answer.request_id]
            self._heard_at = self._time()
            if self._waiter is not None:
                self.wake()
            self._on_answer(answer)

    async def drain(self, open_max: int = 0) -> None:
        """Wait until no more than so many are unanswered.

        Raises:
            Exception: `error`; DeadlineError if none was answered for too long.
        """
        self.check()
        while len(self._open) > open_max:
            await self.changed()
            self.check()

    async def changed(self, until: float | None = None) -> None:
        """Wait until something has changed, or until this time of the loop's clock. If nothing is
        answered for too long, that is the error then."""
        loop = self._engine.loop
        self._waiter = loop.create_future()
        self._maybe_arm()
        try:
            async with asyncio.timeout_at(until):
                await self._waiter
        except TimeoutError:
            pass
        finally:
            self._waiter = None

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error

    def heard(self) -> None:
        """There was progress."""
        self._heard_at = self._engine.loop.time()
        self.wake()

    def wake(self) -> None:
        """Something has changed for whoever waits."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """End what waits."""
        self.error = self.error or error
        self.wake()

    def drop(self, request_id: MessageId) -> None:
        """Await no answer to this one, and do not send it again."""
        timer = self._later.pop(request_id, None)
        if timer is not None:
            timer.cancel()
        if request_id in self._open:
            del self._open[request_id]
            self._engine.give_up(request_id)

    def close(self) -> list[MessageId]:
        """What is not answered by now is not sent again: what that was."""
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
            self._heard_at = self._time()  # until now there was nothing to answer

    def _maybe_arm(self) -> None:
        """A wait that follows another one goes on where that ended: time that is asked for in small
        pieces runs out too."""
        if self._timer is None and (self._open or self.reading):
            loop = self._engine.loop
            self._heard_at = loop.time()
            self._timer = loop.call_later(self._timeout_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or not (self._open or self.reading):
            return  # nobody waits now, or for nothing; whoever waits next starts the timer
        loop = self._engine.loop
        heard_at = loop.time() if self.reading else self._heard_at
        if self._has_files:
            heard_at = max(heard_at, self._engine.uploaded_at())
        left_s = heard_at + self._timeout_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._look)
        else:
            self.fail(self._engine.overdue(f"{len(self._open)} {self._what}", self._timeout_s))
