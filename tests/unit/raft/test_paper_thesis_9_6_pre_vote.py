"""Raft thesis 9.6: the pre-vote keeps a member that was away from deposing a working leader."""

from __future__ import annotations

from rollq.raft.election import APPLY_BATCHES_MAX
from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.types import (
    HardState,
    RaftHeartbeat,
    RequestVote,
    Role,
    SnapshotMeta,
    VoteResponse,
)
from tests.unit.raft.helpers import entries_of, make_node, of_kind, run_ready
from tests.unit.raft.network import Network, SeededJitter, voters_config


def test_a_pre_candidate_moves_neither_term_nor_vote() -> None:
    node = make_node(1, 1, vote=3)
    node.campaign()
    assert (node.role, node.term, node.vote) == (Role.PRE_CANDIDATE, 1, 3)
    assert of_kind(run_ready(node), RequestVote) == [
        RequestVote(voter, 1, 2, last_index=2, last_term=1, pre=True) for voter in (2, 3)
    ]


def test_a_won_pre_vote_leads_to_an_election_and_a_lost_one_back() -> None:
    winner = make_node()
    winner.campaign()
    winner.step(VoteResponse(1, 2, 1, granted=True, pre=True))
    assert (winner.role, winner.term) == (Role.CANDIDATE, 1)
    loser = make_node()
    loser.campaign()
    for voter in (2, 3):
        loser.step(VoteResponse(1, voter, 0, granted=False, pre=True))
    assert (loser.role, loser.term) == (Role.FOLLOWER, 0)


def test_a_refusal_from_a_newer_term_brings_that_term() -> None:
    node = make_node()
    node.campaign()
    node.step(VoteResponse(1, 2, 8, granted=False, pre=True))
    assert (node.role, node.term) == (Role.FOLLOWER, 8)


def test_answers_to_another_vote_do_not_count() -> None:
    node = make_node(term=3)
    node.campaign()
    for answer, role in (
        # Asked in an earlier term, never asked, not about a pre-vote, and then the right one.
        (VoteResponse(1, 2, 3, granted=True, pre=True), Role.PRE_CANDIDATE),
        (VoteResponse(1, 2, 9, granted=True, pre=True), Role.PRE_CANDIDATE),
        (VoteResponse(1, 2, 3, granted=True), Role.PRE_CANDIDATE),
        (VoteResponse(1, 2, 4, granted=True, pre=True), Role.CANDIDATE),
        # A pre-vote does not elect.
        (VoteResponse(1, 3, 4, granted=True, pre=True), Role.CANDIDATE),
    ):
        node.step(answer)
        assert node.role is role


def test_a_granted_pre_vote_promises_nothing() -> None:
    node = make_node()
    for candidate in (2, 3):
        node.step(RequestVote(1, candidate, 1, last_index=0, last_term=0, pre=True))
    ready = node.ready()
    assert ready.hard_state is None
    assert ready.send_after_persist == [
        VoteResponse(candidate, 1, 1, granted=True, pre=True) for candidate in (2, 3)
    ]


def test_a_member_of_an_older_term_is_refused_and_told() -> None:
    node = make_node(term=5)
    node.step(RequestVote(1, 2, 3, last_index=9, last_term=2, pre=True))
    (answer,) = of_kind(run_ready(node), VoteResponse)
    assert (answer.granted, answer.term) == (False, 5)


def test_a_member_that_was_cut_off_comes_back_without_harm() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(3)
    for _ in range(5):
        net.tick(3, net.options.election_ticks_max)
        net.settle()
    assert net[3].term == leader.term
    net.heal()
    net[3].campaign()
    net.settle()
    net.beat(1)
    assert (leader.role, leader.term, net[3].leader_id) == (Role.LEADER, 1, 1)


def test_followers_that_lose_their_leader_together_do_not_split() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net.isolate(1)
    for member_id in (2, 3):
        net[member_id].leader_lost(1)
    net.settle()
    assert (net[2].role, net[3].role) == (Role.FOLLOWER, Role.LEADER)
    assert net[3].term == 2


