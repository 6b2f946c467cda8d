"""What members say to each other beside consensus: roll call, newcomers, history, snapshots."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.limits import PEER_DOUBLINGS_MAX, PEER_SILENT_MS
from rollq.history.segments import Segments
from rollq.raft.types import AppendResponse, Heartbeat, InstallSnapshot, Member, SnapshotMeta
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import ClosePeer
from rollq.roles.member.rollcall import Phase
from rollq.store.identity import NONCE_BITS, life_of
from rollq.store.snapshots import Snapshots
from rollq.testing.disk import VirtualDisk
from rollq.wire import messages as wire
from rollq.wire.messages import HistoryFetch, HistoryRows, LeaderHello, RollAnswer
from tests.unit.roles.members import TICK_MS, Group, job, submit

CLIENT = 1


def three(count: int = 3, **settings: object) -> Group:
    group = Group("a", "b", "c", **settings)
    group.elect()
    group.client(CLIENT)
    for number in range(1, count + 1):
        group.say(CLIENT, submit(number))
    group.run(4)
    return group


def letters(group: Group, kind: type) -> list[object]:
    found = [message for _, _, message in group.letters if isinstance(message, kind)]
    group.letters.clear()
    return found


def hello_of(driver: Driver, **changes: object) -> LeaderHello:
    fields: dict[str, object] = {
        "member_id": 99,
        "address": "z",
        "cluster_id": driver.roll.cluster_id,
        "boot": 1 << 40,
        "last_index": 0,
    } | changes
    return LeaderHello(**fields)  # type: ignore[arg-type]


# --- roll call


def test_a_group_is_born_when_all_are_there() -> None:
    group = Group("a", "b", "c")
    group.isolated["c"] = None
    group.run(60)
    assert all(one.roll.cluster_id == NIL_ID for one in group.members.values())
    group.isolated.clear()
    group.elect()
    group.run(8)
    assert len({one.roll.cluster_id for one in group.members.values()}) == 1


def test_a_boot_is_answered_only_when_it_is_written_down() -> None:
    group = three()
    address = group.follower()
    driver = group.members[address]
    group.letters.clear()
    driver.peer_message("z", hello_of(driver))
    assert driver.take_outputs() == []
    work = driver.begin()
    assert work is not None
    work.run()
    group.collect(address)
    assert letters(group, RollAnswer) == []
    driver.finish(work)
    group.collect(address)
    (answer,) = letters(group, RollAnswer)
    assert isinstance(answer, RollAnswer)
    assert (answer.to_boot, answer.boot_known) == (1 << 40, 0)
    driver.peer_message("z", hello_of(driver, boot=(1 << 40) + 5))
    group.turn(address)
    (again,) = letters(group, RollAnswer)
    assert isinstance(again, RollAnswer)
    assert again.boot_known == 1 << 40


def test_an_older_copy_does_not_replace_the_note_that_betrays_it() -> None:
    group = three()
    address = group.follower()
    driver = group.members[address]
    first, second = life_of(1, 7), life_of(2, 7)
    for lives in ((first, second), (first, life_of(2, 8), life_of(3, 8))):
        group.letters.clear()
        hello = msgspec.structs.replace(hello_of(driver, boot=lives[-1]), lives=lives)
        driver.peer_message("z", hello)
        group.turn(address)
    (answer,) = letters(group, RollAnswer)
    assert isinstance(answer, RollAnswer)
    assert answer.boot_known == second


def test_a_member_of_another_cluster_gets_no_answer_and_is_not_let_in() -> None:
    group = three()
    driver = group.leader
    address = group.address_of(driver)
    group.letters.clear()
    driver.peer_message("z", hello_of(driver, cluster_id=b"other group's id"))
    group.turn(address)
    assert [to for _, to, _ in group.letters if to == "z"] == []
    assert 99 not in [member.id for member in driver.raft.config.learners]


def test_messages_of_an_earlier_life_are_dropped() -> None:
    group = three()
    leader = group.leader
    address = group.follower()
    follower = group.members[address].raft.member_id
    old = group.members[address].roll.boot
    group.kill(address)
    group.start(address)
    group.run(8)
    progress = leader.raft.progress[follower].match
    late = AppendResponse(leader.raft.member_id, follower, leader.raft.term, progress + 1)
    assert not leader.peer_message(address, late, old)
    assert leader.raft.progress[follower].match == progress
    assert group.cut == []


def later_life(driver: Driver) -> LeaderHello:
    """What a copy of a member's disk says that was started after it; or somebody who lies."""
    later = life_of((driver.roll.boot >> NONCE_BITS) + 1, 9)
    return msgspec.structs.replace(driver.hello(), boot=later, lives=(driver.roll.boot, later))


