"""Many that dial at once: `python -m bench.tls.storm ADDRESS CREDENTIALS COUNT`. Every link is
dialed, says its hello, is welcomed and stays until the process is told to end. AT_ONCE of them are
under way at any time."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from bench.loops import run
from rollq.base.errors import RollqError
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.security.credentials import Credentials
from rollq.security.files import load_credentials
from rollq.wire.compact import Message
from rollq.wire.features import ACCEPTED, COMPACT
from rollq.wire.messages import HelloClient, Welcome

BEGAN = "dialing"
DONE = "welcomed"
AT_ONCE = 256  # more than this process can greet in time would only dial again and again
AGAIN_S = 0.2
WELCOME_S = 20.0


def main() -> None:
    """Dial all, say when the last was welcomed, and wait for the end of stdin."""
    address, directory, count = sys.argv[1:]
    run(_storm(address, load_credentials(Path(directory)), int(count)))


async def _storm(address: str, credentials: Credentials, count: int) -> None:
    print(BEGAN, flush=True)
    began = time.perf_counter()
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> int:
        async with places:
            return await _until_welcome(address, credentials, number)

    tries = await asyncio.gather(*map(one, range(count)))
    seconds = time.perf_counter() - began
    print(f"{DONE} {count} {seconds:.3f} {sum(tries) - count}", flush=True)
    await asyncio.Event().wait()


async def _until_welcome(address: str, credentials: Credentials, number: int) -> int:
    """How often it had to dial."""
    for tries in range(1, 1_000):
        welcomed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def hear(_: Link, messages: list[Message], told: asyncio.Future[bool] = welcomed) -> None:
            if not told.done():
                told.set_result(isinstance(messages[0], Welcome))

        def closed(_: Link, reason: str, told: asyncio.Future[bool] = welcomed) -> None:
            if not told.done():
                told.set_result(False)

        try:
            link = await dial(address, "", hear, closed, credentials=credentials)
            link.send(HelloClient(f"storm-{number}", 0, (COMPACT, ACCEPTED)))
            async with asyncio.timeout(WELCOME_S):
                if await welcomed:
                    return tries
        except (RollqError, TimeoutError):
            pass
        await asyncio.sleep(AGAIN_S)
    raise RuntimeError("never welcomed")


if __name__ == "__main__":
    main()
