"""Polling for pages goes on, whatever one poll meets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

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
