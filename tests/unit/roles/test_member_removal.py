"""The last member that has the whole history is not removed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.limits import REPORT_TICKS
from rollq.grid.state import GridState
from rollq.raft.state import RaftOptions
from rollq.raft.types import Config, InstallSnapshot, Member
from rollq.roles.member.driver import GAPS_EVERY_TICKS
from rollq.roles.member.reports import Reports
from rollq.wire import messages as wire
from tests.unit.roles.members import CLIENT, Clock, Group, submit

REQUEST = b"r" * 16


def removal(group: Group, address: str) -> wire.Admin:
    """The request of an operator."""
    member_id = group.members[address].raft.member_id
    arguments = msgspec.msgpack.encode({"member_id": member_id})
    return wire.Admin(REQUEST, "remove_member", arguments)


def remove(group: Group, address: str) -> Any:
    """The leader's answer."""
    (answer,) = group.say(CLIENT, removal(group, address))
    return answer


def test_who_alone_has_the_history_is_kept_until_another_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Group("a", "b", "c")
    group.elect()
    group.client(CLIENT)
    leader = group.address_of(group.leader)
    first, second = (address for address in group.members if address != leader)
    for address in (leader, first):
        monkeypatch.setattr(group.members[address].replica.history, "gaps", lambda _: [(1, 2)])
    group.run(2 * REPORT_TICKS)
    refused = remove(group, second)
    assert isinstance(refused, wire.Error)
    assert refused.code == ErrorCode.BAD_CONFIG_CHANGE
    assert f"the whole history of {second}" in refused.message
    monkeypatch.setattr(group.members[first].replica.history, "gaps", lambda _: [])
    group.run(2 * REPORT_TICKS)
    assert isinstance(remove(group, second), wire.Accepted)


def test_who_is_about_to_be_sent_a_snapshot_does_not_have_what_it_stands_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Group("a", "b", "c", snapshot_entries=10, raft=RaftOptions(log_tail_bytes=300))
    leader = group.elect()
    group.client(CLIENT)
    address = group.address_of(leader)
    new, behind = (other for other in group.members if other != address)
    monkeypatch.setattr(group.members[new].replica.history, "gaps", lambda _: [(1, 2)])
    group.isolated[behind] = None
    for number in range(1, 60):
        group.say(CLIENT, submit(number))
    assert leader.raft.first_index > group.members[behind].raft.last_index + 1
    group.lost = (InstallSnapshot,)
    del group.isolated[behind]
    group.run(2 * REPORT_TICKS)
    assert not group.members[behind].replica.gaps()  # in the little that it knows
    refused = group.say(CLIENT, removal(group, address))[0]
    assert isinstance(refused, wire.Error)
    assert refused.code == ErrorCode.BAD_CONFIG_CHANGE
    group.lost = ()
    group.until(lambda: group.members[behind].state.applied_index == leader.state.applied_index)
    group.until(lambda: not group.members[behind].replica.gaps())
    group.run(2 * REPORT_TICKS)
    assert group.say(CLIENT, removal(group, address))[0] == wire.Accepted(REQUEST)


def test_reports_take_what_the_last_look_for_gaps_found() -> None:
    group = Group("a", "b", "c")
    group.elect()
    replica = group.members[group.follower()].replica
    replica.history.gaps = looks = Mock(return_value=[])  # type: ignore[method-assign]
    group.run(4 * GAPS_EVERY_TICKS)
    assert looks.call_count == 4
    looks.return_value = [(1, 2)]
    group.run(GAPS_EVERY_TICKS)
    assert replica.lacks_history()
    looks.return_value = []
    replica.replace(GridState())
    assert not replica.lacks_history()


def raft_of(*voters: int) -> Any:
    """What is looked at of a leader, 1, to which no other member lags."""
    config = Config(tuple(Member(one, f"{one}:1") for one in voters))
    progress = {one: SimpleNamespace(match=7) for one in voters}
    return SimpleNamespace(member_id=1, config=config, progress=progress, first_index=8)


def test_history_that_nobody_has_keeps_nobody() -> None:
    reports = Reports(Clock(), lambda: True)
    reports.take(wire.MemberReport(2, 0, lacks_history=True), None)
    assert not reports.is_sole_keeper(2, raft_of(1, 2))


def test_one_that_is_away_keeps_nobody() -> None:
    reports, raft = Reports(Clock()), raft_of(1, 2, 3)
    assert reports.is_sole_keeper(1, raft)
    assert not reports.is_sole_keeper(3, raft)
    reports.take(wire.MemberReport(2, 0), None)
    assert not reports.is_sole_keeper(1, raft)


def test_who_leads_no_more_knows_nothing_of_the_others() -> None:
    raft = raft_of(1, 2)
    raft.progress = {}
    assert not Reports(Clock()).is_sole_keeper(1, raft)
