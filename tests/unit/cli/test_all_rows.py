"""Views that are read page by page until their end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.cli.grid import PAGE_ROWS, all_rows, first_rows
from rollq.grid.views import RawDrainView
from rollq.roles.client.client import Client


class Group:
    """Answers a view of drained workers; of large rows only some fit into an answer."""

    def __init__(self, count: int, fitting: int) -> None:
        self._rows = [
            RawDrainView(number.to_bytes(16, "big"), "name", 0, "me", True, 0)
            for number in range(count)
        ]
        self._fitting = fitting

    async def query(self, what: str, key: bytes, limit: int) -> bytes:
        if limit > self._fitting:
            raise RemoteError(ErrorCode.ANSWER_TOO_LARGE, "ask for fewer")
        after = [row for row in self._rows if row.worker_id > key or not key]
        return msgspec.msgpack.encode(after[:limit])


@pytest.mark.parametrize("count", [0, 1, PAGE_ROWS, 2 * PAGE_ROWS + 1])
@pytest.mark.parametrize("fitting", [PAGE_ROWS, 70])
def test_all_rows_come_in_order_each_once(count: int, fitting: int) -> None:
    client = cast(Client, Group(count, fitting))
    rows = asyncio.run(all_rows(client, list[RawDrainView], "drained", lambda one: one.worker_id))
    assert [int.from_bytes(row.worker_id, "big") for row in rows] == list(range(count))


def test_a_list_knows_whether_it_is_cut() -> None:
    async def numbers() -> Any:
        for number in range(3):
            yield number

    async def story() -> None:
        assert await first_rows(numbers(), 2) == ([0, 1], True)
        assert await first_rows(numbers(), 3) == ([0, 1, 2], False)

    asyncio.run(story())
