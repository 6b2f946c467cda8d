"""The client that `delay` uses."""

from __future__ import annotations

import pytest

from rollq.roles.client.blocking import current
from rollq.roles.client.blocking.clients import BlockingClient


def test_threads_that_ask_at_once_wait_for_the_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second client would stop the first, which a thread is about to use."""
    made: list[BlockingClient] = []

    def start(client: BlockingClient) -> None:
        made.append(client)
        assert not current._connected.making.acquire(blocking=False), "others would make one too"

    monkeypatch.setattr(BlockingClient, "start", start)
    monkeypatch.setattr(BlockingClient, "stop", lambda client: None)
    monkeypatch.setenv(current.SERVERS_ENV, "127.0.0.1:1")
    assert [current.current(), current.current()] == made * 2
    made[0].stop()
    current._connected.client = None
