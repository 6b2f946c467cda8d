"""Labels and resources: who could run a job, who can now, and who has to wait for whom."""

from __future__ import annotations

import pytest

from rollq.base.jobs import JobOptions
from rollq.base.needs import PLACEMENTS, WorkerLoad
from rollq.grid.commands import (
    AckJob,
    AssignRun,
    CancelJobs,
    CloseWorker,
    ExpireLeases,
    LostAttempt,
    NackJob,
    PauseQueue,
    ResumeQueue,
    SubmitArray,
)
from rollq.grid.rule_commands import PutPolicy, RemovePolicy
from rollq.policy import backlog, pools
from rollq.policy.needs import ProgramSet
from rollq.policy.pools import DispatchSession
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import Desk, in_ones

GPU = (("gpu", 1_000),)
FOUR_GPUS = (("gpu", 4_000),)


def free(desk: Desk, name: str) -> dict[str, int]:
    return desk.dispatcher._sessions[worker_id(name)].room.free


def end_oldest(desk: Desk, name: str) -> None:
    job = desk.state.jobs[next(iter(desk.state.workers[worker_id(name)].held))]
    desk.apply(AckJob(job.job_id, job.attempt, job.fence, 0))


def submit_array(desk: Desk, name: str, count: int, options: JobOptions) -> None:
    desk.apply(SubmitArray(job_id(name), "ann", "q", "exe", b"", count, options))


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_job_goes_to_a_worker_that_has_its_labels(placement: str) -> None:
    desk = Desk(placement)
    desk.worker("plain", 9)
    desk.worker("a", 2, labels=("gpu", "zone=a"))
    desk.worker("b", 2, labels=("zone=b",))
    desk.submit("j1", labels=("zone=a",))
    desk.submit("j2", labels=("zone!=a", "zone"))
    desk.submit("j3", labels=("gpu",))
    desk.submit("j4", labels=("!gpu", "!zone"))
    desk.submit("j5", labels=("zone=c",))
    assert sorted(desk.run()) == ["j1@a", "j2@b", "j3@a", "j4@plain"]
    assert desk.run() == []


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_worker_is_given_as_much_as_it_has(placement: str) -> None:
    desk = Desk(placement)
    desk.worker("small", 9, resources=(("cpu", 2_000),))
    desk.worker("large", 9, resources=(("cpu", 8_000), ("gpu", 2_000)))
    desk.submit("g1", "g2", "g3", resources=(("cpu", 1_000), ("gpu", 1_000)))
    assert sorted(desk.run()) == ["g1@large", "g2@large"]
    desk.submit("c1", "c2", resources=(("cpu", 4_000),))
    assert desk.run() == ["c1@large"]
    assert free(desk, "large") == {"cpu": 2_000, "gpu": 0}
    desk.ack("g1")
    desk.ack("c1")
    assert sorted(desk.run()) == ["c2@large", "g3@large"]


def test_jobs_without_needs_take_nothing_and_run_anywhere() -> None:
    desk = Desk()
    desk.worker("w", 9, resources=(("cpu", 1_000),))
    desk.submit("a", resources=(("cpu", 1_000),))
    desk.submit("b", "c")
    assert sorted(desk.run()) == ["a@w", "b@w", "c@w"]
    assert free(desk, "w") == {"cpu": 0}


def test_a_need_is_a_program_too() -> None:
    desk = Desk()
    desk.worker("w1", 9, programs=ProgramSet(frozenset({"other"})), labels=("gpu",))
    desk.worker("w2", 9, programs=ProgramSet(frozenset({"exe"})))
    desk.submit("a", labels=("gpu",))
    assert desk.run() == []
    desk.dispatcher.announce(worker_id("w1"), ProgramSet(frozenset({"exe"})))
    assert desk.run() == ["a@w1"]


def test_a_decision_reserves_and_a_refusal_gives_back() -> None:
    desk = Desk()
    desk.worker("w", 9, resources=GPU)
    desk.submit("a", "b", resources=GPU)
    (decided,) = desk.dispatcher.decide(10)
    assert isinstance(decided, AssignRun)
    assert desk.dispatcher.decide(10) == []
    desk.apply(CancelJobs((job_id("a"),)))
    assert desk.settle([decided]) == []
    assert desk.run() == ["b@w"]


