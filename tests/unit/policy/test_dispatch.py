"""Who is next: queues, priorities, clients, caps, pauses, named workers."""

from __future__ import annotations

import pytest

from rollq.grid.commands import (
    AssignRun,
    CancelJobs,
    ExpireJobs,
    LostAttempt,
    NackJob,
    RedriveItem,
    RedriveJobs,
    ReleaseJobs,
)
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import Desk


def test_nothing_is_decided_without_credit() -> None:
    desk = Desk()
    desk.submit("a")
    assert desk.decide() == []
    desk.worker("w")
    assert desk.decide() == []
    desk.grant("w", 1)
    assert desk.run() == ["a@w"]
    assert desk.credit("w") == 0


def test_a_decision_names_attempt_incarnation_and_lease() -> None:
    desk = Desk()
    desk.worker("w", 2, incarnation=7)
    desk.submit("plain")
    desk.submit("own", lease_ms=1_234)
    assert desk.decide() == [
        AssignRun(worker_id("w"), 7, 1, desk.state.settings.lease_ms, job_id("plain")),
        AssignRun(worker_id("w"), 7, 1, 1_234, job_id("own")),
    ]


def test_no_more_is_decided_than_asked_for() -> None:
    desk = Desk()
    desk.worker("w", 5)
    desk.submit("a", "b", "c")
    assert desk.run(2) == ["a@w", "b@w"]
    assert desk.run(0) == []
    assert desk.run(2) == ["c@w"]


def test_a_job_that_is_decided_is_not_decided_again() -> None:
    desk = Desk()
    desk.worker("w", 5)
    desk.submit("a")
    decided = desk.decide()
    assert len(decided) == 1
    assert desk.decide() == []
    assert desk.reason("a") == "assigning"
    desk.settle(decided)
    assert desk.decide() == []


def test_queues_take_turns() -> None:
    desk = Desk()
    desk.submit("a1", "a2", "a3", queue="a")
    desk.submit("b1", "b2", queue="b")
    desk.worker("w", 9)
    assert desk.run() == ["a1@w", "b1@w", "a2@w", "b2@w", "a3@w"]


def test_clients_take_turns_in_a_queue() -> None:
    desk = Desk()
    desk.submit("a1", "a2", "a3", client="ann")
    desk.submit("b1", client="bob")
    desk.submit("c1", "c2", client="cid")
    desk.worker("w", 9)
    assert desk.run() == ["a1@w", "b1@w", "c1@w", "a2@w", "c2@w", "a3@w"]


def test_the_highest_priority_goes_first() -> None:
    desk = Desk()
    desk.submit("low", priority=0)
    desk.submit("high", priority=9)
    desk.submit("middle", priority=4)
    desk.worker("w", 9)
    assert desk.run() == ["high@w", "middle@w", "low@w"]


def test_a_job_that_comes_back_goes_first_again() -> None:
    desk = Desk()
    desk.submit("a", "b", "c", "d")
    desk.worker("w", 2)
    assert desk.run() == ["a@w", "b@w"]
    desk.nack("b")
    desk.nack("a")
    desk.grant("w", 9)
    assert desk.run() == ["a@w", "b@w", "c@w", "d@w"]


def test_a_job_that_was_given_back_is_tried_elsewhere_first() -> None:
    desk = Desk()
    desk.worker("large", 99)
    desk.worker("small", 1)
    desk.submit("a")
    assert desk.run() == ["a@large"]
    desk.nack("a")
    assert desk.run() == ["a@small"]
    desk.nack("a")
    desk.grant("small", 1)
    assert desk.run() == ["a@large"], "all have been tried"
    desk.nack("a")
    desk.worker("idle")
    assert desk.run() == ["a@large"], "nobody waits for one without credit"


def test_jobs_that_were_given_back_are_spread_as_all_others() -> None:
    desk = Desk()
    desk.worker("broken", 99)
    names = [f"job-{number}" for number in range(8)]
    desk.submit(*names)
    assert len(desk.run()) == 8
    for name in names:
        desk.nack(name)
    desk.worker("first", 8)
    desk.worker("second", 8)
    given = [one.partition("@")[2] for one in desk.run()]
    assert (given.count("first"), given.count("second")) == (4, 4)


def test_one_that_was_picked_and_has_not_tried_a_job_keeps_it() -> None:
    desk = Desk()
    desk.worker("first", 2)
    desk.submit("a")
    assert desk.run() == ["a@first"]
    desk.worker("second", 3)
    desk.nack("a")
    desk.worker("third", 9)
    assert desk.run() == ["a@third"]


def test_a_job_that_was_given_back_says_what_its_worker_lacked() -> None:
    desk = Desk()
    desk.submit("a")
    desk.worker("w", 1)
    assert desk.run() == ["a@w"]
    record = desk.state.jobs[job_id("a")]
    told = "this worker has no secret 'github'"
    desk.apply(NackJob(record.job_id, record.attempt, record.fence, told, 700, not_started=True))
    assert told in desk.explained(job_id("a")).why


