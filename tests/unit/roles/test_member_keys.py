"""The cluster key in a group: its birth, whom members listen to once they have it, and groups that
were born without one."""

from __future__ import annotations

import msgspec
import pytest

from rollq.raft import types as raft
from rollq.roles.member.driver import Driver
from rollq.roles.member.keyring import KEYS, KeyRing
from rollq.roles.member.peers import UNPROVEN
from rollq.store.identity import NONCE_BITS
from rollq.testing.disk import VirtualDisk
from rollq.wire import messages as wire
from rollq.wire.messages import HistoryFetch, LeaderHello, RollAnswer
from tests.unit.roles.members import CLIENT, Group, job, submit, three_members


def keys_of(group: Group) -> set[bytes]:
    return {driver.roll.keys.key.value for driver in group.members.values()}


def all_guarded(group: Group) -> bool:
    return all(driver.roll.keys.is_guarded for driver in group.members.values())


def said_to(group: Group, address: str, kind: type) -> list[object]:
    found = [m for _, to, m in group.letters if to == address and isinstance(m, kind)]
    group.letters.clear()
    return found


class OlderGroup(Group):
    """Members whose disks have no share, as those of a version before keys."""

    def start(self, address: str, disk: VirtualDisk | None = None) -> Driver:
        driver = super().start(address, disk)
        driver.roll.keys.share = b""
        return driver


def test_a_group_is_born_with_one_key() -> None:
    group = three_members()
    assert all_guarded(group)
    (key,) = keys_of(group)
    assert len(key) == 32
    other = Group("a", "b", "d")
    other.elect()
    assert key not in keys_of(other)


def test_a_member_alone_has_a_key_too() -> None:
    group = Group()
    group.elect()
    assert all_guarded(group)


def test_a_member_that_dies_while_its_cluster_is_born_gets_the_same_key() -> None:
    """Its share stays on its disk; and the others tell it what they have made of all shares."""
    group = Group("a", "b", "c")
    driver = group.members["a"]
    group.until(lambda: driver.roll.keys.found or driver.roll.keys.held)
    share = driver.roll.keys.share
    group.kill("a")
    assert group.start("a").roll.keys.share == share
    group.elect()
    group.until(lambda: all_guarded(group))
    assert len(keys_of(group)) == 1


def test_a_key_outlives_the_process() -> None:
    group = three_members()
    before = keys_of(group)
    for address in ("a", "b", "c"):
        group.kill(address)
    for address in ("a", "b", "c"):
        assert group.start(address).roll.keys.is_guarded
    group.elect()
    assert keys_of(group) == before


def test_nothing_of_consensus_is_heard_of_whoever_does_not_prove_the_key() -> None:
    group = three_members()
    address = group.follower()
    driver = group.members[address]
    me, leader = driver.raft.member_id, group.leader.raft.member_id
    term = driver.raft.term
    for word in (
        raft.RequestVote(me, leader, term + 1, 99, term, transfer=True),
        raft.AppendEntries(me, leader, term + 1, 0, 0, 9),
        raft.TimeoutNow(me, leader, term),
        HistoryFetch(1, 2),
        wire.MemberReport(leader, 1),
    ):
        assert driver.peer_message("b", word, group.leader.roll.boot) == UNPROVEN
    assert driver.begin() is None
    assert driver.raft.term == term
    assert not driver.peer_message("b", HistoryFetch(1, 1), is_proven=True)


def test_a_hello_without_the_key_moves_nothing() -> None:
    group = three_members()
    driver = group.members[group.follower()]
    leader = group.leader
    later = leader.roll.boot + (1 << NONCE_BITS)
    hello = msgspec.structs.replace(leader.hello("b"), boot=later, lives=(leader.roll.boot, later))
    assert driver.peer_message("z", hello, later) == UNPROVEN  # it says that it has the key
    keyless = msgspec.structs.replace(hello, key_id=b"", key_sure=False)
    group.letters.clear()
    assert driver.peer_message("z", keyless, later) == ""
    group.turn(group.address_of(driver))
    # Told to the member itself, at its own address, and nothing is written down.
    (told,) = said_to(group, leader.roll.me.address, RollAnswer)
    assert isinstance(told, RollAnswer)
    assert (told.key, told.noted) == (driver.roll.keys.key.value, False)
    assert driver.begin() is None


def test_an_answer_without_the_key_stops_nobody() -> None:
    group = three_members()
    driver = group.members[group.follower()]
    later = driver.roll.boot + (1 << NONCE_BITS)
    for other in group.members.values():
        if other is not driver:
            me = other.roll.me
            forged = RollAnswer(
                *(me.id, me.address, driver.roll.cluster_id, later, driver.roll.boot),
                boots=((driver.raft.member_id, later),),
                to_call=driver.roll.keys.call(me.address),
            )
            assert driver.peer_message(me.address, forged, other.roll.boot) == ""
    assert not driver.roll.superseded
    assert driver.begin() is None


