from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from rollq.base.errors import DeadlineError, ErrorCode
from rollq.base.ids import JobId, task_id
from rollq.base.jobs import BlobRef
from rollq.roles.client.engine.base import Engine
from rollq.roles.client.jobs.supply import BytesMoved
from rollq.roles.client.results import handles
from rollq.roles.client.results.handles import TAKEN_MAX, Batch
from rollq.wire import messages as wire

FIRST = b"twelve bytes" + bytes(4)


class Nobody:
    """A client that must not be asked."""

    async def cancel(self, job_ids: Sequence[JobId]) -> int:
        raise AssertionError(job_ids)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        raise AssertionError

    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        raise AssertionError(ref)

    async def is_array_over(self, array_id: JobId) -> bool:
        raise AssertionError(array_id)


def array_of(count: int, *, keeps: bool = True) -> Batch:
    batch = Batch(cast("Engine", Nobody()), FIRST, keeps=keeps, array_id=FIRST)
    batch.extend(count)
    batch.complete()
    return batch


def taken(batch: Batch) -> list[JobId]:
    async def take() -> list[JobId]:
        return [one.job_id async for one in batch.results()]

    return asyncio.run(take())


def test_one_message_ends_all_tasks_that_never_began() -> None:
    count = 3 * TAKEN_MAX
    batch = array_of(count)
    assert not batch.deliver([wire.Result(FIRST, "done")])
    cut = wire.Result(task_id(FIRST, 1), "cancelled", 2, count=count - 1)
    assert batch.deliver([cut])
    assert batch.deliver([cut])  # again, by another leader
    assert (batch.counts.ok, batch.counts.cancelled, batch.counts.ended) == (1, count - 1, count)
    assert taken(batch) == list(batch.job_ids())


def test_results_are_given_once() -> None:
    batch = array_of(2)
    batch.deliver([wire.Result(FIRST, "done"), wire.Result(task_id(FIRST, 1), "done")])
    assert taken(batch) == list(batch.job_ids())
    assert taken(batch) == []
    assert batch.counts.ok == 2


def test_tasks_that_waited_too_long_are_dead() -> None:
    batch = array_of(5, keeps=False)
    assert batch.deliver([wire.Result(FIRST, "dead", 1, cause=5, count=5)])
    assert batch.counts.dead == 5
    assert taken(batch) == []


def test_a_message_about_more_than_there_is_changes_nothing() -> None:
    batch = array_of(5)
    assert not batch.deliver([wire.Result(FIRST, "dead", count=6)])
    assert batch.counts.ended == 0


def test_an_array_is_waited_for_while_no_leader_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaderless(Nobody):
        asked = 0
        loop = None  # type: ignore[assignment]

        async def is_array_over(self, array_id: JobId) -> bool:
            self.asked += 1
            if self.asked == 1:
                raise DeadlineError(ErrorCode.TIMED_OUT, "no answer within 30 s: a query")
            return True

    monkeypatch.setattr(handles, "ARRAY_POLL_MS", 1)
    engine = Leaderless()
    batch = Batch(cast("Engine", engine), FIRST, keeps=True, array_id=FIRST)
    batch.extend(2)
    batch.complete()
    assert asyncio.run(batch.wait()).cut == 2
    assert engine.asked == 3
