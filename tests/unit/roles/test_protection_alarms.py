"""Members tell how their ports are protected, and the leader warns an operator."""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.limits import REPORT_TICKS
from rollq.roles.member.driver import Driver
from rollq.roles.member.reports import Alarm
from rollq.roles.member.status import ClusterView
from rollq.security.expiry import DAY_MS
from rollq.wire import messages as wire
from tests.unit.roles.members import Group

CLIENT = 1


def alarms(group: Group) -> list[Alarm]:
    (answer,) = group.say(CLIENT, wire.Query(b"r" * 16, "cluster"))
    return msgspec.msgpack.decode(answer.value, type=ClusterView).alarms


def elected() -> Group:
    group = Group("a", "b", "c")
    group.elect()
    group.client(CLIENT)
    return group


def lasts(driver: Driver, until_ms: int) -> None:
    driver.reports.certificate_ends_ms = lambda: until_ms


def test_a_certificate_of_any_member_is_an_alarm_until_it_is_renewed() -> None:
    group = elected()
    leader, follower = group.leader, group.members[group.follower()]
    now_ms = group.clock.wall_ms()
    for driver in group.members.values():
        lasts(driver, now_ms + 400 * DAY_MS)
    group.run(2 * REPORT_TICKS)
    assert alarms(group) == []
    for driver, days in ((leader, 5), (follower, 20)):
        lasts(driver, now_ms + days * DAY_MS + DAY_MS // 2)
    group.run(2 * REPORT_TICKS)
    told = {one.member_id: (one.code, one.text) for one in alarms(group)}
    assert told == {
        leader.raft.member_id: (
            ErrorCode.CERTIFICATE_EXPIRES,
            f"the certificate of member {group.address_of(leader)} expires in 5 days",
        ),
        follower.raft.member_id: (
            ErrorCode.CERTIFICATE_EXPIRES,
            f"the certificate of member {group.address_of(follower)} expires in 20 days",
        ),
    }
    assert len(group.warned) == 2  # once each, although time goes on
    for driver in (leader, follower):
        lasts(driver, now_ms + 400 * DAY_MS)
    group.run(2 * REPORT_TICKS)
    assert alarms(group) == []


def test_a_port_that_is_open_to_everybody_is_an_alarm() -> None:
    group = elected()
    follower = group.members[group.follower()]
    follower.reports._is_unprotected = True
    group.run(2 * REPORT_TICKS)
    (alarm,) = alarms(group)
    assert (alarm.code, alarm.member_id) == (ErrorCode.UNPROTECTED, follower.raft.member_id)
    assert "--unsafe-no-auth" in alarm.text
    group.leader.reports._is_unprotected = True
    assert len(alarms(group)) == 2


def test_what_was_not_told_is_no_alarm() -> None:
    group = elected()
    group.run(2 * REPORT_TICKS)
    assert alarms(group) == []
