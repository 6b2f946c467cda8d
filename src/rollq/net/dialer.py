"""Opens one connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from rollq.base.errors import DialError, ErrorCode, LocalError
from rollq.base.limits import DIAL_MS_MAX, RESOLVE_MS_MAX
from rollq.net.link import DEFAULT_LIMITS, Link, LinkLimits
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.mode import Mode
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side


class Dial(Protocol):
    """`dial`, with credentials given."""

    def __call__(
        self,
        address: str,
        group: str,
        on_messages: Callable[[Link, list[Message]], None],
        on_closed: Callable[[Link, str], None],
    ) -> Awaitable[Link]:
        """Connect to `host:port`; raises DialError."""


async def dial(
    address: str,
    group: str,
    on_messages: Callable[[Link, list[Message]], None],
    on_closed: Callable[[Link, str], None],
    limits: LinkLimits = DEFAULT_LIMITS,
    *,
    credentials: Credentials = NONE,
    tls: Mode | None = None,
    peer: CertificateRole = CertificateRole.MEMBER,
) -> Link:
    """Connect to `host:port`.

    Args:
        address: Where.
        group: Of the link.
        on_messages: As for `Link`.
        on_closed: As for `Link`.
        limits: As for `Link`.
        credentials: What we prove ourselves with, and check the other side by.
        tls: Whether TLS is spoken; None: as the credentials say.
        peer: What the certificate of the other side must say that it is.

    Raises:
        DialError: no connection is made in time, or not with whom it should be.
    """
    host, port = split_address(address)
    loop = asyncio.get_running_loop()

    def make() -> Link:
        return Link(Connection(Side.DIALER, group), on_messages, on_closed, limits)

    try:
        async with asyncio.timeout(RESOLVE_MS_MAX / 1000):  # a slow name service is no dead member
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        raise _unreachable(address, error) from None
    failure: OSError | TimeoutError = TimeoutError()
    for *_, place in found:
        try:
            async with asyncio.timeout(DIAL_MS_MAX / 1000):
                _, link = await loop.create_connection(make, str(place[0]), port)
                return link
        except (OSError, TimeoutError) as error:
            failure = error
    raise _unreachable(address, failure)


async def takes_connections(address: str) -> bool:
    """Whether a connection is accepted there; it is closed without a message."""
    host, port = split_address(address)
    try:
        async with asyncio.timeout(DIAL_MS_MAX / 1000):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


async def is_served(address: str) -> bool:
    """Whether a process serves the connections there: it closes one whose other side has ended. For
    a process that is stopped or hangs the system still accepts connections, and nobody closes."""
    host, port = split_address(address)
    try:
        async with asyncio.timeout(DIAL_MS_MAX / 1000):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write_eof()
                await reader.read()
            finally:
                writer.transport.abort()
    except ConnectionError:
        return True
    except (OSError, TimeoutError):
        return False
    return True


def _unreachable(address: str, error: OSError | TimeoutError) -> DialError:
    what = f"no answer at {address}: {error or 'timed out'}"
    if isinstance(error, ConnectionRefusedError):
        what = f"nothing listens at {address}"
    return DialError(
        ErrorCode.UNREACHABLE,
        what,
        "check the address, and that the member runs",
    )


def split_address(address: str) -> tuple[str, int]:
    """`host:port` in two; brackets around an IPv6 host are taken off."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise LocalError(ErrorCode.BAD_ADDRESS, f"not host:port: {address[:128]!r}")
    return host.strip("[]"), int(port)
