"""Who is told the cluster key, and from whom one is taken."""

from __future__ import annotations

import msgspec

from rollq.raft.types import Config, Member
from rollq.roles.member.keyring import KEYS, KeyRing
from rollq.security.cluster_key import key_id_of
from rollq.store.identity import NO_KEY, ClusterKey
from rollq.testing.jitter import SeededJitter
from rollq.wire.messages import LeaderHello, RollAnswer

A, B, C = Member(1, "a"), Member(2, "b"), Member(3, "c")
CONFIG = Config((A, B), (C,))
K1, K2 = b"1" * 32, b"2" * 32
SURE = ClusterKey(K1, is_sure=True)
SHARES = {1: b"a" * 32, 2: b"b" * 32}


def ring(key: ClusterKey = NO_KEY, explicit: tuple[bytes, ...] = ()) -> KeyRing:
    return KeyRing(key, SHARES[1], b"secret", initial=("b",), explicit=explicit)


def hello(member: Member = B, **changes: object) -> LeaderHello:
    fields: dict[str, object] = {"features": (KEYS,)} | changes
    return LeaderHello(member.id, member.address, b"x", 1, 0, **fields)  # type: ignore[arg-type]


def told(to: KeyRing, held: ClusterKey, by: Member = B, **changes: object) -> RollAnswer:
    answer = RollAnswer(
        *(by.id, by.address, b"x", 0, 1),
        to_call=to.call(by.address),
        key_id=key_id_of(held.value) if held.value else b"",
        key_term=held.term,
        key_sure=held.is_sure,
        key=held.value,
    )
    return msgspec.structs.replace(answer, **changes)


def test_a_birth_with_all_shares_gives_a_key_that_is_sure() -> None:
    keys = ring()
    keys.form(b"x", SHARES)
    assert keys.found is not None
    assert keys.found.is_sure
    assert not keys.held  # not before it is written down
    keys.written(keys.found)
    assert keys.is_guarded
    assert keys.held == (keys.key.value,)


def test_a_birth_with_a_member_that_knows_no_keys_gives_none() -> None:
    keys = ring()
    keys.form(b"x", SHARES | {2: b""})
    assert keys.found is None


def test_a_share_is_told_to_first_members_alone() -> None:
    assert ring().share_for(hello()) == SHARES[1]
    assert ring().share_for(hello(C)) == b""
    assert ring().share_for(hello(features=())) == b""
    assert ring(explicit=(K2,)).share_for(hello()) == b""


def test_the_key_is_told_to_members_that_lack_it_at_their_address() -> None:
    keys = ring(SURE)
    assert keys.key_for(hello(), CONFIG) == K1
    assert keys.key_for(hello(C), CONFIG) == K1
    assert keys.key_for(hello(Member(9, "b")), CONFIG) == b""
    assert keys.key_for(hello(Member(2, "z")), CONFIG) == b""
    assert keys.key_for(hello(features=()), CONFIG) == b""
    assert keys.key_for(hello(key_id=key_id_of(K1), key_sure=True), CONFIG) == b""
    assert keys.key_for(hello(key_id=key_id_of(K1)), CONFIG) == K1  # not sure of it yet
    assert ring(SURE, explicit=(K2,)).key_for(hello(), CONFIG) == b""


def test_a_key_is_taken_from_an_answer_to_our_call() -> None:
    keys = ring()
    keys.take(told(keys, SURE), (A, B))
    assert keys.found == SURE


def test_a_key_is_not_taken_from_anybody_else() -> None:
    keys = ring()
    keys.take(told(keys, SURE, to_call=b""), (A, B))
    keys.take(told(keys, SURE, to_call=keys.call("z")), (A, B))  # we called an attacker there
    keys.take(told(keys, SURE, by=Member(9, "z")), (A, B))  # which answers under its address
    keys.take(told(keys, SURE, key=b"short"), (A, B))
    assert keys.found is None


def test_a_key_that_is_sure_gives_way_to_none() -> None:
    keys = ring(SURE)
    keys.take(told(keys, ClusterKey(K2, 9, is_sure=True)), (A, B))
    assert keys.found is None
    strict = ring(explicit=(K1,))
    strict.take(told(strict, ClusterKey(K2, 9, is_sure=True)), (A, B))
    assert strict.found is None
    assert strict.held == (K1,)


def test_a_key_that_is_not_sure_gives_way_to_a_later_and_to_a_sure_one() -> None:
    for key, other, is_taken in (
        (ClusterKey(K1, 5), ClusterKey(K2, 6), True),
        (ClusterKey(K1, 5), ClusterKey(K2, 4), False),
        (ClusterKey(K1, 5), ClusterKey(K2, 0, is_sure=True), True),
        (ClusterKey(K1, 5), ClusterKey(K1, 5, is_sure=True), True),
    ):
        keys = ring(key)
        keys.take(told(keys, other), (A, B))
        assert (keys.found == other) is is_taken


def test_a_leader_makes_a_key_and_is_sure_of_it_when_all_hold_it() -> None:
    keys, chance = ring(), SeededJitter("")
    keys.advance([B, C], 7, chance)
    assert keys.found is not None
    made = keys.found
    assert (made.term, made.is_sure, len(made.value)) == (7, False, 32)
    keys.advance([B, C], 8, chance)
    assert keys.found is made
    keys.written(made)
    assert_open(keys)
    assert keys.take(told(keys, made), (A, B, C))  # it has just said so
    assert not keys.take(told(keys, made), (A, B, C))
    keys.advance([B, C], 8, chance)
    assert_open(keys)
    keys.take(told(keys, ClusterKey(K2, 3), by=C), (A, B, C))
    keys.advance([B, C], 8, chance)
    assert_open(keys)
    assert keys.is_lacked_by(C.id)
    assert not keys.is_lacked_by(B.id)
    keys.take(told(keys, made, by=C), (A, B, C))
    keys.advance([B, C], 8, chance)
    assert keys.found == ClusterKey(made.value, 7, is_sure=True)


def assert_open(keys: KeyRing) -> None:
    assert keys.found is None
    assert not keys.is_guarded


def test_neither_key_nor_share_is_shown() -> None:
    keys = ring(SURE)
    answer = told(keys, SURE, share=SHARES[1])
    for shown in (repr(SURE), repr(answer)):
        assert "111" not in shown
        assert "aaa" not in shown
