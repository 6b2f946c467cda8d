from __future__ import annotations

import pytest

from rollq.base.limits import REDIAL_ADDRESSES_MAX, REDIAL_GROUP_MAX_MS, REDIAL_QUICK_TRIES
from rollq.roles.redial import Redial
from tests.unit.roles.chance import MiddleJitter


def book(*addresses: str) -> Redial:
    return Redial(addresses, MiddleJitter())


def test_failures_rotate_and_wait_longer_up_to_the_maximum() -> None:
    redial = book("a", "b")
    assert redial.address == "a"
    tries = [redial.failed() for _ in range(9)]
    assert [address for address, _ in tries[:4]] == ["b", "a", "b", "a"]
    assert [wait for _, wait in tries] == [500] + 8 * [1_000]


def test_another_group_may_be_waited_for_longer() -> None:
    redial = Redial(("a",), MiddleJitter(), REDIAL_GROUP_MAX_MS)
    assert [redial.failed()[1] for _ in range(9)] == [
        500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000,
    ]  # fmt: skip


def test_one_that_fell_silent_is_left_at_once_and_comes_last() -> None:
    redial = book("a", "b", "c")
    redial.welcomed()
    assert redial.silent() == ("b", 0)
    tries = [redial.redirected("", ())[0] for _ in range(REDIAL_QUICK_TRIES)]
    assert "a" not in tries
    assert {redial.redirected("", ())[0] for _ in range(3)} == {"a", "b", "c"}


def test_if_another_fails_too_the_silent_one_is_believed_again() -> None:
    redial = book("a", "b", "c")
    redial.welcomed()
    redial.silent()
    assert redial.failed()[0] == "c"
    assert redial.redirected("a", ()) == ("a", 0)


def test_others_that_still_name_the_silent_one_are_not_believed_for_a_while() -> None:
    redial = book("a", "b", "c")
    redial.welcomed()
    redial.silent()
    for _ in range(REDIAL_QUICK_TRIES):
        address, wait_ms = redial.redirected("a", ())
        assert address != "a"
        assert wait_ms > 0
    assert redial.redirected("a", ()) == ("a", 0)


def test_a_welcome_of_another_ends_the_doubt() -> None:
    redial = book("a", "b")
    redial.silent()
    redial.welcomed()
    assert redial.redirected("a", ()) == ("a", 0)


def test_the_members_that_a_welcome_names_are_tried_too() -> None:
    redial = book("a")
    redial.welcomed(("a", "b"))
    assert redial.failed()[0] == "b"


def test_the_only_member_is_dialed_again_even_if_it_is_silent() -> None:
    redial = book("a")
    assert redial.silent() == ("a", 20)


def test_welcome_makes_the_waits_short_again() -> None:
    redial = book("a", "b")
    redial.failed()
    redial.failed()
    redial.welcomed()
    tries = [redial.failed() for _ in range(REDIAL_QUICK_TRIES + 2)]
    assert tries[:3] == [("b", 20), ("a", 40), ("b", 60)]
    assert [wait for _, wait in tries[-3:]] == [20 * REDIAL_QUICK_TRIES, 500, 1_000]


def test_first_redirect_is_followed_at_once_even_to_a_stranger() -> None:
    redial = book("a", "b")
    assert redial.redirected("c", ()) == ("c", 0)


def test_members_that_name_each_other_do_not_make_us_spin() -> None:
    redial = book("a", "b")
    assert redial.redirected("b", ()) == ("b", 0)
    assert redial.redirected("a", ()) == ("a", 500)
    assert redial.redirected("b", ()) == ("b", 0)
    assert redial.redirected("a", ()) == ("a", 1_000)


def test_unknown_leader_or_self_is_a_failure_that_still_teaches_members() -> None:
    redial = book("a")
    assert redial.redirected("", ("a", "b", "")) == ("b", 500)
    assert redial.redirected("b", ()) == ("a", 1_000)


def test_address_book_is_bounded() -> None:
    redial = book("a")
    redial.redirected("", [f"m{n}" for n in range(10 * REDIAL_ADDRESSES_MAX)])
    redial.welcomed()
    assert redial.redirected("one too many", ()) == ("m1", 20)
    visited = {redial.failed()[0] for _ in range(3 * REDIAL_ADDRESSES_MAX)}
    assert len(visited) == REDIAL_ADDRESSES_MAX


def test_needs_an_address() -> None:
    with pytest.raises(ValueError, match="address"):
        book()


def test_one_that_was_silent_before_anybody_welcomed_us_is_believed_to_lead() -> None:
    redial = book("a", "b")
    assert redial.silent() == ("b", 0)
    assert redial.redirected("a", ()) == ("a", 0)


def test_the_only_one_there_is_is_waited_for_when_it_is_silent_at_first() -> None:
    redial = book("a")
    address, wait_ms = redial.silent()
    assert address == "a"
    assert wait_ms > 0


def test_where_we_are_not_let_in_the_next_is_asked_after_a_long_wait() -> None:
    redial = book("a", "b")
    assert [redial.refused() for _ in range(3)] == [("b", 5_000), ("a", 5_000), ("b", 5_000)]
    assert redial.failed() == ("a", 500)
