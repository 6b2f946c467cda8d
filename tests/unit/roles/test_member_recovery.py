"""From a disk to a member that can start, or must not."""

from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import TERM_MAX
from rollq.raft.types import HardState
from rollq.roles.member.node_log import NodeLog
from rollq.roles.member.recovery import plausible
from rollq.roles.member.rollcall import JoinPhase
from rollq.store.wal import Wal
from rollq.testing.disk import VirtualDisk
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job, submit

CLIENT = 1


def with_jobs(*addresses: str, count: int = 30, **settings: object) -> Group:
    group = Group(*addresses, **settings)
    group.elect()
    group.client(CLIENT)
    for number in range(1, count + 1):
        group.say(CLIENT, submit(number))
    group.run(20)  # idle: what is synced is marked so
    return group


def rot_log(disk: VirtualDisk, number: int) -> None:
    """Flip a bit in the record that holds a job's id."""
    for name in disk.names("wal"):
        data = disk.read(f"wal/{name}", 0, disk.size(f"wal/{name}"))
        place = data.rfind(job(number))  # zeros in a head may look like one
        if place >= 0:
            disk.rot(f"wal/{name}", place, 5)
            return
    raise AssertionError("no record holds that job")


def test_an_empty_disk_gets_an_identity_that_it_keeps() -> None:
    group = Group()
    first = group.members["a"].raft.member_id
    assert first > 0
    group.elect()
    group.kill("a")
    again = group.start("a")
    assert again.raft.member_id == first
    assert group.start("b", VirtualDisk()).raft.member_id != first


def test_everything_accepted_is_there_after_a_restart() -> None:
    group = with_jobs()
    before = group.leader.state.log_hash
    applied = group.leader.state.applied_index
    group.kill("a")
    group.start("a")
    group.until(lambda: group.members["a"].leading)
    state = group.leader.state
    assert sorted(state.jobs) == [job(number) for number in range(1, 31)]
    assert state.applied_index > applied
    assert state.log_hash != before


def test_a_restart_goes_on_from_the_newest_snapshot() -> None:
    group = with_jobs(snapshot_entries=10)
    assert group.leader.raft.snapshot.index > 0
    assert group.leader.raft.first_index > 1
    assert "log_compacted" in group.points
    hashed = (group.leader.state.applied_index, group.leader.state.log_hash)
    group.kill("a")
    again = group.start("a")
    assert 0 < again.state.applied_index <= hashed[0]
    group.until(lambda: again.leading)
    assert sorted(again.state.jobs) == [job(number) for number in range(1, 31)]


def test_history_is_sealed_before_the_log_shrinks() -> None:
    group = with_jobs(snapshot_entries=10)
    points = [point for point in group.points if point.startswith(("history", "snapshot_s", "log"))]
    assert points[:3] == ["history_sealed", "snapshot_saved", "log_compacted"]
    rows = group.leader.replica.history.rows(1, 10_000)
    assert rows is not None
    assert rows.last == group.leader.state.applied_index


def test_rot_where_accepted_jobs_may_be_keeps_a_lonely_member_from_starting() -> None:
    group = with_jobs()
    group.kill("a")
    rot_log(group.disks["a"], 10)
    with pytest.raises(DiskError) as caught:
        group.start("a")
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    assert "backup" in caught.value.hint


def rot_tail(disk: VirtualDisk, size: int) -> None:
    """Flip a bit of every byte of the last page of the log."""
    name = f"wal/{disk.names('wal')[-1]}"
    end = len(disk.read(name, 0, disk.size(name)).rstrip(b"\0"))
    for place in range(max(0, end - size), end):
        disk.rot(name, place, 3)


@pytest.mark.parametrize("size", [600, 2_000, 4_096])
def test_rot_of_the_last_page_keeps_a_lonely_member_from_starting(size: int) -> None:
    """Nothing in the log tells it from a torn write: what vouches for it is rotten too. All but the
    very first records may go with it, even the one that names the cluster."""
    group = with_jobs(count=20)
    group.kill("a")
    rot_tail(group.disks["a"], size)
    for _ in range(2):  # it is not forgotten by the next start
        with pytest.raises(DiskError) as caught:
            group.start("a")
        assert caught.value.code is ErrorCode.DISK_CORRUPT
        assert "backup" in caught.value.hint


def test_rot_of_the_last_page_is_healed_by_the_others() -> None:
    group = with_jobs("a", "b", "c")
    victim = group.follower()
    group.kill(victim)
    rot_tail(group.disks[victim], 600)
    healed = group.start(victim)
    assert healed.raft.suspect is not None
    group.until(lambda: healed.raft.suspect is None and len(healed.state.jobs) == 30)
    group.run(4)
    assert healed.state.log_hash == group.leader.state.log_hash


def test_rot_is_healed_by_the_others() -> None:
    group = with_jobs("a", "b", "c")
    victim = group.follower()
    group.kill(victim)
    rot_log(group.disks[victim], 10)
    healed = group.start(victim)
    assert healed.raft.suspect is not None
    assert healed.damage.log
    group.until(lambda: healed.raft.suspect is None and len(healed.state.jobs) == 30)
    group.run(4)
    assert healed.state.log_hash == group.leader.state.log_hash
    group.kill(victim)
    again = group.start(victim)
    assert (again.raft.suspect, again.damage) == (None, (False, ()))


