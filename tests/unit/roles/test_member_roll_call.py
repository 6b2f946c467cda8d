"""Roll call between members: whose starts are believed, and who is let in."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import NIL_ID
from rollq.raft.types import AppendResponse, Config, Member
from rollq.roles.member.driver import Driver
from rollq.roles.member.rollcall import UNNOTED, JoinPhase
from rollq.roles.member.work import Work
from rollq.store.identity import NONCE_BITS, life_of
from rollq.testing.disk import VirtualDisk
from rollq.wire import messages as wire
from rollq.wire.messages import LeaderHello, RollAnswer
from tests.unit.roles.members import CLIENT, Group, job, sent, submit, three_members


def hello_of(driver: Driver, **changes: object) -> LeaderHello:
    fields: dict[str, object] = {
        "member_id": 99,
        "address": "z",
        "cluster_id": driver.roll.cluster_id,
        "boot": 1 << 40,
        "last_index": 0,
    } | changes
    return LeaderHello(**fields)  # type: ignore[arg-type]


def answers(group: Group, address: str, driver: Driver, hello: LeaderHello) -> None:
    """The start that a hello tells of answers a member's call."""
    answer = RollAnswer(hello.member_id, hello.address, hello.cluster_id, 0, driver.roll.boot)
    driver.peer_message(hello.address, answer, hello.boot, is_proven=True)
    group.turn(address)


def heard_by(group: Group, address: str) -> list[object]:
    """What was sent to an address since this was asked last."""
    found = [message for _, to, message in group.letters if to == address]
    group.letters.clear()
    return found


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
    group = three_members()
    address = group.follower()
    driver = group.members[address]
    hello = hello_of(driver)
    driver.peer_message("z", hello, is_proven=True)
    answer = RollAnswer(99, "z", driver.roll.cluster_id, 0, driver.roll.boot)
    driver.peer_message("z", answer, hello.boot, is_proven=True)
    group.letters.clear()
    group.collect(address)
    assert sent(group, RollAnswer) == []
    work = driver.begin()
    assert work is not None
    work.run()
    group.collect(address)
    assert sent(group, RollAnswer) == []
    driver.finish(work)
    group.collect(address)
    (answered,) = sent(group, RollAnswer)
    assert isinstance(answered, RollAnswer)
    assert (answered.to_boot, answered.boot_known, answered.noted) == (1 << 40, 0, True)
    again = hello_of(driver, boot=(1 << 40) + 5)
    driver.peer_message("z", again, is_proven=True)
    answers(group, address, driver, again)
    (later,) = sent(group, RollAnswer)
    assert isinstance(later, RollAnswer)
    assert later.boot_known == 1 << 40


def test_a_start_is_believed_when_it_has_answered_our_call() -> None:
    group = three_members()
    address = group.follower()
    driver = group.members[address]
    hello = hello_of(driver, features=(UNNOTED,))
    group.letters.clear()
    driver.peer_message("z", hello, is_proven=True)
    group.turn(address)
    called, unnoted = heard_by(group, "z")
    assert called == driver.hello("z")
    assert isinstance(unnoted, RollAnswer)
    assert (unnoted.to_boot, unnoted.noted) == (hello.boot, False)
    assert driver.begin() is None  # nothing is written down
    cluster_id, boot = driver.roll.cluster_id, driver.roll.boot
    for life, to_boot in ((hello.boot + 1, boot), (hello.boot, boot + 1)):
        driver.peer_message("z", RollAnswer(99, "z", cluster_id, 0, to_boot), life, is_proven=True)
        assert driver.begin() is None
    answers(group, address, driver, hello)
    (noted,) = roll_answers(group, "z")
    assert (noted.to_boot, noted.noted) == (hello.boot, True)


def test_what_an_answer_to_nobodys_call_tells_of_starts_is_not_noted() -> None:
    group = three_members()
    driver = group.members[group.follower()]
    boots = ((77, 1 << 50),)
    forged = RollAnswer(99, "z", driver.roll.cluster_id, 0, driver.roll.boot + 1, boots=boots)
    driver.peer_message("z", forged, is_proven=True)
    assert driver.begin() is None


def roll_answers(group: Group, address: str) -> list[RollAnswer]:
    """The answers that were sent to an address since this was asked last."""
    return [one for one in heard_by(group, address) if isinstance(one, RollAnswer)]


def test_a_member_that_does_not_know_unnoted_answers_gets_none() -> None:
    group = three_members()
    address = group.follower()
    group.letters.clear()
    group.members[address].peer_message("z", hello_of(group.members[address]), is_proven=True)
    group.turn(address)
    assert heard_by(group, "z") == [group.members[address].hello("z")]


