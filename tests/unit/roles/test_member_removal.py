"""The last member that has the whole history is not removed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.limits import REPORT_TICKS
from rollq.raft.types import Config, Member
from rollq.roles.member.reports import Reports
from rollq.wire import messages as wire
from tests.unit.roles.members import CLIENT, Clock, Group

REQUEST = b"r" * 16


def remove(group: Group, address: str) -> Any:
    """The leader's answer."""
    member_id = group.members[address].raft.member_id
    arguments = msgspec.msgpack.encode({"member_id": member_id})
    (answer,) = group.say(CLIENT, wire.Admin(REQUEST, "remove_member", arguments))
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


def test_history_that_nobody_has_keeps_nobody() -> None:
    reports = Reports(Clock(), lambda: True)
    reports.take(wire.MemberReport(2, 0, lacks_history=True), None)
    assert not reports.is_sole_keeper(2, 1, Config((Member(1, "a"), Member(2, "b"))))


def test_one_that_is_away_keeps_nobody() -> None:
    config = Config((Member(1, "a"), Member(2, "b"), Member(3, "c")))
    reports = Reports(Clock())
    assert reports.is_sole_keeper(1, 1, config)
    assert not reports.is_sole_keeper(3, 1, config)
    reports.take(wire.MemberReport(2, 0), None)
    assert not reports.is_sole_keeper(1, 1, config)
