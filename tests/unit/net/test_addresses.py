"""Hosts that only this machine reaches."""

from __future__ import annotations

import pytest

from rollq.net.addresses import is_loopback


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LocalHost", "::ffff:127.0.0.1"],
)
def test_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *("0.0.0.0", "::", "", "10.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.1"),
        *("127.0.0.1.example.org", "localhost.example.org", "example.org", "128.0.0.1"),
    ],
)
def test_others_too(host: str) -> None:
    assert not is_loopback(host)
