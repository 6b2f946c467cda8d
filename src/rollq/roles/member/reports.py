"""What the leader hears of the other members from themselves: what their wall clocks say, to move
the group's time only where a majority agrees and to find a clock that is wrong; and the hash of
their state, to find a member that made something else of the same log; and how their ports are
protected, to warn of one that is not, and of certificates that expire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.ids import MemberId
from rollq.base.limits import CLOCK_SKEW_MS_MAX, LEAP_MS_MIN, REPORT_MS_MAX
from rollq.base.log_events import (
    CERTIFICATE_EXPIRES,
    CLOCK_SKEW,
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

# What each alarm is in the log.
ALARM_EVENTS: Final[dict[int, LogEvent]] = {
    ErrorCode.CLOCK_SKEW: CLOCK_SKEW,
    ErrorCode.STATE_DIVERGED: STATE_DIVERGED,
    ErrorCode.CERTIFICATE_EXPIRES: CERTIFICATE_EXPIRES,
    ErrorCode.UNPROTECTED: MEMBER_UNPROTECTED,
}
PROTECT: Final = "use --tls and --auth require with credentials made by `rollq init`"


class Alarm(msgspec.Struct, frozen=True):
    """Something about a member that the group can not mend by itself."""

    code: int  # ErrorCode
    member_id: MemberId
    text: str
    todo: str


@dataclass(slots=True)
class Reported:
    """The last report of one member."""

    ahead_ms: int  # how far its wall clock is ahead of ours
    heard_ms: int  # when, by our monotonic clock
    certificate_ends_ms: int = 0
    is_unprotected: bool = False


class Reports:
    """One leader's account; it lives as long as its term of office."""

    def __init__(self, clock: Clock, *, is_unprotected: bool = False) -> None:
        self._clock = clock
        self._is_unprotected = is_unprotected  # this member itself
        # Until when the certificate of this member is valid; 0: it has none. It may be renewed.
        self.certificate_ends_ms: Callable[[], int] = lambda: 0
        self._heard: dict[MemberId, Reported] = {}
        # Members whose state is not ours, and at which log index that was first seen.
        self._diverged: dict[MemberId, int] = {}
        self._told: dict[tuple[int, MemberId], None] = {}  # alarms that `news` gave last

    def clear(self) -> None:
        """Leadership is lost or gained: what was heard is of another time."""
        self._heard.clear()
        self._diverged.clear()
        self._told.clear()

    def own(self, member_id: MemberId, index: int, state_hash: bytes) -> MemberReport:
        """What this member tells of itself to the leader."""
        return MemberReport(
            member_id,
            self._clock.wall_ms(),
            index,
            state_hash,
            certificate_ends_ms=self.certificate_ends_ms(),
            is_unprotected=self._is_unprotected,
        )

    def take(self, report: MemberReport, own_hash: bytes | None) -> None:
        """A member says how it is; `own_hash` is that of our state at the same log index, if it is
        known."""
        if own_hash is not None and report.state_hash:
            if own_hash == report.state_hash:
                self._diverged.pop(report.member_id, None)
            else:
                self._diverged.setdefault(report.member_id, report.index)
        clock = self._clock
        ahead_ms = report.wall_ms - clock.wall_ms()
        self._heard[report.member_id] = Reported(
            ahead_ms, clock.now_ms(), report.certificate_ends_ms, report.is_unprotected
        )

    def wall_ms(self, own: MemberId, config: Config) -> int | None:
        """The time on the wall as the voters see it: the middle of their clocks, if a majority of
        all voters is within the bound of it. None: they do not agree, or too few were heard."""
        ahead = sorted(self._ahead(own, config))
        needed = len(config.voters) // 2 + 1
        if not ahead:
            return None
        middle_ms = ahead[(len(ahead) - 1) // 2]
        if sum(abs(one - middle_ms) <= CLOCK_SKEW_MS_MAX for one in ahead) < needed:
            return None
        return self._clock.wall_ms() + middle_ms

    def skews_ms(self, own: MemberId, config: Config) -> dict[MemberId, int]:
        """How far each clock is ahead of the middle; empty if there is no such middle."""
        wall_ms = self.wall_ms(own, config)
        if wall_ms is None:
            return {}
        own_ms = self._clock.wall_ms() - wall_ms
        heard = self._recent()
        return {own: own_ms} | {one: own_ms + said.ahead_ms for one, said in heard.items()}

    def _ahead(self, own: MemberId, config: Config) -> list[int]:
        heard = self._recent()
        ahead = [heard[one.id].ahead_ms for one in config.voters if one.id in heard]
        return [*ahead, 0] if any(one.id == own for one in config.voters) else ahead

    def _recent(self) -> dict[MemberId, Reported]:
        since_ms = self._clock.now_ms() - REPORT_MS_MAX
        return {one: said for one, said in self._heard.items() if said.heard_ms >= since_ms}

    def mind(self, raft: RaftNode, time: GroupClock, outputs: Outputs) -> int | None:
        """Warn of what is new, and slow the group's time down if it is ahead of what most members'
        clocks say; where to move it forward, if it is behind."""
        own, config = raft.member_id, raft.config
        time_ms = time.now_ms()
        wall_ms = self.wall_ms(own, config)
        for alarm in self.news(own, config):
            told = {"code": alarm.code, "cause": alarm.text, "todo": alarm.todo}
            outputs.tell(ALARM_EVENTS[alarm.code], **told)
        time.slow_down(wall_ms is not None and time_ms - wall_ms >= LEAP_MS_MIN)
        return leap_to_ms(time_ms, wall_ms)

    # --- alarms

    def alarms(self, own: MemberId, config: Config) -> list[Alarm]:
        """What an operator must look after."""
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
        return alarms + self._protection_alarms(own, addresses)

    def _protection_alarms(self, own: MemberId, addresses: dict[MemberId, str]) -> list[Alarm]:
        """Whose port is open to everybody, and whose certificate has to be renewed."""
        now_ms = self._clock.wall_ms()
        known = self._recent()
        known[own] = Reported(0, 0, self.certificate_ends_ms(), self._is_unprotected)
        alarms = []
        for member_id, address in addresses.items():
            said = known.get(member_id)
            if said is None:
                continue
            if said.is_unprotected:
                what = f"no logins on {address} (--unsafe-no-auth): every peer has all rights"
                alarms.append(Alarm(ErrorCode.UNPROTECTED, member_id, what, PROTECT))
            # Their clocks are theirs: a day is long enough for that not to matter.
            what = expiry_warning(f"member {address}", said.certificate_ends_ms, now_ms)
            if what:
                alarms.append(Alarm(ErrorCode.CERTIFICATE_EXPIRES, member_id, what, RENEW))
        return alarms

    def _state_alarms(
        self, own: MemberId, config: Config, addresses: dict[MemberId, str]
    ) -> list[Alarm]:
        """Who made something else of the log; if that is most of them, it was the leader."""
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

    def news(self, own: MemberId, config: Config) -> list[Alarm]:
        """Alarms that were not there when this was asked last."""
        told, self._told = self._told, {}
        new = []
        for alarm in self.alarms(own, config):
            key = (alarm.code, alarm.member_id)
            self._told[key] = None
            if key not in told:
                new.append(alarm)
        return new


def leap_to_ms(time_ms: int, wall_ms: int | None) -> int | None:
    """Where to move the group's time, if it is behind what the members' clocks say."""
    if wall_ms is None or wall_ms - time_ms < LEAP_MS_MIN:
        return None
    return wall_ms