def test_a_stranger_that_asks_for_the_key_gets_none() -> None:
    group = three_members()
    for address, driver in group.members.items():
        for cluster_id in (bytes(16), driver.roll.cluster_id):
            hello = LeaderHello(99, "z", cluster_id, 1 << 40, 0, features=("keys",), newcomer=True)
            driver.peer_message("z", hello, hello.boot)
            group.turn(address)
    answers = [m for _, _, m in group.letters if isinstance(m, RollAnswer) and m.to_boot == 1 << 40]
    assert answers
    assert not any(answer.key or answer.share for answer in answers)
    members = [driver.raft.member_id for driver in group.members.values()]
    assert not any(one in members for answer in answers for one, _ in answer.boots)


def test_a_closed_group_lets_no_stranger_in() -> None:
    group = three_members()
    leader = group.leader
    leader.roll.keys.is_closed = True
    hello = LeaderHello(99, "z", leader.roll.cluster_id, 1 << 40, 0, newcomer=True)
    assert leader.peer_message("z", hello, hello.boot) == UNPROVEN


def test_a_newcomer_is_told_the_key_when_it_is_let_in() -> None:
    group = three_members()
    group.start("d").roll.keys.share = b""
    group.until(lambda: len(group.leader.raft.config.voters) == 4)
    assert all_guarded(group)
    assert len(keys_of(group)) == 1


def test_a_member_whose_disk_was_replaced_is_told_the_key() -> None:
    group = three_members()
    address = group.follower()
    old = group.members[address].raft.member_id
    group.kill(address)
    group.start(address, VirtualDisk())
    group.until(lambda: all_guarded(group))
    group.until(lambda: len(group.leader.raft.config.voters) == 3)
    assert old not in [voter.id for voter in group.leader.raft.config.voters]
    assert len(keys_of(group)) == 1


def test_a_newcomer_that_cannot_be_admitted_yet_is_called_once_a_tick() -> None:
    """It calls to get the key, and the leader calls it back, while no majority can admit it."""
    group = three_members()
    replaced, silent = (one for one, driver in group.members.items() if not driver.leading)
    group.isolated[silent] = None
    group.kill(replaced)
    group.start(replaced, VirtualDisk())
    group.letters.clear()
    group.run(8)
    assert 0 < len(said_to(group, replaced, LeaderHello)) <= 12  # 8 in reply, and its own every 4
    group.isolated.clear()
    group.until(lambda: all_guarded(group) and len(group.leader.raft.config.voters) == 3)


def test_a_call_that_is_lost_with_its_link_is_made_again_at_the_next_tick() -> None:
    """A member that was restarted calls twice within a tick: the link of its first call broke."""
    group = three_members()
    leader, address = group.leader, group.follower()
    group.kill(address)
    restarted = group.start(address)
    hello = restarted.hello(group.address_of(leader))
    group.letters.clear()
    for _ in range(2):
        leader.peer_message(address, hello, restarted.roll.boot, is_proven=True)
        group.turn(group.address_of(leader))
        leader.peer_lost(address)
    assert len(said_to(group, address, LeaderHello)) == 1
    leader.tick()
    group.turn(group.address_of(leader))
    assert len(said_to(group, address, LeaderHello)) == 1


def test_members_of_a_group_from_before_get_a_key_while_it_works() -> None:
    group = OlderGroup("a", "b", "c")
    group.elect()
    group.client(CLIENT)
    term = group.leader.raft.term
    group.until(lambda: all_guarded(group))
    assert len(keys_of(group)) == 1
    assert group.leader.raft.term == term
    assert group.say(CLIENT, submit(1)) == [wire.Accepted(job(1))]


def test_no_key_is_made_while_a_member_does_not_know_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    group = OlderGroup("a", "b", "c")
    old = [group.members[address].roll.keys for address in ("b", "c")]
    features = property(lambda keys: () if keys in old else (KEYS,))
    monkeypatch.setattr(KeyRing, "features", features)
    group.elect()
    group.run(60)
    assert keys_of(group) == {b""}
    old.clear()
    for address in ("b", "c"):
        group.kill(address)
        group.start(address)
    group.until(lambda: all_guarded(group))


def test_a_leader_that_dies_while_it_hands_out_a_key_leaves_one_key() -> None:
    group = OlderGroup("a", "b", "c")
    first = group.elect()
    address = group.address_of(first)
    group.until(lambda: first.roll.keys.held)
    group.kill(address)
    group.elect()
    group.run(20)
    group.start(address)
    group.until(lambda: all_guarded(group))
    assert len(keys_of(group)) == 1
