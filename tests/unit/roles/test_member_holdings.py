"""A worker whose hello counts what it holds: the leader opens it when all of that has come."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef
from rollq.base.limits import PING_MS, SESSION_QUIET_LOOKS_MAX
from rollq.grid.state import ASSIGNED
from rollq.wire import messages as wire
from tests.unit.roles.members import CLIENT, OURS, TICK_MS, Group, job, submit, worker

WORKER, AGAIN = 2, 3
FEATURES = (*OURS, "holdings")


@pytest.fixture
def group() -> Group:
    """A leader whose worker runs three jobs."""
    group = Group()
    group.elect()
    group.client(CLIENT)
    group.worker(WORKER, credit=3, features=FEATURES)
    for number in (1, 2, 3):
        group.say(CLIENT, submit(number))
    group.run(2)
    group.hear(WORKER)
    assert len(group.leader.state.workers[worker(WORKER)].held) == 3
    return group


def hello(count: int, **fields: Any) -> wire.HelloWorker:
    values = {"worker_id": worker(WORKER), "patterns": ("",), "features": FEATURES} | fields
    return wire.HelloWorker(plain=True, holding_count=count, **values)


def held(group: Group) -> tuple[AttemptRef, ...]:
    jobs = group.leader.state.jobs.values()
    return tuple(AttemptRef(one.job_id, one.attempt, one.fence) for one in jobs)


def test_a_worker_is_opened_when_all_that_its_hello_counts_has_come(group: Group) -> None:
    one, two, three = held(group)
    assert group.say(AGAIN, hello(3)) == []
    assert group.say(AGAIN, wire.Holdings((one, two))) == []
    group.run(4)
    assert not group.closed  # the older session goes on
    assert group.leader.leader_state.sessions.get(WORKER) is not None
    (welcome,) = group.say(AGAIN, wire.Holdings((three,)))
    assert isinstance(welcome, wire.Welcome)
    assert "holdings" in welcome.features
    assert welcome.owed == 0
    assert group.closed == {WORKER: "the worker opened another session"}
    jobs = group.leader.state.jobs
    assert [(jobs[job(n)].state, jobs[job(n)].attempt) for n in (1, 2, 3)] == [(ASSIGNED, 1)] * 3
    assert not group.leader.leader_state.sessions.greetings


def test_what_is_not_among_them_is_sent_again(group: Group) -> None:
    one, two, _ = held(group)
    group.say(AGAIN, hello(2))
    told = group.say(AGAIN, wire.Holdings((one, two)))
    assert [type(message) for message in told] == [wire.Welcome, wire.AssignJob]
    assert told[0].owed == 1


def test_a_worker_that_does_not_send_all_of_it_is_sent_away_and_loses_nothing(
    group: Group,
) -> None:
    group.say(AGAIN, hello(3))
    group.say(AGAIN, wire.Holdings(held(group)[:2]))
    group.run((SESSION_QUIET_LOOKS_MAX + 2) * PING_MS // TICK_MS)
    assert group.closed == {AGAIN: "the worker did not send all attempts that it counted"}
    jobs = group.leader.state.jobs
    assert [jobs[job(n)].state for n in (1, 2, 3)] == [ASSIGNED] * 3


@pytest.mark.parametrize(
    "told",
    [
        [wire.Holdings(())],
        [hello(1), wire.Credit(1)],
        [hello(1), hello(1)],
        [hello(1), wire.Holdings((AttemptRef(job(1), 1, 1), AttemptRef(job(2), 1, 2)))],
        [hello(1, patterns=("a b",)), wire.Holdings((AttemptRef(job(1), 1, 1),))],
    ],
)
def test_whoever_breaks_the_order_is_sent_away(group: Group, told: list[Any]) -> None:
    said = [answer for message in told for answer in group.say(AGAIN, message)]
    assert [type(answer) for answer in said] == [wire.Error]
    assert said[0].code in (ErrorCode.BAD_HANDSHAKE, ErrorCode.BAD_SUBJECT)
    assert list(group.closed) == [AGAIN]
    assert not group.leader.leader_state.sessions.greetings


def test_a_connection_that_ends_before_all_came_leaves_nothing(group: Group) -> None:
    group.say(AGAIN, hello(3))
    group.leader.session_closed(AGAIN)
    assert not group.leader.leader_state.sessions.greetings


def test_a_leader_that_is_deposed_redirects_whoever_is_not_opened_yet() -> None:
    group = Group("a", "b", "c")
    group.elect()
    group.say(AGAIN, hello(3))
    old = group.address_of(group.leader)
    group.isolated[old] = None
    group.elect()
    del group.isolated[old]
    group.run(40)
    assert group.heard(AGAIN, wire.NotLeader)
    assert AGAIN in group.closed
