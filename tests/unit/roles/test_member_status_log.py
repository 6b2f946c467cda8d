"""What the log of a member says of leaders and members: every change once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rollq.raft.types import NO_MEMBER, Config, Member
from rollq.roles.member.status_log import StatusLog

A, B, C = Member(1, "a:1"), Member(2, "b:1"), Member(3, "c:1")


class Raft:
    """As much of consensus as the news look at, seen by member 1."""

    member_id = 1

    def __init__(self) -> None:
        self.config = Config((A, B, C))
        self.leader_id = NO_MEMBER
        self.term = 0
        self.transferee = NO_MEMBER
        self.last_index = 7


def test_every_change_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rollq.member")
    news, raft = StatusLog(), Raft()

    def told(**changes: object) -> list[str]:
        caplog.clear()
        for name, value in changes.items():
            setattr(raft, name, value)
        news.log_changes(raft)  # type: ignore[arg-type]
        news.log_changes(raft)  # type: ignore[arg-type]
        return [record.getMessage() for record in caplog.records]

    assert told() == ["the group is a:1, b:1, c:1"]
    assert told(term=1) == []
    assert told(leader_id=2) == ["b:1 is the leader in term 1"]
    assert told(leader_id=NO_MEMBER, term=2) == ["no leader in term 2"]
    assert told(leader_id=1) == ["this member is the leader in term 2"]
    assert told(config=Config((A, B), (C,))) == ["the group is a:1, b:1"]
    assert told(config=Config((A, B), (C,))) == []
    assert told(leader_id=9, term=3) == [
        "this member is no longer the leader: another member is in term 3",
        "member 9 is the leader in term 3",
    ]
    assert told(leader_id=1, term=4, transferee=2) == ["this member is the leader in term 4"]
    assert told(leader_id=2, term=5, transferee=NO_MEMBER) == [
        "this member is no longer the leader: it handed over to b:1",
        "b:1 is the leader in term 5",
    ]
    assert told(leader_id=1, term=6) == ["this member is the leader in term 6"]
    assert told(leader_id=NO_MEMBER) == [
        "this member is no longer the leader: too few members answered",
        "no leader in term 6",
    ]
    told(leader_id=1)
    assert told(config=Config((B,)), leader_id=NO_MEMBER) == [
        "this member was removed from the group: stop it",
        "this member is no longer the leader: it was removed from the group",
        "no leader in term 6",
    ]


def test_a_member_that_was_removed_says_so_at_every_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rollq.member")
    raft = Raft()
    raft.config = Config((B, C))
    StatusLog().log_changes(raft)  # type: ignore[arg-type]
    raft.last_index = 0  # a new one, which is about to be let in
    StatusLog().log_changes(raft)  # type: ignore[arg-type]
    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("this member is not in the group b:1, c:1: it was removed, or ")
    assert second == "the group is b:1, c:1"


def test_a_member_says_whom_it_waits_for_when_that_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "rollq.member")
    news = StatusLog()
    missing = [("b:1", "c:1"), ("b:1", "c:1"), ("c:1",), ()]
    for addresses in missing:
        roll = SimpleNamespace(me=A, missing=lambda peers, found=addresses: found)
        news.log_roll(roll, ("b:1", "c:1"))  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for peers b:1, c:1 (1 of 3 connected)",
        "waiting for peers c:1 (2 of 3 connected)",
    ]
