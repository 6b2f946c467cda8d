"""The client of a round, a process of its own: it submits at a steady pace and writes down what it
is told, each acknowledgement with fsync, until SIGTERM; then it waits for the results it lacks.

python -m bench.chaos.load SERVERS LOG RUNS
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from rollq.base.errors import RollqError
from rollq.roles.client.client import Client
from rollq.roles.client.results.handles import Job

PACE_S: Final = 0.05
SHORT_S: Final = "0.02"
LONG_EVERY: Final = 10  # one of so many jobs is a long one, that runs while faults come and go
LONG_S: Final = "1.5"
UNANSWERED_MAX: Final = 64
SUBMIT_S_MAX: Final = 300.0
END_S_MAX: Final = 120.0
PROGRAM: Final = "count"


class Load:
    """Submits, and notes what comes of it."""

    def __init__(self, servers: str, log: Path, runs: str) -> None:
        self._client = Client(servers, client_id="chaos", timeout=SUBMIT_S_MAX)
        self._log = log.open("a")
        self._runs = runs
        self._room = asyncio.Semaphore(UNANSWERED_MAX)
        self._jobs: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until SIGTERM and the last result."""
        over = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
        async with self._client:
            number = 0
            while not over.is_set():
                await self._room.acquire()
                number += 1
                task = asyncio.create_task(self._one(f"{number}"))
                self._jobs.add(task)
                task.add_done_callback(self._jobs.discard)
                await asyncio.sleep(PACE_S)
            if self._jobs:
                await asyncio.wait(self._jobs, timeout=END_S_MAX)

    async def _one(self, key: str) -> None:
        self._note("asks", key)
        seconds = SHORT_S if int(key) % LONG_EVERY else LONG_S
        try:
            job: Job = await self._client.submit(PROGRAM, [self._runs, key, seconds])
        except RollqError as error:
            self._note("refused", key, str(error.code))
            return
        finally:
            self._room.release()
        self._note("ack", key, job.job_id.hex())
        os.fsync(self._log.fileno())
        result = await job.result()
        self._note("result", key, result.status)

    def _note(self, what: str, key: str, detail: str = "") -> None:
        self._log.write(f"{time.monotonic():.4f} {what} {key} {detail}\n")
        self._log.flush()


if __name__ == "__main__":
    asyncio.run(Load(sys.argv[1], Path(sys.argv[2]), sys.argv[3]).run())
