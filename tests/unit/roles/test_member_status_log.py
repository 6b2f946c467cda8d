"""What the log of a member says of leaders and members: every change once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rollq.raft.types import NO_MEMBER, Config, Member
from rollq.roles.member.keyring import KeyRing
from rollq.roles.member.rollcall import RollCall
from rollq.roles.member.status_log import StatusLog
from rollq.store.identity import NO_KEY, NONCE_BITS
from rollq.wire.messages import RollAnswer

LIFE = 1 << NONCE_BITS
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


def test_a_member_that_was_removed_says_so_once_at_every_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "rollq.member")

    def told(*answers: tuple[int, Config], admitted: bool = True) -> list[str]:
        """What is logged after answers of member 2, of these indexes; our log ends at 7."""
        caplog.clear()
        keys = KeyRing(NO_KEY, b"s" * 32, b"secret")
        roll = RollCall(A, b"c" * 16, (A, B), (LIFE,), keys, admitted=admitted)
        news = StatusLog()
        for index, config in answers:
            heard = RollAnswer(
                2, B.address, b"c" * 16, LIFE, LIFE, config=config, config_index=index
            )
            roll.take(heard, (B.address,))
            news.log_roll(roll, (B.address,), 7)
        lines = [record.getMessage() for record in caplog.records]
        return [line for line in lines if not line.startswith("waiting")]

    without = Config((B, C))
    (line,) = told((8, without), (9, without))
    assert line.startswith("this member is not in the group b:1, c:1: it was removed, or ")
    assert told((8, Config((A, B)))) == []
    assert told((6, without)) == []  # from before it was let in, of a member that lags
    assert told((8, without), admitted=False) == []  # about to be let in


def test_the_log_of_a_member_that_was_let_in_is_no_news_of_its_removal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "rollq.member")
    raft = Raft()
    raft.config = Config((B, C))  # of its last snapshot, which is older
    StatusLog().log_changes(raft)  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == ["the group is b:1, c:1"]


def test_a_member_says_whom_it_waits_for_when_that_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "rollq.member")
    news = StatusLog()
    missing = [("b:1", "c:1"), ("b:1", "c:1"), ("c:1",), ()]
    for addresses in missing:
        roll = SimpleNamespace(
            me=A, missing=lambda peers, found=addresses: found, is_removed=lambda last: False
        )
        news.log_roll(roll, ("b:1", "c:1"), 7)  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for peers b:1, c:1 (1 of 3 connected)",
        "waiting for peers c:1 (2 of 3 connected)",
    ]
