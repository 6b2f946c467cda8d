"""The tables of who is connected."""

from __future__ import annotations

from rollq.roles.member.leader.addressing import WorkerNames
from rollq.roles.member.leader.sessions import ClientSession, Sessions, WorkerSession


def client(number: int, client_id: str = "ann") -> ClientSession:
    return ClientSession(number, client_id, confirms=True)


def worker(number: int, worker_id: bytes = b"w" * 16) -> WorkerSession:
    return WorkerSession(number, worker_id, 1, "", (), ())


def test_several_sessions_may_share_a_client_id() -> None:
    sessions = Sessions()
    sessions.add_client(client(1))
    sessions.add_client(client(2))
    sessions.add_client(client(3, "bob"))
    assert [one.number for one in sessions.clients("ann")] == [1, 2]
    sessions.remove(1)
    assert [one.number for one in sessions.clients("ann")] == [2]
    sessions.remove(2)
    assert not sessions.clients("ann")
    assert sessions.numbers() == [3]


def test_a_worker_has_one_session_and_the_newer_one_counts() -> None:
    sessions = Sessions()
    first, second = worker(1), worker(2)
    assert sessions.add_worker(first) is None
    assert sessions.add_worker(second) is first
    assert sessions.remove(1) is None
    assert sessions.worker(b"w" * 16) is second
    assert sessions.remove(2) is second
    assert sessions.worker(b"w" * 16) is None


def test_a_session_that_goes_is_owed_nothing() -> None:
    sessions = Sessions()
    one = client(1)
    sessions.add_client(one)
    sessions.owing[1] = one
    sessions.remove(1)
    assert not sessions.owing


def test_everybody_is_named_when_all_are_sent_away() -> None:
    sessions = Sessions()
    sessions.add_client(client(1))
    sessions.add_worker(worker(2))
    sessions.owing[1] = client(1)
    assert sessions.clear() == [1, 2]
    assert sessions.numbers() == []
    assert sessions.get(1) is None
    assert sessions.worker(b"w" * 16) is None
    assert not sessions.owing


def test_only_a_worker_that_offered_leases_renews_them() -> None:
    assert not worker(1).renews
    assert WorkerSession(1, b"w" * 16, 1, "", (), ("lease",)).renews


def test_a_name_is_taken_while_any_worker_has_it() -> None:
    names = WorkerNames()
    names.set(b"1", "Blue")
    names.set(b"2", "blue")
    assert "BLUE" in names
    names.set(b"1", "red")
    assert "blue" in names
    names.set(b"2", "")
    assert "blue" not in names
    assert "red" in names


def test_a_worker_without_a_name_takes_none() -> None:
    names = WorkerNames()
    names.set(b"1", "")
    assert "" not in names
