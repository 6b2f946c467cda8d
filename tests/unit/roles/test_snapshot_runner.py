"""Snapshots beside the loop: what happens if there is nobody to write them."""

from __future__ import annotations

import asyncio
import errno
import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollq.roles.member.metrics.counted import MemberCounters
from rollq.roles.member.snapshot_runner import SnapshotRunner


class Orders:
    """A driver with snapshots that are due."""

    def __init__(self, count: int) -> None:
        self._due = [SimpleNamespace(index=index, write=None, taken=None) for index in range(count)]
        self.finished: list[Any] = []
        self.counters = MemberCounters()

    def begin_snapshot(self) -> Any:
        return self._due.pop(0) if self._due else None

    def finish_snapshot(self, order: Any) -> None:
        self.finished.append(order.index)


def test_a_member_that_cannot_fork_goes_on_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fork() -> int:
        raise OSError(errno.EAGAIN, "no process")

    async def ask_twice() -> None:
        runner = SnapshotRunner(cast(Any, driver), cast(Any, None), cast(Any, None), over.append)
        runner.maybe_begin()
        runner.maybe_begin()
        runner.stop()

    monkeypatch.setattr(os, "fork", fork)
    driver = Orders(2)
    over: list[Exception | None] = []
    asyncio.run(ask_twice())
    assert driver.finished == [0, 1]
    assert driver.counters.snapshots_failed == 2
    assert over == [None, None], "an error would stop the member"
    assert [record.getMessage() for record in caplog.records] == [
        f"snapshot at {index} failed, retried later: [Errno {errno.EAGAIN}] no process"
        for index in (0, 1)
    ]
