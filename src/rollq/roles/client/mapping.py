"""One program over many arguments, with a bounded number of jobs on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from rollq.base.errors import RollqError
from rollq.base.ids import JobId
from rollq.roles.client.answers import error_of
from rollq.roles.client.handles import Progress, Sink
from rollq.roles.client.results import Result
from rollq.roles.client.session import Answer, OnAnswer
from rollq.roles.client.specs import JobSpec
from rollq.wire import messages as wire


class Door(Protocol):
    """What a run needs of its client."""

    def enter(self, spec: JobSpec, sink: Sink, on_answer: OnAnswer) -> JobId:
        """Submit a job whose result is for the sink."""

    def leave(self, job_ids: Iterable[JobId]) -> None:
        """Nobody wants the results of these jobs any more: end them."""

    def overdue(self, what: str) -> RollqError:
        """The error for what was not accepted in time."""


class MapRun:
    """The jobs of one `map`: how many are on the way, and what came back.

    Args:
        door: The client.
        specs: The jobs; taken one by one, as there is room.
        window: How many may be on the way or wait to be taken.
        ordered: Whether results are handed out in the order of the jobs.
        total: How many there are, if that is known.
        progress: Told how many ended.
        patience_s: How long nothing may be accepted before that is an error.
    """

    def __init__(
        self,
        door: Door,
        specs: Iterable[JobSpec],
        *,
        window: int,
        ordered: bool,
        total: int | None,
        progress: Progress | None,
        patience_s: float,
    ) -> None:
        self._door = door
        self._specs = iter(specs)
        self._window = window
        self._ordered = ordered
        self._total = total
        self._progress = progress
        self._patience_s = patience_s
        self._numbers: dict[JobId, int] = {}  # submitted, result not here
        self._unaccepted = 0
        self._held: dict[int, Result] = {}  # here, but it is not their turn
        self._ready: list[Result] = []
        self._entered = 0
        self._ended = 0
        self._handed_out = 0
        self._is_exhausted = False
        self._error: RollqError | None = None
        self._wake = asyncio.Event()

    async def take(self) -> list[Result]:
        """The next results, at least one; empty when all have been taken.

        Raises:
            RollqError: a job was refused, or nothing was accepted for too long.
        """
        while True:
            self._fill()
            if self._error is not None:
                raise self._error
            if self._ready:
                taken, self._ready = self._ready, []
                self._handed_out += len(taken)
                return taken
            if not self._numbers:
                return []
            await self._next()

    def close(self) -> None:
        """End what is still on the way."""
        self._is_exhausted = True
        if self._numbers:
            self._door.leave(list(self._numbers))
            self._numbers.clear()

    def deliver(self, result: wire.Result) -> bool:
        """A result has come."""
        number = self._numbers.pop(result.job_id, None)
        if number is None:
            return True
        self._ended += 1
        if not self._ordered:
            self._ready.append(Result(result))
        else:
            self._held[number] = Result(result)
            turn = self._handed_out + len(self._ready)
            while turn in self._held:
                self._ready.append(self._held.pop(turn))
                turn += 1
        if self._progress is not None:
            self._progress(self._ended, self._total)
        self._wake.set()
        return True

    def fail(self, error: RollqError) -> None:
        """The client stops."""
        self._numbers.clear()
        self._error = error
        self._wake.set()

    def _fill(self) -> None:
        while not self._is_exhausted and self._entered - self._handed_out < self._window:
            spec = next(self._specs, None)
            if spec is None:
                self._is_exhausted = True
                return
            job_id = self._door.enter(spec, self, self._on_answer)
            self._numbers[job_id] = self._entered
            self._entered += 1
            self._unaccepted += 1

    def _on_answer(self, answer: Answer) -> None:
        self._unaccepted -= 1
        if isinstance(answer, wire.Error):
            self._error = error_of(answer)
        self._wake.set()

    async def _next(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(self._patience_s if self._unaccepted else None):
                await self._wake.wait()
        except TimeoutError:
            if self._unaccepted:
                self._error = self._door.overdue(f"{self._unaccepted} jobs of a map")
