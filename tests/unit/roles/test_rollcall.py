"""Roll call: who may speak for a disk."""

from __future__ import annotations

from rollq.base.ids import NIL_ID
from rollq.raft.types import Config, Member
from rollq.roles.member.keyring import KeyRing
from rollq.roles.member.rollcall import UNNOTED, JoinPhase, RollCall, is_forgotten
from rollq.store.identity import NO_KEY, life_of
from rollq.wire.messages import LeaderHello, RollAnswer

A, B, C = Member(1, "a"), Member(2, "b"), Member(3, "c")
ROSTER = (A, B, C)
CONFIG = Config(ROSTER)
CLUSTER = b"x" * 16
PEERS = ("b", "c")


def ring(me: Member = A) -> KeyRing:
    return KeyRing(NO_KEY, bytes([me.id]) * 32, b"secret", initial=PEERS)


def newcomer(me: Member = A) -> RollCall:
    return RollCall(me, NIL_ID, (), (life_of(1, 7),), ring(me))


def known(me: Member = A, boot: int = 3, nonce: int = 7) -> RollCall:
    lives = tuple(life_of(number, nonce) for number in range(1, boot + 1))
    return RollCall(me, CLUSTER, ROSTER, lives, ring(me))


def says_new(member: Member, to: RollCall) -> RollAnswer:
    return RollAnswer(member.id, member.address, NIL_ID, 0, to.boot, newcomer=True)


def notes(member: Member, to: RollCall, boot_known: int = 0) -> RollAnswer:
    return RollAnswer(member.id, member.address, CLUSTER, boot_known, to.boot, roster=ROSTER)


def is_present(roll: RollCall) -> bool:
    return roll.phase is JoinPhase.PRESENT


def test_a_cluster_is_born_only_when_every_initial_member_is_new() -> None:
    roll = newcomer()
    assert not roll.take(says_new(B, roll), PEERS)
    assert roll.take(says_new(C, roll), PEERS)
    assert roll.roster == ROSTER
    assert roll.cluster_id != NIL_ID


def test_all_members_give_the_cluster_the_same_name() -> None:
    a, b = newcomer(A), newcomer(B)
    for member in (B, C):
        a.take(says_new(member, a), PEERS)
    for member in (C, A):
        b.take(says_new(member, b), ("a", "c"))
    assert (a.cluster_id, a.roster) == (b.cluster_id, b.roster)


def test_one_member_with_a_past_makes_a_newcomer_join_instead() -> None:
    roll = newcomer(Member(9, "a"))
    roll.take(says_new(B, roll), PEERS)
    assert roll.take(notes(C, roll), PEERS)
    assert (roll.cluster_id, roll.roster) == (CLUSTER, ROSTER)


def test_a_member_alone_founds_its_cluster_at_once() -> None:
    roll = newcomer()
    assert roll.form(())
    assert roll.roster == (A,)
    assert not roll.form(())


def test_it_is_present_when_a_majority_of_voters_noted_its_boot() -> None:
    roll = known()
    roll.settle(CONFIG, 1)
    assert not is_present(roll)
    roll.take(notes(B, roll), PEERS)
    assert is_present(roll)


def test_an_answer_that_nothing_is_written_down_yet_does_not_count() -> None:
    roll = known()
    hello = roll.hello(CONFIG, 1, "b")
    assert UNNOTED in hello.features
    roll.take(known(B).unnoted(hello, CONFIG), PEERS)
    assert roll.phase is JoinPhase.REGISTERING
    assert "b" in roll.missing(PEERS)


def test_answers_of_learners_and_newcomers_do_not_count() -> None:
    roll = known()
    roll.take(notes(Member(9, "i"), roll), PEERS)
    roll.take(says_new(B, roll), PEERS)
    assert roll.phase is JoinPhase.REGISTERING


def test_a_copy_from_before_the_cluster_was_born_registers_too() -> None:
    roll = newcomer()
    assert roll.take(notes(C, roll), PEERS)
    roll.joined()
    assert roll.phase is JoinPhase.REGISTERING
    later = known(boot=2).boot
    copy = newcomer()
    assert not copy.take(notes(C, copy, boot_known=later), PEERS)
    assert copy.superseded


def test_the_only_voter_asks_nobody() -> None:
    roll = known()
    roll.settle(Config((A,)), 1)
    assert roll.phase is JoinPhase.PRESENT


def test_an_older_copy_of_a_disk_learns_of_its_later_life() -> None:
    roll = known(boot=3)
    later = known(boot=4, nonce=1).boot
    roll.take(notes(B, roll, boot_known=later), PEERS)
    assert roll.superseded
    assert roll.phase is JoinPhase.REGISTERING


