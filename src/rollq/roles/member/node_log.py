"""Log lines of the member process about itself: start and stop, a slow disk, a stalled loop,
refused requests. Frequent lines are counted, not repeated."""

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
    SNAPSHOT_DAMAGED,
    STARTED,
    STOPPED,
    STOPPING,
    LogEvent,
    seldom,
    tell,
)
from rollq.base.repeats import Repeats
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import LogLine, Mishap
from rollq.roles.member.setup import MemberSetup

log = logging.getLogger("rollq.member")

SLOW_WRITE_MS: Final = 500  # followers stand for election after a second without a leader
STALL_MS: Final = 500


class NodeLog:
    """Writes the lines. `recovered` and `wrote` may be called from the persist thread."""

    def __init__(self) -> None:
        self._began_ms = _now_ms()
        self._repeats = Repeats()
        self._slow = Repeats()  # separate, as it is used on the persist thread

    def recovered(self, driver: Driver, began_s: float) -> None:
        """Recovery from disk is over."""
        raft, snapshot = driver.raft, driver.state.applied_index
        if driver.damage.log:
            tell(log, DAMAGED)
        for name in driver.damage.snapshots:
            tell(log, SNAPSHOT_DAMAGED, name=name)
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
        """The member serves."""
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

    def output(self, output: LogLine | Mishap) -> None:
        """Log an output of the driver."""
        if isinstance(output, Mishap):
            tell(log, HANDLER_FAILED, error=output.error, where=output.where)
        else:
            tell(log, output.event, **output.fields)

    def wrote(self, seconds: float) -> None:
        """A write with a sync took `seconds`; logged if slow."""
        if seconds * 1000 >= SLOW_WRITE_MS:
            fields = seldom(self._slow, "", _now_ms(), {"took_ms": int(seconds * 1000)})
            if fields is not None:
                tell(log, DISK_SLOW, **fields)

    def ticked(self, late_s: float) -> None:
        """A tick came `late_s` late; logged if the loop stalled."""
        if late_s * 1000 >= STALL_MS:
            self._seldom(LOOP_STALLED, "", stalled_ms=int(late_s * 1000))

    def refused(self, principal: Principal, action: str, resource: str) -> None:
        """An account was refused."""
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
        """The member must stop for an error."""
        tell(log, FAILED, error=error, cause=cause)

    def stopping(self, cause: str) -> None:
        """The stop begins."""
        self._began_ms = _now_ms()
        tell(log, STOPPING, cause=cause)

    def stopped(self) -> None:
        """Everything is closed."""
        tell(log, STOPPED, took_ms=_now_ms() - self._began_ms)

    def _seldom(self, event: LogEvent, kind: str, **fields: Any) -> None:
        shown = seldom(self._repeats, f"{event.word} {kind}", _now_ms(), fields)
        if shown is not None:
            tell(log, event, **shown)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
