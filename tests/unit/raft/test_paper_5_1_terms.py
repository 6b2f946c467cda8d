"""Raft paper §5.1: terms act as a logical clock."""

from __future__ import annotations

import pytest

from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallSnapshot,
    RaftMessage,
    RequestVote,
    Role,
    SnapshotMeta,
    VoteResponse,
)
from tests.unit.raft.helpers import make_leader, make_node, of_kind, run_ready


@pytest.mark.parametrize(
    "message",
    [
        AppendEntries(1, 2, 5, 0, 0, 0),
        AppendResponse(1, 2, 5, 0),
        Heartbeat(1, 2, 5, 0),
        HeartbeatResponse(1, 2, 5),
        VoteResponse(1, 2, 5, granted=False),
        VoteResponse(1, 2, 5, granted=False, pre=True),
        InstallSnapshot(1, 2, 5, SnapshotMeta(index=9, term=5, size_bytes=1), 0, 1, b"x"),
    ],
)
@pytest.mark.parametrize("role", list(Role))
def test_a_newer_term_makes_anybody_a_follower(message: RaftMessage, role: Role) -> None:
    node = make_node()
    if role is Role.LEADER:
        make_leader(node)
    elif role is not Role.FOLLOWER:
        node.campaign()
        if role is Role.CANDIDATE:
            node.step(VoteResponse(1, 2, 1, granted=True, pre=True))
    assert node.role is role
    node.step(message)
    assert (node.role, node.term, node.vote) == (Role.FOLLOWER, 5, 0)


def test_only_messages_of_a_leader_name_it() -> None:
    node = make_node()
    node.step(AppendResponse(1, 2, 5, 0))
    assert node.leader_id == 0
    node.step(Heartbeat(1, 3, 6, 0))
    assert node.leader_id == 3
    assert node.leader_address == "host3:5000"


def test_messages_of_an_older_term_change_nothing() -> None:
    node = make_node(1, 1, term=4)
    for message in (
        AppendEntries(1, 2, 3, 2, 1, 2),
        Heartbeat(1, 2, 3, 2),
        RequestVote(1, 2, 3, last_index=9, last_term=3),
        VoteResponse(1, 2, 3, granted=True),
    ):
        node.step(message)
    assert (node.role, node.term, node.leader_id, node.vote, node.commit) == (
        Role.FOLLOWER,
        4,
        0,
        0,
        0,
    )


def test_an_old_leader_is_told_the_newer_term() -> None:
    node = make_node(term=4)
    node.step(Heartbeat(1, 2, 3, 0))
    assert of_kind(run_ready(node), AppendResponse) == [AppendResponse(2, 1, 4, 0)]


def test_term_and_vote_are_persisted_before_the_answer_leaves() -> None:
    node = make_node()
    node.step(RequestVote(1, 2, 7, last_index=0, last_term=0))
    ready = node.ready()
    assert ready.must_sync
    assert ready.hard_state is not None
    assert (ready.hard_state.term, ready.hard_state.vote) == (7, 2)
    assert ready.send_now == []
    assert ready.send_after_persist == [VoteResponse(2, 1, 7, granted=True)]


def test_messages_for_others_and_from_ourselves_are_ignored() -> None:
    node = make_node()
    node.step(Heartbeat(2, 3, 9, 0))
    node.step(Heartbeat(1, 1, 9, 0))
    assert node.term == 0