@pytest.mark.parametrize(
    "end", ["ack", "nack", "cancel and ack", "lost", "lease", "cancelled in the entry"]
)
def test_resources_are_free_however_an_attempt_ends(end: str) -> None:
    desk = Desk()
    desk.worker("w", 9, resources=GPU)
    desk.submit("a", resources=GPU)
    assert desk.run() == ["a@w"]
    job = desk.job("a")
    if end == "nack":
        desk.apply(NackJob(job.job_id, job.attempt, job.fence, delay_ms=10**6))
    elif end == "lease":
        desk.apply(ExpireLeases((LostAttempt(job.job_id, job.attempt, 10**6),)))
    elif end == "lost":
        lost = LostAttempt(job.job_id, job.attempt, 10**6)
        desk.apply(CloseWorker(worker_id("w"), 1, (lost,)))
        desk.worker("w", 9, resources=GPU, incarnation=2)
    else:
        if end.startswith("cancel"):
            desk.apply(CancelJobs((job.job_id,)))
        desk.ack("a")
        desk.forget("a")
    assert free(desk, "w") == {"gpu": 1_000}
    desk.submit("b", resources=GPU)
    assert desk.run() == ["b@w"]


def test_a_new_session_counts_what_its_worker_holds() -> None:
    desk = Desk()
    desk.worker("w", 9, resources=(("gpu", 3_000),))
    desk.submit("a", "b", "c", resources=GPU)
    submit_array(desk, "arr", 5, JobOptions(resources=GPU))
    assert len(desk.run(2)) == 2
    held = free(desk, "w")
    desk.dispatcher.step_down()
    leader, desk.follower, desk.dispatcher = desk.follower, desk.dispatcher, desk.follower
    leader.open_worker(worker_id("w"), 1, "w", ("job.assign.>",), 2)
    assert free(desk, "w") == held == {"gpu": 1_000}
    desk.grant("w", 9)
    assert len(desk.run()) == 1


def test_tasks_of_an_array_hold_what_each_needs() -> None:
    desk = Desk()
    desk.worker("w", 9, resources=(("gpu", 2_500),))
    submit_array(desk, "arr", 5, JobOptions(resources=GPU))
    decided = in_ones(desk.dispatcher.decide(10))
    assert len(decided) == 2
    assert desk.dispatcher.decide(10) == []
    assert len(desk.settle(decided)) == 2
    assert free(desk, "w") == {"gpu": 500}
    end_oldest(desk, "w")
    assert free(desk, "w") == {"gpu": 1_500}
    assert len(desk.run()) == 1


def test_a_refused_task_gives_back_what_it_would_hold() -> None:
    desk = Desk()
    desk.worker("w", 9, resources=GPU)
    submit_array(desk, "arr", 5, JobOptions(resources=GPU))
    decided = desk.dispatcher.decide(1)
    desk.apply(CancelJobs((job_id("arr"),)))
    assert desk.settle(in_ones(decided)) == []
    assert free(desk, "w") == {"gpu": 1_000}


def test_a_pinned_job_waits_for_the_resources_of_its_worker() -> None:
    desk = Desk()
    desk.worker("w1", 9, resources=GPU)
    desk.worker("w2", 9, resources=FOUR_GPUS)
    desk.submit("a", "b", resources=GPU, worker_name="w1")
    assert desk.run() == ["a@w1"]
    desk.ack("a")
    assert desk.run() == ["b@w1"]


def test_needs_and_the_rest_of_a_queue_take_turns() -> None:
    desk = Desk()
    desk.worker("w", resources=(("gpu", 9_000),))
    desk.submit(*(f"p{number}" for number in range(4)))
    desk.submit(*(f"g{number}" for number in range(4)), resources=GPU)
    desk.submit(*(f"f{number}" for number in range(4)), labels=("!spot",))
    served = []
    for _ in range(6):
        desk.grant("w", 1)
        served += desk.run()
    assert sorted(one[0] for one in served) == ["f", "f", "g", "g", "p", "p"]


def test_a_paused_queue_gives_nothing_of_any_need() -> None:
    desk = Desk()
    desk.submit("a", resources=GPU)
    desk.apply(PauseQueue("q"))
    desk.worker("w", 9, resources=GPU)
    assert desk.run() == []
    desk.apply(ResumeQueue("q"))
    assert desk.run() == ["a@w"]


