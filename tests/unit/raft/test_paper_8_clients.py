"""Raft paper §8 and thesis 6.4: reads that are linearizable without a log entry (read-index)."""

from __future__ import annotations

import pytest

from rollq.raft.node import RaftOptions
from rollq.raft.ready import ReadReady
from rollq.raft.types import (
    AppendEntries,
    RaftHeartbeat,
    RaftHeartbeatResponse,
    ReadIndex,
    ReadIndexResponse,
    Role,
)
from tests.unit.raft.helpers import make_leader, make_node, of_kind, run_ready
from tests.unit.raft.network import Network


def test_a_leader_answers_when_a_majority_has_confirmed_it() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net.isolate(3)
    net[1].read_index(7)
    assert net.hosts[1].reads == []
    net.settle()
    assert net.hosts[1].reads == [ReadReady(7, net[1].commit)]


def test_a_leader_that_was_replaced_answers_nothing() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net.isolate(1)
    for member_id in (2, 3):
        net.tick(member_id, net.options.election_ticks_min)
    net[2].campaign()
    net.settle()
    net[1].read_index(7)
    net.settle()
    assert net.hosts[1].reads == []
    net.heal()
    net.beat(2)
    assert net.hosts[1].reads == [ReadReady(7, 0)]


def test_a_new_leader_first_commits_an_entry_of_its_term() -> None:
    net = Network(1, 2, 3)
    net.drop = lambda m: isinstance(m, AppendEntries)
    net[1].campaign()
    net.settle()
    net[1].read_index(7)
    net.beat(1)
    assert net.hosts[1].reads == []
    net.heal()
    net.beat(1)
    assert net.hosts[1].reads == [ReadReady(7, 1)]


def test_a_group_of_one_answers_at_once_but_not_before_its_first_commit() -> None:
    node = make_node(1, 1, voters=(1,), commit=1)
    node.campaign()
    node.advance(node.ready())
    assert node.role is Role.LEADER
    node.read_index(1)
    first = node.ready()
    assert first.reads == []
    node.advance(first)
    second = node.ready()
    assert second.reads == [ReadReady(1, 3)]
    node.advance(second)
    node.read_index(2)
    assert node.ready().reads == [ReadReady(2, 3)]


def test_reads_that_arrive_during_a_round_share_the_next() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    for request in range(10):
        leader.read_index(request)
    assert len(of_kind(leader.ready().send_now, RaftHeartbeat)) == 2


def test_reads_that_arrive_during_a_round_are_confirmed_by_a_later_one() -> None:
    node = make_node()
    make_leader(node)
    for follower in (2, 3):
        node.step(RaftHeartbeatResponse(1, follower, node.term))
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.read_index(1)
    first = of_kind(leader.ready().send_now, RaftHeartbeat)[0].context
    leader.read_index(2)
    leader.step(RaftHeartbeatResponse(1, 2, leader.term, context=first))
    assert leader._state.reads.done == [ReadReady(1, 1)]
    leader.step(RaftHeartbeatResponse(1, 3, leader.term, context=first))
    assert len(leader._state.reads.done) == 1
    leader.step(RaftHeartbeatResponse(1, 3, leader.term, context=first + 1))
    assert leader._state.reads.done == [ReadReady(1, 1), ReadReady(2, 1)]


def test_a_round_that_was_lost_is_tried_again_under_a_fresh_number() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net.drop = lambda m: isinstance(m, RaftHeartbeat)
    net[1].read_index(7)
    net.settle()
    net[1].read_index(8)
    net.heal()
    net.beat(1)
    assert net.hosts[1].reads == [ReadReady(7, 1), ReadReady(8, 1)]
    contexts = [
        m.context
        for r in net.hosts[1].readies
        for m in of_kind(r.send_now, RaftHeartbeat)
        if m.to == 2
    ]
    assert contexts == sorted(set(contexts))


