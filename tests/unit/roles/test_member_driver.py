"""The loop: the order of a turn, and what may not be seen before its time."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.base.jobs import BulkItem
from rollq.history.segments import Segments
from rollq.raft.node import RaftNode
from rollq.raft.types import Role
from rollq.roles.member import driver as driver_module
from rollq.store.wal import Wal
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job, submit

CLIENT = 1


@pytest.fixture
def group() -> Group:
    made = Group()
    made.elect()
    made.client(CLIENT)
    made.run(20)
    return made


def test_nothing_is_accepted_before_it_is_on_disk_and_applied(group: Group) -> None:
    driver = group.members["a"]
    group.tell(CLIENT, submit(1))
    work = driver.begin()
    assert work is not None
    syncs = group.disks["a"].sync_count
    driver.meanwhile(work)
    work.run()
    assert group.disks["a"].sync_count > syncs
    group.collect("a")
    assert group.hear(CLIENT) == []
    assert job(1) not in driver.state.jobs
    driver.finish(work)
    group.collect("a")
    assert group.hear(CLIENT) == [wire.Accepted(job(1))]


def test_what_arrives_while_the_disk_works_rides_in_the_next_entry(group: Group) -> None:
    driver = group.members["a"]
    group.tell(CLIENT, submit(1))
    work = driver.begin()
    assert work is not None
    group.tell(CLIENT, submit(2))
    group.tell(CLIENT, submit(3))
    work.run()
    driver.finish(work)
    index = driver.raft.last_index
    group.settle()
    assert driver.raft.last_index == index + 1
    assert group.hear(CLIENT) == [wire.Accepted(job(number)) for number in (1, 2, 3)]


def test_what_is_committed_is_applied_while_the_next_is_written(group: Group) -> None:
    driver = group.members["a"]
    group.tell(CLIENT, submit(1))
    first = driver.begin()
    assert first is not None
    group.tell(CLIENT, submit(2))
    first.run()
    driver.finish(first)
    group.collect("a")
    assert group.hear(CLIENT) == []
    second = driver.begin()
    assert second is not None
    driver.meanwhile(second)
    group.collect("a")
    assert group.hear(CLIENT) == [wire.Accepted(job(1))]
    assert job(2) not in driver.state.jobs
    second.run()
    driver.finish(second)
    group.settle()
    assert group.hear(CLIENT) == [wire.Accepted(job(2))]


def test_a_lone_submit_does_not_wait_for_what_another_client_asked_for_before(
    group: Group,
) -> None:
    driver = group.members["a"]
    group.client(2, "bob")
    ids = [number.to_bytes(16, "little") for number in range(1, 64 * 256 + 1)]
    for first in range(0, len(ids), 256):
        items = tuple(BulkItem(one, b"{}") for one in ids[first : first + 256])
        group.tell(2, wire.SubmitBulk(ids[first], "bob", "calc", "calc", items))
    turns = 0
    while job(1) not in driver.state.jobs:
        work = driver.begin()
        assert work is not None
        if turns == 3:
            before = len(driver.state.jobs)
            group.tell(CLIENT, submit(1))
        work.run()
        driver.finish(work)
        turns += 1
    group.collect("a")
    assert group.hear(CLIENT) == [wire.Accepted(job(1))]
    assert 0 < before < 64 * 256
    assert len(driver.state.jobs) - before <= 2 * 256 + 1
    group.settle()
    assert len(driver.state.jobs) == len(ids) + 1
    assert len(group.heard(2, wire.Accepted)) == 64


def test_a_job_for_a_free_worker_is_accepted_and_assigned_by_one_entry(group: Group) -> None:
    driver, disk = group.members["a"], group.disks["a"]
    group.worker(2, credit=3)
    group.say(CLIENT, submit(1))  # makes the queue
    group.hear(2)
    index, syncs = driver.raft.last_index, disk.sync_count
    assert group.say(CLIENT, submit(2)) == [wire.Accepted(job(2))]
    assert [one.job_id for one in group.heard(2, wire.AssignJob)] == [job(2)]
    assert driver.raft.last_index == index + 1
    assert disk.sync_count == syncs + 1
    fence = driver.state.jobs[job(2)].fence
    group.say(2, wire.AckJob(job(2), 1, fence, 0, b"done"))
    assert len(group.heard(CLIENT, wire.Result)) == 1
    assert disk.sync_count == syncs + 2  # from its submit to its result


def test_what_is_accepted_and_assigned_by_one_entry_is_told_to_nobody_before_it_is_on_disk(
    group: Group,
) -> None:
    driver = group.members["a"]
    group.worker(2, credit=3)
    group.say(CLIENT, submit(1))
    group.hear(2)
    group.tell(CLIENT, submit(2))
    work = driver.begin()
    assert work is not None
    driver.meanwhile(work)
    work.run()
    group.collect("a")
    assert (group.hear(CLIENT), group.hear(2)) == ([], [])
    driver.finish(work)
    group.collect("a")
    assert group.hear(CLIENT) == [wire.Accepted(job(2))]
    assert [one.job_id for one in group.heard(2, wire.AssignJob)] == [job(2)]


def test_a_job_that_is_submitted_again_is_not_assigned_again(group: Group) -> None:
    group.worker(2, credit=5)
    group.say(CLIENT, submit(1))
    group.hear(2)
    group.tell(CLIENT, submit(2), submit(2))
    group.settle()
    group.say(CLIENT, submit(2))
    assert [one.job_id for one in group.heard(2, wire.AssignJob)] == [job(2)]
    group.say(CLIENT, *(submit(number) for number in range(3, 9)))
    # Three were given, and two credits are left.
    assert len(group.heard(2, wire.AssignJob)) == 3


def test_what_a_lone_member_has_written_is_applied_in_the_same_turn(group: Group) -> None:
    driver = group.members["a"]
    group.tell(CLIENT, submit(1))
    work = driver.begin()
    assert work is not None
    work.run()
    driver.finish(work)
    group.collect("a")
    assert group.hear(CLIENT) == [wire.Accepted(job(1))]
    assert driver.begin() is None


def test_the_boundaries_of_a_turn_are_crash_points_in_order(group: Group) -> None:
    group.points.clear()
    group.say(CLIENT, submit(1))
    wanted = [
        "turn_begun",
        "ready_taken",
        "written_not_synced",
        "synced",
        "persisted",
        "sent_after_persist",
        "applied",
    ]
    assert group.points[: len(wanted)] == wanted


def test_turns_do_not_overlap(group: Group) -> None:
    driver = group.members["a"]
    group.tell(CLIENT, submit(1))
    work = driver.begin()
    assert work is not None
    with pytest.raises(AssertionError):
        driver.begin()
    work.run()
    driver.finish(work)
    with pytest.raises(AssertionError):
        driver.finish(work)


def test_an_idle_member_marks_its_log_once_and_then_rests(group: Group) -> None:
    group.say(CLIENT, submit(1))
    before = group.disks["a"].op_count
    group.run(driver_module.IDLE_TICKS_BEFORE_MARK + 1)
    marked = group.disks["a"].op_count
    assert marked > before
    group.run(20)
    assert group.disks["a"].op_count == marked


def test_history_is_looked_through_now_and_then(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Segments] = []
    monkeypatch.setattr(Segments, "scrub_next", lambda segments: looked.extend([segments]))
    group.run(2 * driver_module.SCRUB_EVERY_TICKS + 20)
    assert len(looked) == 2


def test_commands_wait_while_consensus_has_no_room(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(raft: RaftNode, data: bytes) -> int:
        raise StateError(ErrorCode.PROPOSAL_DROPPED, "full")

    with monkeypatch.context() as patch:
        patch.setattr(RaftNode, "propose", full)
        assert group.say(CLIENT, submit(1), submit(2)) == []
    group.run()
    assert group.hear(CLIENT) == [wire.Accepted(job(1)), wire.Accepted(job(2))]


def test_a_member_that_stops_in_good_order_leaves_everything_on_disk(group: Group) -> None:
    group.say(CLIENT, submit(1))
    applied = group.members["a"].state.applied_index
    group.members["a"].close()
    assert Segments(group.disks["a"]).covered_to() == applied
    group.kill("a")
    again = group.start("a")
    group.until(lambda: again.leading)
    assert job(1) in again.state.jobs


def test_a_commit_that_moves_alone_costs_no_write(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group("a", "b", "c")
    group.elect()
    carried: list[int] = []
    monkeypatch.setattr(Wal, "carry", lambda _, index: carried.append(index))
    group.client(CLIENT)
    group.say(CLIENT, submit(1))
    group.run(4)
    assert carried


def test_all_members_apply_the_same() -> None:
    three = Group("a", "b", "c", snapshot_entries=7)
    three.elect()
    three.client(CLIENT)
    three.worker(2, credit=50)
    for number in range(1, 30):
        three.say(CLIENT, submit(number))
    three.run(10)
    assert len({one.state.log_hash for one in three.members.values()}) == 1
    assert len({one.state.applied_index for one in three.members.values()}) == 1


def test_a_member_that_does_not_lead_sends_sessions_away_without_holding_them() -> None:
    group = Group("a", "b", "c")
    group.elect()
    group.run(4)
    address = group.follower()
    driver = group.members[address]
    (told,) = group.say(9, wire.HelloClient("ann"), to=address)
    assert told == wire.NotLeader(group.address_of(group.leader), told.members)
    driver.session_closed(9)
    group.settle()
    assert driver.raft.role is Role.FOLLOWER
    assert group.hear(9) == []


def test_the_hello_says_who_the_member_is(group: Group) -> None:
    driver = group.members["a"]
    hello = driver.hello("b")
    assert (hello.member_id, hello.address) == (driver.raft.member_id, "a")
    assert (hello.boot, hello.newcomer) == (driver.roll.boot, False)
