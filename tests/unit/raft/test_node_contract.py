"""The order of calls on a RaftNode, and what its options and start may be."""

from __future__ import annotations

import pytest

from rollq.base.errors import LocalError
from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.types import AppendEntries, HardState, RaftHeartbeat, Role
from tests.unit.raft.helpers import drain, entries_of, make_leader, make_node, run_ready
from tests.unit.raft.network import SeededJitter, bootstrap


def test_a_ready_must_be_advanced_before_the_next() -> None:
    node = make_node()
    node.campaign()
    ready = node.ready()
    assert not node.has_ready()
    with pytest.raises(LocalError):
        node.ready()
    node.advance(ready)
    with pytest.raises(LocalError):
        node.advance(ready)


def test_readies_are_numbered_and_say_only_what_changed() -> None:
    node = make_node(voters=(1,))
    node.campaign()
    readies = drain(node)
    assert [r.number for r in readies] == list(range(1, len(readies) + 1))
    assert [r.role for r in readies if r.role is not None] == [Role.CANDIDATE, Role.LEADER]
    assert readies[-1].leader_id is None
    assert not node.has_ready()


def test_a_commit_alone_needs_no_sync() -> None:
    node = make_node(1, 1)
    node.step(RaftHeartbeat(1, 2, 1, 0))
    run_ready(node)
    node.step(RaftHeartbeat(1, 2, 1, 2))
    ready = node.ready()
    assert ready.hard_state == HardState(1, 0, 2)
    assert not ready.must_sync


def test_promises_wait_for_the_disk() -> None:
    node = make_node(1)
    node.step(AppendEntries(1, 2, 1, 1, 1, 0, tuple(entries_of(1, first=2))))
    ready = node.ready()
    assert (len(ready.entries), ready.send_now, len(ready.send_after_persist)) == (1, [], 1)


def test_inputs_are_taken_while_a_ready_is_out() -> None:
    node = make_node(voters=(1,))
    make_leader(node, voters=())
    node.propose(b"a")
    ready = node.ready()
    node.propose(b"b")
    node.advance(ready)
    assert node.commit == 2
    assert [e.data for e in node.ready().entries] == [b"b"]


@pytest.mark.parametrize(
    "options",
    [
        RaftOptions(election_ticks_min=10, election_ticks_max=10),
        RaftOptions(heartbeat_ticks=10),
        RaftOptions(heartbeat_ticks=0),
        RaftOptions(inflight_appends_max=0),
        RaftOptions(snapshot_chunk_bytes_max=0),
    ],
)
def test_options_under_which_nothing_works_are_refused(options: RaftOptions) -> None:
    with pytest.raises(LocalError):
        RaftNode(1, options, bootstrap(1), SeededJitter(1))


def test_member_zero_is_nobody() -> None:
    with pytest.raises(LocalError):
        RaftNode(0, RaftOptions(), RaftStart(), SeededJitter(1))


def test_entries_newer_than_the_hard_state_bring_their_term_without_a_vote() -> None:
    start = RaftStart(hard_state=HardState(term=2, vote=3), entries=entries_of(2, 4))
    node = RaftNode(1, RaftOptions(), start, SeededJitter(1))
    assert (node.term, node.vote) == (4, 0)
    assert node.ready().hard_state == HardState(4, 0, 0)


def test_a_newcomer_waits_to_be_told() -> None:
    node = RaftNode(9, RaftOptions(), RaftStart(), SeededJitter(1))
    for _ in range(100):
        node.tick()
    assert not node.has_ready()
    assert (node.member_id, node.role, node.leader_address) == (9, Role.FOLLOWER, "")
