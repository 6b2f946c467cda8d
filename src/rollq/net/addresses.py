"""Classification of host texts, without name resolution."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

LOCAL_NAME = "localhost"
WILDCARDS = ("0.0.0.0", "::", "")


def is_any(host: str) -> bool:
    """Whether a listener on this host listens on all addresses: peers need another address for
    it."""
    return host in WILDCARDS


def is_loopback(host: str) -> bool:
    """Whether a listener on this host is only reachable from this machine. A name other than
    `localhost` may resolve to anything, and a wildcard (`0.0.0.0`, `::`, empty) is all
    addresses."""
    if host.lower() == LOCAL_NAME:
        return True
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_ipv6(host: str) -> bool:
    """Whether a host is an IPv6 address, without brackets; a zone (`%eth0`) may follow."""
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return True