def test_a_late_answer_still_confirms_its_own_round() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.read_index(7)
    ready = leader.ready()
    number = of_kind(ready.send_now, RaftHeartbeat)[0].context
    leader.advance(ready)
    net.tick(1, net.options.heartbeat_ticks)
    run_ready(leader)
    leader.step(RaftHeartbeatResponse(1, 3, leader.term, context=number))
    assert leader.ready().reads == [ReadReady(7, 1)]


def test_an_answer_to_a_round_that_never_was_confirms_nothing() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.read_index(7)
    leader.step(RaftHeartbeatResponse(1, 3, leader.term, context=99))
    assert leader.ready().reads == []


def test_a_follower_asks_the_leader() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net[1].propose(b"x")
    net.settle()
    net[2].read_index(7)
    net.settle()
    assert net.hosts[2].reads == [ReadReady(7, 2)]


def test_without_a_leader_a_read_must_be_asked_again() -> None:
    node = make_node()
    node.read_index(7)
    assert node.ready().reads == [ReadReady(7, 0)]


def test_a_follower_gives_up_on_a_read_when_the_leader_changes() -> None:
    node = make_node()
    node.step(RaftHeartbeat(1, 2, 1, 0))
    node.read_index(7)
    run_ready(node)
    node.step(RaftHeartbeat(1, 3, 2, 0))
    assert node.ready().reads == [ReadReady(7, 0)]


def test_a_follower_gives_up_on_a_read_whose_message_was_lost() -> None:
    node = make_node()
    node.step(RaftHeartbeat(1, 2, 1, 0))
    node.read_index(7)
    run_ready(node)
    for _ in range(RaftOptions().election_ticks_max):
        node.step(RaftHeartbeat(1, 2, 1, 0))
        assert node._state.reads.done == []
        node.tick()
    assert node._state.reads.done == [ReadReady(7, 0)]


def test_an_answer_is_taken_once_and_only_if_it_was_asked_for() -> None:
    node = make_node()
    node.step(RaftHeartbeat(1, 2, 1, 0))
    node.read_index(7)
    (asked,) = of_kind(run_ready(node), ReadIndex)
    for request in (asked.request, asked.request, asked.request + 1):
        node.step(ReadIndexResponse(1, 2, 1, request, index=3))
    assert node.ready().reads == [ReadReady(7, 3)]


def test_two_lives_of_a_follower_ask_under_different_numbers() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    requests = []
    for _ in range(2):
        net[2].read_index(1)
        (asked,) = of_kind(net[2].ready().send_after_persist, ReadIndex)
        requests.append(asked.request)
        net.hosts[2].boot()
        net[2].step(RaftHeartbeat(2, 1, 1, 0))
    assert requests[0] != requests[1]


def test_who_does_not_lead_says_so() -> None:
    node = make_node(term=1)
    node.step(ReadIndex(1, 2, 1, request=5))
    assert of_kind(run_ready(node), ReadIndexResponse) == [ReadIndexResponse(2, 1, 1, 5, 0)]


def test_a_leader_that_steps_down_tells_who_asked() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.step(ReadIndex(1, 2, leader.term, request=5))
    leader.read_index(6)
    leader.step(RaftHeartbeat(1, 3, 9, 0))
    ready = leader.ready()
    assert ready.reads == [ReadReady(6, 0)]
    assert of_kind(ready.send_now, ReadIndexResponse) == [ReadIndexResponse(2, 1, 1, 5, 0)]


def test_reads_that_wait_are_bounded() -> None:
    net = Network(1, 2, 3, options=RaftOptions(reads_pending_max=2))
    leader = net.elect(1)
    for request in range(4):
        leader.read_index(request)
    assert leader.ready().reads == [ReadReady(2, 0), ReadReady(3, 0)]
    for request in range(3):
        net[2].read_index(request)
    assert net[2].ready().reads == [ReadReady(2, 0)]


@pytest.mark.parametrize("asker", [1, 3])
def test_a_read_sees_every_write_that_ended_before_it(asker: int) -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    for at in range(5):
        index = net[1].propose(b"%d" % at)
        net.settle()
        net[asker].read_index(at)
        net.settle()
        assert net.hosts[asker].reads[-1].index >= index
