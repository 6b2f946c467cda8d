from __future__ import annotations

from typing import Any

from rollq.raft.ready import ReadReady
from rollq.roles.member.read_points import FIRST_REQUEST, ReadPoints


class Asked:
    """Consensus, as far as it is asked."""

    def __init__(self) -> None:
        self.requests: list[int] = []

    def read_index(self, request: int) -> None:
        self.requests.append(request)


def test_everybody_is_told_what_they_asked_for_and_once() -> None:
    raft: Any = Asked()
    points = ReadPoints()
    first: list[int] = []
    second: list[int] = []
    points.ask(raft, first.append)
    points.ask(raft, second.append)
    one, two = raft.requests
    assert FIRST_REQUEST < one < two
    points.ready([ReadReady(7, 3), ReadReady(two, 9)])
    assert (first, second) == ([], [9])
    points.ready([ReadReady(two, 10), ReadReady(one, 0)])
    assert (first, second) == ([0], [9])
