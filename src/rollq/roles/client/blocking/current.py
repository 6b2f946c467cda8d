"""The default client, which `delay` uses: one per process, created by `connect` or
ROLLQ_SERVERS."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Mapping
from typing import Any, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.roles.client.blocking.clients import BlockingClient, BlockingJob
from rollq.tasks import Task

SERVERS_ENV: Final = "ROLLQ_SERVERS"


def connect(addresses: str = "", **settings: Any) -> BlockingClient:
    """Create, start and return the default client, which `delay` uses. It replaces and stops the
    one before. It is stopped by `stop` or at the end of the process.

    Args:
        addresses: As for `Client`; default: the environment variable ROLLQ_SERVERS.
        settings: As for `Client`.

    Raises:
        LocalError: BAD_SETUP, if no address is given.
    """
    client = _CurrentClient(given_servers(addresses), **settings)
    client.start()
    with _connected.lock:
        before, _connected.client = _connected.client, client
    if before is not None:
        before.stop()
    return client


def given_servers(addresses: str) -> str:
    """The addresses, or those of ROLLQ_SERVERS.

    Raises:
        LocalError: BAD_SETUP, if there are none.
    """
    addresses = addresses or os.environ.get(SERVERS_ENV, "")
    if not addresses:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            "no grid is configured",
            f"call rollq.connect('host:port') first, or set {SERVERS_ENV}",
        )
    return addresses


def current() -> BlockingClient:
    """The default client; created from ROLLQ_SERVERS if there is none.

    Raises:
        LocalError: BAD_SETUP, if neither exists.
    """
    with _connected.making:  # create only one if several threads call this at once
        return _connected.client or connect()


def submit_call(
    task: Task[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> BlockingJob:
    """Submit a function call with the default client; returns when it is accepted."""
    return current().submit_call(task, args, kwargs, **options)


async def asubmit_call(
    task: Task[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> BlockingJob:
    """The same, without blocking the event loop."""
    return await asyncio.to_thread(submit_call, task, args, kwargs, options)


class _CurrentClient(BlockingClient):
    """The default client; it unregisters itself when it is stopped."""

    def stop(self) -> None:
        if _connected.client is self:
            _connected.client = None
        super().stop()


class _Connected:
    client: BlockingClient | None = None
    lock = threading.Lock()  # guards `client`
    making = threading.Lock()  # held while `current` creates a client


def _leave() -> None:
    client, _connected.client = _connected.client, None
    if client is not None:
        client.stop()


def _forked() -> None:
    """A forked child has no default client: the existing one belongs to the parent."""
    _connected.client = None
    _connected.lock, _connected.making = threading.Lock(), threading.Lock()


_connected: Final = _Connected()
atexit.register(_leave)
os.register_at_fork(after_in_child=_forked)
