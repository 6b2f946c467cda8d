"""Which worker of a pool is next, by each placement."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import BlobRef, JobOptions
from rollq.grid.state import ClientRecord, GridState, PastRecord, QueuePolicy
from rollq.policy import placement
from rollq.policy.holdings import BlobHolders
from rollq.policy.placement import Preference
from rollq.policy.pools import DispatchSession, Pool
from rollq.policy.preferences import Preferences
from tests.unit.grid.kit import Grid

FILE = BlobRef(b"f" * 32, 1_000)
OTHER = BlobRef(b"o" * 32, 10)


class Candidates:
    """Sessions of one pool that has a queue, by name."""

    def __init__(self, preference: Preference | None = None) -> None:
        self.preference = preference
        self.sessions: dict[str, DispatchSession] = {}
        self.connected: dict[bytes, DispatchSession] = {}
        self.holdings = BlobHolders(self.connected)
        self.pool = Pool("job.assign.>", self.holdings)
        self.pool.start_serving()
        grid = Grid()
        grid.submit("x")
        self.job = grid.job("x")

    def set(self, name: str, credit: int, running: int = 0) -> DispatchSession:
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = DispatchSession(name.encode(), 1, name, 0)
            self.connected[name.encode()] = session
            self.pool.admit(session)
        session.credit, session.running = credit, running
        session.update_load()
        return session

    def pick(self, client: str = "ann") -> str:
        self.job.client = ClientRecord(client)
        return self.pool.pick(self.job, self.preference).name

    def spend(self, client: str = "ann") -> str:
        name = self.pick(client)
        session = self.sessions[name]
        self.set(name, session.credit - 1, session.running + 1)
        return name


def test_least_load_takes_the_most_credit_first() -> None:
    candidates = Candidates()
    candidates.set("a", 1)
    candidates.set("b", 3)
    candidates.set("c", 2)
    assert [candidates.spend() for _ in range(6)] == ["b", "c", "b", "a", "c", "b"]
    assert not candidates.pool.candidates.count


def test_least_load_takes_the_fewest_running_of_equal_credit() -> None:
    candidates = Candidates()
    candidates.set("busy", 2, running=5)
    candidates.set("idle", 2, running=1)
    assert candidates.pick() == "idle"
    candidates.set("idle", 2, running=6)
    assert candidates.pick() == "busy"


def test_least_load_takes_who_waited_longest_of_equals() -> None:
    candidates = Candidates()
    for name in "abc":
        candidates.set(name, 1)
    candidates.set("a", 1)  # no change: it keeps its place
    assert candidates.pick() == "a"
    candidates.set("a", 0)
    candidates.set("a", 1)
    assert [candidates.spend() for _ in range(3)] == ["b", "c", "a"]


def test_least_load_forgets_empty_buckets() -> None:
    candidates = Candidates()
    candidates.set("best", 9_999)
    for running in range(5_000):
        candidates.set("other", 1, running)
    assert len(candidates.pool.candidates._buckets) <= placement.SLACK_MIN + 8
    assert candidates.pick() == "best"


def test_round_robin_takes_turns_whatever_the_load() -> None:
    candidates = Candidates(Preference("round-robin"))
    candidates.set("a", 9)
    candidates.set("b", 1)
    candidates.set("c", 5, running=7)
    assert [candidates.pick() for _ in range(4)] == ["a", "b", "c", "a"]
    candidates.set("b", 0)
    candidates.set("b", 0)
    assert [candidates.pick() for _ in range(3)] == ["c", "a", "c"]


def test_sticky_stays_while_there_is_credit() -> None:
    candidates = Candidates(Preference("sticky"))
    candidates.set("a", 2)
    candidates.set("b", 2)
    assert candidates.spend("ann") == "a"
    assert candidates.spend("bob") == "b"
    assert candidates.spend("ann") == "a"
    assert candidates.spend("ann") == "b"  # a has no credit left
    assert not candidates.pool.candidates.count


def test_sticky_forgets_the_pair_used_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "STICKY_KEYS_MAX", 2)
    candidates = Candidates(Preference("sticky"))
    candidates.set("a", 4)
    candidates.set("b", 4)
    candidates.set("c", 4)
    homes = {client: candidates.spend(client) for client in ("ann", "bob")}
    assert candidates.spend("ann") == homes["ann"]
    candidates.spend("cid")  # bob's pair goes
    assert list(candidates.pool._homes) == [("ann", "exe"), ("cid", "exe")]


def test_sticky_follows_the_key_that_a_job_names() -> None:
    candidates = Candidates(Preference("sticky"))
    candidates.set("a", 5)
    candidates.set("b", 4)
    candidates.job.options = JobOptions(sticky_key="model-7")
    assert [candidates.spend(client) for client in ("ann", "bob", "cid")] == ["a", "a", "a"]
    candidates.job.options = JobOptions(sticky_key="model-8")
    assert candidates.spend("ann") == "b"


def test_locality_takes_whoever_holds_most_bytes() -> None:
    candidates = Candidates(Preference("locality"))
    for name in "abc":
        candidates.set(name, 5)
    candidates.job.past = PastRecord(blobs=(OTHER,))
    candidates.holdings.note(b"c", candidates.job)
    candidates.job.past = PastRecord(blobs=(FILE,))
    candidates.holdings.note(b"b", candidates.job)
    candidates.holdings.note(b"gone", candidates.job)
    candidates.job.past = PastRecord(blobs=(OTHER, FILE))
    assert candidates.pick() == "b"
    candidates.set("b", 0)  # nobody waits for it
    assert candidates.pick() == "c"
    candidates.set("c", 0)
    assert candidates.pick() == "a"


def test_of_equal_bytes_the_least_loaded_is_taken() -> None:
    candidates = Candidates(Preference("locality"))
    candidates.job.past = PastRecord(blobs=(FILE,))
    for name in "abc":
        candidates.set(name, 5 if name != "b" else 6)
        candidates.holdings.note(name.encode(), candidates.job)
    candidates.set("d", 9)
    assert candidates.pick() == "b"


def test_what_is_known_of_contents_is_bounded() -> None:
    candidates = Candidates()
    candidates.holdings = BlobHolders({}, blobs_max=3, holders_max=2)
    candidates.holdings.is_used = True
    for number in range(9):
        blob = BlobRef(bytes([number % 5]) * 32, 7)
        candidates.job.past = PastRecord(blobs=(blob,))
        for name in (b"a", b"b", b"c"):
            candidates.holdings.note(name, candidates.job)
    assert len(candidates.holdings._holders) == 3
    assert candidates.holdings.held_bytes(candidates.job) == {b"b": 7, b"c": 7}


@pytest.mark.parametrize(
    ("weight", "best"),
    [("credit", "a"), ("running", "b"), ("cpu", "c"), ("memory", "d"), ("held", "e")],
)
def test_a_score_takes_the_best_by_what_is_weighed(weight: str, best: str) -> None:
    candidates = Candidates(Preference("score", ((weight, 7),)))
    candidates.job.past = PastRecord(blobs=(FILE,))
    for name in "abcde":
        session = candidates.set(name, 90 if name == "a" else 1, 1 if name == "b" else 2)
        session.cpu_use = 100 if name == "c" else 700
        session.memory_use = 100 if name == "d" else 700
    candidates.holdings.note(b"e", candidates.job)
    assert [candidates.pick() for _ in range(3)] == [best] * 3


def test_a_score_of_nothing_weighs_all_alike() -> None:
    candidates = Candidates(Preference("score"))
    candidates.set("a", 1, 1)
    candidates.set("b", 1, 1).cpu_use = 10
    assert candidates.pick() == "a"


def test_a_score_compares_a_few_and_others_the_next_time() -> None:
    candidates = Candidates(Preference("score", (("cpu", 1),)))
    for number in range(3 * placement.COMPARED_MAX):
        candidates.set(f"w{number}", 1).cpu_use = 900 - number
    picked = [candidates.pick() for _ in range(3)]
    assert picked == [f"w{turn * placement.COMPARED_MAX - 1}" for turn in (1, 2, 3)]


@pytest.mark.parametrize("name", ["round-robin", "sticky", "locality", "score"])
def test_an_order_made_late_knows_everybody(name: str) -> None:
    candidates = Candidates()
    for worker in "abc":
        candidates.set(worker, 1)
    candidates.set("b", 0)
    candidates.preference = Preference(name)
    assert sorted(candidates.spend() for _ in range(2)) == ["a", "c"]
    assert not candidates.pool.candidates.count
    candidates.set("b", 1)
    assert candidates.pick() == "b"


def test_the_most_specific_pattern_counts() -> None:
    state = GridState()
    preferences = Preferences(state, "round-robin")
    assert preferences.of("gpu.train") == Preference("round-robin")
    for pattern, placed in (
        (">", "sticky"),
        ("gpu.>", "score"),
        ("*.train", "locality"),
        ("gpu.train.x", "least-load"),
    ):
        state.policies[pattern] = QueuePolicy(pattern, placed)
    preferences.reload()
    found = {name: preferences.of(name) for name in ("a", "gpu.train", "b.train", "gpu.train.x")}
    assert found == {
        "a": Preference("sticky"),
        "gpu.train": Preference("score"),
        "b.train": Preference("locality"),
        "gpu.train.x": None,
    }


def test_a_pattern_that_no_queue_can_match_is_no_harm() -> None:
    state = GridState()
    state.policies["a..b"] = QueuePolicy("a..b", "sticky")
    assert Preferences(state, "least-load").of("a") is None


def test_an_unknown_placement_is_refused_by_name() -> None:
    with pytest.raises(LocalError, match="no placement policy 'fastest'") as refused:
        Preferences(GridState(), "fastest")
    assert refused.value.code is ErrorCode.BAD_OPTIONS
