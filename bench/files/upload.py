"""One upload in a process of its own: `python -m bench.files.upload SERVERS FILE`.

Prints when its first bytes had arrived and when it was stored, by the clock that all processes of
a machine share.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from rollq.roles.blobs.client import BlobClient


async def upload(servers: str, file: Path) -> None:
    """Give the file to the group."""
    is_begun = False

    def moved(_done: int, _total: int) -> None:
        nonlocal is_begun
        if not is_begun:
            is_begun = True
            print(f"begun {time.monotonic()}", flush=True)

    async with BlobClient(servers.split(",")) as client:
        await client.put(file, moved)
    print(f"ended {time.monotonic()}", flush=True)


if __name__ == "__main__":
    asyncio.run(upload(sys.argv[1], Path(sys.argv[2])))
