"""The leader's timers: what they propose, when, and what survives a change of leader."""

from __future__ import annotations

import pytest

from rollq.base.ids import task_id
from rollq.base.jobs import Status
from rollq.grid.commands import (
    AckJob,
    AssignJob,
    AssignTask,
    CancelJobs,
    CloseWorker,
    ConfirmResults,
    ExpireJobs,
    ExpireLeases,
    ForgetJobs,
    LostAttempt,
    PurgeJobs,
    RedriveItem,
    RedriveJobs,
    ReleaseJobs,
    SetSettings,
    Settings,
)
from rollq.policy.expiry import RENEWAL_MS, STALL_MS, Expiry
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.clocked import AGAIN_MS, BACKOFF_MS, LEASE_MS, Leader, lost


class TestLeases:
    def test_an_attempt_that_is_not_heard_of_is_lost_with_a_backoff(self) -> None:
        leader = Leader()
        leader.start("a", "b")
        assert leader.at(LEASE_MS - 1) == []
        assert leader.next_due_ms() == LEASE_MS
        assert leader.run(LEASE_MS) == [ExpireLeases((lost("a"), lost("b")))]
        assert leader.run(LEASE_MS + BACKOFF_MS) == [
            ReleaseJobs((LostAttempt(job_id("a"), 1), LostAttempt(job_id("b"), 1)))
        ]

    def test_backoff_grows_with_the_attempts(self) -> None:
        leader = Leader()
        leader.start("a", retry_base_ms=100)
        leader.run(LEASE_MS)
        leader.run(2 * LEASE_MS)
        leader.assign("a")
        assert leader.run(3 * LEASE_MS) == [ExpireLeases((lost("a", 2, 200),))]

    def test_a_heartbeat_renews_the_lease_of_its_attempt_only(self) -> None:
        leader = Leader()
        leader.start("a")
        leader.expiry.renew(job_id("a"), 1, 3_000)
        leader.expiry.renew(job_id("a"), 2, 9_000)
        leader.expiry.renew(job_id("unknown"), 1, 9_000)
        assert leader.at(LEASE_MS + 2_999) == []
        assert leader.at(LEASE_MS + 3_000) == [ExpireLeases((lost("a"),))]

    def test_a_proposal_is_repeated_only_after_a_while(self) -> None:
        leader = Leader()
        leader.start("a")
        assert leader.at(LEASE_MS) == [ExpireLeases((lost("a"),))]
        assert leader.at(LEASE_MS + AGAIN_MS - 1) == []
        assert leader.at(LEASE_MS + AGAIN_MS) == [ExpireLeases((lost("a"),))]

    def test_after_a_standstill_workers_are_heard_before_leases_end(self) -> None:
        leader = Leader(Expiry)
        leader.start("a", "b")
        assert leader.at(STALL_MS) == []
        woken_ms = 3_600_000  # nobody could renew anything meanwhile
        assert leader.at(woken_ms) == []
        leader.expiry.renew(job_id("a"), 1, woken_ms)
        left_ms = LEASE_MS - STALL_MS
        for now_ms in range(woken_ms, woken_ms + left_ms, STALL_MS):
            assert leader.at(now_ms) == []
        assert leader.at(woken_ms + left_ms) == [ExpireLeases((lost("b"),))]

    def test_a_lease_that_ended_just_before_a_standstill_has_a_renewal_window(self) -> None:
        leader = Leader(Expiry)
        leader.start("a")
        for now_ms in range(0, LEASE_MS, STALL_MS):
            assert leader.at(now_ms) == []
        assert leader.at(LEASE_MS - 1) == []
        woken_ms = LEASE_MS + STALL_MS
        for now_ms in (woken_ms, woken_ms + 1, woken_ms + RENEWAL_MS - 1):
            assert leader.at(now_ms) == []
        assert leader.at(woken_ms + RENEWAL_MS) == [ExpireLeases((lost("a"),))]

    def test_what_ended_has_no_lease(self) -> None:
        leader = Leader()
        leader.start("a", "b", "c")
        leader.ack("a")
        leader.nack("b")
        leader.apply(CancelJobs((job_id("c"),)))
        leader.ack("c", Status.CANCELLED)
        assert leader.at(LEASE_MS) == []

    def test_no_more_than_asked_for_is_due_at_once(self) -> None:
        leader = Leader()
        leader.start("a", "b", "c")
        leader.submit("d", delay_ms=1)
        assert leader.at(LEASE_MS, 2) == [ExpireLeases((lost("a"), lost("b")))]
        assert leader.at(LEASE_MS, 2) == [
            ExpireLeases((lost("c"),)),
            ReleaseJobs((LostAttempt(job_id("d"), 0),)),
        ]
        assert leader.at(LEASE_MS, 0) == []

    def test_a_lease_that_the_state_does_not_know_any_more_is_dropped(self) -> None:
        leader = Leader()
        leader.start("a")
        leader.state.jobs.pop(job_id("a"))
        assert leader.at(LEASE_MS) == []
        assert leader.next_due_ms() is None