def test_a_member_is_called_back_where_the_configuration_says() -> None:
    group = three_members()
    address = group.follower()
    driver = group.members[address]
    other = group.leader.roll.me
    group.letters.clear()
    driver.peer_message("z", hello_of(driver, member_id=other.id, boot=1 << 50), is_proven=True)
    group.turn(address)
    assert heard_by(group, other.address) == [driver.hello(other.address)]


def test_a_hello_in_our_own_name_is_not_taken() -> None:
    group = three_members()
    driver = group.members[group.follower()]
    driver.peer_message("z", later_life(driver), is_proven=True)
    assert driver.take_outputs() == []
    assert driver.begin() is None


def test_members_that_all_start_anew_believe_each_other() -> None:
    group = three_members()
    for address in ("a", "b", "c"):
        group.kill(address)
    for address in ("a", "b", "c"):
        group.start(address)
    group.elect()
    group.run(8)
    assert {driver.roll.phase for driver in group.members.values()} == {JoinPhase.PRESENT}


def test_a_forged_start_does_not_keep_two_members_from_electing() -> None:
    """One that was silent a while is not replaced by somebody who speaks in its name."""
    group = three_members()
    silent, other = [one for one in ("a", "b", "c") if not group.members[one].leading]
    group.isolated[silent] = None
    forged = later_life(group.members[silent])
    group.run(100)
    for _ in range(100):
        group.members[other].peer_message(silent, forged, forged.boot, is_proven=True)
        group.run()
    group.isolated.clear()
    group.run(8)
    group.isolated[group.address_of(group.leader)] = None
    assert group.elect().roll.me.address in (silent, other)


def test_an_older_copy_does_not_replace_the_note_that_betrays_it() -> None:
    group = three_members()
    address = group.follower()
    driver = group.members[address]
    first, second = life_of(1, 7), life_of(2, 7)
    for lives in ((first, second), (first, life_of(2, 8), life_of(3, 8))):
        group.letters.clear()
        hello = hello_of(driver, boot=lives[-1], lives=lives)
        driver.peer_message("z", hello, is_proven=True)
        answers(group, address, driver, hello)
    (answer,) = sent(group, RollAnswer)
    assert isinstance(answer, RollAnswer)
    assert answer.boot_known == second


def test_a_member_of_another_cluster_gets_no_answer_and_is_not_let_in() -> None:
    group = three_members()
    driver = group.leader
    address = group.address_of(driver)
    group.letters.clear()
    driver.peer_message("z", hello_of(driver, cluster_id=b"other group's id"), is_proven=True)
    group.turn(address)
    assert [to for _, to, _ in group.letters if to == "z"] == []
    assert 99 not in [member.id for member in driver.raft.config.learners]


def test_messages_of_an_earlier_life_are_dropped() -> None:
    group = three_members()
    leader = group.leader
    address = group.follower()
    follower = group.members[address].raft.member_id
    old = group.members[address].roll.boot
    group.kill(address)
    group.start(address)
    group.run(8)
    progress = leader.raft.progress[follower].match
    late = AppendResponse(leader.raft.member_id, follower, leader.raft.term, progress + 1)
    assert not leader.peer_message(address, late, old, is_proven=True)
    assert leader.raft.progress[follower].match == progress
    assert group.cut == []


def later_life(driver: Driver) -> LeaderHello:
    """What a copy of a member's disk says that was started after it; or somebody who lies."""
    later = life_of((driver.roll.boot >> NONCE_BITS) + 1, 9)
    return msgspec.structs.replace(driver.hello("z"), boot=later, lives=(driver.roll.boot, later))


def test_no_hello_in_its_name_stops_a_member_that_takes_part() -> None:
    group = three_members()
    for address in ("a", "b", "c"):
        forged = later_life(group.members[address])
        for other in ("a", "b", "c"):
            if other != address:
                group.members[other].peer_message(address, forged, is_proven=True)
        group.run(40)
    assert group.say(CLIENT, submit(9)) == [wire.Accepted(job(9))]
    assert {driver.roll.phase for driver in group.members.values()} == {JoinPhase.PRESENT}


def test_a_member_whose_disk_was_copied_and_started_in_its_place_stops() -> None:
    """It was cut off while the copy was started, so the others have noted the copy."""
    group = three_members()
    address = group.follower()
    original = group.members.pop(address)
    copy = VirtualDisk()
    copy.restore(group.disks[address].snapshot())
    group.start(address, copy)
    group.until(lambda: group.members[address].roll.phase is JoinPhase.PRESENT)
    group.members[address] = original
    with pytest.raises(DiskError) as caught:
        group.run(40)
    assert caught.value.code is ErrorCode.WRONG_IDENTITY


