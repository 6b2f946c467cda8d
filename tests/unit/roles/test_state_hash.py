"""A member that makes something else of the same log is found, and nobody stops for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.limits import REPORT_TICKS
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.roles.member import replica as replica_module
from rollq.roles.member.reports import Alarm
from rollq.roles.member.status import ClusterView
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job, submit

CLIENT = 1
REQUEST = b"r" * 16


def working(count: int = 5) -> Group:
    group = Group("a", "b", "c")
    group.elect()
    group.client(CLIENT)
    for number in range(1, count + 1):
        group.say(CLIENT, submit(number))
    return group


def hashes(group: Group) -> set[bytes]:
    return {driver.state.state_hash for driver in group.members.values()}


def alarms(group: Group) -> list[Alarm]:
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "cluster"))
    return msgspec.msgpack.decode(answer.value, type=ClusterView).alarms


def test_members_that_applied_as_much_have_the_same_hash() -> None:
    group = working()
    group.run(2)
    (before,) = hashes(group)
    group.say(CLIENT, submit(9))
    group.run(2)
    (after,) = hashes(group)
    assert before != after
    state = group.leader.state
    assert decode_snapshot(encode_snapshot(state)).state_hash == after


def test_a_member_that_starts_again_goes_on_with_the_same_hash() -> None:
    group = working()
    address = group.follower()
    group.kill(address)
    group.say(CLIENT, submit(8))
    group.start(address)
    group.until(lambda: job(8) in group.members[address].state.jobs)
    group.run(2)
    assert len(hashes(group)) == 1


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_follower_that_went_astray_is_an_alarm(
    is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "HASH_EVERY", 2)
    group = working()
    address = group.follower()
    astray = group.members[address]
    astray.state.last_seq += 1  # what no fact and no log tells
    group.say(CLIENT, submit(7))
    for number in range(20, 20 + 3 * REPORT_TICKS):
        if is_busy:
            group.say(CLIENT, submit(number))
        group.run()
    (alarm,) = alarms(group)
    assert (alarm.code, alarm.member_id) == (ErrorCode.STATE_DIVERGED, astray.raft.member_id)
    assert address in alarm.text
    assert group.warned == [f"state_diverged (306): {alarm.text}; {alarm.todo}"]
    assert len(group.members) == 3
    assert group.say(CLIENT, submit(300))  # the group works on


def test_a_leader_that_went_astray_is_named_and_not_the_others() -> None:
    group = working()
    leader = group.leader
    leader.state.last_fence += 1
    group.say(CLIENT, submit(7))
    group.run(3 * REPORT_TICKS)
    (alarm,) = alarms(group)
    assert alarm.member_id == leader.raft.member_id


def test_a_member_that_fetched_the_state_of_the_others_is_no_alarm_any_more() -> None:
    group = working()
    address = group.follower()
    group.members[address].state.last_seq += 1
    group.say(CLIENT, submit(7))
    group.run(3 * REPORT_TICKS)
    assert alarms(group)
    group.kill(address)
    group.start(address)  # its log is right, and so is what it makes of it now
    group.run(6 * REPORT_TICKS)
    assert alarms(group) == []


def test_nothing_is_reported_to_a_leader_that_the_group_no_longer_names() -> None:
    group = working()
    group.run(REPORT_TICKS + 1)  # all know of each other what they understand
    driver = group.members[group.follower()]
    driver.take_outputs()
    removed: Any = SimpleNamespace(leader_id=group.leader.raft.member_id, leader_address="")
    driver._peers.report(removed, wire.MemberReport(1, 0))
    assert driver.take_outputs() == []
