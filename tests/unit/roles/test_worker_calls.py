"""Coroutine functions in the worker's loop, whatever they raise or return, and their progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rollq.base.job_events import JobProgress, decode_event
from rollq.base.jobs import AttemptRef, Status
from rollq.roles.worker.calls import LoopCall, LoopCalls
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.roles.worker.progress import ProgressBook
from rollq.roles.worker.signals import StoredResult
from rollq.tasks import Task
from rollq.values.calls import pack_call
from rollq.wire.messages import AssignJob
from rollq.wire.models import encode_model, job_request

REF = AttemptRef(b"j" * 16, 1, 7)


class SilentError(Exception):
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclass
class Broken:
    """A record that cannot be read."""

    value: int = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            raise LookupError("it is gone")
        return super().__getattribute__(name)


async def raises() -> None:
    raise SilentError


async def returns() -> Broken:
    return Broken()


async def waits_and_raises() -> None:
    await asyncio.sleep(0)
    raise SilentError


async def adds(a: int, b: int) -> int:
    return a + b


class Owner:
    """Hears how calls ended."""

    def __init__(self) -> None:
        self.endings: list[ExecutionEnd] = []
        self.has_ended = asyncio.Event()

    def result_of(
        self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd
    ) -> StoredResult | None:
        self.endings.append(ending)
        self.has_ended.set()
        return None

    def calls_ended(self, results: list[StoredResult], ran_s: float) -> None:
        """All are told by `result_of`."""

    def call_waits(self, call: LoopCall, rest: list[AttemptRef]) -> None:
        """Nobody kills it."""

    def call_ended(self, call: LoopCall, ending: ExecutionEnd) -> None:
        self.endings.append(ending)
        self.has_ended.set()


def call_of(function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> AssignJob:
    name = function.__name__
    packed = pack_call(args, {})
    body = encode_model(job_request(REF.job_id, "ann", name, call=packed.call))
    return AssignJob(REF.job_id, 1, 7, 30_000, "job.assign.q", name, body)


@pytest.mark.parametrize("function", [raises, returns, waits_and_raises])
def test_a_call_fails_alone_whatever_it_raises_or_returns(
    function: Callable[..., Coroutine[Any, Any, Any]],
) -> None:
    async def script() -> list[int]:
        owner = Owner()
        tasks = {one.__name__: Task(one.__name__, one) for one in (function, adds)}
        calls = LoopCalls(asyncio.get_running_loop(), owner, tasks, lambda digest: Path())
        for job in (call_of(function), call_of(adds, 1, 2)):
            owner.has_ended.clear()
            calls.add([(job, REF)])
            await owner.has_ended.wait()
        return [one.status for one in owner.endings]

    ended = asyncio.run(asyncio.wait_for(script(), 20))
    assert ended == [Status.FAILED, Status.OK]


def test_progress_is_taken_from_any_thread() -> None:
    async def script() -> list[bytes]:
        told: list[bytes] = []
        book = ProgressBook(lambda subject, payload: told.append(payload))
        book.report(REF, JobProgress(1, 3))  # before it is open
        book.open()
        book.report(None, JobProgress(1, 3))  # of no job
        await asyncio.to_thread(book.report, REF, JobProgress(2, 3))
        book.over(REF)
        book.report(REF, JobProgress(3, 3))
        book.over(REF)
        book.close()
        book.report(REF, JobProgress(4, 4))
        book.over(REF)
        return told

    events = [decode_event(one) for one in asyncio.run(script())]
    said = [None if one is None else one.progress for one in events]
    assert said == [JobProgress(2, 3), JobProgress(3, 3)]