def test_a_rotten_snapshot_is_told(caplog: pytest.LogCaptureFixture) -> None:
    group = with_jobs("a", "b", "c", snapshot_entries=10)
    victim = group.follower()
    group.kill(victim)
    disk = group.disks[victim]
    name = f"snapshots/{max(disk.names('snapshots'))}"
    disk.rot(name, disk.size(name) // 2, 3)
    healed = group.start(victim)
    assert healed.damage == (False, (name,))
    NodeLog().recovered(healed, 0.0)
    assert f"{name} on disk was unreadable: check the disk" in caplog.text
    group.until(lambda: len(healed.state.jobs) == 30)
    group.kill(victim)
    assert group.start(victim).damage == (False, ())


def test_a_lonely_member_mends_what_it_has_twice_and_says_so() -> None:
    group = with_jobs(count=5)
    group.kill("a")
    disk = group.disks["a"]
    for place in range(7):  # of the head of the first segment: records are whole
        disk.rot(f"wal/{min(disk.names('wal'))}", place, 3)
    mended = group.start("a")
    assert mended.damage.log
    group.until(lambda: len(mended.state.jobs) == 5)
    group.kill("a")
    assert not group.start("a").damage.log


def test_a_disk_that_fails_while_it_is_written_stops_the_member() -> None:
    group = with_jobs(count=1)
    group.disks["a"].fail_next_sync = True
    with pytest.raises(DiskError) as caught:
        group.say(CLIENT, submit(2))
    assert caught.value.code is ErrorCode.DISK_FAILED
    group.members["a"].take_outputs()
    assert group.heard(CLIENT, wire.Accepted) == []


def test_a_full_disk_stops_the_member_and_loses_nothing_that_was_accepted() -> None:
    group = with_jobs(count=5)
    disk = group.disks["a"]
    disk.bytes_max = disk.used_bytes + 10_000
    accepted = list(range(1, 6))

    def fill() -> None:
        for number in range(6, 500):
            told = group.say(CLIENT, submit(number, body=bytes(5_000)))
            accepted.extend(number for one in told if isinstance(one, wire.Accepted))

    with pytest.raises(DiskError) as caught:
        fill()
    assert caught.value.code is ErrorCode.DISK_FULL
    group.kill("a")
    disk.bytes_max = -1
    again = group.start("a")
    group.until(lambda: again.leading)
    assert all(job(number) in again.state.jobs for number in accepted)


def test_a_member_registers_with_the_others_before_it_takes_part() -> None:
    group = with_jobs("a", "b", "c", count=2)
    victim = group.follower()
    group.kill(victim)
    group.isolated[victim] = None
    back = group.start(victim)
    group.run(40)
    assert back.roll.phase is JoinPhase.REGISTERING
    assert back.raft.term == group.leader.raft.term
    group.isolated.clear()
    group.until(lambda: back.roll.phase.name == "PRESENT")
    group.until(lambda: len(back.state.jobs) == 2)


def test_an_older_copy_of_a_disk_refuses_to_go_on() -> None:
    group = with_jobs("a", "b", "c", count=2)
    victim = group.follower()
    image = group.disks[victim].snapshot()
    for _ in range(2):
        group.kill(victim)
        again = group.start(victim)
        group.until(lambda: again.roll.phase is JoinPhase.PRESENT)  # noqa: B023
    group.kill(victim)
    group.disks[victim].restore(image)
    group.start(victim)
    with pytest.raises(DiskError) as caught:
        group.run(40)
    assert caught.value.code is ErrorCode.WRONG_IDENTITY
    assert "state directory away" in caught.value.hint


def test_a_member_that_lost_its_disk_joins_anew_and_catches_up() -> None:
    group = with_jobs("a", "b", "c", count=5, snapshot_entries=4)
    victim = group.follower()
    old_id = group.members[victim].raft.member_id
    group.kill(victim)
    back = group.start(victim, VirtualDisk())
    assert back.raft.member_id != old_id
    group.until(lambda: back.raft.member_id in [v.id for v in group.leader.raft.config.voters])
    group.run(4)
    assert old_id not in [voter.id for voter in group.leader.raft.config.voters]
    assert back.state.log_hash == group.leader.state.log_hash


def test_a_group_whose_term_was_forged_to_the_end_starts_again() -> None:
    group = with_jobs("a", "b", "c", count=3)
    for address in ("a", "b", "c"):
        disk = group.disks[address]
        group.kill(address)
        wal, found = Wal.open(disk, None)
        wal.append(HardState(2**64 - 1, 0, found.hard_state.commit), [])
        wal.sync()
        wal.close()
        group.start(address)
    group.elect()
    assert group.leader.raft.term < TERM_MAX
    assert len(group.leader.state.jobs) == 3


def test_a_log_whose_own_terms_are_used_up_says_what_to_do() -> None:
    assert plausible(HardState(TERM_MAX, 7, 3), 5) == HardState(TERM_MAX, 7, 3)
    with pytest.raises(DiskError) as caught:
        plausible(HardState(2**64 - 1, 0, 3), TERM_MAX)
    assert "empty state directories" in caught.value.hint
