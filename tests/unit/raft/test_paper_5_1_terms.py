"""Raft paper §5.1: terms act as a logical clock."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import TERM_LEAP_MAX
from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    RaftHeartbeat,
    RaftHeartbeatResponse,
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
        RaftHeartbeat(1, 2, 5, 0),
        RaftHeartbeatResponse(1, 2, 5),
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


LEAPS: list[RaftMessage] = [
    RequestVote(1, 2, 2**63 - 1, 9, 9),
    RequestVote(1, 2, 2**63 - 1, 9, 9, transfer=True),
    AppendEntries(1, 2, TERM_LEAP_MAX + 6, 0, 0, 0),
    RaftHeartbeat(1, 2, 2**40, 0),
    VoteResponse(1, 2, 2**62, granted=False),
    AppendResponse(1, 2, 2**63 - 1, 0),
]


@pytest.mark.parametrize("message", LEAPS)
def test_a_leap_of_terms_changes_nothing_while_a_leader_is_heard(message: RaftMessage) -> None:
    follower, leader = make_node(), make_node()
    follower.step(RaftHeartbeat(1, 3, 5, 0))
    make_leader(leader)
    for node in (follower, leader):
        before = node.role, node.term, node.leader_id
        with pytest.raises(RemoteError) as caught:
            node.step(message)
        assert caught.value.code is ErrorCode.BAD_PAYLOAD
        assert (node.role, node.term, node.leader_id) == before


def test_the_largest_step_is_no_leap() -> None:
    node = make_node(term=5)
    node.step(RaftHeartbeat(1, 3, 5 + TERM_LEAP_MAX, 0))
    assert (node.term, node.leader_id) == (5 + TERM_LEAP_MAX, 3)


def test_a_member_that_is_far_behind_catches_up_by_bounded_steps() -> None:
    node = make_node(term=5)
    term = 5 + 2 * TERM_LEAP_MAX + 7
    behind: list[RaftMessage] = [
        RaftHeartbeat(1, 3, term, 0),
        VoteResponse(1, 3, term, granted=False, pre=True),
        RequestVote(1, 3, term, 9, 9),
    ]
    for count, message in enumerate(behind, 1):
        with pytest.raises(RemoteError):
            node.step(message)
        assert (node.term, node.vote) == (5 + count * (TERM_LEAP_MAX // 2), 0)
    node.step(RaftHeartbeat(1, 3, term, 0))
    assert (node.term, node.leader_id) == (term, 3)


def test_one_without_a_vote_whose_leader_is_gone_catches_up_too() -> None:
    node = make_node(term=5, voters=(2, 3))  # stands for no election, so it names no new leader
    node.step(RaftHeartbeat(1, 2, 5, 0))
    for _ in range(40):
        node.tick()
    term = 6 + TERM_LEAP_MAX
    with pytest.raises(RemoteError):
        node.step(RaftHeartbeat(1, 3, term, 0))
    node.step(RaftHeartbeat(1, 3, term, 0))
    assert (node.term, node.leader_id) == (term, 3)


def test_a_question_before_a_vote_moves_no_term_however_far_it_leaps() -> None:
    node = make_node(term=5)
    with pytest.raises(RemoteError):
        node.step(RequestVote(1, 2, 2**62, 9, 9, pre=True))
    assert node.term == 5


def test_only_messages_of_a_leader_name_it() -> None:
    node = make_node()
    node.step(AppendResponse(1, 2, 5, 0))
    assert node.leader_id == 0
    node.step(RaftHeartbeat(1, 3, 6, 0))
    assert node.leader_id == 3
    assert node.leader_address == "host3:5000"


def test_messages_of_an_older_term_change_nothing() -> None:
    node = make_node(1, 1, term=4)
    for message in (
        AppendEntries(1, 2, 3, 2, 1, 2),
        RaftHeartbeat(1, 2, 3, 2),
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
    node.step(RaftHeartbeat(1, 2, 3, 0))
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
    node.step(RaftHeartbeat(2, 3, 9, 0))
    node.step(RaftHeartbeat(1, 1, 9, 0))
    assert node.term == 0
