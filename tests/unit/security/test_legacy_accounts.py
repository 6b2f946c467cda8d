"""Accounts by address, of peers that cannot prove any."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.legacy_accounts import LegacyAccounts


def test_the_smallest_network_that_holds_an_address_counts() -> None:
    accounts = LegacyAccounts(["10.0.0.0/8=all", "10.1.0.0/16=some", "10.1.2.3=one", "::1=six"])
    found = [
        accounts.account_of(address)
        for address in (
            *("10.1.2.3:5", "10.1.2.4:5", "10.2.0.0:5", "11.0.0.1:5"),
            *("::1:5", "[::1]:5", "::ffff:10.1.2.3:5", "somewhere:5", ""),
        )
    ]
    assert found == ["one", "some", "all", "", "six", "six", "one", "", ""]
    assert LegacyAccounts().account_of("10.1.2.3:5") == ""


@pytest.mark.parametrize(
    "texts",
    [
        ["10.0.0.1"],
        ["=ann"],
        ["10.0.0.1="],
        ["host=ann"],
        ["10.0.0.1/8=ann"],  # an address that is not the first of its network is a mistake
        ["10.0.0.1=a b"],
        ["10.0.0.1=ann", "10.0.0.1/32=bob"],
    ],
)
def test_what_is_no_address_of_an_account_is_refused(texts: list[str]) -> None:
    with pytest.raises(LocalError) as caught:
        LegacyAccounts(texts)
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert "--legacy-account" in caught.value.message