def test_a_delayed_job_waits_for_its_release() -> None:
    desk = Desk()
    desk.worker("w", 2)
    desk.submit("a", delay_ms=100)
    assert desk.run() == []
    assert desk.reason("a") == "delayed"
    desk.apply(ReleaseJobs((LostAttempt(job_id("a"), 0),)))
    assert desk.run() == ["a@w"]


def test_a_job_ended_while_it_waits_is_skipped() -> None:
    desk = Desk()
    desk.submit("a", "b", "c")
    desk.apply(CancelJobs((job_id("a"),)))
    desk.apply(ExpireJobs((job_id("b"),)))
    desk.worker("w", 9)
    assert desk.run() == ["c@w"]
    desk.apply(RedriveJobs((RedriveItem(job_id("b")),)))
    assert desk.run() == ["b@w"]


def test_a_job_cancelled_in_the_entry_that_brought_it_never_waits() -> None:
    desk = Desk()
    desk.worker("w", 9)
    desk.submit("a")
    desk.apply(CancelJobs((job_id("a"),)))
    assert desk.run() == []


@pytest.mark.parametrize("others", [(), ("b",), ("b", "c")])
def test_a_job_that_goes_and_comes_back_in_one_entry_waits_once(others: tuple[str, ...]) -> None:
    desk = Desk()
    desk.submit("a", *others)
    desk.apply(ExpireJobs((job_id("a"),)), RedriveJobs((RedriveItem(job_id("a")),)))
    desk.worker("w", 9)
    assert sorted(desk.run()) == sorted(f"{name}@w" for name in ("a", *others))
    desk.nack("a")
    assert desk.run() == ["a@w"]
    desk.submit("z")
    assert desk.run() == ["z@w"]


class TestPatterns:
    def test_a_worker_is_given_only_queues_that_it_asked_for(self) -> None:
        desk = Desk()
        desk.submit("a1", queue="a")
        desk.submit("b1", queue="b")
        desk.worker("w", 9, ("job.assign.b",))
        assert desk.run() == ["b1@w"]
        assert desk.reason("a1") == "no_worker"

    def test_a_wildcard_finds_queues_older_and_younger_than_itself(self) -> None:
        desk = Desk()
        desk.submit("old", queue="a.x")
        desk.worker("w", 9, ("job.assign.a.*",))
        assert desk.run() == ["old@w"]
        desk.submit("new", queue="a.y")
        desk.submit("deep", queue="a.y.z")
        assert desk.run() == ["new@w"]

    def test_several_patterns_share_one_credit(self) -> None:
        desk = Desk()
        desk.worker("w", 2, ("job.assign.a", "job.assign.b", "job.assign.b"))
        desk.submit("a1", "a2", queue="a")
        desk.submit("b1", "b2", queue="b")
        assert desk.run() == ["a1@w", "b1@w"]
        assert desk.credit("w") == 0

    def test_pools_take_turns(self) -> None:
        desk = Desk()
        desk.worker("w1", 5, ("job.assign.a",))
        desk.worker("w2", 5, ("job.assign.b",))
        desk.submit("a1", "a2", queue="a")
        desk.submit("b1", "b2", queue="b")
        assert desk.run() == ["a1@w1", "b1@w2", "a2@w1", "b2@w2"]

    def test_pools_take_turns_where_credit_comes_one_by_one(self) -> None:
        desk = Desk()
        desk.worker("w", patterns=("job.assign.a", "job.assign.b", "job.assign.c"))
        for queue in "abc":
            desk.submit(*(f"{queue}{number}" for number in range(3)), queue=queue)
        served = []
        for _ in range(6):
            desk.grant("w", 1)
            served += desk.run()
        assert served == ["a0@w", "b0@w", "c0@w", "a1@w", "b1@w", "c1@w"]

    def test_a_pattern_outlives_its_last_worker_for_a_while_only(self) -> None:
        desk = Desk()
        for number in range(200):
            desk.dispatcher.open_worker(b"w", 1, "w", (f"job.assign.q{number}",))
        pools = desk.dispatcher._backlog._pools
        assert len(pools._by_pattern) < 150
        desk.worker("w", 1, ("job.assign.q0",))
        desk.submit("a", queue="q0")
        assert desk.run() == ["a@w"]

    def test_a_worker_that_returns_finds_its_pool_again(self) -> None:
        desk = Desk()
        desk.submit("a", "b")
        desk.worker("w", 1)
        assert desk.run() == ["a@w"]
        desk.dispatcher.close_worker(worker_id("w"))
        assert desk.run() == []
        desk.worker("w", 1)
        assert desk.run() == ["b@w"]
