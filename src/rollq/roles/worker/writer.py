"""Writes results to the disk: one batch at a time on a thread, while the next is collected.

A few results for a fast disk are written on the loop: the hand-over would take longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial

from rollq.base.counters import STEP_US, Histogram
from rollq.base.errors import DiskError, ErrorCode, RollqError
from rollq.base.ids import WorkerId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import QUICK_WRITE_BYTES_MAX
from rollq.roles.persist import PersistThread
from rollq.roles.worker.exits import leave_exits_to_others
from rollq.roles.worker.results import ResultTable
from rollq.roles.worker.signals import StoredResult


class ResultWriter:
    """The result table, written without blocking the loop for long.

    Args:
        table: Owned from now on.
        on_stored: Called with the attempts whose results became durable in one write.
        on_failed: Called at most once; nothing is written after it.

    Attributes:
        sync_us: Duration of each write with its sync.
    """

    def __init__(
        self,
        table: ResultTable,
        on_stored: Callable[[list[AttemptRef]], None],
        on_failed: Callable[[RollqError], None],
    ) -> None:
        self._table = table
        self._on_stored = on_stored
        self._on_failed = on_failed
        self._thread: PersistThread | None = None  # while it is open
        self._stores: list[StoredResult] = []
        self._forgets: list[AttemptRef] = []  # written with the next results
        self._writing = False
        self._usable = False
        self.sync_us = Histogram(STEP_US)

    async def open(self) -> tuple[WorkerId, int, tuple[StoredResult, ...]]:
        """See `ResultTable.open`."""
        self._loop = asyncio.get_running_loop()
        self._thread = PersistThread("worker-results", leave_exits_to_others)
        opened = await self._loop.run_in_executor(self._thread, self._table.open)
        self._usable = True
        return opened

    def store(self, results: list[StoredResult]) -> None:
        """Write results with the next `flush`."""
        self._stores += results

    def forget(self, refs: list[AttemptRef]) -> None:
        """Delete results with the next write."""
        self._forgets += refs

    @property
    def is_writing(self) -> bool:
        """Whether results are being written: acks follow."""
        return self._writing

    def flush(self) -> None:
        """Write the collected results; if a write is under way, another follows it."""
        if not self._stores or self._writing or not self._usable:
            return
        stores, self._stores = self._stores, []
        forgets, self._forgets = self._forgets, []
        self._writing = True
        assert self._thread is not None, "usable"
        if self._thread.may_stay() and self._is_light(stores):
            self._written(self._commit(stores, forgets), stores)
        else:
            self._thread.post(partial(self._write, stores, forgets))

    async def close(self) -> None:
        """Write the rest and close. Results of the last moment are offered at the next start."""
        if self._usable:
            self._usable = False
            try:
                await self._loop.run_in_executor(
                    self._thread, self._table.commit, self._stores, self._forgets
                )
            except DiskError as error:
                self._on_failed(error)
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._table.close()

    def _is_light(self, stores: list[StoredResult]) -> bool:
        size_bytes = sum([len(record.result) for record in stores])
        return size_bytes <= QUICK_WRITE_BYTES_MAX and not self._table.is_full

    def _write(self, stores: list[StoredResult], forgets: list[AttemptRef]) -> None:
        """Runs on the thread."""
        failure = self._commit(stores, forgets)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._written, failure, stores)

    def _commit(
        self, stores: list[StoredResult], forgets: list[AttemptRef]
    ) -> BaseException | None:
        """Write a batch; returns the error, or None when it is durable."""
        assert self._thread is not None, "usable"
        began_s = time.perf_counter()
        try:
            self._table.commit(stores, forgets)
        except BaseException as error:
            return error
        took_s = time.perf_counter() - began_s
        self._thread.synced(took_s)
        self.sync_us.add(int(took_s * 1_000_000))
        return None

    def _written(self, error: BaseException | None, stores: list[StoredResult]) -> None:
        self._writing = False
        if error is None:
            self._on_stored([record.ref for record in stores])
            self.flush()
        elif self._usable:
            # A disk that failed once is not trusted: the next start reads what it has.
            self._usable = False
            if not isinstance(error, RollqError):
                error = DiskError(ErrorCode.BUG, f"{type(error).__name__}: {error}")
            self._on_failed(error)
