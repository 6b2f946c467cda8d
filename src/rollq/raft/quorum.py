"""Majorities: the index that a set of voters agrees on, and the result of a vote.

Pure functions over plain values. Nothing here knows of logs, terms or messages.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Final

from rollq.base.ids import MemberId

# The index of a group without voters: it agrees on everything, vacuously.
INDEX_UNBOUNDED: Final = 2**64 - 1


class VoteResult(enum.IntEnum):
    """The state of a vote."""

    PENDING = 0
    LOST = 1
    WON = 2


def majority(size: int) -> int:
    """The smallest number of voters that any other such number must overlap."""
    return size // 2 + 1


def committed_index(voters: Collection[MemberId], match: Mapping[MemberId, int]) -> int:
    """The highest index that a majority of `voters` holds; a voter missing in `match` holds 0."""
    if not voters:
        return INDEX_UNBOUNDED
    held = sorted(match.get(voter, 0) for voter in voters)
    return held[len(held) - majority(len(held))]


def vote_result(voters: Collection[MemberId], votes: Mapping[MemberId, bool]) -> VoteResult:
    """The result of `votes` (granted or not, by voter); votes of non-voters do not count."""
    granted = missing = 0
    for voter in voters:
        vote = votes.get(voter)
        if vote is None:
            missing += 1
        elif vote:
            granted += 1
    # A group without voters wins every vote, as it agrees on every index.
    needed = majority(len(voters)) if voters else 0
    if granted >= needed:
        return VoteResult.WON
    return VoteResult.PENDING if granted + missing >= needed else VoteResult.LOST
