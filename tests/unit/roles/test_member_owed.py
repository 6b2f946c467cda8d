"""Results that are owed: pages for clients that come back, and the ways of legacy peers."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.ids import guid_to_text
from rollq.base.limits import OWED_RESULTS_PER_TURN_MAX
from rollq.grid.state import ASSIGNED, DELAYED
from rollq.roles.member.leader import clients, sessions
from rollq.wire import messages as wire
from tests.unit.roles.members import OURS, Group, job, submit

CLIENT, WORKER, REQUEST = 1, 2, b"r" * 16


def one_member() -> Group:
    group = Group()
    group.elect()
    group.client(CLIENT)
    return group


def finish(group: Group, count: int, first: int = 1, session: int = WORKER) -> None:
    """Let jobs be submitted, run and end."""
    numbers = range(first, first + count)
    group.say(CLIENT, *(submit(number) for number in numbers))
    group.worker(session, credit=count)
    state = group.leader.state
    group.say(
        session, *(wire.AckJob(job(n), 1, state.jobs[job(n)].fence, 0, b"%d" % n) for n in numbers)
    )


def test_results_that_were_not_confirmed_come_again_in_pages() -> None:
    group = one_member()
    count = OWED_RESULTS_PER_TURN_MAX + 50
    finish(group, count)
    group.hang_up(CLIENT)
    group.hear(CLIENT)
    group.tell(11, wire.HelloClient("ann", 0, OURS))
    work = group.leader.begin()
    assert work is None
    group.collect("a")
    first = group.heard(11, wire.Result)
    assert [one.job_id for one in first] == [job(n) for n in range(1, len(first) + 1)]
    assert len(first) == OWED_RESULTS_PER_TURN_MAX
    group.run()
    rest = group.heard(11, wire.Result)
    assert len(first) + len(rest) == count
    group.run()
    assert group.hear(11) == []


def test_a_client_that_does_not_read_is_sent_no_further_page_and_holds_up_nobody() -> None:
    group = one_member()
    finish(group, 2 * OWED_RESULTS_PER_TURN_MAX)
    group.hang_up(CLIENT)
    group.leader.leader_state.shell.has_room = lambda number: number != 11
    group.tell(11, wire.HelloClient("ann", 0, OURS))
    group.tell(12, wire.HelloClient("ann", 0, OURS))
    group.run(4)
    assert group.heard(11, wire.Result) == []
    assert len(group.heard(12, wire.Result)) == 2 * OWED_RESULTS_PER_TURN_MAX
    group.leader.leader_state.shell.has_room = lambda number: True
    group.run(4)
    assert len(group.heard(11, wire.Result)) == 2 * OWED_RESULTS_PER_TURN_MAX


def test_clients_that_are_owed_much_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "OWED_BYTES_PER_TURN_MAX", 1)
    group = one_member()
    finish(group, 2 * OWED_RESULTS_PER_TURN_MAX)
    group.hang_up(CLIENT)
    group.tell(11, wire.HelloClient("ann", 0, OURS))
    group.tell(12, wire.HelloClient("ann", 0, OURS))
    counts = []
    for _ in range(4):
        assert group.leader.begin() is None
        group.collect("a")
        counts.append([len(group.heard(session, wire.Result)) for session in (11, 12)])
    page = OWED_RESULTS_PER_TURN_MAX
    assert counts == [[page, 0], [0, page], [page, 0], [0, page]]


def test_a_result_that_comes_while_pages_are_sent_is_sent_once_and_in_its_place() -> None:
    group = one_member()
    count = 4 * OWED_RESULTS_PER_TURN_MAX + 1
    finish(group, count)
    group.say(CLIENT, submit(2_000))
    group.hang_up(CLIENT)
    told = group.say(11, wire.HelloClient("ann", 0, OURS))
    told += group.say(11, wire.Cancel(REQUEST, (job(2_000),)))
    group.run(3)
    told += group.hear(11)
    ids = [one.job_id for one in told if isinstance(one, wire.Result)]
    assert ids == [job(number) for number in (*range(1, count + 1), 2_000)]


def test_what_is_asked_for_again_while_pages_are_sent_does_not_wait_for_a_page() -> None:
    group = one_member()
    finish(group, 3 * OWED_RESULTS_PER_TURN_MAX)
    group.say(CLIENT, wire.Confirm((job(2),)))
    group.hang_up(CLIENT)
    group.leader.leader_state.shell.has_room = lambda number: False
    group.say(11, wire.HelloClient("ann", 0, OURS))
    assert [one.job_id for one in results(group.say(11, submit(2), submit(3)))] == [job(2)]
    group.leader.leader_state.shell.has_room = lambda number: True
    assert group.leader.begin() is None
    group.collect("a")
    sent = [one.job_id for one in group.heard(11, wire.Result)]
    assert sent[:2] == [job(1), job(3)]
    group.leader.leader_state.shell.has_room = lambda number: False
    assert [one.job_id for one in results(group.say(11, submit(3)))] == [job(3)]


def results(told: list[wire.MemberMessage]) -> list[wire.Result]:
    return [one for one in told if isinstance(one, wire.Result)]


def test_confirmed_results_are_owed_no_more() -> None:
    group = one_member()
    finish(group, 3)
    group.say(CLIENT, wire.Confirm((job(1), job(3))))
    group.hang_up(CLIENT)
    told = group.say(11, wire.HelloClient("ann", 0, OURS))
    assert [one.job_id for one in told if isinstance(one, wire.Result)] == [job(2)]


def test_every_session_of_a_client_is_told_its_results() -> None:
    group = one_member()
    group.client(11)
    finish(group, 1)
    for session in (CLIENT, 11):
        assert [one.job_id for one in group.heard(session, wire.Result)] == [job(1)]


def test_sessions_that_share_an_id_are_told_what_they_asked_for() -> None:
    group = one_member()
    group.hang_up(CLIENT)
    for session in (11, 12, 13):
        group.client(session, features=(*OURS, "own"))
    group.say(11, submit(1), submit(2))
    group.say(12, submit(2), submit(3))
    group.hang_up(13)
    group.worker(WORKER, credit=4)
    jobs = group.leader.state.jobs
    acks = (wire.AckJob(job(n), 1, jobs[job(n)].fence) for n in (1, 2, 3))
    group.say(WORKER, *acks)
    assert [one.job_id for one in group.heard(11, wire.Result)] == [job(1), job(2)]
    assert [one.job_id for one in group.heard(12, wire.Result)] == [job(2), job(3)]
    # Whoever asks for it once more is told once more, and one that wants all of them too.
    group.client(CLIENT)
    group.hear(CLIENT)
    assert [one.job_id for one in results(group.say(11, submit(3)))] == [job(3)]
    assert group.heard(12, wire.Result) == []
    assert [one.job_id for one in group.heard(CLIENT, wire.Result)] == [job(3)]
    # Those who asked are gone: all are told.
    group.say(11, submit(4))
    group.hang_up(11)
    group.say(WORKER, wire.AckJob(job(4), 1, jobs[job(4)].fence))
    assert [one.job_id for one in group.heard(12, wire.Result)] == [job(4)]


def test_nobody_is_told_the_results_of_another_client() -> None:
    group = one_member()
    group.hang_up(CLIENT)
    group.client(11, features=(*OURS, "own"))
    group.client(12, name="bob", features=(*OURS, "own"))
    group.say(11, submit(1))
    (refused,) = group.say(12, submit(1, client_id="bob"))
    assert refused.code == ErrorCode.JOB_CONFLICT
    group.say(12, wire.Cancel(job(1), (job(9),)))  # a request may have any id
    group.worker(WORKER, credit=1)
    group.say(WORKER, wire.AckJob(job(1), 1, group.leader.state.jobs[job(1)].fence))
    assert group.heard(12, wire.Result) == []
    assert [one.job_id for one in group.heard(11, wire.Result)] == [job(1)]


def test_what_sessions_asked_for_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CLIENT_ASKED_MAX", 2)
    group = one_member()
    group.client(11, features=(*OURS, "own"))
    group.say(11, *(submit(n) for n in range(1, 6)))
    assert list(group.leader.leader_state.sessions.get(11).asked) == [job(4), job(5)]  # type: ignore[union-attr]


def test_a_result_says_who_gave_it() -> None:
    group = one_member()
    finish(group, 1)
    (told,) = group.heard(CLIENT, wire.Result)
    worker_id = group.leader.state.jobs[job(1)].worker_id
    assert told.worker == guid_to_text(worker_id)
    group.leader.state.workers[worker_id].name = "blue"
    (told,) = results(group.say(CLIENT, submit(1)))
    assert told.worker == "blue"
    (told,) = results(group.say(CLIENT, submit(2), wire.Cancel(REQUEST, (job(2),))))
    assert told.worker == ""


def test_a_job_that_has_ended_is_known_as_such() -> None:
    group = one_member()
    finish(group, 1)
    group.hear(CLIENT)
    told = group.say(CLIENT, submit(1))
    assert wire.Accepted(job(1), known=True, ended=True) in told


def test_a_client_that_declares_another_cap_changes_it() -> None:
    group = one_member()
    group.say(11, wire.HelloClient("ann", 2))
    group.say(12, wire.HelloClient("bob", -5))
    clients = group.leader.state.clients
    assert (clients["ann"].cap, clients["bob"].cap) == (2, 0)
    index = group.leader.state.applied_index
    group.say(13, wire.HelloClient("bob"))
    assert group.leader.state.applied_index == index


# --- legacy peers


def test_a_legacy_client_confirms_by_being_sent_its_result() -> None:
    group = one_member()
    group.hang_up(CLIENT)
    group.client(CLIENT, features=())
    finish(group, 2)
    assert [one.job_id for one in group.heard(CLIENT, wire.Result)] == [job(1), job(2)]
    group.settle()
    assert not list(group.leader.state.clients["ann"].owed.items())
    group.hang_up(CLIENT)
    told = group.say(11, wire.HelloClient("ann"))
    assert [type(one) for one in told] == [wire.Welcome]


def test_a_legacy_worker_acks_the_job_alone() -> None:
    group = one_member()
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1, features=())
    assert group.say(WORKER, wire.AckJob(job(1), result=b"out")) == [wire.AckTaken(job(1), 1)]
    assert [one.result for one in group.heard(CLIENT, wire.Result)] == [b"out"]


def test_a_legacy_worker_may_not_ack_what_it_was_not_sent() -> None:
    group = one_member()
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1, features=())
    group.worker(3, features=())
    (error,) = group.say(3, wire.AckJob(job(1), result=b"mine"))
    assert (error.request_id, error.code) == (job(1), ErrorCode.UNKNOWN_JOB)
    assert 3 not in group.closed
    assert group.leader.state.jobs[job(1)].state is ASSIGNED


def test_a_second_ack_of_the_same_job_is_refused_by_name() -> None:
    group = one_member()
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1, features=())
    group.say(WORKER, wire.AckJob(job(1), result=b"out"))
    (error,) = group.say(WORKER, wire.AckJob(job(1), result=b"again"))
    assert error.code == ErrorCode.UNKNOWN_JOB


def test_the_attempts_of_a_legacy_worker_are_lost_with_its_connection() -> None:
    group = one_member()
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1, features=())
    group.hang_up(WORKER)
    assert group.leader.state.jobs[job(1)].state is DELAYED
    assert not group.leader.state.workers
