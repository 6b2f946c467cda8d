"""Results on their way to the disk: with a thread, and without one where the disk is quick."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode, RollqError
from rollq.base.jobs import AttemptRef
from rollq.base.limits import QUICK_WRITE_BYTES_MAX, SYNCS_AVERAGED
from rollq.roles.persist import PersistThread
from rollq.roles.worker.results import ResultTable
from rollq.roles.worker.signals import StoredResult
from rollq.roles.worker.writer import ResultWriter


def record(number: int, size: int = 10) -> StoredResult:
    return StoredResult(AttemptRef(number.to_bytes(16, "big"), 1, number), 1_000, 0, bytes(size))


class Table(ResultTable):
    """Knows on which threads it was written."""

    threads: list[int]
    error: DiskError | None = None

    def commit(self, stored: Sequence[StoredResult], forgotten: Sequence[AttemptRef]) -> None:
        self.threads.append(threading.get_ident())
        if self.error is not None:
            raise self.error
        super().commit(stored, forgotten)


class World:
    """A writer, and what it told."""

    def __init__(self, directory: Path) -> None:
        self.table = Table(directory, 4_096)
        self.table.threads = []
        self.stored: list[AttemptRef] = []
        self.failures: list[RollqError] = []
        self.told = asyncio.Event()
        self.writer = ResultWriter(self.table, self._stored, self._failed)

    async def open(self) -> None:
        await self.writer.open()
        thread = self.writer._thread
        assert isinstance(thread, PersistThread)
        thread.submit(int).result(10)  # its preparation is over
        self.thread = thread

    def is_quick(self, seconds: float = 0.0) -> None:
        for _ in range(3 * SYNCS_AVERAGED):
            self.thread.synced(seconds)

    def _stored(self, refs: list[AttemptRef]) -> None:
        self.stored += refs
        self.told.set()

    def _failed(self, error: RollqError) -> None:
        self.failures.append(error)
        self.told.set()


def test_a_few_results_for_a_quick_disk_are_written_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        await world.open()
        world.is_quick()
        world.writer.store([record(1)])
        world.writer.flush()
        assert world.stored == [record(1).ref]
        assert not world.writer.is_writing
        assert world.table.threads == [threading.get_ident()]
        await world.writer.close()

    asyncio.run(story())


@pytest.mark.parametrize("why", ["unknown", "slow", "large", "full"])
def test_whatever_takes_longer_is_written_by_the_thread(tmp_path: Path, why: str) -> None:
    async def story() -> None:
        world = World(tmp_path)
        await world.open()
        if why != "unknown":
            world.is_quick(1.0 if why == "slow" else 0.0)
        if why == "full":
            world.table.commit([record(9, 5_000)], [])
            assert world.table.is_full
            world.table.threads.clear()
        world.writer.store([record(1, QUICK_WRITE_BYTES_MAX + 1 if why == "large" else 10)])
        world.writer.flush()
        assert world.stored == []
        await asyncio.wait_for(world.told.wait(), 10)
        assert world.stored == [record(1).ref]
        assert threading.get_ident() not in world.table.threads
        await world.writer.close()

    asyncio.run(story())


def test_a_quick_disk_that_fails_is_told_and_not_used_again(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        await world.open()
        world.is_quick()
        world.table.error = DiskError(ErrorCode.DISK_FULL, "full")
        world.writer.store([record(1)])
        world.writer.flush()
        assert (world.stored, world.failures) == ([], [world.table.error])
        world.writer.store([record(2)])
        world.writer.flush()
        assert len(world.table.threads) == 1
        await world.writer.close()

    asyncio.run(story())
