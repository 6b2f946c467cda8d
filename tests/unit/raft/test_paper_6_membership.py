"""Raft paper §6 and thesis 4: changes of membership, one voter at a time, and learners."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.raft.codec import encode_change
from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.types import (
    AppendEntries,
    ChangeKind,
    ConfigChange,
    Entry,
    EntryKind,
    HardState,
    Member,
    MemberChange,
    RaftHeartbeat,
    RequestVote,
    Role,
    SnapshotMeta,
    VoteResponse,
)
from tests.unit.raft.helpers import make_leader, make_node, of_kind, run_ready
from tests.unit.raft.network import Network, SeededJitter, voters_config


def change(kind: ChangeKind, member_id: int, address: str = "") -> ConfigChange:
    return ConfigChange((MemberChange(int(kind), Member(member_id, address)),))


def voter_ids(node: RaftNode) -> list[int]:
    return [member.id for member in node.config.voters]


def test_a_newcomer_joins_as_learner_and_then_votes() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.propose(b"before")
    net.add(4)
    leader.propose_config(change(ChangeKind.ADD_LEARNER, 4, "host4:5000"))
    net.settle()
    assert [m.id for m in net[4].config.learners] == [4]
    assert net.logs()[4] == net.logs()[1]
    leader.propose_config(change(ChangeKind.ADD_VOTER, 4))
    net.settle()
    assert {tuple(voter_ids(net[i])) for i in net.hosts} == {(1, 2, 3, 4)}
    assert net[4].config.voters[3].address == "host4:5000"


def test_the_log_of_a_new_group_begins_with_its_configuration() -> None:
    net = Network(1)
    leader = net.elect(1)
    (first,) = leader.entry_slice(1, 2)
    assert first.kind == EntryKind.CONFIG
    net.add(2)
    leader.propose_config(change(ChangeKind.ADD_VOTER, 2))
    net.settle()
    assert net[2].config == leader.config
    assert voter_ids(leader) == [1, 2]


def test_a_change_takes_effect_when_it_is_applied() -> None:
    node = make_node(1, voters=(1,))
    make_leader(node, voters=())
    node.propose_config(change(ChangeKind.ADD_VOTER, 2))
    first = node.ready()
    node.advance(first)
    second = node.ready()
    assert [e.kind for e in second.committed] == [EntryKind.CONFIG]
    assert voter_ids(node) == [1]
    node.advance(second)
    assert voter_ids(node) == [1, 2]


def test_one_change_at_a_time() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.propose_config(change(ChangeKind.ADD_LEARNER, 4))
    with pytest.raises(StateError) as caught:
        leader.propose_config(change(ChangeKind.ADD_LEARNER, 5))
    assert caught.value.code is ErrorCode.CONFIG_CHANGE_PENDING
    net.settle()
    leader.propose_config(change(ChangeKind.ADD_LEARNER, 5))


def test_no_change_before_an_entry_of_the_own_term_is_committed() -> None:
    node = make_node(1)
    make_leader(node)
    with pytest.raises(StateError) as caught:
        node.propose_config(change(ChangeKind.REMOVE, 3))
    assert caught.value.code is ErrorCode.CONFIG_CHANGE_PENDING


def test_a_bad_change_is_refused_before_it_reaches_the_log() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    two = ConfigChange(
        (
            MemberChange(ChangeKind.REMOVE, Member(2)),
            MemberChange(ChangeKind.REMOVE, Member(3)),
        )
    )
    with pytest.raises(StateError) as caught:
        leader.propose_config(two)
    assert caught.value.code is ErrorCode.BAD_CONFIG_CHANGE
    assert leader.last_index == 1


def test_only_a_leader_takes_changes() -> None:
    with pytest.raises(StateError) as caught:
        make_node().propose_config(change(ChangeKind.REMOVE, 3))
    assert caught.value.code is ErrorCode.NOT_LEADER


@pytest.mark.parametrize("kind", [ChangeKind.REMOVE, ChangeKind.ADD_LEARNER])
def test_a_leader_that_leaves_steps_down_when_that_is_applied(kind: ChangeKind) -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.propose_config(change(kind, 1))
    net.settle()
    assert leader.role is Role.FOLLOWER
    assert [voter_ids(net[i]) for i in (1, 2, 3)] == [[2, 3]] * 3
    net.tick(2, net.options.election_ticks_max)
    net.tick(3, net.options.election_ticks_min)
    net.settle()
    assert Role.LEADER in (net[2].role, net[3].role)
    for _ in range(50):
        leader.tick()
    assert leader.role is Role.FOLLOWER


def test_who_stays_learns_of_a_change_that_only_the_leaver_knew_committed() -> None:
    net = Network(1, 2)
    leader = net.elect(1)
    leader.propose_config(change(ChangeKind.REMOVE, 1))
    leader.propose(b"more")
    # 2 has the change; that it is committed does not reach it, nor does the last entry.
    net.collect()
    (first, *_evict_applied), net.wire = net.wire, []
    net[2].step(first)
    net.collect(2)
    for answer in net.wire:
        leader.step(answer)
    net.wire.clear()
    net.collect(1)
    net.wire.clear()
    assert (leader.role, voter_ids(leader), voter_ids(net[2])) == (Role.FOLLOWER, [2], [1, 2])
    assert leader.last_index > net[2].last_index
    for _ in range(3):
        net.tick(2, net.options.election_ticks_max)
        net.settle()
    assert (net[2].role, voter_ids(net[2])) == (Role.LEADER, [2])


def test_a_removed_member_does_not_disturb_the_others() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    net.isolate(3)
    leader.propose_config(change(ChangeKind.REMOVE, 3))
    net.settle()
    net.heal()
    assert 3 not in leader.progress
    term = leader.term
    for _ in range(5):
        net.beat(1)
        net.tick(3, net.options.election_ticks_max)
        net.settle()
    assert (leader.role, leader.term) == (Role.LEADER, term)


def test_fewer_voters_may_commit_what_more_could_not() -> None:
    net = Network(1, 2, 3, 4)
    leader = net.elect(1)
    net.isolate(4)
    leader.propose_config(change(ChangeKind.REMOVE, 4))
    net.settle()
    net.isolate(3)
    leader.propose(b"x")
    net.settle()
    assert leader.commit == leader.last_index


def test_learners_count_for_nothing_and_never_campaign() -> None:
    net = Network(1, 2)
    leader = net.elect(1)
    net.add(3)
    leader.propose_config(change(ChangeKind.ADD_LEARNER, 3))
    net.settle()
    net.isolate(2)
    leader.propose(b"x")
    net.settle()
    assert net[3].last_index == leader.last_index
    assert leader.commit < leader.last_index
    net.tick(3, 100)
    net[3].campaign()
    assert net[3].role is Role.FOLLOWER


def test_a_learner_that_is_asked_for_a_vote_gives_it() -> None:
    """Who asks holds it for a voter, and may be right: its promotion may not have reached it."""
    node = make_node(1, voters=(2, 3))
    node.step(RequestVote(1, 2, 5, last_index=1, last_term=1))
    assert of_kind(run_ready(node), VoteResponse)[0].granted


def test_nobody_campaigns_with_a_committed_change_unapplied() -> None:
    data = encode_change(change(ChangeKind.ADD_VOTER, 4))
    node = make_node(1)
    node.step(AppendEntries(1, 2, 2, 1, 1, 2, (Entry(2, 2, int(EntryKind.CONFIG), data),)))
    node.campaign()
    assert node.role is Role.FOLLOWER
    run_ready(node)
    node.campaign()
    assert {m.to for m in of_kind(run_ready(node), RequestVote)} == {2, 3, 4}


def test_a_restart_takes_a_change_with_a_successor_as_committed() -> None:
    """The commit index is not synced by itself, so it may be older than the log proves."""
    log = [
        Entry(1, 1, int(EntryKind.CONFIG), encode_change(change(ChangeKind.ADD_VOTER, 4))),
        Entry(1, 2, int(EntryKind.NORMAL), b"x"),
        Entry(1, 3, int(EntryKind.CONFIG), encode_change(change(ChangeKind.ADD_VOTER, 5))),
    ]
    start = RaftStart(HardState(1, 0, 0), SnapshotMeta(config=voters_config(1, 2, 3)), log)
    node = RaftNode(1, RaftOptions(), start, SeededJitter(1))
    assert node.commit == 1
    node.campaign()
    assert node.role is Role.FOLLOWER
    run_ready(node)
    assert voter_ids(node) == [1, 2, 3, 4]


def test_a_new_address_is_known_when_applied() -> None:
    net = Network(1, 2, 3)
    leader = net.elect(1)
    leader.propose_config(change(ChangeKind.UPDATE, 1, "elsewhere:1"))
    net.settle()
    assert net[2].leader_address == "elsewhere:1"


def test_a_new_voter_has_time_to_answer_before_the_quorum_is_checked() -> None:
    net = Network(1)
    leader = net.elect(1)
    leader.propose_config(change(ChangeKind.ADD_VOTER, 2))
    net.settle()
    roles = []
    for _ in range(2):
        net.tick(1, net.options.election_ticks_min)
        roles.append(leader.role)
    assert roles == [Role.LEADER, Role.FOLLOWER]


def test_heartbeats_go_to_learners_too() -> None:
    net = Network(1)
    leader = net.elect(1)
    net.add(2)
    leader.propose_config(change(ChangeKind.ADD_LEARNER, 2))
    net.settle()
    net.tick(1, net.options.heartbeat_ticks)
    assert [m.to for m in of_kind(leader.ready().send_now, RaftHeartbeat)] == [2]