class TestLargeNeeds:
    def desk(self) -> Desk:
        desk = Desk()
        desk.worker("w", 99, resources=FOUR_GPUS)
        desk.submit(*(f"s{number}" for number in range(60)), resources=GPU)
        assert len(desk.run()) == 4
        desk.submit("big", resources=FOUR_GPUS)
        return desk

    def end_one(self, desk: Desk) -> list[str]:
        end_oldest(desk, "w")
        return desk.run()

    def test_small_ones_overtake_it_so_often_and_not_again(self) -> None:
        desk = self.desk()
        started = [self.end_one(desk) for _ in range(pools.OVERTAKING_MAX)]
        assert all(one and one[0].startswith("s") for one in started)
        assert [self.end_one(desk) for _ in range(4)] == [[], [], [], ["big@w"]]
        assert len(self.end_one(desk)) == 4  # and then the others have their turn again

    def test_it_is_overtaken_on_one_worker_only(self) -> None:
        desk = self.desk()
        for _ in range(pools.OVERTAKING_MAX):
            self.end_one(desk)
        assert self.end_one(desk) == []
        desk.worker("v", 9, resources=GPU)
        assert len(desk.run()) == 1
        desk.worker("w2", 9, resources=FOUR_GPUS)
        assert "big@w2" in desk.run()

    def test_others_have_the_worker_again_if_it_is_cancelled(self) -> None:
        desk = self.desk()
        for _ in range(pools.OVERTAKING_MAX):
            self.end_one(desk)
        assert self.end_one(desk) == []
        desk.apply(CancelJobs((job_id("big"),)))
        assert len(desk.run()) == 1

    def test_others_have_the_worker_again_if_its_queue_is_paused(self) -> None:
        desk = self.desk()
        desk.submit("other", queue="r", resources=GPU)
        for _ in range(pools.OVERTAKING_MAX + 1):
            self.end_one(desk)
        desk.apply(PauseQueue("q"))
        for _ in range(4):
            if desk.state.workers[worker_id("w")].held:
                self.end_one(desk)
        held = desk.state.workers[worker_id("w")].held
        assert job_id("other") in held or desk.job("other").end is not None

    def test_what_takes_of_other_resources_goes_on(self) -> None:
        desk = Desk()
        desk.worker("w", 99, resources=(("cpu", 9_000), *FOUR_GPUS))
        desk.submit(*(f"s{number}" for number in range(60)), resources=GPU)
        desk.run()
        desk.submit("big", resources=FOUR_GPUS)
        for _ in range(pools.OVERTAKING_MAX):
            self.end_one(desk)
        desk.submit("c", resources=(("cpu", 1_000),))
        desk.submit("plain")
        assert sorted(desk.run()) == ["c@w", "plain@w"]


class TestManyNeeds:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backlog, "NEEDS_SERVED_MAX", 4)
        monkeypatch.setattr(backlog, "NEEDS_TRIED_MAX", 2)

    def test_all_are_served_in_their_time(self) -> None:
        desk = Desk()
        desk.worker("w", 3, resources=(("memory", 10_000),))
        for number in range(30):
            desk.submit(f"j{number}", resources=(("memory", 1 + number),))
        queue = desk.dispatcher._backlog._queues["q"]
        served: list[str] = []
        for _ in range(60):
            for one in desk.run():
                served.append(one)
                desk.ack(one.split("@")[0])
                desk.grant("w", 1)
            assert len(queue.split) <= 4
        assert len(served) == 30
        assert not queue.deferred
        assert not desk.dispatcher._backlog._deferring

    def test_needs_that_nobody_has_make_way(self) -> None:
        desk = Desk()
        for number in range(9):
            desk.submit(f"n{number}", labels=(f"model={number}",))
        desk.submit("a", labels=("!spot",))
        desk.worker("w", 9)
        served = [one for _ in range(9) for one in desk.run()]
        assert served == ["a@w"]
        desk.worker("w7", 9, labels=("model=7",))
        assert [one for _ in range(9) for one in desk.run()] == ["n7@w7"]

    def test_a_new_leader_serves_them_too(self) -> None:
        desk = Desk()
        for number in range(9):
            desk.submit(f"n{number}", resources=(("memory", 1 + number),))
        desk.dispatcher.step_down()
        desk.dispatcher, desk.follower = desk.follower, desk.dispatcher
        desk.worker("w", 99, resources=(("memory", 10_000),))
        assert len([one for _ in range(9) for one in desk.run()]) == 9

    def test_what_is_cancelled_before_it_was_served_is_gone(self) -> None:
        desk = Desk()
        for number in range(9):
            desk.submit(f"n{number}", resources=(("memory", 1 + number),))
        desk.apply(CancelJobs(tuple(job_id(f"n{number}") for number in range(1, 9))))
        desk.worker("w", 99, resources=(("memory", 10_000),))
        assert [one for _ in range(9) for one in desk.run()] == ["n0@w"]


