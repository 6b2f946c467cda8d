"""Polling for pages goes on, whatever one poll meets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.roles.member.status import ClusterView
from rollq.web import live
from rollq.web.live import Live


class Links:
    """Connections that meet a bug."""

    member = ""
    applied = 0

    def __init__(self) -> None:
        self.asked = 0
        self.is_asked_again = asyncio.Event()

    async def read(self, *_: Any) -> Any:
        self.asked += 1
        if self.asked > 1:
            self.is_asked_again.set()
        raise KeyError("nobody foresaw this")

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise KeyError("nor this")


def test_a_bug_in_one_poll_does_not_end_polling(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.0)

    async def story() -> bytes:
        links = Links()
        events = Live(links).events(None)  # type: ignore[arg-type]
        try:
            first = await anext(events)
            await links.is_asked_again.wait()
            return first
        finally:
            await events.aclose()

    first = asyncio.run(asyncio.wait_for(story(), 20))
    assert b"nobody foresaw this" in first or b"nor this" in first
    assert "the group cannot be polled" in caplog.text


class LinksToALeader:
    """Connections of which those to the leader are well; of the others, each poll takes a turn."""

    member = ""
    applied = 0

    def __init__(self, *turns: Exception | None) -> None:
        self._turns = list(turns)
        self._leader_asked = asyncio.Event()

    async def read(self, *_: Any) -> Any:
        self._leader_asked.clear()
        await self._leader_asked.wait()  # the leader is polled to its end between two polls
        turn = self._turns.pop(0) if self._turns else None
        if turn is not None:
            raise turn
        return []

    async def ask(self, _kind: object, what: str, **_: Any) -> Any:
        if what == "cluster":
            return ClusterView(1, "a:1", 1, 1, 1, 1, b"", [])
        self._leader_asked.set()
        return []


@pytest.mark.parametrize(
    "trouble", [KeyError("a bug"), RemoteError(ErrorCode.UNREACHABLE, "a bug")], ids=repr
)
def test_data_is_back_when_no_poll_fails_any_more(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    for name in ("POLL_S", "LEADER_S"):
        monkeypatch.setattr(live, name, 0.0)

    async def story() -> list[str]:
        links = LinksToALeader(trouble, trouble, trouble)
        events = Live(links).events(None)  # type: ignore[arg-type]
        kinds: list[str] = []
        try:
            while "back" not in kinds:
                kinds.append((await anext(events)).split(b"event: ")[1].split(b"\n")[0].decode())
            return kinds
        finally:
            await events.aclose()

    told = asyncio.run(asyncio.wait_for(story(), 20))
    assert told == ["gone", "gone", "gone", "overview", "back"]