def test_who_goes_first_asks_again_whoever_noticed_later() -> None:
    for late, behind in ((2, False), (2, True), (3, True)):
        net = Network(1, 2, 3)
        leader = net.elect(1)
        early = 5 - late
        if behind:
            net.cut.add((1, late))
            leader.propose(b"only early has it")
            net.settle()
        net.isolate(1)
        net[early].leader_lost(1)
        net.settle()  # in its leader's lease, the other does not answer
        assert net[early].role is Role.PRE_CANDIDATE
        net[late].leader_lost(1)
        net.settle()
        assert (net[early].role, net[late].role) == (Role.LEADER, Role.FOLLOWER)
        assert net[early].term == 2


def test_who_has_much_to_apply_lets_others_go_first_for_a_moment() -> None:
    options = RaftOptions(apply_bytes_max=1)
    start = RaftStart(
        hard_state=HardState(1, 0, APPLY_BATCHES_MAX + 1),
        snapshot=SnapshotMeta(config=voters_config(1, 2, 3)),
        entries=entries_of(*[1] * (APPLY_BATCHES_MAX + 1)),
    )
    node = RaftNode(3, options, start, SeededJitter(1))
    node.step(RaftHeartbeat(3, 1, 1, APPLY_BATCHES_MAX + 1))
    node.leader_lost(1)
    assert (node.role, node.leader_id) == (Role.FOLLOWER, 0)
    for _ in range(options.heartbeat_ticks):
        assert node.role is Role.FOLLOWER
        node.tick()
    assert node.role is Role.PRE_CANDIDATE


def test_a_question_in_the_lease_is_answered_when_the_leader_is_lost() -> None:
    for last_index, granted in ((2, True), (1, False)):
        node = make_node(1, 1)
        node.step(RaftHeartbeat(1, 2, 1, 0))
        node.step(RequestVote(1, 3, 2, last_index=last_index, last_term=1, pre=True))
        assert of_kind(run_ready(node), VoteResponse) == []
        node.leader_lost(2)
        assert [one.granted for one in of_kind(run_ready(node), VoteResponse)] == [granted]
        assert node.role is (Role.FOLLOWER if granted else Role.PRE_CANDIDATE)


def test_a_question_is_forgotten_when_the_leader_is_heard_again() -> None:
    node = make_node(1, 1)
    node.step(RaftHeartbeat(1, 2, 1, 0))
    node.step(RequestVote(1, 3, 2, last_index=2, last_term=1, pre=True))
    node.step(RaftHeartbeat(1, 2, 1, 0))
    node.leader_lost(2)
    assert of_kind(run_ready(node), VoteResponse) == []
    assert node.role is Role.PRE_CANDIDATE


def test_who_goes_first_does_so_for_a_moment_only() -> None:
    node = make_node(voters=(1, 2, 3))
    ask = RequestVote(1, 2, 1, last_index=0, last_term=0, pre=True)
    three = Network(1, 2, 3)[3]
    three.campaign()
    three.step(RequestVote(3, 1, 1, last_index=0, last_term=0, pre=True))
    assert not of_kind(run_ready(three), VoteResponse)[0].granted
    for _ in range(4):
        three.tick()
    three.step(RequestVote(3, 1, 1, last_index=0, last_term=0, pre=True))
    assert of_kind(run_ready(three), VoteResponse)[0].granted
    node.campaign()
    node.step(ask)  # from a higher id
    assert of_kind(run_ready(node), VoteResponse)[0].granted


def test_a_live_leaders_follower_ignores_pre_votes() -> None:
    node = make_node()
    node.step(RaftHeartbeat(1, 2, 1, 0))
    run_ready(node)
    node.step(RequestVote(1, 3, 2, last_index=9, last_term=1, pre=True))
    assert run_ready(node) == []


def test_a_group_of_one_asks_nobody() -> None:
    node = make_node(voters=(1,))
    node.campaign()
    assert (node.role, node.term) == (Role.CANDIDATE, 1)