class TestWaiting:
    def test_a_delay_ends(self) -> None:
        leader = Leader()
        leader.submit("a", delay_ms=100)
        assert leader.at(99) == []
        assert leader.run(100) == [ReleaseJobs((LostAttempt(job_id("a"), 0),))]
        assert leader.next_due_ms() is None

    def test_patience_ends_for_what_waits(self) -> None:
        leader = Leader()
        leader.submit("a", expire_ms=100)
        leader.submit("b", expire_ms=100, delay_ms=900)
        assert leader.run(100) == [ExpireJobs((job_id("a"), job_id("b")))]
        assert leader.job("b").end is not None

    def test_patience_does_not_count_while_it_runs_and_begins_anew_after(self) -> None:
        leader = Leader()
        leader.start("a", expire_ms=100)
        assert leader.at(1_000) == []
        leader.nack("a")
        assert leader.at(1_099) == []
        assert leader.at(1_100) == [ExpireJobs((job_id("a"),))]

    def test_a_cancelled_job_is_not_released(self) -> None:
        leader = Leader()
        leader.submit("a", delay_ms=100, expire_ms=200)
        leader.apply(CancelJobs((job_id("a"),)))
        assert leader.at(300) == []

    def test_an_array_is_released_and_expires_as_one(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 5, delay_ms=100, expire_ms=500)
        assert leader.run(100) == [ReleaseJobs((LostAttempt(job_id("arr"), 0),))]
        assert leader.run(500) == [ExpireJobs((job_id("arr"),))]
        assert leader.array("arr").is_ended

    def test_an_array_whose_tasks_have_all_begun_cannot_expire(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 1, expire_ms=500, result_ttl_ms=100)
        array_id = leader.array("arr").array_id
        leader.apply(AssignTask(array_id, worker_id("w1"), 1, LEASE_MS))
        assert leader.at(500) == []

    def test_the_timer_of_an_array_outlives_it_harmlessly(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 1, expire_ms=500, result_ttl_ms=100)
        array_id = leader.array("arr").array_id
        leader.apply(AssignTask(array_id, worker_id("w1"), 1, LEASE_MS))
        leader.apply(AckJob(array_id, 1, 1, Status.OK))
        leader.run(200)
        leader.run(400)
        assert not leader.state.arrays
        assert leader.at(500) == []

    def test_the_first_task_does_not_stop_the_timer_of_its_array(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 5, expire_ms=500)
        leader.assign_task("arr")
        assert job_id("arr") in leader.state.jobs
        assert leader.run(500) == [ExpireJobs((job_id("arr"),))]
        assert leader.array("arr").tasks_waiting == 0


