"""Who is next: queues, priorities, clients, caps, pauses, named workers."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError, RemoteError, StateError
from rollq.base.limits import CREDIT_MAX
from rollq.grid.commands import (
    AssignJob,
    CancelJobs,
    CloseWorker,
    ExpireJobs,
    LostAttempt,
    OpenClient,
    PauseQueue,
    RedriveItem,
    RedriveJobs,
    ReleaseJobs,
    ResumeQueue,
    SetSettings,
    Settings,
)
from rollq.policy.dispatch import Dispatcher
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
    desk.submit("own", lease_ms=123)
    assert desk.decide() == [
        AssignJob(job_id("plain"), worker_id("w"), 7, 1, desk.state.settings.lease_ms),
        AssignJob(job_id("own"), worker_id("w"), 7, 1, 123),
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
    assert desk.dispatcher.explain(job_id("a")) == "being assigned"
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


def test_a_delayed_job_waits_for_its_release() -> None:
    desk = Desk()
    desk.worker("w", 2)
    desk.submit("a", delay_ms=100)
    assert desk.run() == []
    assert desk.dispatcher.explain(job_id("a")) == "delayed for 100 ms"
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


class TestPatterns:
    def test_a_worker_is_given_only_queues_that_it_asked_for(self) -> None:
        desk = Desk()
        desk.submit("a1", queue="a")
        desk.submit("b1", queue="b")
        desk.worker("w", 9, ("job.assign.b",))
        assert desk.run() == ["b1@w"]
        assert "no worker serves queue a" in desk.dispatcher.explain(job_id("a1"))

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


class TestCaps:
    def test_a_client_at_its_cap_does_not_hold_up_others(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.submit("a1", "a2", client="ann")
        desk.submit("b1", "b2", client="bob")
        desk.worker("w", 9)
        assert desk.run() == ["a1@w", "b1@w", "b2@w"]
        assert desk.dispatcher.explain(job_id("a2")) == "client ann is at its cap of 1"
        desk.ack("a1")
        assert desk.run() == ["a2@w"]

    def test_what_is_decided_counts_before_it_is_applied(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 2))
        desk.submit("a", "b", "c")
        desk.worker("w", 9)
        decided = desk.decide()
        assert len(decided) == 2
        assert desk.decide() == []
        assert desk.settle(decided) == ["a@w", "b@w"]
        assert desk.run() == []

    def test_the_cap_of_the_cluster_is_for_clients_without_one(self) -> None:
        desk = Desk()
        desk.apply(SetSettings(Settings(client_cap=1)))
        desk.apply(OpenClient("bob", 2))
        desk.submit("a1", "a2", client="ann")
        desk.submit("b1", "b2", client="bob")
        desk.worker("w", 9)
        assert desk.run() == ["a1@w", "b1@w", "b2@w"]
        desk.apply(SetSettings(Settings(client_cap=0)))
        assert desk.run() == ["a2@w"]

    def test_a_higher_cap_counts_at_once(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.submit("a", "b")
        desk.worker("w", 9)
        assert desk.run() == ["a@w"]
        desk.apply(OpenClient("ann", 2))
        assert desk.run() == ["b@w"]

    def test_a_lane_that_nobody_serves_does_not_take_the_place_of_another(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.worker("w", 9, ("job.assign.b", "job.assign.c"))
        desk.submit("b1", queue="b")
        assert desk.run() == ["b1@w"]
        desk.worker("x", 1, ("job.assign.a",))
        desk.submit("a1", queue="a")
        desk.submit("c1", queue="c")
        assert desk.run() == []  # both lanes are parked now
        desk.dispatcher.close_worker(worker_id("x"))
        desk.ack("b1")
        assert desk.run() == ["c1@w"]

    def test_a_free_place_wakes_one_lane_and_not_all(self) -> None:
        desk = Desk()
        desk.apply(OpenClient("ann", 1))
        desk.worker("w", 99)
        names = [f"j{number}" for number in range(20)]
        for name in names:
            desk.submit(name, queue=f"q{name}")
        taken = desk.run()
        holds = desk.dispatcher._holds
        for _ in names[1:]:
            parked = len(holds._parked["ann"])
            desk.ack(taken[-1].removesuffix("@w"))
            desk.grant("w", 1)
            assert len(desk.run()) == 1
            assert len(holds._parked.get("ann", ())) == parked - 1
            taken.append(name_taken(desk))
        assert not holds._parked


def name_taken(desk: Desk) -> str:
    """The one job that runs, as `job@w`."""
    (held,) = desk.state.workers[worker_id("w")].held
    return f"{held[:12].lstrip(bytes(1)).decode()}@w"


class TestPause:
    def test_a_paused_queue_gives_nothing_until_it_is_resumed(self) -> None:
        desk = Desk()
        desk.submit("a1", queue="a")
        desk.submit("b1", queue="b")
        desk.submit("m1", queue="a", worker_name="w")
        desk.apply(PauseQueue("a"))
        desk.worker("w", 9)
        assert desk.run() == ["b1@w"]
        assert desk.dispatcher.explain(job_id("a1")) == "queue a is paused"
        desk.submit("a2", queue="a")
        assert desk.run() == []
        desk.apply(ResumeQueue("a"))
        assert desk.run() == ["m1@w", "a1@w", "a2@w"]

    def test_a_queue_paused_before_its_first_job_is_paused(self) -> None:
        desk = Desk()
        desk.worker("w", 9)
        desk.apply(PauseQueue("a"))
        desk.submit("a1", queue="a")
        assert desk.run() == []
        desk.apply(ResumeQueue("a"))
        assert desk.run() == ["a1@w"]

    def test_a_decision_that_a_pause_overtook_goes_back_in_order(self) -> None:
        desk = Desk()
        desk.worker("w", 3)
        desk.submit("a", "b", "c", "d")
        decided = desk.decide()
        desk.apply(PauseQueue("q"))
        assert desk.settle(decided) == []
        assert desk.credit("w") == 3
        assert desk.run() == []
        desk.apply(ResumeQueue("q"))
        assert desk.run() == ["a@w", "b@w", "c@w"]


class TestNamedWorkers:
    def test_only_the_named_worker_gets_the_job_and_gets_it_first(self) -> None:
        desk = Desk()
        desk.submit("any")
        desk.submit("mine", worker_name="w2")
        desk.worker("w1", 9)
        assert desk.run() == ["any@w1"]
        assert desk.dispatcher.explain(job_id("mine")) == "no worker named w2 serves queue q"
        desk.submit("other")
        desk.worker("w2", 9)
        assert desk.run()[0] == "mine@w2"

    def test_mail_and_other_work_share_one_credit(self) -> None:
        desk = Desk()
        desk.worker("w", 1)
        desk.submit("any")
        desk.submit("mine", worker_name="w")
        assert desk.run() == ["mine@w"]
        assert desk.run() == []
        desk.grant("w", 1)
        assert desk.run() == ["any@w"]

    def test_the_named_worker_must_serve_the_queue(self) -> None:
        desk = Desk()
        desk.worker("w", 9, ("job.assign.b",))
        desk.submit("a1", queue="a", worker_name="w")
        desk.submit("b1", queue="b", worker_name="w")
        assert desk.run() == ["b1@w"]

    def test_an_emptied_mailbox_is_forgotten_and_opened_anew(self) -> None:
        desk = Desk()
        desk.worker("w", 9)
        for name in ("a", "b"):
            desk.submit(name, worker_name="w")
            assert desk.run() == [f"{name}@w"]
            assert desk.run() == []
            assert not desk.dispatcher._backlog._mailboxes
            assert not desk.follower._backlog._mailboxes
        session = desk.dispatcher._sessions[worker_id("w")]
        assert len(session.pools) == 1

    def test_workers_of_one_name_take_turns(self) -> None:
        desk = Desk()
        for number in (1, 2):
            desk.worker(f"w{number}", 0)
            desk.dispatcher.open_worker(worker_id(f"w{number}"), 1, "twin", ("job.assign.>",))
            desk.grant(f"w{number}", 2)
        desk.submit("a", "b", worker_name="twin")
        decided = desk.decide()
        assert [command.worker_id for command in decided] == [worker_id("w1"), worker_id("w2")]


class TestSessions:
    @pytest.mark.parametrize("credits", [-1, CREDIT_MAX + 1])
    def test_credit_out_of_bounds_is_the_peers_fault(self, credits: int) -> None:
        desk = Desk()
        desk.worker("w")
        with pytest.raises(RemoteError) as refused:
            desk.grant("w", credits)
        assert refused.value.code is ErrorCode.BAD_CREDIT
        assert desk.credit("w") == 0

    def test_credit_is_bounded_in_all_and_with_what_is_under_way(self) -> None:
        desk = Desk()
        desk.worker("w", CREDIT_MAX)
        desk.submit("a")
        assert len(desk.decide()) == 1
        with pytest.raises(RemoteError):
            desk.grant("w", 1)

    def test_credit_without_a_session_is_refused(self) -> None:
        desk = Desk()
        with pytest.raises(StateError) as refused:
            desk.grant("nobody", 1)
        assert refused.value.code is ErrorCode.UNKNOWN_WORKER
        assert desk.credit("nobody") == 0

    def test_a_new_session_starts_without_credit(self) -> None:
        desk = Desk()
        desk.worker("w", 5)
        desk.worker("w")
        desk.submit("a")
        assert desk.decide() == []

    def test_a_refusal_gives_nothing_back_to_a_later_session(self) -> None:
        desk = Desk()
        desk.worker("w", 1)
        desk.submit("a")
        decided = desk.decide()
        desk.apply(PauseQueue("q"))
        desk.worker("w", 0)
        assert desk.settle(decided) == []
        assert desk.credit("w") == 0
        desk.apply(ResumeQueue("q"))
        desk.grant("w", 1)
        assert desk.run() == ["a@w"]

    def test_a_session_that_the_group_closed_is_given_nothing(self) -> None:
        desk = Desk()
        desk.worker("w", 5)
        desk.submit("a", "b")
        assert desk.run(1) == ["a@w"]
        decided = desk.decide(1)
        desk.apply(CloseWorker(worker_id("w"), 1))
        assert desk.settle(decided) == []
        assert desk.decide() == []
        desk.worker("v", 5)
        assert desk.run() == ["a@v", "b@v"]

    def test_a_session_of_an_older_incarnation_is_given_nothing(self) -> None:
        desk = Desk()
        desk.worker("w", 5)
        desk.open_worker("w", incarnation=2)
        desk.submit("a")
        assert desk.decide() == []

    def test_an_ack_makes_its_worker_less_loaded(self) -> None:
        desk = Desk()
        desk.worker("w1", 1)
        desk.submit("a")
        desk.run()
        desk.worker("w2", 1)
        desk.submit("b")
        desk.run()
        desk.grant("w1", 2)
        desk.grant("w2", 2)
        desk.submit("c")
        desk.ack("b")
        assert desk.run() == ["c@w2"]

    def test_a_wrong_placement_is_refused_at_the_start(self) -> None:
        with pytest.raises(LocalError):
            Dispatcher(Desk().state, "fastest")

    def test_a_refusal_of_something_never_decided_changes_nothing(self) -> None:
        desk = Desk()
        desk.worker("w", 1)
        desk.submit("a")
        desk.dispatcher.refused(AssignJob(job_id("a"), worker_id("w"), 1, 1, 100))
        assert desk.credit("w") == 1
        assert desk.run() == ["a@w"]
