"""Accounts of peers that cannot log in, those of the legacy protocol: by source address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TypeAlias

from rollq.base.errors import ErrorCode, LocalError
from rollq.security.identity import PART

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class LegacyAccounts:
    """Maps source addresses to accounts.

    Args:
        texts: `ADDRESS=ACCOUNT` each, of an address or a network (`10.1.0.0/16`). The most specific
            network applies.

    Raises:
        LocalError: BAD_SETUP, if a text is not of this form.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._accounts: dict[Network, str] = {}
        for text in texts:
            network, account = _parse(text)
            if self._accounts.setdefault(network, account) != account:
                raise _bad(text, "the address has another account already")
        self._by_size = sorted(self._accounts, key=lambda one: one.num_addresses)

    def account_of(self, address: str) -> str:
        """The account of a peer that is connected from `host:port`; empty if it has none."""
        if not self._by_size:
            return ""
        host = address.rpartition(":")[0].strip("[]").partition("%")[0]
        try:
            ip = ipaddress.ip_address(host)
        except ValueError:
            return ""
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        found = next((one for one in self._by_size if ip in one), None)
        return "" if found is None else self._accounts[found]


def _parse(text: str) -> tuple[Network, str]:
    address, sign, account = text.strip().partition("=")
    if not sign or not PART.fullmatch(account):
        raise _bad(text, "it is not ADDRESS=ACCOUNT")
    try:
        return ipaddress.ip_network(address), account
    except ValueError as error:
        raise _bad(text, str(error)) from None


def _bad(text: str, why: str) -> LocalError:
    return LocalError(
        ErrorCode.BAD_SETUP,
        f"--legacy-account {text[:128]!a}: {why}",
        "write 10.0.0.7=ACCOUNT, or 10.1.0.0/16=ACCOUNT for a network",
    )


NO_LEGACY_ACCOUNTS = LegacyAccounts()
