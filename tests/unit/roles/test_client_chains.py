"""Waiting for the jobs of a group: whose timeout it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollq.base.errors import DeadlineError
from rollq.roles.client.functions.chains import JobGroup


class FakeJob:
    """A job that ended with an exception, or goes on."""

    def __init__(self, error: Exception | None) -> None:
        self.is_done = error is not None
        self._error = error

    async def get(self) -> Any:
        if self._error is not None:
            raise self._error
        await asyncio.get_running_loop().create_future()


def wait(*errors: Exception | None, timeout_s: float | None = None) -> None:
    members: Any = [FakeJob(error) for error in errors]
    asyncio.run(JobGroup(members).get(timeout_s))


@pytest.mark.parametrize("others", [(), (None,)])
def test_a_job_that_raises_a_timeout_is_not_taken_for_one_that_goes_on(others: Any) -> None:
    with pytest.raises(TimeoutError, match="the database") as raised:
        wait(TimeoutError("the database"), *others)
    assert not isinstance(raised.value, DeadlineError)


def test_a_group_that_goes_on_is_told_with_the_time() -> None:
    with pytest.raises(DeadlineError, match="not all ended within 0 s"):
        wait(None, timeout_s=0)
