"""Raft paper §5.2: leader election. The pre-vote has its own file (thesis 9.6)."""

from __future__ import annotations

import pytest

from rollq.base.errors import RemoteError
from rollq.raft.node import RaftOptions
from rollq.raft.types import (
    AppendEntries,
    RaftHeartbeat,
    RequestVote,
    Role,
    VoteResponse,
)
from tests.unit.raft.helpers import make_leader, make_node, of_kind, run_ready
from tests.unit.raft.network import Network

PLAIN = RaftOptions(pre_vote=False)


def test_a_member_starts_as_follower() -> None:
    node = make_node(1, 2, term=3)
    assert (node.role, node.term, node.leader_id) == (Role.FOLLOWER, 3, 0)
    assert not node.has_ready()


def test_silence_makes_a_candidate_that_asks_all_voters() -> None:
    node = make_node(1, 1, options=PLAIN)
    for _ in range(PLAIN.election_ticks_max):
        node.tick()
    assert (node.role, node.term, node.vote) == (Role.CANDIDATE, 2, 1)
    assert of_kind(run_ready(node), RequestVote) == [
        RequestVote(2, 1, 2, last_index=2, last_term=1),
        RequestVote(3, 1, 2, last_index=2, last_term=1),
    ]


def test_a_leader_that_is_heard_keeps_followers_from_elections() -> None:
    node = make_node()
    for _ in range(50):
        node.step(RaftHeartbeat(1, 2, 1, 0))
        for _ in range(PLAIN.election_ticks_min - 1):
            node.tick()
    assert (node.role, node.term) == (Role.FOLLOWER, 1)


@pytest.mark.parametrize(
    ("size", "answers", "role"),
    [
        (3, {}, Role.CANDIDATE),
        (3, {2: True}, Role.LEADER),
        (3, {2: False}, Role.CANDIDATE),
        (3, {2: False, 3: True}, Role.LEADER),
        (3, {2: False, 3: False}, Role.FOLLOWER),
        (5, {2: True}, Role.CANDIDATE),
        (5, {2: True, 3: True}, Role.LEADER),
        (5, {2: False, 3: False, 4: False}, Role.FOLLOWER),
        (2, {2: True}, Role.LEADER),
        (3, {9: True}, Role.CANDIDATE),  # no voter
    ],
)
def test_a_majority_decides(size: int, answers: dict[int, bool], role: Role) -> None:
    node = make_node(voters=tuple(range(1, size + 1)), options=PLAIN)
    node.campaign()
    run_ready(node)
    for voter, granted in answers.items():
        node.step(VoteResponse(1, voter, 1, granted=granted))
    assert (node.role, node.term) == (role, 1)


def test_a_vote_counts_once_however_often_it_arrives() -> None:
    node = make_node(voters=(1, 2, 3, 4, 5), options=PLAIN)
    node.campaign()
    run_ready(node)
    for _ in range(3):
        node.step(VoteResponse(1, 2, 1, granted=True))
    assert node.role is Role.CANDIDATE


def test_our_own_vote_counts_only_when_it_is_on_disk() -> None:
    node = make_node(voters=(1,), options=PLAIN)
    node.campaign()
    ready = node.ready()
    before = node.role
    node.advance(ready)
    assert (before, node.role) == (Role.CANDIDATE, Role.LEADER)


def test_one_vote_a_term_first_come_first_served() -> None:
    node = make_node(term=1)
    node.step(RequestVote(1, 2, 2, last_index=0, last_term=0))
    node.step(RequestVote(1, 3, 2, last_index=0, last_term=0))
    node.step(RequestVote(1, 2, 2, last_index=0, last_term=0))
    answers = of_kind(run_ready(node), VoteResponse)
    assert [(a.to, a.granted) for a in answers] == [(2, True), (3, False), (2, True)]
    assert node.vote == 2


def test_a_vote_survives_a_restart() -> None:
    node = make_node(term=2, vote=3)
    node.step(RequestVote(1, 2, 2, last_index=9, last_term=2))
    assert not of_kind(run_ready(node), VoteResponse)[0].granted


@pytest.mark.parametrize("term", [1, 2])
def test_a_candidate_gives_way_to_a_leader_of_its_term_or_later(term: int) -> None:
    node = make_node(options=PLAIN)
    node.campaign()
    node.step(AppendEntries(1, 2, term, 0, 0, 0))
    assert (node.role, node.term, node.leader_id) == (Role.FOLLOWER, term, 2)


def test_a_split_vote_ends_in_a_new_term() -> None:
    node = make_node(options=PLAIN)
    node.campaign()
    for _ in range(PLAIN.election_ticks_max):
        node.tick()
    assert (node.role, node.term) == (Role.CANDIDATE, 2)


def test_election_waits_are_drawn_anew_between_the_bounds() -> None:
    waits = set()
    node = make_node(options=PLAIN)
    for _ in range(300):
        term, ticks = node.term, 0
        while node.term == term:
            node.tick()
            ticks += 1
        waits.add(ticks)
    assert waits == set(range(PLAIN.election_ticks_min, PLAIN.election_ticks_max))


