"""A web process in the loop of a test, and requests to it."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx

from rollq.web.server import WebServer
from rollq.web.setup import WebSetup
from tests.integration.patience import DEADLINE_S


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(test(*args, **fixtures))

    return run


@asynccontextmanager
async def serving(setup: WebSetup) -> AsyncIterator[WebServer]:
    """A server that serves."""
    server = WebServer(setup)
    server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=DEADLINE_S) as probe:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    try:
                        await probe.get("/healthz")
                        break
                    except httpx.ConnectError:
                        await asyncio.sleep(0.01)
        yield server
    finally:
        await server.stop()


def client_of(server: WebServer, token: str = "", **headers: str) -> httpx.AsyncClient:
    """Requests as an account."""
    named = headers | ({"Authorization": f"Bearer {token}"} if token else {})
    return httpx.AsyncClient(
        base_url=server.url + "api/v1/", headers=named, timeout=DEADLINE_S, verify=False
    )


def code_of(answer: httpx.Response) -> str:
    """The code of a refusal; empty: it is none."""
    if answer.status_code < 400:
        return ""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "todo"}, error
    return str(error["code"])


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """Kind and document of every event of a stream."""
    kind = ""
    async for line in answer.aiter_lines():
        name, _, said = line.partition(": ")
        if name == "event":
            kind = said
        elif name == "data":
            yield kind, json.loads(said)


async def ended(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    """A job, once it has ended."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            document: dict[str, Any] = (await client.get(f"jobs/{job_id}")).json()
            if "end" in document:
                return document
            await asyncio.sleep(0.05)
