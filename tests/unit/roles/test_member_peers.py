"""What members say to each other beside consensus: history, snapshots, links; roll call apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import PEER_DOUBLINGS_MAX, PEER_SILENT_MS
from rollq.history.segments import Segments
from rollq.raft.types import AppendResponse, InstallSnapshot, RaftHeartbeat, SnapshotMeta
from rollq.roles.member.history_log import HistoryLog
from rollq.roles.member.outputs import ClosePeer
from rollq.store.snapshots import Snapshots
from rollq.store.wal import Wal
from rollq.testing.disk import VirtualDisk
from rollq.wire.messages import HistoryFetch, HistoryRows
from tests.unit.roles.members import CLIENT, TICK_MS, Group, job, sent, submit, three_members


def test_what_no_correct_member_says_cuts_the_link() -> None:
    group = three_members()
    leader = group.leader
    address = group.follower()
    sender = group.members[address].raft.member_id
    wild = AppendResponse(leader.raft.member_id, sender, leader.raft.term, 1_000_000)
    assert leader.peer_message(address, wild, group.members[address].roll.boot, is_proven=True)
    group.settle()
    assert group.mishaps == []


def test_messages_for_another_member_are_not_taken() -> None:
    group = three_members()
    leader = group.leader
    leader.peer_message("b", RaftHeartbeat(424242, 5, leader.raft.term + 7, 0), is_proven=True)
    assert leader.leading
    assert leader.raft.term < 7


def test_a_lost_link_to_the_leader_starts_an_election_at_once() -> None:
    group = three_members()
    old = group.address_of(group.leader)
    group.kill(old)  # everybody's link to it breaks
    group.run(2)
    assert any(one.leading for one in group.members.values())


# --- history


def lagging(group: Group) -> str:
    """A follower that was away while the log shrank, and is back."""
    address = group.follower()
    group.isolated[address] = None
    for number in range(100, 150):
        group.say(CLIENT, submit(number))
    group.isolated.clear()
    driver = group.members[address]
    group.until(lambda: job(149) in driver.state.jobs)
    return address


def test_a_follower_that_was_sent_a_snapshot_fetches_the_history_it_missed() -> None:
    group = three_members(snapshot_entries=5)
    address = lagging(group)
    driver = group.members[address]
    assert "snapshot_received" in group.points
    group.until(lambda: driver.replica.history.gaps(driver.state.applied_index) == [])
    whole = group.leader.replica.history.rows(1, 10_000)
    assert whole is not None
    assert driver.replica.history.rows(1, whole.last) == whole
    assert Segments(group.disks[address]).covered_to() > 0


def test_history_that_one_follower_holds_in_memory_outlives_the_snapshot_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = three_members(snapshot_entries=5)
    first = group.leader
    lacking, holding = (a for a, one in group.members.items() if one is not first)
    monkeypatch.setattr(group.members[holding], "begin_snapshot", lambda: None)
    logs = [group.members[address].replica.history for address in (lacking, holding)]
    group.lost = (HistoryRows,)
    assert lagging(group) == lacking  # no peer sends it the rows that it missed
    assert not _is_whole(logs[0], group.members[lacking].state.applied_index)

    group.isolated[holding] = None
    for number in range(300, 350):
        group.say(CLIENT, submit(number))
    group.run(4)
    whole = first.replica.history.rows(1, 10_000)
    group.kill(group.address_of(first))  # its disk is never seen again
    group.isolated.clear()
    group.lost = ()
    group.until(lambda: job(349) in group.members[holding].state.jobs)

    assert whole is not None
    for log in logs:
        group.until(partial(_is_whole, log, whole.last))
        assert log.rows(1, whole.last) == whole


def _is_whole(log: HistoryLog, last: int) -> bool:
    return log.gaps(last) == []


def test_a_crash_between_a_snapshot_and_the_new_log_loses_no_history_from_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = three_members(snapshot_entries=5)
    address = group.follower()
    monkeypatch.setattr(group.members[address], "begin_snapshot", lambda: None)
    for number in range(50, 60):
        group.say(CLIENT, submit(number))
    group.run(4)
    group.lost = (HistoryRows,)
    applied = group.members[address].state.applied_index

    def crashing(self: Wal, snapshot: SnapshotMeta) -> None:
        raise DiskError(ErrorCode.DISK_FAILED, f"snapshot {snapshot.index} is there, its log not")

    with monkeypatch.context() as patched:
        patched.setattr(Wal, "install", crashing)
        with pytest.raises(DiskError):
            lagging(group)
    group.kill(address)
    driver = group.start(address)
    assert driver.state.applied_index > applied
    assert driver.replica.history.gaps(applied) == []


def test_rows_that_nobody_asked_for_are_not_taken() -> None:
    group = three_members()
    address = group.follower()
    driver = group.members[address]
    driver.peer_message("b", HistoryRows(1, 1, ()), is_proven=True)
    driver.peer_message("b", HistoryRows(5_000, 6_000, ()), is_proven=True)
    assert driver.begin() is None


def test_a_fetch_of_what_is_not_there_is_not_answered() -> None:
    group = three_members()
    group.letters.clear()
    for first, last in ((10_000, 20_000), (0, 0), (-5, -1), (7, 3)):
        group.leader.peer_message("z", HistoryFetch(first, last), is_proven=True)
    group.settle()
    assert [to for _, to, _ in group.letters if to == "z"] == []


def test_a_fetch_is_answered_once() -> None:
    group = three_members()
    group.letters.clear()
    group.leader.peer_message("z", HistoryFetch(1, 1), is_proven=True)
    group.settle()
    assert len([to for _, to, _ in group.letters if to == "z"]) == 1


def test_a_member_alone_asks_nobody_for_its_gaps() -> None:
    group = Group()
    group.elect()
    group.run(40)
    assert sent(group, HistoryFetch) == []


# --- snapshots


def reads_of(monkeypatch: pytest.MonkeyPatch, broken: Callable[[int, bytes], bytes]) -> None:
    """Let something happen to the n-th chunk of a snapshot that is read to be sent."""
    real = Snapshots.read
    count = 0

    def read(self: Snapshots, meta: SnapshotMeta, offset: int, length: int) -> bytes:
        nonlocal count
        count += 1
        return broken(count, real(self, meta, offset, length))

    monkeypatch.setattr(Snapshots, "read", read)


def test_a_snapshot_that_arrives_damaged_is_refused_and_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = three_members(snapshot_entries=5)
    reads_of(monkeypatch, lambda count, data: bytes(len(data)) if count == 1 else data)
    address = lagging(group)
    assert len(sent(group, InstallSnapshot)) > 1
    group.run(4)
    assert group.members[address].state.log_hash == group.leader.state.log_hash


def test_a_snapshot_that_rotted_at_the_leader_is_taken_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = three_members(snapshot_entries=5)

    def rotten(count: int, data: bytes) -> bytes:
        if count == 1:
            raise DiskError(ErrorCode.SNAPSHOT_CORRUPT, "rotten")
        return data

    reads_of(monkeypatch, rotten)
    before = group.leader.raft.snapshot.index
    address = lagging(group)
    group.run(4)
    assert group.leader.raft.snapshot.index > before
    assert group.members[address].state.log_hash == group.leader.state.log_hash


def test_a_snapshot_that_rotted_unnoticed_is_doubted_and_taken_anew() -> None:
    group = three_members(snapshot_entries=5)
    address = group.follower()
    group.isolated[address] = None
    for number in range(100, 150):
        group.say(CLIENT, submit(number))
    group.run(4)
    leader = group.leader
    disk = group.disks[leader.roll.me.address]
    name = f"snapshots/{disk.names('snapshots')[-1]}"
    disk.rot(name, disk.size(name) - 3, 1)
    group.isolated.clear()
    driver = group.members[address]
    group.until(lambda: job(149) in driver.state.jobs)
    assert driver.state.log_hash == leader.state.log_hash


def test_a_disk_that_fails_under_a_snapshot_stops_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = three_members(snapshot_entries=5)

    def failing(count: int, data: bytes) -> bytes:
        raise DiskError(ErrorCode.DISK_FAILED, f"read {count} failed")

    reads_of(monkeypatch, failing)
    with pytest.raises(DiskError) as caught:
        lagging(group)
    assert caught.value.code is ErrorCode.DISK_FAILED


def test_a_newcomer_is_brought_up_by_a_snapshot() -> None:
    group = three_members(count=20, snapshot_entries=5)
    newcomer = group.start("d", VirtualDisk())
    group.until(lambda: job(20) in newcomer.state.jobs)
    assert sent(group, InstallSnapshot)
    assert newcomer.raft.first_index > 1


def test_a_link_to_a_member_that_does_not_answer_is_closed_less_and_less_often() -> None:
    group = three_members()
    silent = group.follower()
    group.isolated[silent] = None
    group.cut.clear()
    leader = group.address_of(group.leader)
    ticks = PEER_SILENT_MS // TICK_MS
    group.run(ticks + 8)
    mine = [one for one in group.cut if one.address == silent]
    assert mine == [ClosePeer(silent, "no answer")]
    group.run(sum(ticks << n for n in range(1, PEER_DOUBLINGS_MAX + 1)) + 40)
    assert group.address_of(group.leader) == leader
    mine = [one for one in group.cut if one.address == silent]
    assert len(mine) == 1 + PEER_DOUBLINGS_MAX
    group.isolated.clear()
    group.run(8 * ticks)
    group.cut.clear()
    group.run(20 * ticks)
    assert group.cut == []  # all of them answer: no link is touched


def test_a_follower_does_not_remember_how_long_an_earlier_vote_waited() -> None:
    group = three_members()
    gone = group.follower()
    del group.members[gone]  # nobody's link breaks
    ticks = PEER_SILENT_MS // TICK_MS
    group.isolated.update(dict.fromkeys(group.members))
    group.run(8 * ticks)
    group.isolated.clear()
    group.elect()
    group.run(ticks)
    del group.members[group.address_of(group.leader)]
    group.cut.clear()
    group.run(2 * ticks)
    assert ClosePeer(gone, "no answer") in group.cut
