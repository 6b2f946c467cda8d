"""Reports of the other members to the leader: their wall clocks, to move the group's time only as
a majority agrees and to find wrong clocks; their state hashes, to find a member whose state
diverged; the protection of their ports, to warn of open ports and expiring certificates; their
disks, to warn before one is full; and whether they lack history, to keep a member that has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from rollq.base.amounts import size_text
from rollq.base.disk_use import DiskUse, is_low
from rollq.base.errors import ErrorCode
from rollq.base.ids import MemberId
from rollq.base.limits import CLOCK_SKEW_MS_MAX, LEAP_MS_MIN, REPORT_MS_MAX
from rollq.base.log_events import (
    CERTIFICATE_EXPIRES,
    CLOCK_SKEW,
    DISK_LOW,
    MEMBER_UNPROTECTED,
    STATE_DIVERGED,
    LogEvent,
)
from rollq.base.stamp import Clock
from rollq.raft.node import RaftNode
from rollq.raft.types import Config
from rollq.roles.member.group_clock import GroupClock
from rollq.roles.member.outputs import Outputs
from rollq.security.expiry import RENEW, expiry_warning
from rollq.wire.messages import MemberReport

# The log event of each alarm.
ALARM_EVENTS: Final[dict[int, LogEvent]] = {
    ErrorCode.CLOCK_SKEW: CLOCK_SKEW,
    ErrorCode.STATE_DIVERGED: STATE_DIVERGED,
    ErrorCode.CERTIFICATE_EXPIRES: CERTIFICATE_EXPIRES,
    ErrorCode.UNPROTECTED: MEMBER_UNPROTECTED,
    ErrorCode.DISK_LOW: DISK_LOW,
}
PROTECT: Final = "use --tls and --auth require with credentials made by `rollq init`"
MAKE_ROOM: Final = (
    "make room: a member stops when its disk is full. `rollq status` shows what takes it; "
    "--history-mb, --history-days and --blob-bytes-max of `rollq leader` bound it"
)


class Alarm(msgspec.Struct, frozen=True):
    """A problem of a member that an operator must solve."""

    code: int  # ErrorCode
    member_id: MemberId
    text: str
    todo: str


@dataclass(slots=True)
class Reported:
    """The last report of one member."""

    ahead_ms: int  # how far its wall clock is ahead of ours
    received_ms: int  # by our monotonic clock
    certificate_ends_ms: int = 0
    is_unprotected: bool = False
    disk: DiskUse | None = None  # None: a member of an older version does not tell
    lacks_history: bool = False


class Reports:
    """The reports to one leader; cleared when leadership changes."""

    def __init__(
        self,
        clock: Clock,
        lacks_history: Callable[[], bool] = lambda: False,
        is_unprotected: bool = False,
    ) -> None:
        self._clock = clock
        self._lacks_history = lacks_history  # of this member
        self._is_unprotected = is_unprotected  # this member itself
        # Until when the certificate of this member is valid; 0: it has none. It may be renewed.
        self.certificate_ends_ms: Callable[[], int] = lambda: 0
        self.disk: DiskUse | None = None  # of this member, as its process measured it last
        self._reports: dict[MemberId, Reported] = {}
        # Members whose state hash differs from ours, with the log index where that was first seen.
        self._diverged: dict[MemberId, int] = {}
        self._raised: dict[tuple[int, MemberId], None] = {}  # alarms of the last `new_alarms`

    def clear(self) -> None:
        """Leadership is lost or gained: old reports do not count."""
        self._reports.clear()
        self._diverged.clear()
        self._raised.clear()

    def own(self, member_id: MemberId, index: int, state_hash: bytes) -> MemberReport:
        """This member's report to the leader."""
        return MemberReport(
            member_id,
            self._clock.wall_ms(),
            index,
            state_hash,
            certificate_ends_ms=self.certificate_ends_ms(),
            is_unprotected=self._is_unprotected,
            disk=self.disk,
            lacks_history=self._lacks_history(),
        )

    def take(self, report: MemberReport, own_hash: bytes | None) -> None:
        """Take the report of a member. `own_hash`: of our state at the same log index, None if
        unknown."""
        if own_hash is not None and report.state_hash:
            if own_hash == report.state_hash:
                self._diverged.pop(report.member_id, None)
            else:
                self._diverged.setdefault(report.member_id, report.index)
        clock = self._clock
        ahead_ms = report.wall_ms - clock.wall_ms()
        self._reports[report.member_id] = Reported(
            ahead_ms,
            clock.now_ms(),
            certificate_ends_ms=report.certificate_ends_ms,
            is_unprotected=report.is_unprotected,
            disk=report.disk,
            lacks_history=report.lacks_history,
        )

    def wall_ms(self, own: MemberId, config: Config) -> int | None:
        """The group's wall clock time: the median of the voters' clocks, if a majority of all
        voters is within the bound of it. None: they disagree, or too few have reported."""
        ahead = sorted(self._ahead(own, config))
        needed = len(config.voters) // 2 + 1
        if not ahead:
            return None
        middle_ms = ahead[(len(ahead) - 1) // 2]
        if sum(abs(one - middle_ms) <= CLOCK_SKEW_MS_MAX for one in ahead) < needed:
            return None
        return self._clock.wall_ms() + middle_ms

    def skews_ms(self, own: MemberId, config: Config) -> dict[MemberId, int]:
        """How far each clock is ahead of the median; empty without a median."""
        wall_ms = self.wall_ms(own, config)
        if wall_ms is None:
            return {}
        own_ms = self._clock.wall_ms() - wall_ms
        recent = self._recent()
        return {own: own_ms} | {one: own_ms + report.ahead_ms for one, report in recent.items()}

    def disks(self, own: MemberId) -> dict[MemberId, DiskUse]:
        """The disks of the members that have told of theirs."""
        told = {one: report.disk for one, report in self._recent().items()} | {own: self.disk}
        return {one: disk for one, disk in told.items() if disk is not None}

    def is_sole_keeper(self, member_id: MemberId, raft: RaftNode) -> bool:
        """Whether this member alone has the whole history, of those who have told lately. False if
        nobody has it. One whose log ends before ours begins has none: a snapshot, which holds no
        events, is about to take the place of what it lacks."""
        told = {one: report.lacks_history for one, report in self._recent().items()}
        told[raft.member_id] = self._lacks_history()
        near = {one for one, at in raft.progress.items() if at.match >= raft.first_index - 1}
        voters = [one.id for one in raft.config.voters]
        keepers = [one for one in voters if one in near and told.get(one) is False]
        return keepers == [member_id] and len(voters) > 1

    def _ahead(self, own: MemberId, config: Config) -> list[int]:
        recent = self._recent()
        ahead = [recent[one.id].ahead_ms for one in config.voters if one.id in recent]
        return [*ahead, 0] if any(one.id == own for one in config.voters) else ahead

    def _recent(self) -> dict[MemberId, Reported]:
        since_ms = self._clock.now_ms() - REPORT_MS_MAX
        return {one: last for one, last in self._reports.items() if last.received_ms >= since_ms}

    def check(self, raft: RaftNode, time: GroupClock, outputs: Outputs) -> int | None:
        """Log new alarms, and slow the group's time down if it is ahead of the median clock.
        Returns the time to move it forward to if it is behind, else None."""
        own, config = raft.member_id, raft.config
        time_ms = time.now_ms()
        wall_ms = self.wall_ms(own, config)
        for alarm in self.new_alarms(own, config):
            fields = {"code": alarm.code, "cause": alarm.text, "todo": alarm.todo}
            outputs.log(ALARM_EVENTS[alarm.code], **fields)
        time.slow_down(wall_ms is not None and time_ms - wall_ms >= LEAP_MS_MIN)
        return leap_to_ms(time_ms, wall_ms)

    # --- alarms

    def alarms(self, own: MemberId, config: Config) -> list[Alarm]:
        """The present alarms."""
        addresses = {one.id: one.address for one in (*config.voters, *config.learners)}
        alarms = self._state_alarms(own, config, addresses)
        for member_id, skew_ms in self.skews_ms(own, config).items():
            if abs(skew_ms) > CLOCK_SKEW_MS_MAX and member_id in addresses:
                where = "ahead of" if skew_ms > 0 else "behind"
                alarms.append(
                    Alarm(
                        ErrorCode.CLOCK_SKEW,
                        member_id,
                        f"the clock of {addresses[member_id]} is {abs(skew_ms) // 1_000} s {where} "
                        "those of the other members",
                        "set it, and run a time service on every member",
                    )
                )
        alarms += self._protection_alarms(own, addresses)
        return alarms + self._disk_alarms(own, addresses)

    def _disk_alarms(self, own: MemberId, addresses: dict[MemberId, str]) -> list[Alarm]:
        """Alarms for disks that are nearly full."""
        return [
            Alarm(
                ErrorCode.DISK_LOW,
                member_id,
                f"only {size_text(disk.free_bytes)} of {size_text(disk.total_bytes)} are free on "
                f"the disk of {addresses[member_id]}",
                MAKE_ROOM,
            )
            for member_id, disk in self.disks(own).items()
            if member_id in addresses and is_low(disk.free_bytes, disk.total_bytes)
        ]

    def _protection_alarms(self, own: MemberId, addresses: dict[MemberId, str]) -> list[Alarm]:
        """Alarms for ports without logins, and for certificates that must be renewed."""
        now_ms = self._clock.wall_ms()
        known = self._recent()
        known[own] = Reported(0, 0, self.certificate_ends_ms(), self._is_unprotected)
        alarms = []
        for member_id, address in addresses.items():
            report = known.get(member_id)
            if report is None:
                continue
            if report.is_unprotected:
                what = f"no logins on {address} (--unsafe-no-auth): every peer has all rights"
                alarms.append(Alarm(ErrorCode.UNPROTECTED, member_id, what, PROTECT))
            # Compared with our clock: the warning comes days ahead, so skew does not matter.
            what = expiry_warning(f"member {address}", report.certificate_ends_ms, now_ms)
            if what:
                alarms.append(Alarm(ErrorCode.CERTIFICATE_EXPIRES, member_id, what, RENEW))
        return alarms

    def _state_alarms(
        self, own: MemberId, config: Config, addresses: dict[MemberId, str]
    ) -> list[Alarm]:
        """Alarms for diverged states; if most voters differ from the leader, the leader
        diverged."""
        wrong = {one: at for one, at in self._diverged.items() if one in addresses}
        if 2 * len([one for one in config.voters if one.id in wrong]) > len(config.voters):
            wrong = {own: min(wrong.values())}
        return [
            Alarm(
                ErrorCode.STATE_DIVERGED,
                member_id,
                f"the state of {addresses[member_id]} is not that of the other members at log "
                f"index {index}",
                "stop that member, remove its state directory and start it again: it fetches the "
                "state of the others",
            )
            for member_id, index in wrong.items()
            if member_id in addresses
        ]

    def new_alarms(self, own: MemberId, config: Config) -> list[Alarm]:
        """The alarms that were absent at the last call."""
        raised, self._raised = self._raised, {}
        new = []
        for alarm in self.alarms(own, config):
            key = (alarm.code, alarm.member_id)
            self._raised[key] = None
            if key not in raised:
                new.append(alarm)
        return new


def leap_to_ms(time_ms: int, wall_ms: int | None) -> int | None:
    """Where to move the group's time to if it is behind the members' clocks, else None."""
    if wall_ms is None or wall_ms - time_ms < LEAP_MS_MIN:
        return None
    return wall_ms
