"""Opens one connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from rollq.base.errors import DialError, ErrorCode, LocalError, RemoteError
from rollq.base.limits import (
    DIAL_MS_MAX,
    RESOLVE_MS_MAX,
    TLS_MS_MAX,
    TLS_PLAIN_MAX,
    TLS_PLAIN_MS,
)
from rollq.net.addresses import is_ipv6
from rollq.net.link import DEFAULT_LIMITS, Link, LinkLimits
from rollq.net.logging_in import link_login, log_in
from rollq.net.login import DialerLogin
from rollq.net.tls_layer import TlsLayer
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.mode import Mode, tls_of_dialer
from rollq.security.tls import Contexts, TlsFiles, check_peer, identity_in, tls_files
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.handshake import Side

PLAIN: Final[dict[str, float]] = {}  # addresses without TLS, and how long that is cached
TLS_HINT: Final = "see the certificates on both sides with `rollq tls show`"


class Dial(Protocol):
    """`dial` with bound credentials."""

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
    login: DialerLogin | None = None,
) -> Link:
    """Connect to `host:port`, and log in: the hello may be sent next.

    Args:
        address: Where to connect.
        group: The group of the link.
        on_messages, on_closed, limits: As for `Link`.
        credentials: Our credentials, and those to verify the peer with.
        tls: Whether to use TLS; None: as the credentials say.
        peer: The role that the peer's certificate must have. Only members are sent secrets.
        login: How to log in; None: as the credentials say.

    Raises:
        DialError: no connection in time, or with the wrong peer.
        LocalError: BAD_CREDENTIALS, as `choose_login`.
        StateError: we are not let in.
    """
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    mode = tls_of_dialer(credentials) if tls is None else tls
    if mode is Mode.ALLOW and PLAIN.get(address, 0.0) > loop.time():
        mode = Mode.OFF
    files = None if mode is Mode.OFF else tls_files(credentials)

    def make() -> Link:
        return Link(Connection(Side.DIALER, group), on_messages, on_closed, limits)

    async def reach(place: str) -> Link:
        if files is not None:
            try:
                return await _reach_by_tls(place, port, make, files, peer)
            except _NoTlsError:
                if mode is not Mode.ALLOW:
                    raise
                _remember_plain(address, loop.time())
        async with asyncio.timeout(DIAL_MS_MAX / 1000):
            _, link = await loop.create_connection(make, place, port)
        return link

    try:
        # slow name resolution does not mean that the member is down
        async with asyncio.timeout(RESOLVE_MS_MAX / 1000):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        raise _unreachable(address, error) from None
    failure: OSError | TimeoutError = TimeoutError()
    for *_, place in found:
        try:
            link = await reach(str(place[0]))
        except (OSError, TimeoutError) as error:
            failure = error
        except RemoteError as error:
            raise DialError(error.code, f"{address}: {error.message}", error.hint) from None
        else:
            if peer is CertificateRole.MEMBER:
                await log_in(link, login or link_login(link, credentials), on_messages, on_closed)
            return link
    raise _unreachable(address, failure)


async def _reach_by_tls(
    host: str, port: int, make: Callable[[], Link], files: TlsFiles, peer: CertificateRole
) -> Link:
    """As `_shake_hands`. A peer that is refused is tried again if our files have changed: it may
    have new ones already."""
    contexts = files.current
    try:
        return await _shake_hands(host, port, make, contexts, peer)
    except RemoteError:
        files.reload()
        if files.current is contexts:
            raise
        return await _shake_hands(host, port, make, files.current, peer)


async def _shake_hands(
    host: str, port: int, make: Callable[[], Link], contexts: Contexts, peer: CertificateRole
) -> Link:
    """A link to a peer with a verified certificate.

    Raises:
        OSError, TimeoutError: there is no connection.
        RemoteError: the certificate is not the expected one; _NoTlsError: the peer does not use
            TLS.
    """
    loop = asyncio.get_running_loop()
    shaken: asyncio.Future[None] = loop.create_future()
    # Read also if the dial is cut off first: asyncio logs exceptions that nothing has read.
    shaken.add_done_callback(lambda done: done.cancelled() or done.exception())

    def on_shaken(layer: TlsLayer) -> None:
        try:
            layer.link.certificate = identity_in(layer.certificate)
            check_peer(layer.link.certificate, contexts.identity, (peer,))
        except RemoteError as error:
            layer.abort()
            fail(error)
        else:
            if not shaken.done():
                shaken.set_result(None)

    def on_failed(why: str, speaks_tls: bool) -> None:
        fail(RemoteError(ErrorCode.BAD_CERTIFICATE, why, TLS_HINT) if speaks_tls else _NoTlsError())

    def fail(error: Exception) -> None:
        if not shaken.done():
            shaken.set_exception(error)

    async with asyncio.timeout(DIAL_MS_MAX / 1000):
        _, layer = await loop.create_connection(
            lambda: TlsLayer(contexts.dials, make(), on_shaken, on_failed), host, port
        )
    try:
        async with asyncio.timeout(TLS_MS_MAX / 1000):
            await shaken
    except BaseException:
        layer.abort()
        raise
    return layer.link


class _NoTlsError(RemoteError):
    """The peer does not use TLS."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.UNREACHABLE,
            "it does not speak TLS",
            "start it with --credentials and --tls allow; or take ca.pem out of the credentials "
            "here, if it is to stay so",
        )


def _remember_plain(address: str, now_s: float) -> None:
    """Dial this address without TLS for a while, instead of trying both each time."""
    PLAIN.pop(address, None)
    PLAIN[address] = now_s + TLS_PLAIN_MS / 1000
    if len(PLAIN) > TLS_PLAIN_MAX:
        del PLAIN[next(iter(PLAIN))]


async def takes_connections(address: str) -> bool:
    """Whether the address accepts connections; closes the connection without a message."""
    host, port = split_address(address)
    try:
        async with asyncio.timeout(DIAL_MS_MAX / 1000):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError, UnicodeError):
        return False
    writer.transport.abort()
    return True


async def is_served(address: str) -> bool:
    """Whether a process serves the connections of the address: it closes one whose other side is
    shut down. For a stopped or hanging process the system still accepts connections, but nothing
    closes them."""
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
    except (OSError, TimeoutError, UnicodeError):
        return False
    return True


def _unreachable(address: str, error: OSError | TimeoutError | UnicodeError) -> DialError:
    """UnicodeError: the host is no name that a name server could be asked for, such as `a..b`."""
    what = f"no answer at {address}: {str(error) or 'timed out'}"
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
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65_536
    if not colon or not _is_host(host) or not is_port:
        raise LocalError(
            ErrorCode.BAD_ADDRESS,
            f"not host:port: {address[:128]!r}",
            "write a host, a colon and a port from 1 to 65535, as in 127.0.0.1:5000",
        )
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """`host:port` of two that were given apart; an IPv6 host gets brackets.

    Raises:
        LocalError: BAD_ADDRESS, if it is no host alone.
    """
    bare = host.removeprefix("[").removesuffix("]")
    if not _is_host(bare) or (":" in bare and not is_ipv6(bare)):
        raise LocalError(
            ErrorCode.BAD_ADDRESS,
            f"not a host: {host[:128]!r}",
            "write its name or IP address alone, as in 127.0.0.1: without http://, and the port "
            "stands apart",
        )
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def _is_host(host: str) -> bool:
    return bool(host) and not any(one.isspace() or one == "/" for one in host)
