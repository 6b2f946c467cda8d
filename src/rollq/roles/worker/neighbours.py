"""Neighbours: other workers, which fetch blobs from this one, and from which this one fetches
blobs.

Neighbours can only read. As with members, knowing a digest permits fetching its bytes, which the
receiver verifies. A missing neighbour or blob is no error: members have all blobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from rollq.base.access import LinkRole
from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, LocalError, RollqError, StateError
from rollq.base.jobs import BlobRef
from rollq.net.addresses import is_loopback
from rollq.net.dialer import split_address
from rollq.net.link import Link
from rollq.net.listener import Listener
from rollq.roles.blobs.carrier import Sink, Source
from rollq.roles.blobs.client import BlobClient
from rollq.roles.blobs.server import BlobServer, Greeting
from rollq.roles.door import Door
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.store.blobs.local import LocalBlobs
from rollq.wire.blob_messages import WORKER, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.compression import ZSTD
from rollq.wire.messages import Welcome

log = logging.getLogger("rollq.worker")

PATIENCE_S: Final = 5.0  # for a neighbour that does not answer; then members are asked
CLIENTS_MAX: Final = 8  # idle links to neighbours
SHUNNED_S: Final = 30.0
SHUNNED_MAX: Final = 256


class Neighbours:
    """A server for other workers, and clients of theirs. `stop` is idempotent.

    Args:
        credentials: For links; a worker with a certificate serves only workers with one.
        unsafe_no_auth: Serve other machines without certificates too.
    """

    def __init__(self, credentials: Credentials = NONE, *, unsafe_no_auth: bool = False) -> None:
        self._credentials = credentials
        self._unsafe_no_auth = unsafe_no_auth
        self._clients: dict[str, tuple[BlobClient, int]] = {}  # with the number of users
        self._shunned: dict[str, float] = {}  # silent neighbours, and until when they are skipped
        self._server: BlobServer | None = None
        self._door: Door | None = None  # from `serve` on
        self._listener = Listener(
            "",
            self._messages,
            self._closed,
            credentials=credentials,
            roles=(CertificateRole.WORKER,),
        )

    async def serve(self, store: LocalBlobs, members: Sequence[str]) -> str:
        """Serve blobs; returns `host:port`, or nothing if that is not possible. The host is the
        local address of the route to the members. If links use TLS, a worker without a certificate
        does not
        serve: it could neither prove itself nor check others."""
        if self._credentials.ca and self._credentials.certificate is None:
            return ""
        loop = asyncio.get_running_loop()
        self._server = BlobServer(ReadOnly(store), _greet)
        self._server.start()
        self._door = Door({LinkRole.BLOBS: self._server})
        try:
            host = await loop.run_in_executor(None, own_host, members)
            self._must_be_protected(host)
            port = await self._listener.start(host, 0)
        except (OSError, RollqError) as error:
            log.warning("cannot serve blobs to other workers: %s", error)
            return ""
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _must_be_protected(self, host: str) -> None:
        """Without TLS anyone who knows a digest could fetch its bytes: other machines are served
        only over TLS, unless the operator permits it.

        Raises:
            LocalError: UNPROTECTED.
        """
        if self._credentials.certificate is None and not is_loopback(host):
            if not self._unsafe_no_auth:
                raise LocalError(
                    ErrorCode.UNPROTECTED,
                    f"other machines would reach {host} without TLS",
                    "members serve them instead; give --credentials, or say --unsafe-no-auth",
                )
            log.warning("no logins on %s (--unsafe-no-auth): every peer may read blobs", host)

    async def fetch(
        self,
        sources: Sequence[str],
        blob: BlobRef,
        store: LocalBlobs,
        progress: Callable[[int, int], None] | None,
    ) -> bool:
        """Fetch a blob from the first source that has it; false if none has.

        Raises:
            DiskError: of this worker's disk.
        """
        now_s = asyncio.get_running_loop().time()
        for address in sources:
            if self._shunned.get(address, now_s) > now_s:
                continue
            try:
                async with self._client(address) as client:
                    if blob.digest in await client.have((blob.digest,)):
                        await client.fetch(blob.digest, store, blob.size, progress)
                        return True
            except RollqError as error:
                if error.code in (ErrorCode.DISK_FULL, ErrorCode.DISK_FAILED):
                    raise
                log.info("the worker at %s: %s", address, error)
                self._shun(address, now_s + SHUNNED_S)
        return False

    async def stop(self) -> None:
        """Stop serving and fetching."""
        clients, self._clients = self._clients, {}
        for client, _ in clients.values():
            await client.stop()
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
            await self._listener.stop("the worker stops")

    @contextlib.asynccontextmanager
    async def _client(self, address: str) -> AsyncIterator[BlobClient]:
        """A client of a neighbour; its link stays open for later blobs."""
        client, users = self._clients.pop(address, (None, 0))
        if client is None:
            client = BlobClient(
                (address,),
                who=WORKER,
                patience_s=PATIENCE_S,
                credentials=self._credentials,
                peer=CertificateRole.WORKER,
            )
        self._clients[address] = client, users + 1
        try:
            yield client
        finally:
            if address in self._clients:  # else we are stopping
                self._clients[address] = client, self._clients[address][1] - 1
                await self._hang_up()

    async def _hang_up(self) -> None:
        """Close idle links beyond CLIENTS_MAX."""
        idle = [address for address, (_, users) in self._clients.items() if not users]
        for address in idle[: max(0, len(self._clients) - CLIENTS_MAX)]:
            client, _ = self._clients.pop(address)
            await client.stop()

    def _shun(self, address: str, until_s: float) -> None:
        """Skip a neighbour for a while, so that its silence does not delay every blob of a
        cache."""
        self._shunned.pop(address, None)
        self._shunned[address] = until_s
        if len(self._shunned) > SHUNNED_MAX:
            del self._shunned[next(iter(self._shunned))]

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if self._door is not None:
            self._door.messages(link, messages)

    def _closed(self, link: Link, reason: str) -> None:
        if self._door is not None:
            self._door.closed(link, reason)


class ReadOnly:
    """A read-only view of a store."""

    def __init__(self, store: LocalBlobs) -> None:
        self._store = store
        self.size = store.size
        self.open: Callable[[Digest], Source] = store.open

    def begin(self, digest: Digest, size: int) -> Sink:
        """Refused."""
        raise StateError(
            ErrorCode.WRONG_STATE, "a worker takes no blobs from others", "give it to the leader"
        )


def own_host(members: Sequence[str]) -> str:
    """The local address of the route to a member; blocks. Sends nothing.

    Raises:
        OSError: there is no route to any of them.
    """
    failure = OSError("no address of a member")
    for address in members:
        host, port = split_address(address)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        except OSError as error:
            failure = error
            continue
        except UnicodeError as error:  # no name that a name server could be asked for
            failure = OSError(str(error))
            continue
        for family, kind, proto, _, target in found:
            with contextlib.suppress(OSError), socket.socket(family, kind, proto) as probe:
                probe.connect(target)
                return str(probe.getsockname()[0])
    raise failure


def _greet(hello: HelloBlobs) -> Greeting:
    return Welcome(hello.group, 0, (ZSTD,) if ZSTD in hello.features else ())
