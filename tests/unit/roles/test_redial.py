from __future__ import annotations

import pytest

from rollq.base.limits import REDIAL_ADDRESSES_MAX, REDIAL_QUICK_TRIES
from rollq.roles.redial import Redial
from tests.unit.roles.chance import MiddleJitter


def book(*addresses: str) -> Redial:
    return Redial(addresses, MiddleJitter())


def test_failures_rotate_and_wait_longer_up_to_the_maximum() -> None:
    redial = book("a", "b")
    assert redial.address == "a"
    tries = [redial.failed() for _ in range(9)]
    assert [address for address, _ in tries[:4]] == ["b", "a", "b", "a"]
    assert [wait for _, wait in tries] == [
        500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000,
    ]  # fmt: skip


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
