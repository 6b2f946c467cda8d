from __future__ import annotations

import asyncio
from unittest.mock import MagicMock

import pytest

from rollq.base.jobs import Status
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.roles.worker.warm import WarmCall, WarmPool, WarmProcess
from rollq.roles.worker.warm_main import Reply, WarmRequest, pack


def test_a_process_that_is_being_killed_gets_no_further_call() -> None:
    pool = MagicMock()
    pool.children.box_of.return_value = None
    process = WarmProcess(pool)
    process.connection_made(MagicMock())
    process.data_received(pack(Reply()))
    pool.ready.assert_called_once_with(process)
    endings: list[ExecutionEnd] = []
    call = WarmCall(WarmRequest("f", (), b""), MagicMock(), endings.append, MagicMock(), blobs=())
    process.run(call)
    call.end_hard("cancelled")
    process.data_received(pack(Reply(stdout="it ended before the signal came")))
    assert [one.status for one in endings] == [Status.FAILED]
    pool.ready.assert_called_once_with(process)


def test_a_pool_that_is_closed_starts_no_process_that_was_planned_before() -> None:
    children = MagicMock()

    async def story() -> None:
        poller = MagicMock(loop=asyncio.get_running_loop())
        pool = WarmPool(
            *(poller, children, ("app",), 0),
            directories=MagicMock(),
            sandbox=MagicMock(is_launching=False),
            measuring=MagicMock(),
        )
        await pool.start()
        pool._refill()
        pool.close()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(story())
    children.spawn.assert_not_called()


def test_the_log_has_why_a_process_cannot_run_all(caplog: pytest.LogCaptureFixture) -> None:
    process = WarmProcess(MagicMock())
    process.data_received(pack(Reply(stderr="the initializer load raised OSError")))
    assert "cannot run all tasks: the initializer load raised OSError" in caplog.text
    assert process.was_ready