def test_no_hello_in_its_name_stops_a_member_that_takes_part() -> None:
    group = three()
    for address in ("a", "b", "c"):
        forged = later_life(group.members[address])
        for other in ("a", "b", "c"):
            if other != address:
                group.members[other].peer_message(address, forged)
        group.run(40)
    assert group.say(CLIENT, submit(9)) == [wire.Accepted(job(9))]
    assert {driver.roll.phase for driver in group.members.values()} == {Phase.PRESENT}


def test_a_member_that_called_again_after_its_link_broke_is_known_to_be_there() -> None:
    group = three()
    for address in ("a", "b", "c"):
        driver = group.members[address]
        for other in ("a", "b", "c"):
            if other != address:
                group.members[other].peer_lost(address)
                group.members[other].peer_message(address, driver.hello())
                group.members[other].peer_message(address, later_life(driver))
        group.run(40)
    group.elect()  # nobody has stopped: that would have raised
    assert {driver.roll.phase for driver in group.members.values()} == {Phase.PRESENT}


def test_a_member_whose_disk_was_copied_and_started_elsewhere_stops() -> None:
    """It was silent while the copy was started, so the others have noted the copy."""
    group = three()
    address = group.follower()
    driver = group.members[address]
    for other in [one for one in ("a", "b", "c") if one != address]:
        group.members[other].peer_lost(address)
        group.members[other].peer_message(address, later_life(driver))
        group.settle()
    with pytest.raises(DiskError) as caught:
        group.run(40)
    assert caught.value.code is ErrorCode.WRONG_IDENTITY


def test_what_no_correct_member_says_cuts_the_link() -> None:
    group = three()
    leader = group.leader
    address = group.follower()
    sender = group.members[address].raft.member_id
    wild = AppendResponse(leader.raft.member_id, sender, leader.raft.term, 1_000_000)
    assert leader.peer_message(address, wild, group.members[address].roll.boot)
    group.settle()
    assert group.mishaps == []


def test_messages_for_another_member_are_not_taken() -> None:
    group = three()
    leader = group.leader
    leader.peer_message("b", Heartbeat(424242, 5, leader.raft.term + 7, 0))
    assert leader.leading
    assert leader.raft.term < 7


def test_starts_that_others_noted_are_noted_here_too() -> None:
    group = three()
    driver = group.members[group.follower()]
    told = RollAnswer(99, "z", driver.roll.cluster_id, 0, driver.roll.boot, boots=((99, 1 << 41),))
    driver.peer_message("z", told)
    group.settle()
    group.letters.clear()
    driver.peer_message("z", hello_of(driver, boot=(1 << 41) + 1))
    group.settle()
    (answer,) = [one for _, to, one in group.letters if to == "z" and isinstance(one, RollAnswer)]
    assert answer.boot_known == 1 << 41


def test_what_a_stranger_tells_of_starts_is_not_noted() -> None:
    group = three()
    driver = group.members[group.follower()]
    driver.peer_message(
        "z", RollAnswer(99, "z", b"x" * 16, 0, driver.roll.boot, boots=((99, 1 << 41),))
    )
    assert driver.begin() is None


def test_a_lost_link_to_the_leader_starts_an_election_at_once() -> None:
    group = three()
    old = group.address_of(group.leader)
    group.kill(old)  # everybody's link to it breaks
    group.run(2)
    assert any(one.leading for one in group.members.values())