class TestPolicies:
    def test_a_policy_counts_for_the_next_decision(self) -> None:
        desk = Desk()
        desk.worker("a", 20)
        desk.worker("b", 5)
        desk.submit("j1", "j2")
        assert desk.run() == ["j1@a", "j2@a"]
        desk.apply(PutPolicy("q", "round-robin"))
        desk.submit("j3", "j4", "j5")
        assert desk.run() == ["j3@a", "j4@b", "j5@a"]
        desk.apply(RemovePolicy("q"))
        desk.submit("j6", "j7")
        assert desk.run() == ["j6@a", "j7@a"]
        pool = desk.dispatcher._backlog._queues["q"].pools[0]
        assert not pool.orders

    def test_each_queue_has_its_own(self) -> None:
        desk = Desk()
        desk.worker("a", 9)
        desk.worker("b", 5)
        desk.apply(PutPolicy("r.>", "round-robin"), PutPolicy("r.s", "sticky"))
        for queue in ("q", "r.x", "r.s"):
            desk.submit(*(f"{queue}{number}" for number in range(3)), queue=queue)
        served = sorted(desk.run())
        of = {queue: [one for one in served if one.startswith(queue)] for queue in ("r.x", "r.s")}
        assert sorted(one[-1] for one in of["r.x"]) in (["a", "a", "b"], ["a", "b", "b"])
        assert len({one[-1] for one in of["r.s"]}) == 1

    def test_a_sticky_key_holds_for_all_needs_of_its_jobs(self) -> None:
        desk = Desk()
        for name in "abc":
            desk.worker(name, 9, resources=GPU)
        desk.apply(PutPolicy(">", "sticky"))
        desk.submit("j1", sticky_key="k")
        desk.submit("j2", sticky_key="k", resources=GPU)
        desk.submit("j3", sticky_key="k", labels=("!spot",))
        assert len({one[-1] for one in desk.run()}) == 1

    def test_usage_that_workers_report_is_weighed(self) -> None:
        desk = Desk()
        desk.apply(PutPolicy("q", "score", (("cpu", 1),)))
        for name in "abc":
            desk.worker(name, 9)
            busy = WorkerLoad(900 if name != "b" else 5_000, 1, 2, 0, 0)
            desk.dispatcher.report(worker_id(name), busy)
        desk.dispatcher.report(worker_id("c"), WorkerLoad(100, 9, 0, 0, 0))
        desk.dispatcher.report(worker_id("nobody"), WorkerLoad(1, 1, 1, 0, 0))
        desk.submit("j1", "j2")
        assert desk.run() == ["j1@c", "j2@c"]


def test_a_decision_looks_at_nobody_who_could_not_run_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk()
    for number in range(300):
        desk.worker(f"w{number}", 1, labels=(f"own={number}",), resources=GPU)
    desk.worker("able", 100, labels=("zone=a",), resources=FOUR_GPUS)
    needs = {"labels": ("zone=a",), "resources": GPU}
    desk.submit("first", **needs)  # type: ignore[arg-type]
    desk.run()
    looks = 0
    update_load, can_run = DispatchSession.update_load, DispatchSession.can_run

    def counted(self: DispatchSession) -> None:
        nonlocal looks
        looks += 1
        update_load(self)

    monkeypatch.setattr(DispatchSession, "update_load", counted)
    monkeypatch.setattr(DispatchSession, "can_run", lambda *_: pytest.fail("nobody is asked"))
    for number in range(50):
        desk.submit(f"s{number}", **needs)  # type: ignore[arg-type]
        assert desk.run() == [f"s{number}@able"]
        desk.ack(f"s{number}")
    assert looks <= 150
    monkeypatch.setattr(DispatchSession, "can_run", can_run)


def test_a_need_that_nobody_has_is_told_with_what_workers_lack() -> None:
    desk = Desk()
    desk.worker("w1", 9, resources=GPU)
    desk.submit("a", resources=FOUR_GPUS)
    desk.submit("b")
    desk.run()
    (told,) = desk.unserved()
    assert (told.queue, told.workers) == ("q", "w1")
    assert told.lacks == "1 worker has 1 gpu, 4 needed"
