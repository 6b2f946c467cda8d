from __future__ import annotations

import random

import pytest

from rollq.base.limits import SESSION_QUANTUM, SESSION_REQUESTS_PAUSE, SESSION_WEIGHT_PAUSE
from rollq.roles.member.leader.turns import ClientTurns

MANY = 1 << 40
ANY = range(MANY)


def test_whoever_had_no_turn_has_one_first_next_time() -> None:
    turns: ClientTurns[str] = ClientTurns()
    for session in range(4):
        turns.add(session, f"s{session}", SESSION_QUANTUM)
    assert turns.take(3, MANY, ANY) == ["s0", "s1", "s2"]
    turns.add(0, "again", SESSION_QUANTUM)
    assert turns.take(3, MANY, ANY) == ["s3", "again"]


def test_who_asks_for_more_at_once_is_served_less_often() -> None:
    turns: ClientTurns[str] = ClientTurns()
    for _ in range(100):
        turns.add(1, "large", 10 * SESSION_QUANTUM)
        turns.add(2, "small", SESSION_QUANTUM)
    served = [turns.take(1, MANY, ANY)[0] for _ in range(44)]
    assert served.count("small") == 40
    assert served.count("large") == 4


def test_sessions_that_begin_with_too_much_are_passed_by_and_stay() -> None:
    turns: ClientTurns[str] = ClientTurns()
    turns.add(1, "large", 100)
    turns.add(1, "behind it", 1)
    turns.add(2, "small", 1)
    assert turns.take(10, MANY, range(101, 200)) == []
    assert turns.take(10, MANY, range(100)) == ["small"]
    assert turns.take(10, MANY, range(100)) == []
    assert turns.take(10, MANY, ANY) == ["large", "behind it"]


def test_all_together_weigh_no_more_than_asked_for_unless_it_is_one() -> None:
    turns: ClientTurns[int] = ClientTurns()
    for number in range(5):
        turns.add(1, number, 40)
    assert turns.take(10, 100, ANY) == [0, 1]
    assert turns.take(10, 1, ANY) == [2]


def test_a_session_has_much_waiting_by_count_or_by_weight_until_half_of_it_is_gone() -> None:
    turns: ClientTurns[int] = ClientTurns()
    for number in range(SESSION_REQUESTS_PAUSE + 1):
        assert not turns.is_long(1)
        turns.add(1, number, 1)
    assert turns.is_long(1)
    list(turns.take(SESSION_REQUESTS_PAUSE // 2, MANY, ANY))
    assert turns.is_long(1, 2)
    list(turns.take(1, MANY, ANY))
    assert not turns.is_long(1, 2)
    turns.add(2, 0, SESSION_WEIGHT_PAUSE + 1)
    assert turns.is_long(2)


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_taken_once_and_in_the_order_of_its_session(seed: int) -> None:
    chance = random.Random(seed)
    turns: ClientTurns[tuple[int, int]] = ClientTurns()
    added: dict[int, int] = {}
    taken: list[tuple[int, int]] = []
    for _ in range(300):
        session = chance.randrange(1, 6)
        added[session] = added.get(session, 0) + 1
        turns.add(session, (session, added[session]), chance.choice((1, 300, 60_000)))
        if not chance.randrange(3):
            taken += turns.take(
                chance.randrange(1, 9), chance.choice((1, 10_000, MANY)), range(10_000)
            )
            taken += turns.take(chance.randrange(1, 3), 100_000, range(10_000, MANY))
    taken += turns.take(MANY, MANY, ANY)
    for session, count in added.items():
        numbers = [number for one, number in taken if one == session]
        assert numbers == list(range(1, count + 1))