class TestKeeping:
    def test_a_result_is_forgotten_after_its_ttl(self) -> None:
        leader = Leader()
        leader.start("own", result_ttl_ms=50)
        leader.start("cluster")
        leader.ack("own")
        leader.ack("cluster")
        assert leader.run(50) == [ForgetJobs((job_id("own"),))]
        assert leader.run(Settings().result_ttl_ms) == [ForgetJobs((job_id("cluster"),))]
        assert leader.next_due_ms() is None

    def test_a_dead_job_is_kept_for_longer_and_not_after_a_redrive(self) -> None:
        leader = Leader()
        leader.submit("a", "b", max_attempts=1)
        leader.kill("a")
        leader.kill("b")
        leader.apply(RedriveJobs((RedriveItem(job_id("b")),)))
        assert leader.at(Settings().result_ttl_ms) == []
        assert leader.run(Settings().dead_ttl_ms) == [ForgetJobs((job_id("a"),))]

    def test_what_is_gone_already_is_not_forgotten_again(self) -> None:
        leader = Leader()
        leader.apply(SetSettings(Settings(results_kept_max=0)))
        leader.start("a")
        leader.ack("a")
        leader.apply(ConfirmResults("ann", (job_id("a"),)))
        leader.submit("b", max_attempts=1)
        leader.kill("b")
        leader.apply(PurgeJobs((job_id("b"),)))
        assert leader.next_due_ms() is None

    def test_new_settings_count_for_what_ends_from_now_on(self) -> None:
        leader = Leader()
        leader.start("a")
        leader.apply(SetSettings(Settings(result_ttl_ms=70)))
        leader.ack("a")
        assert leader.at(70) == [ForgetJobs((job_id("a"),))]

    def test_an_array_is_forgotten_once_and_goes_with_its_last_task(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 2, result_ttl_ms=100)
        leader.assign_task("arr")
        leader.apply(CancelJobs((job_id("arr"),)))
        record = leader.state.jobs[job_id("arr")]
        leader.now_ms = 60
        leader.apply(leader.acknowledgement("arr", Status.CANCELLED))
        assert record.end is not None
        due = leader.run(160)
        assert due == [ForgetJobs((job_id("arr"), job_id("arr")))]
        assert not leader.state.arrays
        assert leader.next_due_ms() is None

    def test_an_array_that_waits_for_its_tasks_is_asked_for_once(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 1, result_ttl_ms=100)
        leader.assign_task("arr")
        leader.ack("arr")
        array = leader.array("arr")
        array.forget_asked = True  # asked, and its task record is still there
        assert leader.at(100) == [ForgetJobs((job_id("arr"),))]
        assert leader.at(100 + AGAIN_MS) == [ForgetJobs((job_id("arr"),))]

    def test_a_redriven_task_brings_its_array_back(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 1, result_ttl_ms=100, max_attempts=1)
        leader.assign_task("arr")
        leader.nack("arr")
        assert leader.array("arr").is_ended
        leader.apply(RedriveJobs((RedriveItem(task_id(job_id("arr"), 0)),)))
        assert leader.at(100) == []


