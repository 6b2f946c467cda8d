"""Majorities against a naive twin that tries every index and every way the vote could end."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from rollq.raft.quorum import INDEX_UNBOUNDED, VoteResult, committed_index, vote_result

voter_sets = st.lists(st.integers(1, 9), unique=True, max_size=7)
matches = st.dictionaries(st.integers(1, 9), st.integers(0, 20))
ballots = st.dictionaries(st.integers(1, 9), st.booleans())


def naive_committed(voters: list[int], match: dict[int, int]) -> int:
    if not voters:
        return INDEX_UNBOUNDED
    return max(
        index
        for index in range(21)
        if 2 * sum(match.get(voter, 0) >= index for voter in voters) > len(voters)
    )


def naive_vote(voters: list[int], votes: dict[int, bool]) -> VoteResult:
    """Let everybody who is silent answer in every way."""
    if not voters:
        return VoteResult.WON
    silent = [voter for voter in voters if voter not in votes]
    endings = set()
    for answers in product((False, True), repeat=len(silent)):
        final = {**votes, **dict(zip(silent, answers, strict=True))}
        endings.add(2 * sum(final[voter] for voter in voters) > len(voters))
    if len(endings) == 2:
        return VoteResult.PENDING
    return VoteResult.WON if endings == {True} else VoteResult.LOST


@given(voter_sets, matches)
def test_committed_index_equals_its_naive_twin(voters: list[int], match: dict[int, int]) -> None:
    assert committed_index(voters, match) == naive_committed(voters, match)


@given(voter_sets, ballots)
def test_vote_result_equals_its_naive_twin(voters: list[int], votes: dict[int, bool]) -> None:
    assert vote_result(voters, votes) is naive_vote(voters, votes)


@given(voter_sets, matches, st.integers(1, 9))
def test_majorities_of_neighbouring_configurations_overlap(
    voters: list[int], match: dict[int, int], changed: int
) -> None:
    """One voter more or fewer: nobody can be elected without somebody who holds what committed."""
    other = [v for v in voters if v != changed] if changed in voters else [*voters, changed]
    if not voters or not other:
        return
    index = committed_index(voters, match)
    refusing = {voter: match.get(voter, 0) < index for voter in other}
    if index:
        assert vote_result(other, refusing) is not VoteResult.WON
