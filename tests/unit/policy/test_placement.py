from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.grid.state import ClientRecord
from rollq.policy import placement
from rollq.policy.placement import LeastLoad, Placement, RoundRobin, Sticky, make_placement
from rollq.policy.pools import DispatchSession, Pool
from tests.unit.grid.kit import Grid


class Candidates:
    """Sessions of one pool that has a queue, by name."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.pool = Pool("job.assign.>", placement)
        self.pool.start_serving()
        self.sessions: dict[str, DispatchSession] = {}
        grid = Grid()
        grid.submit("x")
        self.job = grid.job("x")

    def set(self, name: str, credit: int, running: int = 0) -> None:
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = DispatchSession(name.encode(), 1, name, 0)
            self.pool.admit(session)
        session.credit, session.running = credit, running
        session.update_load()

    def pick(self, client: str = "ann") -> str:
        self.job.client = ClientRecord(client)
        return self.placement.pick(self.job).name

    def spend(self, client: str = "ann") -> str:
        name = self.pick(client)
        session = self.sessions[name]
        self.set(name, session.credit - 1, session.running + 1)
        return name


def test_least_load_takes_the_most_credit_first() -> None:
    candidates = Candidates(LeastLoad())
    candidates.set("a", 1)
    candidates.set("b", 3)
    candidates.set("c", 2)
    assert [candidates.spend() for _ in range(6)] == ["b", "c", "b", "a", "c", "b"]
    assert not candidates.placement.count


def test_least_load_takes_the_fewest_running_of_equal_credit() -> None:
    candidates = Candidates(LeastLoad())
    candidates.set("busy", 2, running=5)
    candidates.set("idle", 2, running=1)
    assert candidates.pick() == "idle"
    candidates.set("idle", 2, running=6)
    assert candidates.pick() == "busy"


def test_least_load_takes_who_waited_longest_of_equals() -> None:
    candidates = Candidates(LeastLoad())
    for name in "abc":
        candidates.set(name, 1)
    candidates.set("a", 1)  # no change: it keeps its place
    assert candidates.pick() == "a"
    candidates.set("a", 0)
    candidates.set("a", 1)
    assert [candidates.spend() for _ in range(3)] == ["b", "c", "a"]


def test_least_load_forgets_empty_buckets() -> None:
    candidates = Candidates(LeastLoad())
    candidates.set("best", 9_999)
    for running in range(5_000):
        candidates.set("other", 1, running)
    least = candidates.placement
    assert isinstance(least, LeastLoad)
    assert len(least._buckets) <= placement.SLACK_MIN + 8
    assert candidates.pick() == "best"


def test_round_robin_takes_turns_whatever_the_load() -> None:
    candidates = Candidates(RoundRobin())
    candidates.set("a", 9)
    candidates.set("b", 1)
    candidates.set("c", 5, running=7)
    assert [candidates.pick() for _ in range(4)] == ["a", "b", "c", "a"]
    candidates.set("b", 0)
    candidates.set("b", 0)
    assert [candidates.pick() for _ in range(3)] == ["c", "a", "c"]


def test_sticky_stays_while_there_is_credit() -> None:
    candidates = Candidates(Sticky())
    candidates.set("a", 2)
    candidates.set("b", 2)
    assert candidates.spend("ann") == "a"
    assert candidates.spend("bob") == "b"
    assert candidates.spend("ann") == "a"
    assert candidates.spend("ann") == "b"  # a has no credit left
    assert not candidates.placement.count


def test_sticky_forgets_the_pair_used_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "STICKY_PAIRS_MAX", 2)
    candidates = Candidates(Sticky())
    candidates.set("a", 4)
    candidates.set("b", 4)
    candidates.set("c", 4)
    homes = {client: candidates.spend(client) for client in ("ann", "bob")}
    assert candidates.spend("ann") == homes["ann"]
    candidates.spend("cid")  # bob's pair goes
    sticky = candidates.placement
    assert isinstance(sticky, Sticky)
    assert [client for client, _ in sticky._homes] == ["ann", "cid"]


def test_an_unknown_policy_is_refused_by_name() -> None:
    with pytest.raises(LocalError, match="no placement policy 'fastest'") as refused:
        make_placement("fastest")
    assert refused.value.code is ErrorCode.BAD_OPTIONS
