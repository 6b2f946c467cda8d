"""The leader's part in who belongs to the group."""

from __future__ import annotations

from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.types import Config, HardState, Member, Role, SnapshotMeta
from rollq.roles.member.membership import admit, find, promote_caught_up
from tests.unit.roles.chance import MiddleJitter

A, B = Member(1, "a"), Member(2, "b")


def leader_of(config: Config) -> RaftNode:
    start = RaftStart(HardState(), SnapshotMeta(config=config), [])
    raft = RaftNode(A.id, RaftOptions(pre_vote=False), start, MiddleJitter())
    raft.campaign()
    settle(raft)
    return raft


def settle(raft: RaftNode) -> None:
    while raft.has_ready():
        raft.advance(raft.ready())


def test_a_newcomer_becomes_a_learner_in_the_place_of_its_address() -> None:
    raft = leader_of(Config((A,), (Member(7, "b"),)))
    admit(raft, B)
    settle(raft)
    assert raft.config == Config((A,), (B,))


def test_whoever_is_in_is_not_let_in_again() -> None:
    raft = leader_of(Config((A,), (B,)))
    last_index = raft.last_index
    admit(raft, B)
    assert raft.last_index == last_index


def test_a_learner_that_is_behind_is_not_promoted() -> None:
    raft = leader_of(Config((A,), (B,)))
    promote_caught_up(raft)
    settle(raft)
    assert find(raft.config, B.id) in raft.config.learners


def test_a_member_that_does_not_lead_promotes_nobody() -> None:
    start = RaftStart(HardState(), SnapshotMeta(config=Config((A,), (B,))), [])
    follower = RaftNode(A.id, RaftOptions(), start, MiddleJitter())
    promote_caught_up(follower)
    assert follower.role is Role.FOLLOWER
    assert follower.last_index == 0
