"""Links that a router opens to groups: each is closed with the client that it is for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rollq.base.access import LinkRole, Principal
from rollq.roles.client.several_groups.routes import GroupTable
from rollq.roles.router import blob_links, reader_links
from rollq.roles.router.blob_links import BlobLinks
from rollq.roles.router.groups import Groups
from rollq.roles.router.machine import RouterMachine
from rollq.roles.router.owners import JobOwners, KeptBytes
from rollq.roles.router.reader_links import ReaderLinks
from rollq.roles.router.upstream import Upstream
from rollq.security.credentials import NONE
from rollq.wire.blob_messages import CLIENT, HelloBlobs
from rollq.wire.features import VIEWS
from rollq.wire.messages import Query, Welcome
from rollq.wire.reader_messages import HelloReader

ANN = Principal(LinkRole.BLOBS, "ann", "here")
ID = b"i" * 16
HANG_S = 60
NEAR, FAR = "127.0.0.1:1", "127.0.0.1:2"


class FakeLink:
    """Whether it is open."""

    def __init__(self, moved: asyncio.Event | None = None) -> None:
        self.is_open = True
        self.loop = asyncio.get_running_loop()
        self.moved = moved or asyncio.Event()  # set by every change

        self.sent: list[Any] = []

    def close(self, reason: str) -> None:
        self.is_open = False
        self.moved.set()

    def send(self, message: Any) -> None:
        self.send_all([message])

    def send_all(self, messages: list[Any]) -> None:
        self.sent += messages
        self.moved.set()


def test_a_client_that_leaves_while_groups_are_looked_for_leaves_no_link_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asyncio.run(_leave_early(monkeypatch))


async def _leave_early(monkeypatch: pytest.MonkeyPatch) -> None:
    near, is_asked = FakeLink(), asyncio.Event()

    async def find_server(addresses: tuple[str, ...], *_: Any) -> Upstream | None:
        if addresses == (NEAR,):
            return Upstream(near, Welcome("near", 1))  # type: ignore[arg-type]
        is_asked.set()
        await asyncio.get_running_loop().create_future()  # it never answers
        return None

    monkeypatch.setattr(blob_links, "find_server", find_server)
    groups = Groups(GroupTable())
    groups.add("near", NEAR)
    groups.add("far", FAR)
    links = BlobLinks(groups, lambda link: NONE)
    client: Any = FakeLink()
    links.hear(client, [HelloBlobs(CLIENT)], ANN)
    await is_asked.wait()
    await links.stop()
    assert not near.is_open


def test_a_reader_sees_groups_that_are_added_and_misses_none_that_are_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asyncio.run(_follow(monkeypatch))


async def _follow(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, FakeLink] = {}
    moved = asyncio.Event()

    async def find_server(addresses: tuple[str, ...], *_: Any) -> Upstream:
        found[addresses[0]] = FakeLink(moved)
        moved.set()
        return Upstream(found[addresses[0]], Welcome("g", 1))  # type: ignore[arg-type]

    async def until(is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(HANG_S):
            while not is_so():
                moved.clear()
                await moved.wait()

    monkeypatch.setattr(reader_links, "find_server", find_server)
    monkeypatch.setattr(reader_links, "AGAIN_S", 0)
    groups = Groups(GroupTable())
    near = groups.add("near", NEAR)
    machine = RouterMachine(groups.table, JobOwners(), KeptBytes(), base_id=b"d" * 16)
    links = ReaderLinks(groups, lambda link: NONE, lambda: machine)
    client: Any = FakeLink(moved)
    links.hear(client, [HelloReader("", (VIEWS,))], ANN)
    await until(lambda: client.sent)
    groups.add("far", FAR)
    await until(lambda: FAR in found)
    links.hear(client, [Query(ID, "counts")], ANN)
    assert found[NEAR].sent == found[FAR].sent == [Query(ID, "counts")]
    groups.remove(near)
    await until(lambda: not found[NEAR].is_open)
    assert machine.pending_requests.away() == []
    await links.stop()
    assert not found[FAR].is_open
