"""How the end of a job is told from its views, and watching while a leader is away."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from rollq.base.errors import DeadlineError, ErrorCode, RollqError, StateError
from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.cli.ending import UNKNOWN, End, end_of, ends_of
from rollq.grid.views import RawEndView, RawJobView
from rollq.roles.client.client import Client
from rollq.roles.client.results.views import ArrayView

JOB = bytes(range(16))
DONE_WELL = RawEndView(0, b"", 0, 0, 5, 0, 0, "", confirmed=False)


def job(state: str, end: RawEndView | None = None) -> RawJobView:
    return RawJobView(JOB, "c", "q", "e", state, 1, DEFAULT_OPTIONS, 0, 0, end=end)


def array(**counts: int) -> ArrayView:
    zero = dict.fromkeys(("waiting", "open", "running", "ok", "failed", "dead", "cancelled"), 0)
    return ArrayView(
        array_id="a",
        client_id="c",
        queue="q",
        exec_name="e",
        task_count=4,
        running_max=0,
        delayed=False,
        **(zero | counts),
    )


def state_told(view: ArrayView | RawJobView | None) -> str | None:
    end = end_of(JOB, view)
    return None if end is None else end.document["state"]


def test_what_ended_without_a_result_is_not_taken_for_ok() -> None:
    assert state_told(job("done", DONE_WELL)) == "ok"
    assert state_told(job("done")) == UNKNOWN
    assert state_told(None) == UNKNOWN
    assert state_told(job("dead")) == "dead"
    assert [state_told(job(state)) for state in ("queued", "delayed", "assigned")] == [None] * 3


def test_an_array_is_ok_if_every_task_is() -> None:
    assert state_told(array(ok=3, waiting=1)) is None
    assert state_told(array(ok=3, open=1)) is None
    assert state_told(array(ok=4)) == "ok"
    assert state_told(array(ok=2, dead=1, failed=1)) == "failed"
    assert state_told(array(ok=3, cancelled=1)) == "cancelled"
    assert state_told(array(ok=3)) == "cancelled"  # one had the id of an older job


class Leaders:
    """Answers about one job in turn; an error is raised."""

    def __init__(self, *answers: RawJobView | RollqError | None) -> None:
        self._answers = iter(answers)
        self.jobs = self

    async def array(self, _job_id: bytes) -> None:
        return None

    async def view(self, _job_id: bytes) -> RawJobView | None:
        answer = next(self._answers)
        if isinstance(answer, RollqError):
            raise answer
        return answer


def watch(*answers: RawJobView | RollqError | None) -> list[End]:
    async def collect() -> list[End]:
        return [end async for end in ends_of(cast("Client", Leaders(*answers)), [JOB, JOB])]

    return asyncio.run(collect())


def test_a_leader_that_is_lost_meanwhile_is_asked_again() -> None:
    away = DeadlineError(ErrorCode.TIMED_OUT, "no leader")
    (end,) = watch(job("assigned"), away, job("done", DONE_WELL))
    assert end.is_ok
    with pytest.raises(DeadlineError):
        watch(away)
    with pytest.raises(StateError):
        watch(None)
