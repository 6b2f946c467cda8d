"""What the text of a host says by itself; nothing is looked up."""

from __future__ import annotations

from ipaddress import ip_address

LOCAL_NAME = "localhost"
WILDCARDS = ("0.0.0.0", "::", "")


def is_any(host: str) -> bool:
    """Whether what listens there listens on all addresses: others need another one to reach it."""
    return host in WILDCARDS


def is_loopback(host: str) -> bool:
    """Whether what listens there is reached from this machine alone. A name other than
    `localhost` may mean anything, and a wildcard (`0.0.0.0`, `::`, nothing) means everything."""
    if host.lower() == LOCAL_NAME:
        return True
    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
