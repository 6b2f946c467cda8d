"""Raft thesis 3.10: leadership transfer."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.raft.types import (
    AppendEntries,
    ChangeKind,
    ConfigChange,
    Member,
    MemberChange,
    RequestVote,
    Role,
    TimeoutNow,
)
from tests.unit.raft.helpers import make_node, of_kind, run_ready
from tests.unit.raft.network import Network


def test_an_up_to_date_voter_takes_over_at_once() -> None:
    net = Network(1, 2, 3)
    net.elect(1).transfer_leadership(2)
    net.settle()
    assert [net[i].role for i in (1, 2, 3)] == [Role.FOLLOWER, Role.LEADER, Role.FOLLOWER]
    assert {net[i].leader_id for i in (1, 2, 3)} == {2}


def test_one_that_is_behind_is_brought_up_to_date_first() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(2)
    leader.propose(b"x")
    net.settle()
    net.heal()
    leader.transfer_leadership(2)
    net.beat(1)
    assert net[2].role is Role.LEADER
    assert net.logs()[2] == net.logs()[1]


def test_meanwhile_proposals_are_dropped() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.transfer_leadership(2)
    assert leader.transferee == 2
    with pytest.raises(StateError) as caught:
        leader.propose(b"x")
    assert caught.value.code is ErrorCode.PROPOSAL_DROPPED
    with pytest.raises(StateError) as caught:
        leader.propose_config(ConfigChange())
    assert caught.value.code is ErrorCode.PROPOSAL_DROPPED


def test_a_transfer_is_given_up_after_an_election_timeout() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(2)
    leader.transfer_leadership(2)
    for _ in range(net.options.election_ticks_min):
        net.tick(1)
        net.settle()
    assert (leader.role, leader.transferee) == (Role.LEADER, 0)
    leader.propose(b"x")


def test_the_target_skips_the_pre_vote_and_the_lease() -> None:
    node = make_node(1)
    node.step(AppendEntries(1, 2, 2, 1, 1, 0))
    run_ready(node)
    node.step(TimeoutNow(1, 2, 2))
    assert node.role is Role.CANDIDATE
    requests = of_kind(run_ready(node), RequestVote)
    assert [(m.pre, m.transfer) for m in requests] == [(False, True)] * 2


def test_only_the_leader_hands_over_and_only_to_a_voter() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    with pytest.raises(StateError) as caught:
        net[2].transfer_leadership(3)
    assert caught.value.code is ErrorCode.NOT_LEADER
    leader.propose_config(ConfigChange((MemberChange(ChangeKind.ADD_LEARNER, Member(3)),)))
    net.settle()
    for nobody in (3, 9):
        with pytest.raises(StateError) as caught:
            leader.transfer_leadership(nobody)
        assert caught.value.code is ErrorCode.WRONG_STATE
    leader.transfer_leadership(1)
    assert leader.transferee == 0


def test_a_second_order_replaces_the_first() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(2)
    leader.transfer_leadership(2)
    leader.transfer_leadership(2)
    assert len(of_kind(leader.ready().send_now, TimeoutNow)) == 1
    leader.transfer_leadership(3)
    assert leader.transferee == 3


def test_a_target_that_leaves_the_group_ends_the_transfer() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.propose_config(ConfigChange((MemberChange(ChangeKind.REMOVE, Member(2)),)))
    net.drop = lambda m: isinstance(m, TimeoutNow)
    leader.transfer_leadership(2)
    net.settle()
    assert (leader.transferee, leader.role) == (0, Role.LEADER)
