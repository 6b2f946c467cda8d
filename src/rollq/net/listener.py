"""Accepts connections, up to a bound, and creates a link for each."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
from collections.abc import Callable, Collection
from typing import Final

from rollq.base.errors import ErrorCode, LocalError, RemoteError, RollqError
from rollq.base.ids import WorkerId
from rollq.base.limits import DESCRIPTORS_KEPT, HANG_UP_MS_MAX, LINKS_MAX, LISTEN_BACKLOG
from rollq.net.arrival import Arrival
from rollq.net.half_open import HalfOpen
from rollq.net.handshake_turns import HandshakeTurns
from rollq.net.link import DEFAULT_LIMITS, Link, LinkLimits
from rollq.net.partial_frames import PartialFrames
from rollq.net.tls_layer import TlsLayer
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.mode import Mode, tls_of_listener
from rollq.security.tls import TlsFiles, check_peer, identity_in, tls_files
from rollq.wire.compact import Message
from rollq.wire.connection import Connection, nobody
from rollq.wire.handshake import Side

LISTEN_HINTS: Final = {
    errno.EADDRINUSE: "stop the process on that port, or use another port",
    errno.EACCES: "use a port from 1024 on, or run with the right to use this one",
    errno.EADDRNOTAVAIL: "use an address of this machine",
}


class Listener:
    """One listening socket. `start` returns when it listens, `stop` when every link is closed.

    Args:
        group: Of its links.
        on_messages: As for `Link`.
        on_closed: As for `Link`.
        limits: As for `Link`; and the maximum number of links.
        knows_worker: As for `Connection`.
        credentials: Its certificate, and those to verify peers with.
        tls: Whether to use TLS; None: as the credentials say.
        roles: The roles that a peer's certificate may have, with TLS; empty: any, also no
            certificate.
    """

    def __init__(
        self,
        group: str,
        on_messages: Callable[[Link, list[Message]], None],
        on_closed: Callable[[Link, str], None],
        limits: LinkLimits = DEFAULT_LIMITS,
        knows_worker: Callable[[WorkerId], bool] = nobody,
        *,
        credentials: Credentials = NONE,
        tls: Mode | None = None,
        roles: Collection[CertificateRole] = (),
    ) -> None:
        self._group = group
        self._credentials = credentials
        self._tls = tls_of_listener(credentials) if tls is None else tls
        self._roles = roles
        self._knows_worker = knows_worker
        self._limits = limits
        self._links_max = limits.links_max
        self._on_messages = on_messages
        self._on_closed = on_closed
        self._links: dict[Link, None] = {}
        self._partial_frames = PartialFrames(limits.partial_bytes_max)
        self._half_open = HalfOpen(limits.half_open_max)
        # links whose first bytes or TLS handshake are pending
        self._arrivals: dict[Link, Arrival] = {}
        self._refusals: dict[Link, RollqError] = {}  # reported to the peer after its hello
        self._files: TlsFiles | None = None  # with TLS
        self._turns: HandshakeTurns | None = None
        self._server: asyncio.Server | None = None
        self.refused_count = 0  # connections over the bound

    @property
    def half_open_refused_count(self) -> int:
        """Connections refused by the bound on half-open links."""
        return self._half_open.refused_count

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port (which is new if 0 was asked for)."""
        loop = asyncio.get_running_loop()
        self._links_max = min(self._limits.links_max, descriptors_max() - DESCRIPTORS_KEPT)
        factory: Callable[[], asyncio.Protocol] = self._accept
        if self._tls is not Mode.OFF:
            self._files = _must_listen(self._credentials)
            self._turns = HandshakeTurns(loop)
            factory = self._accept_first
        try:
            self._server = await loop.create_server(factory, host, port, backlog=LISTEN_BACKLOG)
        except OSError as error:
            raise LocalError(
                ErrorCode.CANNOT_LISTEN,
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                LISTEN_HINTS.get(error.errno or 0, "check the address and the port"),
            ) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, reason: str) -> None:
        """Stop accepting, and close every link."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        for arrival in list(self._arrivals.values()):
            arrival.abort(reason)
        for link in list(self._links):
            link.close(reason)
        try:
            async with asyncio.timeout(HANG_UP_MS_MAX / 1000):
                await server.wait_closed()
        except TimeoutError:  # a peer does not read the last bytes
            for link in list(self._links):
                link.abort(reason)

    def _accept(self) -> Link:
        link = Link(
            Connection(Side.ACCEPTER, self._group, self._knows_worker),
            self._on_messages if self._files is None else self._messages,
            self._closed,
            self._limits,
            partial_frames=self._partial_frames,
            half_open=self._half_open,
        )
        self._links[link] = None
        if len(self._links) > self._links_max:
            self.refused_count += 1
            link.abort(f"more than {self._links_max} connections")
        return link

    def _accept_first(self) -> Arrival:
        """With TLS, wait for the first bytes."""
        assert self._files is not None, "from `start` on"
        assert self._turns is not None, "from `start` on"
        context = self._files.current.listens
        assert context is not None, "`start` has seen a certificate"
        link = self._accept()
        arrival = Arrival(
            link,
            context,
            self._turns,
            self._plain,
            self._shaken,
            wait_ms_max=self._limits.hello_ms_max,
        )
        self._arrivals[link] = arrival
        return arrival

    def _plain(self, link: Link) -> None:
        """A peer does not use TLS."""
        self._arrivals.pop(link, None)
        if self._tls is Mode.REQUIRE:
            self._refusals[link] = RemoteError(
                ErrorCode.TLS_REQUIRED,
                "only connections with TLS are accepted: give the credentials of the cluster",
                "--credentials DIR, or ROLLQ_CREDENTIALS, with its ca.pem",
            )

    def _shaken(self, layer: TlsLayer) -> None:
        """The TLS handshake is over: check the certificate, if there is one."""
        self._arrivals.pop(layer.link, None)
        assert self._files is not None, "from `start` on"
        try:
            layer.link.certificate = identity_in(layer.certificate)
            check_peer(layer.link.certificate, self._files.current.identity, self._roles)
        except RemoteError as error:
            layer.link.certificate = None
            self._refusals[layer.link] = error

    def _messages(self, link: Link, messages: list[Message]) -> None:
        """Messages of a listener with TLS: a refused peer gets the error after its hello, because
        only then its features are known."""
        refusal = self._refusals.get(link)
        if refusal is None:
            self._on_messages(link, messages)
        else:
            link.refuse(refusal)

    def _closed(self, link: Link, reason: str) -> None:
        self._links.pop(link, None)
        self._arrivals.pop(link, None)
        self._refusals.pop(link, None)
        self._on_closed(link, reason)


def _must_listen(credentials: Credentials) -> TlsFiles:
    """Raises LocalError BAD_CREDENTIALS without a certificate."""
    files = tls_files(credentials)
    if files.current.listens is None:
        raise LocalError(
            ErrorCode.BAD_CREDENTIALS,
            f"{credentials.directory} holds no certificate",
            "make one with `rollq tls issue`",
        )
    return files


def descriptors_max() -> int:
    """The descriptor limit of this process, raised to its maximum. Connections must not use up the
    descriptors: the log needs some for its files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # some systems accept less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return LINKS_MAX + DESCRIPTORS_KEPT if soft == resource.RLIM_INFINITY else soft
