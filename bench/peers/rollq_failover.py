"""Load on rollq while its leader dies: every job is followed to its end.

Beside the submits that are timed, some longer jobs run at any moment. They write down each time
they begin, so that one which was run again instead of adopted is seen. Some submitters wait for the
result of each job: when results come is measured by them. At the end the history of the members
says whether a job ended twice.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.figures import Sample
from bench.works.failover import Acks
from rollq.history.schema import HistoryRow, from_line
from rollq.history.segments import Segments
from rollq.roles.client.client import Client
from rollq.roles.client.results.handles import Job
from rollq.store.look import LookDisk

HELD_JOBS: Final = 8
PROBES: Final = 8  # jobs whose results are waited for, at any moment
HELD_S: Final = 1.5
SUBMIT_S_MAX: Final = 30.0
END_S_MAX: Final = 120.0
LOOK_S: Final = 0.05
ENDS: Final = ("ack", "dlq", "cancel")


class RollqLoad:
    """The product's client; workers are started by whoever makes this."""

    def __init__(self, client: Client, payload: bytes, runs: Path, states: list[Path]) -> None:
        self._client = client
        self._payload = payload
        self._runs = runs
        self._states = states
        self.results: Acks | None = Acks()
        self._jobs: list[Job] = []
        self._holders: list[asyncio.Task[None]] = []
        self._is_over = False
        self._failed = 0

    async def open(self) -> None:
        """Connect, and keep some longer jobs running."""
        self._runs.touch()
        await self._client.start()
        self._holders = [asyncio.create_task(self._hold(n)) for n in range(HELD_JOBS)]
        self._holders += [asyncio.create_task(self._probe()) for _ in range(PROBES)]

    async def submit(self) -> None:
        """One no-op job."""
        job = await self._client.submit(
            "noop", payload=self._payload, queue="noop", timeout=SUBMIT_S_MAX
        )
        self._jobs.append(job)

    async def close(self) -> list[Sample]:
        """Wait for every result; an accepted job without one is lost."""
        self._is_over = True
        await asyncio.gather(*self._holders)
        deadline = time.monotonic() + END_S_MAX
        lost = [job for job in self._jobs if not job.is_done]
        while lost and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_S)
            lost = [job for job in lost if not job.is_done]
        await self._client.stop()
        began = Counter(self._runs.read_text().split())
        ends = ends_in_history(self._states)
        samples = [
            Sample("lost", len(lost)),
            Sample("failed", self._failed),
            Sample("held", len(began)),
            Sample("run_again", sum(count - 1 for count in began.values())),
        ]
        if ends:  # a short run may end before the first segment is sealed
            samples.append(Sample("ended_in_history", len(ends)))
            samples.append(Sample("ended_twice", sum(count - 1 for count in ends.values())))
        return samples

    async def _hold(self, number: int) -> None:
        """One longer job after the other."""
        turn = 0
        while not self._is_over:
            turn += 1
            args = [str(self._runs), f"{number}-{turn}", str(HELD_S)]
            job = await self._client.submit("hold", args, queue="hold", timeout=SUBMIT_S_MAX)
            result = await job.result(END_S_MAX)
            self._failed += not result.ok

    async def _probe(self) -> None:
        """One job after the other, each with its result."""
        assert self.results is not None
        while not self._is_over:
            job = await self._client.submit(
                "noop", payload=self._payload, queue="noop", timeout=SUBMIT_S_MAX
            )
            result = await job.result(END_S_MAX)
            self._failed += not result.ok
            self.results.add()


def ends_in_history(states: list[Path]) -> Counter[str]:
    """How often each job ended, by the sealed history of all members together."""
    return Counter(row.jobId for row in rows_in_history(states) if row.type in ENDS)


def rows_in_history(states: list[Path]) -> Iterator[HistoryRow]:
    """The sealed history of all members together, each row once, in order."""
    members = [map(from_line, Segments(LookDisk(state)).read(1, 2**63)) for state in states]
    before = (0, 0)
    for row in heapq.merge(*members, key=lambda row: (row.index, row.ordinal)):
        place = row.index, row.ordinal
        if place != before:
            yield row
        before = place