class TestWorkers:
    def test_a_worker_that_does_not_come_back_loses_what_it_holds(self) -> None:
        leader = Leader()
        leader.start("a", "b")
        leader.expiry.worker_disconnected(worker_id("w1"), 1, 1_000)
        grace_ms = Settings().worker_grace_ms
        leader.expiry.renew(job_id("a"), 1, 9_000)
        leader.expiry.renew(job_id("b"), 1, 9_000)
        assert leader.at(999 + grace_ms) == []
        assert leader.run(1_000 + grace_ms) == [
            CloseWorker(worker_id("w1"), 1, (lost("a"), lost("b")))
        ]
        assert leader.at(1_000 + grace_ms + AGAIN_MS) == [
            ReleaseJobs((LostAttempt(job_id("a"), 1), LostAttempt(job_id("b"), 1)))
        ]

    def test_a_silent_worker_keeps_each_job_until_the_lease_of_that_job_ends(self) -> None:
        leader = Leader()
        leader.start("a")
        long_ms = 10 * Settings().lease_ms
        leader.submit("b")
        leader.apply(AssignJob(job_id("b"), worker_id("w1"), 1, 1, long_ms))
        leader.expiry.worker_silent(worker_id("w1"), 1, 0)
        assert leader.run(LEASE_MS) == [ExpireLeases((lost("a"),))]
        leader.run(LEASE_MS + BACKOFF_MS)
        assert leader.at(long_ms - 1) == []
        assert leader.at(long_ms)[0] == CloseWorker(worker_id("w1"), 1, (lost("b"),))

    def test_the_close_is_proposed_again_if_it_was_lost(self) -> None:
        leader = Leader()
        leader.expiry.worker_disconnected(worker_id("w1"), 1, 0)
        grace_ms = Settings().worker_grace_ms
        close = CloseWorker(worker_id("w1"), 1)
        assert leader.at(grace_ms) == [close]
        assert leader.at(grace_ms + AGAIN_MS - 1) == []
        assert leader.run(grace_ms + AGAIN_MS) == [close]
        assert leader.next_due_ms() is None

    def test_a_grace_does_not_run_while_the_leader_stands_still(self) -> None:
        leader = Leader(Expiry)
        leader.start("a")
        leader.expiry.worker_disconnected(worker_id("w1"), 1, 0)
        assert leader.at(10 * Settings().worker_grace_ms) == []
        leader.expiry.worker_returned(worker_id("w1"))
        assert leader.at(10 * Settings().worker_grace_ms + RENEWAL_MS) == []

    def test_a_worker_that_comes_back_in_time_loses_nothing(self) -> None:
        leader = Leader()
        leader.start("a")
        leader.expiry.worker_disconnected(worker_id("w1"), 1, 0)
        leader.expiry.worker_returned(worker_id("w1"))
        leader.now_ms = 4_000
        leader.open_worker("w1", running=("a",))
        assert leader.at(LEASE_MS + 3_999) == []  # its lease began anew
        assert leader.at(LEASE_MS + 4_000) == [ExpireLeases((lost("a"),))]

    @pytest.mark.parametrize("name", ["w1", "never opened"])
    def test_a_grace_for_another_incarnation_is_dropped(self, name: str) -> None:
        leader = Leader()
        leader.expiry.worker_disconnected(worker_id(name), 7, 0)
        assert leader.at(Settings().worker_grace_ms) == []
        assert leader.next_due_ms() is None

    def test_a_worker_closed_by_other_means_needs_no_close(self) -> None:
        leader = Leader()
        leader.expiry.worker_disconnected(worker_id("w1"), 1, 0)
        leader.apply(CloseWorker(worker_id("w1"), 1))
        assert leader.at(Settings().worker_grace_ms) == []

    def test_a_worker_closed_and_opened_in_one_entry_keeps_its_new_grace(self) -> None:
        leader = Leader()
        leader.apply(CloseWorker(worker_id("w1"), 1), *[])
        leader.open_worker("w1", incarnation=2)
        leader.expiry.worker_disconnected(worker_id("w1"), 2, 0)
        assert leader.at(Settings().worker_grace_ms) == [CloseWorker(worker_id("w1"), 2)]


def test_an_attempt_that_was_never_sent_is_lost_as_not_started() -> None:
    leader = Leader()
    leader.start("a", "b", "c")
    for name in "abc":
        leader.expiry.not_sent(leader.state, job_id(name), 1)
    leader.expiry.not_sent(leader.state, job_id("c"), 2)  # not the running attempt
    leader.expiry.sent(job_id("b"))
    (lost,) = leader.run(LEASE_MS)
    assert isinstance(lost, ExpireLeases)
    assert [one.not_started for one in lost.lost] == [True, False, True]
    leader.run(LEASE_MS + BACKOFF_MS)
    leader.assign("a")
    leader.expiry.worker_disconnected(worker_id("w1"), 1, leader.now_ms)
    close = leader.at(leader.now_ms + Settings().worker_grace_ms)[0]
    assert isinstance(close, CloseWorker)
    assert [one.not_started for one in close.lost] == [False]  # the next attempt may have been
