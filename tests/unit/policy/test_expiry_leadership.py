"""What of the timers survives a change of leader."""

from __future__ import annotations

from functools import partial

from rollq.grid.commands import (
    AssignJob,
    AssignTask,
    CancelJobs,
    CloseWorker,
    ExpireJobs,
    ExpireLeases,
    ForgetJobs,
    LostAttempt,
    ReleaseJobs,
    Settings,
)
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.clocked import LEASE_MS, AwakeExpiry, Leader, lost


class TestChangeOfLeader:
    def test_leases_start_anew_in_full_and_workers_have_until_the_grids_lease_ends(self) -> None:
        leader = Leader()
        leader.start("a")
        leader.take_over(70_000, leader.stamp_ms + 99_999)
        assert leader.at(70_000 + LEASE_MS - 1) == []
        assert leader.run(70_000 + LEASE_MS) == [ExpireLeases((lost("a"),))]
        assert CloseWorker not in map(type, leader.run(70_000 + Settings().lease_ms - 1))
        closed = leader.at(70_000 + Settings().lease_ms)
        assert closed == [CloseWorker(worker_id("w1"), 1, ())]

    def test_a_silent_worker_keeps_a_job_until_its_own_longer_lease_ends(self) -> None:
        lease_ms = 2 * Settings().lease_ms
        leader = Leader(partial(AwakeExpiry, (1, 1)))
        leader.start("short")
        leader.submit("long")
        leader.apply(AssignJob(job_id("long"), worker_id("w1"), 1, 1, lease_ms))
        leader.take_over(0, leader.stamp_ms)
        assert leader.run(0) == []  # the second record is read
        assert leader.run(LEASE_MS) == [ExpireLeases((lost("short"),))]
        assert CloseWorker not in map(type, leader.run(lease_ms - 1))
        closed = leader.at(lease_ms)
        assert CloseWorker(worker_id("w1"), 1, (lost("long"),)) in closed

    def test_delays_and_limits_go_on_from_the_stamps(self) -> None:
        leader = Leader()
        leader.submit("delayed", delay_ms=1_000)
        leader.submit("waiting", expire_ms=2_000)
        leader.start("done", result_ttl_ms=3_000)
        leader.ack("done")
        leader.submit_array("arr", 3, delay_ms=1_500, expire_ms=4_000)
        for name in ("delayed", "waiting", "done"):
            leader.job(name).stamp_ms = 10_000
        leader.array("arr").stamp_ms = 10_000
        leader.take_over(500, 10_600)
        leader.expiry.worker_returned(worker_id("w1"))
        assert leader.at(899) == []
        assert leader.run(900) == [ReleaseJobs((LostAttempt(job_id("delayed"), 0),))]
        assert leader.run(1_400) == [ReleaseJobs((LostAttempt(job_id("arr"), 0),))]
        assert leader.run(1_900) == [ExpireJobs((job_id("waiting"),))]
        assert leader.run(2_900) == [ForgetJobs((job_id("done"),))]
        assert leader.run(3_900) == [ExpireJobs((job_id("arr"),))]

    def test_an_ended_array_is_forgotten_by_the_next_leader(self) -> None:
        leader = Leader()
        leader.submit_array("arr", 3, result_ttl_ms=100)
        leader.apply(CancelJobs((job_id("arr"),)))
        leader.take_over(0, leader.stamp_ms + 40)
        assert leader.at(60) == [ForgetJobs((job_id("arr"),))]

    def test_a_clock_behind_the_stamps_takes_nothing_off(self) -> None:
        leader = Leader()
        leader.submit("a", delay_ms=100)
        leader.take_over(0, leader.stamp_ms - 1_000_000)
        assert leader.at(99) == []
        assert leader.at(100) == [ReleaseJobs((LostAttempt(job_id("a"), 0),))]

    def test_abdication_forgets_every_timer(self) -> None:
        leader = Leader()
        leader.start("a")
        leader.submit("b", delay_ms=1, expire_ms=2)
        leader.expiry.worker_disconnected(worker_id("w1"), 1, 0)
        leader.expiry.step_down()
        assert leader.next_due_ms() is None
        assert leader.at(10**9) == []

    def test_a_large_state_is_read_in_pieces(self) -> None:
        leader = Leader(partial(AwakeExpiry, (2, 2)))
        for number in range(5):
            leader.submit(f"j{number}", delay_ms=100, expire_ms=900)
        leader.start("ran")
        leader.take_over(50, leader.stamp_ms)
        assert leader.is_reading
        leader.ack("ran")  # before its record is read
        released = [
            jobs.job_id
            for _ in range(4)
            for command in leader.run(150)
            if isinstance(command, ReleaseJobs)
            for jobs in command.jobs
        ]
        assert sorted(released) == [job_id(f"j{number}") for number in range(5)]
        assert leader.next_due_ms() == 890  # the first one's patience, 60 ms of it used

    def test_little_is_read_while_everybody_waits_for_the_new_leader(self) -> None:
        leader = Leader(partial(AwakeExpiry, (1, 1_000)))
        for number in range(5):
            leader.submit(f"j{number}", delay_ms=1)
        leader.take_over(0, leader.stamp_ms)
        released = [LostAttempt(job_id(f"j{number}"), 0) for number in range(5)]
        assert leader.at(100) == [ReleaseJobs(tuple(released[:2]))]
        assert leader.at(500) == [ReleaseJobs(tuple(released[2:]))]

    def test_a_lease_that_is_read_late_is_granted_in_full(self) -> None:
        leader = Leader(partial(AwakeExpiry, (1, 1)))
        leader.start("first", "second")
        leader.take_over(0, leader.stamp_ms)
        leader.expiry.worker_returned(worker_id("w1"))
        leader.expiry.renew(job_id("second"), 1, 100)  # a heartbeat before its record is read
        assert leader.at(200) == []
        assert leader.at(LEASE_MS) == [ExpireLeases((lost("first"),))]
        assert leader.at(LEASE_MS + 200) == [ExpireLeases((lost("second"),))]

    def test_a_record_read_late_keeps_what_an_event_has_set(self) -> None:
        leader = Leader(partial(AwakeExpiry, (1, 1)))
        leader.submit("a", "b", "c", "d", expire_ms=10_000)
        leader.submit_array("arr", 1, result_ttl_ms=500)
        leader.take_over(0, leader.stamp_ms)
        leader.expiry.worker_returned(worker_id("w1"))
        leader.now_ms = 300
        leader.assign("d")
        leader.start("e")
        leader.ack("e")
        leader.apply(AssignTask(job_id("arr"), worker_id("w1"), 1, LEASE_MS))
        leader.ack("arr")
        for _ in range(9):
            assert leader.at(300) == []
        assert leader.at(799) == []
        assert leader.at(800) == [ForgetJobs((job_id("arr"), job_id("arr")))]
        assert leader.at(LEASE_MS + 299) == []
        assert leader.at(LEASE_MS + 300) == [ExpireLeases((lost("d"),))]