def test_before_roll_call_is_over_a_lost_link_means_nothing() -> None:
    group = Group("a", "b", "c")
    group.members["a"].peer_lost("b")
    assert group.members["a"].begin() is None


# --- newcomers


def test_only_the_leader_lets_newcomers_in() -> None:
    group = three()
    for address in list(group.members):
        if not group.members[address].leading:
            driver = group.members[address]
            driver.peer_message("z", hello_of(driver, cluster_id=NIL_ID, newcomer=True))
    group.settle()
    assert not group.leader.raft.config.learners
    group.leader.peer_message("z", hello_of(group.leader, cluster_id=NIL_ID, newcomer=True))
    group.settle()
    assert list(group.leader.raft.config.learners) == [Member(99, "z")]


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
    group = three(snapshot_entries=5)
    address = lagging(group)
    driver = group.members[address]
    assert "snapshot_received" in group.points
    group.until(lambda: driver.replica.history.gaps(driver.state.applied_index) == [])
    whole = group.leader.replica.history.rows(1, 10_000)
    assert whole is not None
    assert driver.replica.history.rows(1, whole.last) == whole
    assert Segments(group.disks[address]).covered_to() > 0


def test_rows_that_nobody_asked_for_are_not_taken() -> None:
    group = three()
    address = group.follower()
    driver = group.members[address]
    driver.peer_message("b", HistoryRows(1, 1, ()))
    driver.peer_message("b", HistoryRows(5_000, 6_000, ()))
    assert driver.begin() is None


def test_a_fetch_of_what_is_not_there_is_not_answered() -> None:
    group = three()
    group.letters.clear()
    for first, last in ((10_000, 20_000), (0, 0), (-5, -1), (7, 3)):
        group.leader.peer_message("z", HistoryFetch(first, last))
    group.settle()
    assert [to for _, to, _ in group.letters if to == "z"] == []


def test_a_member_alone_asks_nobody_for_its_gaps() -> None:
    group = Group()
    group.elect()
    group.run(40)
    assert letters(group, HistoryFetch) == []


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
    group = three(snapshot_entries=5)
    reads_of(monkeypatch, lambda count, data: bytes(len(data)) if count == 1 else data)
    address = lagging(group)
    assert len(letters(group, InstallSnapshot)) > 1
    group.run(4)
    assert group.members[address].state.log_hash == group.leader.state.log_hash


def test_a_snapshot_that_rotted_at_the_leader_is_taken_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = three(snapshot_entries=5)

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
    group = three(snapshot_entries=5)
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
    group = three(snapshot_entries=5)

    def failing(count: int, data: bytes) -> bytes:
        raise DiskError(ErrorCode.DISK_FAILED, f"read {count} failed")

    reads_of(monkeypatch, failing)
    with pytest.raises(DiskError) as caught:
        lagging(group)
    assert caught.value.code is ErrorCode.DISK_FAILED


def test_a_newcomer_is_brought_up_by_a_snapshot() -> None:
    group = three(count=20, snapshot_entries=5)
    newcomer = group.start("d", VirtualDisk())
    group.until(lambda: job(20) in newcomer.state.jobs)
    assert letters(group, InstallSnapshot)
    assert newcomer.raft.first_index > 1


def test_a_link_to_a_member_that_does_not_answer_is_closed_less_and_less_often() -> None:
    group = three()
    silent = group.follower()
    group.isolated[silent] = None
    group.cut.clear()
    leader = group.address_of(group.leader)
    ticks = PEER_SILENT_MS // TICK_MS
    group.run(ticks + 8)
    mine = [one for one in group.cut if one.address == silent]
    assert mine == [ClosePeer(silent, "it does not answer")]
    group.run(sum(ticks << n for n in range(1, PEER_DOUBLINGS_MAX + 1)) + 40)
    assert group.address_of(group.leader) == leader
    mine = [one for one in group.cut if one.address == silent]
    assert len(mine) == 1 + PEER_DOUBLINGS_MAX
    group.isolated.clear()
    group.run(8 * ticks)
    group.cut.clear()
    group.run(20 * ticks)
    assert group.cut == []  # all of them answer: no link is touched
