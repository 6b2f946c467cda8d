"""Checkers of replicas: equal state at equal index, state invariants, and equal histories."""

from __future__ import annotations

from zlib import crc32

from rollq.base.errors import ErrorCode
from rollq.grid.effects import Applied
from rollq.grid.invariants import check
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState
from rollq.history.schema import to_lines
from rollq.raft.types import Entry
from rollq.roles.member.driver import Driver
from rollq.testing.checkers.base import Checker
from rollq.testing.ledger import Ledger
from rollq.testing.sim_member import SimMember

SAMPLE_EVERY = 24  # entries


class EqualState(Checker):
    """Members that applied the same index have byte-identical state, and it keeps its
    invariants."""

    name = "equal state at equal index"

    def __init__(self) -> None:
        self._crcs: dict[int, int] = {}

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        if entry.index % SAMPLE_EVERY == 0:
            self._compare(member, entry.index, state)

    def on_turn(self, member: SimMember, driver: Driver) -> None:
        if driver.leading and driver.reports._diverged:  # otherwise there is no such alarm
            for alarm in driver.reports.alarms(driver.raft.member_id, driver.raft.config):
                if alarm.code == ErrorCode.STATE_DIVERGED:
                    self.fail(f"{member.name} raised the alarm: {alarm.text}")

    def on_finish(self, members: list[SimMember]) -> None:
        for member in members:
            if member.driver is not None:
                self._compare(member, member.driver.state.applied_index, member.driver.state)

    def _compare(self, member: SimMember, index: int, state: GridState) -> None:
        data = encode_snapshot(state)
        crc = crc32(data)
        known = self._crcs.get(index)
        if known is None:
            self._crcs[index] = crc
            self._check_laws(member, state, data)
        elif known != crc:
            self.fail(f"{member.name} differs from another member at index {index}")

    def _check_laws(self, member: SimMember, state: GridState, data: bytes) -> None:
        for breach in check(state):
            self.fail(f"{member.name} breaks a law at {state.applied_index}: {breach}")
        if encode_snapshot(decode_snapshot(data)) != data:
            self.fail(f"the snapshot of {member.name} does not survive a round trip")


class EqualHistory(Checker):
    """Every member has the complete history, derived from the committed entries."""

    name = "history gap-free and equal"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def on_finish(self, members: list[SimMember]) -> None:
        for member in members:
            self._check(member)

    def _check(self, member: SimMember) -> None:
        driver = member.driver
        if driver is None:
            return
        last = driver.state.applied_index
        reached = 0
        while reached < last:
            rows = driver.replica.history.rows(reached + 1, last)
            if rows is None:
                self.fail(f"{member.name} lacks the rows of index {reached + 1} (of {last})")
                return
            right = [
                line
                for index in range(rows.first, rows.last + 1)
                for line in to_lines(
                    index,
                    self._ledger.lines[index - 1].applied.stamp_ms,
                    self._ledger.lines[index - 1].applied.events,
                )
            ]
            if list(rows.lines) != right:
                self.fail(f"{member.name} has other rows in indexes {rows.first} to {rows.last}")
            reached = rows.last
