"""Links that a router opens to groups: each is closed with the client that it is for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollq.base.access import LinkRole, Principal
from rollq.roles.client.routes import GroupTable
from rollq.roles.router import blob_links
from rollq.roles.router.blob_links import BlobLinks
from rollq.roles.router.groups import Groups
from rollq.roles.router.upstream import Upstream
from rollq.security.credentials import NONE
from rollq.wire.blob_messages import CLIENT, HelloBlobs
from rollq.wire.messages import Welcome

ANN = Principal(LinkRole.BLOBS, "ann", "here")
NEAR, FAR = "127.0.0.1:1", "127.0.0.1:2"


class FakeLink:
    """Whether it is open."""

    def __init__(self) -> None:
        self.is_open = True
        self.loop = asyncio.get_running_loop()

    def close(self, reason: str) -> None:
        self.is_open = False


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
