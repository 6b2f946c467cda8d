"""Raft paper §5.4.1: only a log that holds everything committed may win; and suspect logs."""

from __future__ import annotations

import pytest

from rollq.raft.types import (
    AppendEntries,
    Position,
    RaftHeartbeat,
    RequestVote,
    Role,
    TimeoutNow,
    VoteResponse,
)
from tests.unit.raft.helpers import entries_of, make_node, of_kind, run_ready
from tests.unit.raft.network import Network


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize(
    ("last_term", "last_index", "granted"),
    [
        (2, 3, True),  # the same
        (2, 4, True),  # longer
        (3, 1, True),  # shorter, of a later term
        (2, 2, False),  # shorter
        (1, 9, False),  # longer, of an earlier term
        (0, 0, False),
    ],
)
def test_a_vote_goes_to_no_older_log(
    pre: bool, last_term: int, last_index: int, granted: bool
) -> None:
    node = make_node(1, 2, 2)
    node.step(RequestVote(1, 2, 9, last_index=last_index, last_term=last_term, pre=pre))
    (answer,) = of_kind(run_ready(node), VoteResponse)
    assert (answer.granted, answer.pre) == (granted, pre)


def test_a_member_without_a_committed_entry_is_not_elected() -> None:
    net = Network(1, 2, 3)
    net.elect(1)
    net.isolate(3)
    net[1].propose(b"x")
    net.settle()
    net.isolate(1)
    net.cut -= {(2, 3), (3, 2)}
    for member_id in (2, 3):
        net.tick(member_id, net.options.election_ticks_min)
    net[3].campaign()
    net.settle(2, 3)
    assert net[3].role is not Role.LEADER
    net[2].campaign()
    net.settle(2, 3)
    assert net[2].role is Role.LEADER
    assert net.logs()[3] == net.logs()[2]


def test_a_refusal_tells_the_candidate_what_is_committed() -> None:
    voter = make_node(1, 1, 2, commit=2)
    voter.step(RequestVote(1, 2, 9, last_index=2, last_term=1))
    (refusal,) = of_kind(run_ready(voter), VoteResponse)
    assert (refusal.granted, refusal.commit, refusal.commit_term) == (False, 2, 1)
    candidate = make_node(1, 1)
    candidate.campaign()
    candidate.step(VoteResponse(1, 2, 1, granted=False, pre=True, commit=2, commit_term=1))
    assert candidate.commit == 2
    other = make_node(1, 3)
    other.campaign()
    other.step(VoteResponse(1, 2, 3, granted=False, pre=True, commit=2, commit_term=1))
    assert other.commit == 0  # not the same entry


SUSPECT = Position(term=2, index=5)


def test_a_suspect_log_stands_for_no_election() -> None:
    node = make_node(1, 1, term=2, suspect=SUSPECT)
    for _ in range(100):
        node.tick()
    node.campaign()
    node.step(TimeoutNow(1, 2, 2))
    assert (node.role, node.term) == (Role.FOLLOWER, 2)


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize(
    ("last_term", "last_index", "granted"),
    [(1, 9, False), (2, 4, False), (2, 5, True), (3, 3, True)],
)
def test_a_suspect_log_votes_only_for_one_that_reaches_what_it_lost(
    pre: bool, last_term: int, last_index: int, granted: bool
) -> None:
    node = make_node(1, 1, term=2, suspect=SUSPECT)
    node.step(RequestVote(1, 2, 9, last_index=last_index, last_term=last_term, pre=pre))
    (answer,) = of_kind(run_ready(node), VoteResponse)
    assert answer.granted is granted


def test_a_suspect_log_learns_no_commit_from_heartbeats() -> None:
    for suspect, commit in ((SUSPECT, 0), (None, 1)):
        node = make_node(1, 1, term=2, suspect=suspect)
        node.step(RaftHeartbeat(1, 2, 2, commit=1))
        assert node.commit == commit


def test_a_log_is_whole_again_when_a_leaders_entries_are_on_disk() -> None:
    node = make_node(1, 1, term=2, suspect=SUSPECT)
    node.step(AppendEntries(1, 2, 2, 2, 1, 0, tuple(entries_of(2, 2, first=3))))
    run_ready(node)
    node.step(AppendEntries(1, 2, 2, 4, 2, 0, tuple(entries_of(2, first=5))))
    ready = node.ready()
    written = node.suspect is None
    node.advance(ready)
    assert not written
    assert node.suspect is None
    node.campaign()
    assert node.role is Role.PRE_CANDIDATE


def test_a_newer_term_heals_a_suspect_log_too() -> None:
    node = make_node(1, 1, term=2, suspect=SUSPECT)
    node.step(AppendEntries(1, 2, 3, 2, 1, 0, tuple(entries_of(3, first=3))))
    run_ready(node)
    assert node.suspect is None