def test_one_word_does_not_stop_a_member_that_takes_part_but_a_quorum_does() -> None:
    roll = known(boot=3)
    roll.settle(CONFIG, 1)
    roll.take(notes(B, roll), PEERS)
    assert is_present(roll)
    later = known(boot=4, nonce=1).boot
    for _ in range(3):
        roll.take(notes(B, roll, boot_known=later), PEERS)
        roll.take(notes(Member(9, "i"), roll, boot_known=later), PEERS)  # no voter
    assert not roll.superseded
    roll.take(notes(C, roll, boot_known=later), PEERS)
    assert roll.superseded


def test_what_is_known_of_somebody_who_called_under_our_address_is_not_of_us() -> None:
    roll = known(boot=3)
    later = known(boot=9).boot
    for other in (B, C):
        roll.take(notes(other, roll), PEERS)
    assert is_present(roll)
    for other in (B, C):
        boots = ((12_345, later), (A.id, roll.boot))
        answer = RollAnswer(other.id, other.address, CLUSTER, later, roll.boot, boots=boots)
        roll.take(answer, PEERS)
    assert not roll.superseded


def test_a_start_that_the_disk_does_not_remember_makes_it_a_copy() -> None:
    lives = (life_of(2, 7), life_of(3, 7), life_of(4, 7))
    assert is_forgotten(lives, life_of(5, 1))
    assert is_forgotten(lives, life_of(3, 8))  # though it was started again since
    assert not is_forgotten(lives, life_of(3, 7))
    assert not is_forgotten(lives, life_of(1, 9))  # before its memory begins
    assert not is_forgotten(lives, 0)


def test_an_answer_to_an_earlier_life_is_ignored() -> None:
    roll = known(boot=4)
    answer = RollAnswer(B.id, B.address, CLUSTER, 0, known(boot=3).boot)
    roll.take(answer, PEERS)
    assert roll.phase is JoinPhase.REGISTERING


def test_members_of_another_cluster_get_no_answer() -> None:
    hello = LeaderHello(B.id, B.address, b"y" * 16, 1, 0)
    assert known().answer(hello, {}, CONFIG, 1) is None
    newcomer_hello = LeaderHello(9, "i", NIL_ID, 1, 0, newcomer=True)
    answer = known().answer(newcomer_hello, {}, CONFIG, 1)
    assert answer is not None
    assert answer.roster == ROSTER


def test_hellos_go_on_until_everybody_answered() -> None:
    roll = known()

    def next_hellos() -> set[str]:
        for _ in range(10):
            hellos = roll.hellos(PEERS, CONFIG, last_index=5)
            if hellos:
                return set(hellos)
        return set()

    assert next_hellos() == {"b", "c"}
    roll.take(notes(B, roll), PEERS)
    assert next_hellos() == {"c"}
    roll.take(notes(C, roll), PEERS)
    assert next_hellos() == set()


def test_a_newcomer_calls_the_addresses_it_was_given() -> None:
    hellos = newcomer().hellos(PEERS, Config(), 0)
    assert set(hellos) == {"b", "c"}
    assert all(hello.newcomer for hello in hellos.values())


def test_it_calls_as_a_newcomer_until_it_is_let_in_once() -> None:
    late = RollCall(Member(9, "a"), CLUSTER, ROSTER, (life_of(1, 7),), ring())
    assert late.hello(CONFIG, 0, "b").newcomer
    assert late.hello(CONFIG, 3, "b").newcomer  # of a leader whose admission was lost
    for member in ROSTER:
        late.take(notes(member, late), PEERS)
    assert set(next(h for _ in range(9) if (h := late.hellos(PEERS, CONFIG, 0)))) == {"b", "c"}
    assert late.note_config(Config(ROSTER, (Member(9, "a"),)))
    assert not late.note_config(Config(ROSTER, (Member(9, "a"),)))
    assert not late.hello(CONFIG, 3, "b").newcomer  # taken out: does not ask again


def test_the_majority_is_of_the_newest_configuration_that_anybody_knows() -> None:
    roll = known()
    replaced = Config((A, Member(22, "b"), Member(33, "c")))
    old = RollAnswer(22, "b", CLUSTER, 0, roll.boot, config=replaced, config_index=40)
    roll.take(old, PEERS)
    assert roll.phase is JoinPhase.PRESENT
    roll.settle(CONFIG, 1)


def test_an_answer_of_a_member_that_was_replaced_does_not_count() -> None:
    roll = known()
    replaced = Config((A, Member(22, "b"), Member(33, "c")))
    roll.take(RollAnswer(B.id, "b", CLUSTER, 0, roll.boot, config=replaced, config_index=9), PEERS)
    assert roll.phase is JoinPhase.REGISTERING


def test_what_others_were_told_of_a_later_life_counts_too() -> None:
    roll = known(boot=3)
    later = known(boot=4, nonce=1).boot
    roll.take(RollAnswer(B.id, "b", CLUSTER, 0, roll.boot, boots=((A.id, later),)), PEERS)
    assert roll.superseded
