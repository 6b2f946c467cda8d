"""Log lines of the member's process about itself: start and end, a slow disk, a loop that stood
still, and whom it refused. What happens too often is counted."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from rollq.base.access import Principal
from rollq.base.log_events import (
    ACCESS_REFUSED,
    DAMAGED,
    DISK_SLOW,
    FAILED,
    HANDLER_FAILED,
    LOOP_STALLED,
    RECOVERED,
    STARTED,
    STOPPED,
    STOPPING,
    LogEvent,
    seldom,
    tell,
)
from rollq.base.repeats import Repeats
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import Mishap, Tell
from rollq.roles.member.setup import MemberSetup

log = logging.getLogger("rollq.member")

SLOW_WRITE_MS: Final = 500  # followers stand for election after a second without a leader
STALL_MS: Final = 500


class NodeLog:
    """The lines of one process. `recovered` and `wrote` may come from the thread of the disk."""

    def __init__(self) -> None:
        self._began_ms = _now_ms()
        self._repeats = Repeats()
        self._slow = Repeats()  # apart: of another thread

    def recovered(self, driver: Driver, began_s: float) -> None:
        """The disk was read."""
        raft, snapshot = driver.raft, driver.state.applied_index
        if driver.was_damaged:
            tell(log, DAMAGED)
        tell(
            log,
            RECOVERED,
            snapshot=snapshot,
            last_index=raft.last_index,
            entries=raft.last_index - snapshot,
            term=raft.term,
            took_ms=int((time.perf_counter() - began_s) * 1000),
        )

    def started(self, setup: MemberSetup, driver: Driver, listen: str, state: str) -> None:
        """It serves."""
        tell(
            log,
            STARTED,
            member=driver.raft.member_id,
            group=setup.group,
            listen=listen,
            state=state,
            peers=setup.peers,
            tls=str(setup.tls),
            auth=str(setup.auth),
            took_ms=_now_ms() - self._began_ms,
        )

    def output(self, output: Tell | Mishap) -> None:
        """The driver has something for the log."""
        if isinstance(output, Mishap):
            tell(log, HANDLER_FAILED, error=output.error, where=output.where)
        else:
            tell(log, output.event, **output.fields)

    def wrote(self, seconds: float) -> None:
        """A write with a sync took so long."""
        if seconds * 1000 >= SLOW_WRITE_MS:
            fields = seldom(self._slow, "", _now_ms(), {"took_ms": int(seconds * 1000)})
            if fields is not None:
                tell(log, DISK_SLOW, **fields)

    def ticked(self, late_s: float) -> None:
        """The clock of the loop came so late."""
        if late_s * 1000 >= STALL_MS:
            self._seldom(LOOP_STALLED, "", stalled_ms=int(late_s * 1000))

    def refused(self, principal: Principal, action: str, resource: str) -> None:
        """Somebody asked for what they may not do."""
        account = principal.account
        self._seldom(
            ACCESS_REFUSED,
            f"{account} {action} {resource}",
            address=principal.address,
            account=account,
            action=action,
            resource=resource,
        )

    def failed(self, cause: str, error: Exception | None = None) -> None:
        """It cannot go on."""
        tell(log, FAILED, error=error, cause=cause)

    def stopping(self, cause: str) -> None:
        """It begins to stop."""
        self._began_ms = _now_ms()
        tell(log, STOPPING, cause=cause)

    def stopped(self) -> None:
        """All is closed."""
        tell(log, STOPPED, took_ms=_now_ms() - self._began_ms)

    def _seldom(self, event: LogEvent, kind: str, **fields: Any) -> None:
        shown = seldom(self._repeats, f"{event.word} {kind}", _now_ms(), fields)
        if shown is not None:
            tell(log, event, **shown)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
