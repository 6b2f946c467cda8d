"""What keeps memory and the next start small: a log that rests on disk, a snapshot at the stop."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.errors import DiskError
from rollq.history.retention import Retention
from rollq.raft.node import RaftOptions
from rollq.raft.types import InstallSnapshot
from rollq.roles.member import driver as driver_module
from rollq.roles.member import snapshot_order
from rollq.roles.member.snapshot_order import SnapshotPace
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job, submit

CLIENT, WORKER = 1, 2
ENTRY = snapshot_order.ENTRY_COST_BYTES


def with_jobs(*addresses: str, count: int, **settings: object) -> Group:
    group = Group(*addresses, **settings)
    group.elect()
    group.client(CLIENT)
    for number in range(1, count + 1):
        group.say(CLIENT, submit(number))
    return group


def test_a_follower_that_lags_is_sent_what_rests_on_the_leaders_disk() -> None:
    group = with_jobs("a", "b", "c", count=5, raft=RaftOptions(log_tail_bytes=300))
    behind = group.follower()
    group.isolated[behind] = None
    for number in range(6, 60):
        group.say(CLIENT, submit(number))
    log = group.leader.raft
    assert len(log.entry_slice(log.first_index, log.last_index + 1)) < 10
    assert log.first_index == 1
    del group.isolated[behind]
    lagging = group.members[behind]
    group.until(lambda: lagging.state.applied_index == group.leader.state.applied_index)
    assert sorted(lagging.state.jobs) == [job(number) for number in range(1, 60)]
    assert not any(isinstance(letter[2], InstallSnapshot) for letter in group.letters)


def test_a_leader_that_cannot_read_its_log_back_stops() -> None:
    group = with_jobs("a", "b", "c", count=5, raft=RaftOptions(log_tail_bytes=300))
    behind, leader = group.follower(), group.address_of(group.leader)
    group.isolated[behind] = None
    for number in range(6, 60):
        group.say(CLIENT, submit(number))
    disk = group.disks[leader]
    data = disk.read("wal/000000000001.log", 0, disk.size("wal/000000000001.log"))
    disk.rot("wal/000000000001.log", data.index(job(20)), 5)
    del group.isolated[behind]
    with pytest.raises(DiskError, match="cannot be read back"):
        group.run(100)


def test_a_stop_leaves_a_snapshot_if_the_next_start_had_much_to_apply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_order, "IDLE_SNAPSHOT_LOG_BYTES_MIN", 20 * ENTRY)
    group = with_jobs(count=40)
    driver = group.members["a"]
    applied = driver.state.applied_index
    driver.close()
    group.kill("a")
    again = group.start("a")
    assert again.state.applied_index == applied
    assert len(again.state.jobs) == 40
    assert again.replica.history.segments.gaps(applied) == []


def test_a_stop_after_little_leaves_no_snapshot() -> None:
    group = with_jobs(count=3)
    group.members["a"].close()
    assert group.disks["a"].names("snapshots") == []


def test_a_stop_counts_a_snapshot_that_came_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_order, "IDLE_SNAPSHOT_LOG_BYTES_MIN", 20 * ENTRY)
    group = with_jobs(count=40)
    driver = group.members["a"]
    monkeypatch.setattr(SnapshotPace, "is_due", lambda self, *, idle: True)
    order = driver.begin_snapshot()
    assert order is not None
    order.write()  # and the process that publishes it is killed
    driver.close()
    group.kill("a")
    assert group.start("a").state.applied_index == order.index


def test_a_stop_does_not_repeat_a_snapshot_that_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_order, "IDLE_SNAPSHOT_LOG_BYTES_MIN", 20 * ENTRY)
    group = with_jobs(count=40)
    driver = group.members["a"]
    monkeypatch.setattr(SnapshotPace, "is_due", lambda self, *, idle: True)
    order = driver.begin_snapshot()
    assert order is not None
    order.publish(order.write())
    driver.close()
    assert len(group.disks["a"].names("snapshots")) == 1


def test_a_member_that_is_never_idle_keeps_its_history_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver_module, "SCRUB_EVERY_TICKS", 20)
    swept: list[int | None] = []
    monkeypatch.setattr(
        Retention, "sweep", lambda self, segments, now_ms, hold_from: swept.extend([hold_from])
    )
    group = Group(retention=Retention(bytes_max=1_000))
    driver = group.elect()
    group.client(CLIENT)
    hold = msgspec.msgpack.encode({"name": "nightly", "index": 7})
    group.say(CLIENT, wire.Admin(b"r" * 16, "hold_history", hold))
    for number in range(1, 100):
        group.tell(CLIENT, submit(number))
        driver.tick()
        work = driver.begin()  # one turn a tick, and every turn has something to write
        assert work is not None
        assert work.ready is not None
        assert work.needs_sync
        work.run()
        driver.finish(work)
    assert len(swept) >= 2
    assert set(swept) == {7}  # what a reader wants next is not let go


def test_a_member_that_replayed_its_log_knows_what_can_be_assigned() -> None:
    group = with_jobs(count=30)
    group.kill("a")
    again = group.start("a")
    group.until(lambda: again.leading)
    told = group.worker(WORKER, credit=30)
    assigned = [one for one in told if isinstance(one, wire.AssignJob)]
    assert [one.job_id for one in assigned] == [job(number) for number in range(1, 31)]