def test_a_new_leader_tells_everybody_at_once_and_then_at_intervals() -> None:
    node = make_node()
    sent = make_leader(node)
    assert {m.to for m in of_kind(sent, AppendEntries)} == {2, 3}
    for _ in range(RaftOptions().heartbeat_ticks):
        assert not of_kind(run_ready(node), RaftHeartbeat)
        node.tick()
    assert [m.to for m in of_kind(run_ready(node), RaftHeartbeat)] == [2, 3]


def test_two_leaders_in_one_term_are_reported() -> None:
    node = make_node()
    node.step(RaftHeartbeat(1, 2, 1, 0))
    with pytest.raises(RemoteError, match="both claim leadership in term 1"):
        node.step(RaftHeartbeat(1, 3, 1, 0))
    leader = make_node()
    make_leader(leader)
    with pytest.raises(RemoteError, match="both claim leadership"):
        leader.step(AppendEntries(1, 2, leader.term, 0, 0, 0))


def test_who_does_not_vote_does_not_campaign() -> None:
    node = make_node(voters=(2, 3))
    for _ in range(100):
        node.tick()
    node.campaign()
    assert (node.role, node.term) == (Role.FOLLOWER, 0)


def test_check_quorum_a_leader_without_majority_steps_down() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(1)
    net.tick(1, 2 * net.options.election_ticks_min)
    assert (leader.role, leader.leader_id) == (Role.FOLLOWER, 0)


def test_check_quorum_a_leader_may_be_given_more_time_and_keeps_its_lease_in_it() -> None:
    net = Network(1, 2, 3, options=RaftOptions(quorum_ticks=25))
    leader = net.elect(1)
    net.isolate(1)
    net.tick(1, 24)
    leader.step(RequestVote(1, 3, 2, last_index=9, last_term=1, pre=True))
    leader.step(RequestVote(1, 3, 2, last_index=9, last_term=1))
    assert (leader.role, leader.term) == (Role.LEADER, 1)
    assert of_kind(run_ready(leader), VoteResponse) == []
    net.tick(1, 26)
    assert leader.role is Role.FOLLOWER


def test_check_quorum_a_leader_with_majority_stays() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(3)
    for _ in range(10):
        net.beat(1)
    assert leader.role is Role.LEADER


def test_check_quorum_a_member_that_answers_counts_as_active_right_after_the_check_too() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    period = net.options.election_ticks_min
    seen = set()
    for _ in range(3 * period):
        leader.tick()
        seen.add((leader.progress[2].active, leader.progress[3].active))
        net.settle()
    assert seen == {(True, True)}
    net.isolate(3)
    for _ in range(2 * period):
        leader.tick()
        net.settle()
    assert (leader.progress[2].active, leader.progress[3].active) == (True, False)


def test_check_quorum_a_follower_of_a_live_leader_ignores_vote_requests() -> None:
    node = make_node()
    node.step(RaftHeartbeat(1, 2, 1, 0))
    run_ready(node)
    request = RequestVote(1, 3, 9, last_index=9, last_term=8)
    node.step(request)
    assert (node.term, run_ready(node)) == (1, [])
    for _ in range(RaftOptions().election_ticks_min):
        node.tick()
    node.step(request)
    assert (node.term, node.vote) == (9, 3)


def test_a_broken_link_to_the_leader_starts_an_election_without_waiting() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net.isolate(1)
    net[2].leader_lost(3)  # not the leader
    assert net[2].role is Role.FOLLOWER
    for member_id in (2, 3):
        net[member_id].leader_lost(1)
    net.settle()
    assert sorted(net[i].role for i in (2, 3)) == [Role.FOLLOWER, Role.LEADER]


def test_without_pre_vote_a_broken_link_only_ends_the_lease() -> None:
    node = make_node(options=PLAIN)
    node.step(RaftHeartbeat(1, 2, 1, 0))
    node.leader_lost(2)
    assert (node.role, node.term, node.leader_id) == (Role.FOLLOWER, 1, 0)
    node.step(RequestVote(1, 3, 2, last_index=0, last_term=0))
    assert node.vote == 3


@pytest.mark.parametrize("options", [RaftOptions(fixed_leader=True), RaftOptions(), PLAIN])
def test_the_only_voter_stands_once_however_slow_its_disk_is(options: RaftOptions) -> None:
    node = make_node(voters=(1,), options=options)
    while node.role is not Role.CANDIDATE:
        node.tick()
    writing = node.ready()  # the vote is on its way to the disk
    for _ in range(10 * options.election_ticks_max):
        node.tick()
    node.advance(writing)
    assert (node.role, node.term) == (Role.LEADER, 1)
    for _ in range(10 * options.election_ticks_max):  # nor does it ever miss a majority
        node.tick()
    assert (node.role, node.term) == (Role.LEADER, 1)


def test_a_fixed_leader_of_one_does_not_wait() -> None:
    node = make_node(voters=(1,), options=RaftOptions(fixed_leader=True))
    run_ready(node)
    assert node.role is Role.LEADER
    many = make_node(options=RaftOptions(fixed_leader=True))
    assert many.role is Role.FOLLOWER
    many.tick()
    assert many.role is Role.FOLLOWER
