"""The checker of cluster keys: whom a member may tell the key."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollq.base.ids import NIL_ID
from rollq.raft.types import Config, Member
from rollq.roles.member.outputs import ToPeer
from rollq.roles.member.rollcall import JoinPhase
from rollq.store.identity import ClusterKey
from rollq.testing.checkers.base import Violation
from rollq.testing.checkers.keys import OneKey
from rollq.wire.messages import RollAnswer

KEY = ClusterKey(b"k" * 32, is_sure=True)
MEMBER: Any = SimpleNamespace(
    name="m1", damaged=False, setup=SimpleNamespace(peers=("m2:5000", "m3:5000"))
)
TOLD = ToPeer("m3:5000", RollAnswer(1, "m1:5000", NIL_ID, 0, 0, key=KEY.value))
THREE = Config(tuple(Member(number, f"m{number}:5000") for number in (1, 2, 3)))
TWO = Config(THREE.voters[:2])


def driver(config: Config) -> Any:
    roll = SimpleNamespace(
        keys=SimpleNamespace(key=KEY), phase=JoinPhase.PRESENT, cluster_id=NIL_ID
    )
    raft = SimpleNamespace(config=config, member_id=1)
    return SimpleNamespace(
        roll=roll, raft=raft, _store=SimpleNamespace(wal=SimpleNamespace(key=KEY))
    )


def test_a_member_may_tell_whom_it_knew_as_a_member_when_it_spoke() -> None:
    # m3 calls while a turn is being written, and is answered; in the same turn its removal arrives.
    # The answer leaves at the end of the turn.
    checker = OneKey()
    checker.on_start(MEMBER, driver(THREE))
    checker.on_send(MEMBER, driver(TWO), TOLD)


def test_a_member_that_was_removed_in_an_earlier_turn_is_told_nothing() -> None:
    checker = OneKey()
    checker.on_start(MEMBER, driver(THREE))
    checker.on_turn(MEMBER, driver(TWO))
    with pytest.raises(Violation, match="tells the key to m3:5000, which is no member"):
        checker.on_send(MEMBER, driver(TWO), TOLD)


def test_a_configuration_of_within_the_turn_counts_too() -> None:
    checker = OneKey()
    checker.on_start(MEMBER, driver(TWO))
    checker.on_write(MEMBER, driver(THREE), SimpleNamespace())  # type: ignore[arg-type]
    checker.on_send(MEMBER, driver(TWO), TOLD)
