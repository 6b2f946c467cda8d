"""Who is there: pings, workers that fall silent, and what the leader's log says of all that."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.ids import guid_to_text
from rollq.base.jobs import AttemptRef
from rollq.base.limits import PING_MS, SESSION_QUIET_LOOKS_MAX
from rollq.grid.state import ASSIGNED, QUEUED
from rollq.roles.member.leader.job_log import LINES_MAX as JOB_LINES_MAX
from rollq.roles.member.leader.session_log import LINES_MAX
from rollq.wire import messages as wire
from tests.unit.roles.members import OURS, TICK_MS, Group, job, submit, worker

CLIENT, WORKER = 1, 2


@pytest.fixture
def group() -> Group:
    """One member that leads, with a client."""
    made = Group()
    made.elect()
    made.client(CLIENT)
    return made


def test_a_ping_is_answered_by_the_leader(group: Group) -> None:
    group.worker(WORKER)
    assert group.say(WORKER, wire.Ping()) == [wire.Pong()]
    assert group.say(CLIENT, wire.Ping()) == [wire.Pong()]


def test_only_those_who_know_pings_are_told_when_to_ping(group: Group) -> None:
    (told,) = group.say(7, wire.HelloClient("bob", 0, ("compact", "alive")))
    assert told.ping_ms == PING_MS
    (told,) = group.say(8, wire.HelloClient("eve", 0, ("compact",)))
    assert told.ping_ms == 0


def test_a_worker_that_pings_and_falls_silent_gets_no_more_work_and_keeps_what_it_runs(
    group: Group,
) -> None:
    group.say(CLIENT, submit(1))
    hello = wire.HelloWorker(worker(WORKER), ("",), slots=2, features=(*OURS, "alive"))
    group.say(WORKER, hello)
    group.say(WORKER, wire.Credit(2))
    ticks = PING_MS // TICK_MS
    for _ in range(2 * SESSION_QUIET_LOOKS_MAX):
        group.run(ticks)
        group.say(WORKER, wire.Ping())
    assert WORKER not in group.closed
    group.run((SESSION_QUIET_LOOKS_MAX + 2) * ticks)
    assert group.closed == {WORKER: "the worker is silent"}
    group.say(CLIENT, submit(2))
    jobs = group.leader.state.jobs
    assert (jobs[job(1)].state, jobs[job(2)].state) == (ASSIGNED, QUEUED)
    settings = group.leader.state.settings
    group.run(settings.worker_grace_ms // TICK_MS + ticks)  # longer than a closed link is given
    assert jobs[job(1)].state is ASSIGNED
    group.run(settings.lease_ms // TICK_MS)
    assert group.leader.state.jobs[job(1)].state is not ASSIGNED


def test_a_worker_that_leaves_because_it_hears_nothing_keeps_what_it_runs(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=2, features=(*OURS, "alive", "returns"))
    group.say(WORKER, wire.Goodbye("the member is silent", returns=True))
    assert group.closed == {WORKER: "goodbye: the member is silent"}
    group.say(CLIENT, submit(2))
    jobs = group.leader.state.jobs
    settings = group.leader.state.settings
    group.run(settings.worker_grace_ms // TICK_MS + 4)  # longer than a closed link is given
    assert (jobs[job(1)].state, jobs[job(2)].state) == (ASSIGNED, QUEUED)
    ref = AttemptRef(job(1), 1, 1)
    group.worker(3, worker_id=worker(WORKER), holding=(ref,), features=OURS)
    assert group.say(3, wire.AckJob(job(1), 1, 1, 0, b"done")) == [wire.AckTaken(job(1), 1)]
    assert [one.attempt for one in group.heard(CLIENT, wire.Result)] == [1]


def test_a_worker_that_hears_nothing_and_does_not_come_back_loses_what_it_runs(
    group: Group,
) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1, features=(*OURS, "alive", "returns"))
    group.say(WORKER, wire.Goodbye("the member is silent", returns=True))
    group.run(group.leader.state.settings.lease_ms // TICK_MS + 4)
    assert group.leader.state.jobs[job(1)].state is not ASSIGNED
    assert not group.leader.state.workers


def test_who_comes_and_goes_and_what_is_lost_is_in_the_log(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1, name="box")
    group.hang_up(WORKER)
    group.run(group.leader.state.settings.worker_grace_ms // TICK_MS + 4)
    assert group.news == [
        "worker box joined, serves job.assign.>",
        "worker box left: its connection broke",
        f"job {guid_to_text(job(1))} runs again: worker_down",
    ]
    assert group.warned == ["worker box did not reconnect; attempts lost: 1"]


def test_a_crowd_of_clients_does_not_flood_the_log(group: Group) -> None:
    for number in range(10, 200):
        group.say(number, wire.HelloClient(f"c{number}", 0, OURS))
    assert len(group.details) == LINES_MAX
    assert group.news == []


def test_what_is_given_back_again_and_again_is_told_and_then_counted(group: Group) -> None:
    group.worker(WORKER, credit=200)
    for number in range(100):
        group.say(CLIENT, submit(number))
    for record in list(group.leader.state.jobs.values()):
        group.say(WORKER, wire.Nack(record.job_id, record.attempt, record.fence, "no room"))
    told = [line for line in group.news if "runs again: nacked" in line]
    assert len(told) == JOB_LINES_MAX


def test_what_operators_change_is_told_with_who_asked(group: Group) -> None:
    arguments = msgspec.msgpack.encode({"queue": "q"})
    group.say(CLIENT, wire.Admin(bytes(16), "pause", arguments))
    assert group.news[-1] == "queue_pause q"
