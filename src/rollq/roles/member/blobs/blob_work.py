"""Carries out the driver's orders that need blob contents, beside its turns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rollq.base.errors import RollqError
from rollq.base.ids import guid_to_text
from rollq.roles.member.blobs.member import MemberBlobs
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import Complete, KeepBlobs
from rollq.roles.service import end_tasks

log = logging.getLogger("rollq.member")


class BlobWork:
    """Carries out `KeepBlobs` and `Complete`. `stop` cancels what is under way."""

    def __init__(self, driver: Driver, blobs: MemberBlobs, wake: Callable[[], None]) -> None:
        self._driver = driver
        self._blobs = blobs
        self._wake = wake
        self._tasks: dict[asyncio.Task[None], None] = {}

    def begin(self, order: KeepBlobs | Complete) -> None:
        """Start an order; the driver is called with its result."""
        work = self._keep(order) if isinstance(order, KeepBlobs) else self._complete(order)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._over)

    async def stop(self) -> None:
        """Cancel everything; the driver is not called any more."""
        await end_tasks(self._tasks)

    async def _keep(self, order: KeepBlobs) -> None:
        try:
            refs = [await self._blobs.keep(part) for part in order.parts]
        except RollqError as error:
            log.warning("%d bytes are not stored as a blob: %s", sum(map(len, order.parts)), error)
            self._driver.kept(order.ticket, (), error)
        else:
            self._driver.kept(order.ticket, refs)

    async def _complete(self, order: Complete) -> None:
        try:
            message = await self._blobs.complete(order)
        except RollqError as error:
            ident = guid_to_text(order.message.job_id)
            log.warning("job %s waits for blobs: %s", ident, error)
            self._driver.completed(order.ticket, None)
        else:
            self._driver.completed(order.ticket, message)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                log.error("a blob task failed", exc_info=error)
        self._wake()
