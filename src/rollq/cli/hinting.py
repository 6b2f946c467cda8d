"""While somebody waits for a job: why nothing runs, said on stderr."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rollq.base.errors import RollqError
from rollq.cli.output import remark

if TYPE_CHECKING:
    from rollq.roles.client.client import Client

HINT_S: Final = 5.0  # how long nothing runs before somebody is told, and between two looks
UNDER_WAY: Final = ("it is running", "being assigned", "it has ended")


@contextlib.asynccontextmanager
async def explaining(
    client: Client, job_id: str, is_idle: Callable[[], bool] = lambda: True
) -> AsyncIterator[None]:
    """Inside, whoever waits is told why the job does not run: after some seconds, and again when
    the reason changes. `is_idle` says whether nothing of it has ended."""

    async def ask() -> str:
        return str(await client.explain(job_id)) if is_idle() else UNDER_WAY[0]

    task = asyncio.ensure_future(
        tell_reasons(ask, remark, lambda: asyncio.sleep(HINT_S), f"rollq: {job_id} waits")
    )
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def tell_reasons(
    ask: Callable[[], Awaitable[str]],
    say: Callable[[str], None],
    pause: Callable[[], Awaitable[None]],
    what: str,
) -> None:
    """After every pause, say what `ask` answers if that is another reason than the last one. Ends
    only if it is cancelled: a leader that is away is no reason to stop looking."""
    told = ""
    while True:
        await pause()
        try:
            why = await ask()
        except RollqError:
            continue
        if why != told and not why.startswith(UNDER_WAY):
            say(f"{what}: {why}")
        told = why
