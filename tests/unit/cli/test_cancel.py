"""What `rollq cancel` says of ids that it cannot cancel."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from rollq.base.ids import guid_to_text, task_id
from rollq.base.jobs import JobOptions
from rollq.cli.cancel import _cancel_named
from rollq.grid.views import RawJobView

ARRAY = bytes(range(12)) + bytes(4)
TASK = task_id(ARRAY, 2)


@pytest.mark.parametrize(
    ("state", "attempt", "is_told"),
    [("queued", 0, True), ("queued", 1, False), ("assigned", 1, False), ("cancelled", 0, False)],
)
def test_a_task_that_has_not_started_is_said_to_go_with_its_array(
    state: str, attempt: int, *, is_told: bool
) -> None:
    view = RawJobView(
        TASK, "c1", "q", "calc", state, attempt, JobOptions(), 0, 0, array_id=ARRAY, task=1
    )
    client: Any = MagicMock(cancel=AsyncMock(return_value=0))
    client.jobs.view = AsyncMock(return_value=view)
    _, left = asyncio.run(_cancel_named(client, [TASK]))
    assert [f"rollq cancel {guid_to_text(ARRAY)}" in line for line in left] == [True] * is_told