def test_starts_that_others_noted_are_noted_here_too() -> None:
    group = three_members()
    address = group.follower()
    driver = group.members[address]
    told = RollAnswer(99, "z", driver.roll.cluster_id, 0, driver.roll.boot, boots=((99, 1 << 41),))
    driver.peer_message("z", told, is_proven=True)
    group.settle()
    hello = hello_of(driver, boot=(1 << 41) + 1)
    driver.peer_message("z", hello, is_proven=True)
    group.letters.clear()
    answers(group, address, driver, hello)
    (answer,) = roll_answers(group, "z")
    assert answer.boot_known == 1 << 41


def test_what_a_stranger_tells_of_starts_is_not_noted() -> None:
    group = three_members()
    driver = group.members[group.follower()]
    driver.peer_message(
        "z",
        RollAnswer(99, "z", b"x" * 16, 0, driver.roll.boot, boots=((99, 1 << 41),)),
        is_proven=True,
    )
    assert driver.begin() is None


def test_before_roll_call_is_over_a_lost_link_means_nothing() -> None:
    group = Group("a", "b", "c")
    group.members["a"].peer_lost("b")
    assert group.members["a"].begin() is None


# --- newcomers


def test_only_the_leader_lets_newcomers_in() -> None:
    group = three_members()
    for address, driver in group.members.items():
        if not driver.leading:
            asks_in(group, address, 99)
    group.settle()
    assert not group.leader.raft.config.learners
    asks_in(group, group.address_of(group.leader), 99)
    group.settle()
    assert list(group.leader.raft.config.learners) == [Member(99, "z")]


def asks_in(group: Group, address: str, member_id: int) -> None:
    """A newcomer at z calls a member and answers its call."""
    driver = group.members[address]
    hello = hello_of(driver, member_id=member_id, newcomer=True)
    driver.peer_message("z", hello, is_proven=True)
    answers(group, address, driver, hello)


def test_a_newcomer_is_let_in_when_it_has_answered() -> None:
    group = three_members()
    for cluster_id in (NIL_ID, group.leader.roll.cluster_id):
        hello = hello_of(group.leader, cluster_id=cluster_id, newcomer=True, address="b")
        group.leader.peer_message("b", hello, is_proven=True)
        group.run(8)
        assert not group.leader.raft.config.learners
        assert len(group.leader.raft.config.voters) == 3


def test_an_old_hello_does_not_bring_back_who_was_replaced() -> None:
    """A disk was emptied and its member joined anew: what its former self said arrives late."""
    group = three_members()
    leader = group.address_of(group.leader)
    asks_in(group, leader, 99)
    group.settle()
    asks_in(group, leader, 100)
    group.until(lambda: list(group.leader.raft.config.learners) == [Member(100, "z")])
    late = hello_of(group.leader, member_id=99, newcomer=True)
    group.leader.peer_message("z", late, is_proven=True)
    group.run(8)
    assert list(group.leader.raft.config.learners) == [Member(100, "z")]


def test_answers_at_one_index_tell_one_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers take the configuration with the highest index, so none may be told with an index
    beyond a change that is not in it yet: also not while a turn is being written."""
    group = three_members()
    group.letters.clear()
    told: dict[int, set[Config]] = {}

    def turn(address: str) -> None:
        driver = group.members[address]
        hello = hello_of(driver, cluster_id=NIL_ID)  # answered at once
        while (work := driver.begin()) is not None:
            steps: tuple[Callable[[Work], object], ...] = (
                driver.meanwhile,
                lambda work: work.run(),
                driver.finish,
            )
            for step in steps:
                step(work)
                driver.peer_message("z", hello, hello.boot, is_proven=True)
                group.collect(address)
        for _, _, message in group.letters:
            if isinstance(message, RollAnswer):
                told.setdefault(message.config_index, set()).add(message.config)
        group.letters.clear()

    monkeypatch.setattr(group, "_turn", turn)
    gone = group.members[group.follower()].raft.member_id
    change = wire.Admin(job(50), "remove_member", msgspec.msgpack.encode({"member_id": gone}))
    group.tell(CLIENT, submit(10), change, submit(11), submit(12))
    group.run(8)
    assert len(group.leader.raft.config.voters) == 2
    assert {len(configs) for configs in told.values()} == {1}
    sizes = [len(config.voters) for _, (config,) in sorted(told.items())]
    assert (sizes[0], sizes[-1]) == (3, 2)
    assert sizes == sorted(sizes, reverse=True)
