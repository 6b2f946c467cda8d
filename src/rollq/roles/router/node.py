"""The router process: a listener, and for each client its way to the groups.

It keeps nothing on disk and has no rights of its own: a client is in each group what its token says
there. So it may end at any time, and there may be several: clients go to another one, and ask again
what was not answered.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field, replace

from rollq.base.access import LinkRole, Principal
from rollq.base.limits import LOOK_MS
from rollq.base.log_events import ROUTER_SPREAD, ROUTER_STARTED, STOPPED, STOPPING, tell
from rollq.base.router_limits import ROUTER_SPREAD_MS
from rollq.gossip.following import GroupChanges
from rollq.gossip.node import GossipNode, OwnNode
from rollq.gossip.records import NODE_ID_BYTES, NodeKind
from rollq.gossip.setup import FederationSetup
from rollq.net.link import DEFAULT_LIMITS, Link, LinkLimits
from rollq.net.listener import Listener
from rollq.roles.client.discovery import Discovery, Federation
from rollq.roles.client.routes import GroupTable
from rollq.roles.door import Door
from rollq.roles.router.blob_links import BlobLinks
from rollq.roles.router.client_link import ClientLink, agreed_with, refused
from rollq.roles.router.groups import ROUTER, Groups
from rollq.roles.router.machine import RouterMachine
from rollq.roles.router.owners import JobOwners, KeptBytes
from rollq.roles.router.reader_links import ReaderLinks
from rollq.roles.service import SystemClock, SystemJitter
from rollq.security.credentials import NONE, Credentials
from rollq.security.mode import Mode
from rollq.security.secret import Secret
from rollq.wire.compact import Message
from rollq.wire.features import ACCEPTED
from rollq.wire.login_messages import TOKEN, Login, LoginMessage
from rollq.wire.messages import Error, HelloClient

log = logging.getLogger("rollq.router")

DISCOVERY_S = 30.0  # how long the groups of a federation are looked for


@dataclass(frozen=True, slots=True)
class RouterSetup:
    """What a router is started with.

    Attributes:
        groups: The members of each group, by its name.
        seeds: Members of a federation, whose groups are found and followed; empty: there is none.
        table: Routes and policy.
        weights: How much more than others groups get of jobs without a route, by their names.
        credentials: What it shows to those who dial, and checks members by.
        tls: Whether links to it speak TLS; None: as the credentials say.
        federation: By which it is known to the processes of a federation; None: it does not gossip.
    """

    groups: dict[str, str]
    table: GroupTable
    weights: dict[str, int] = field(default_factory=dict)
    credentials: Credentials = NONE
    tls: Mode | None = None
    seeds: str = ""
    federation: FederationSetup | None = None


class RouterNode:
    """One running router. `start` returns when it listens."""

    def __init__(
        self, setup: RouterSetup, host: str, port: int, limits: LinkLimits = DEFAULT_LIMITS
    ) -> None:
        self.setup = setup
        self.port = port
        self.groups = Groups(setup.table)
        self._host = host
        self._owners = JobOwners()
        self._kept = KeptBytes()
        # Members are checked by the authority, and are shown nothing of ours.
        self._upstream = replace(
            setup.credentials, certificate=None, token=None, account_key=None, cluster_key=None
        )
        self._tokens: dict[Link, Secret] = {}
        self._clients: dict[Link, ClientLink] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._stopping = False
        self._spread: dict[str, int] = {}  # as it was told last
        self._spread_at_s = 0.0
        self._blobs = BlobLinks(self.groups, self._shown)
        self._readers = ReaderLinks(self.groups, self._shown, self._machine)
        self._door = Door(
            {
                LinkRole.CLIENT: self,
                LinkRole.BLOBS: self._blobs,
                LinkRole.READER: self._readers,
            }
        )
        self._discovery: Discovery | None = None
        self._gossip: GossipNode | None = None
        self._listener = Listener(
            ROUTER,
            self._messages,
            self._closed,
            limits,
            credentials=setup.credentials,
            tls=setup.tls,
        )

    @property
    def client_count(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    async def start(self) -> None:
        """Look at the groups, and listen. Raises RollqError."""
        for name, addresses in self.setup.groups.items():
            self._add_group(name, addresses)
        if self.setup.seeds:
            federation = Federation(self.setup.seeds)
            self._discovery = Discovery(federation, self.setup.credentials, DISCOVERY_S)
            await self._go_along(await self._discovery.first())
            self._discovery.follow(lambda: (), self._go_along)
        self.port = await self._listener.start(self._host, self.port)
        self._gossip = await self._start_gossip()
        await self.groups.start()
        self._loop = asyncio.get_running_loop()
        self._tick()
        names = ",".join(self.groups.table.names.values())
        tell(log, ROUTER_STARTED, listen=f"{self._host}:{self.port}", groups=names)

    async def stop(self) -> None:
        """Hang up. What clients asked for goes on in the groups."""
        if self._stopping:
            return
        self._stopping = True
        tell(log, STOPPING, cause="told to")
        began_s = self._loop.time()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._gossip is not None:
            await self._gossip.stop()
        await self._listener.stop("the router stops")
        for client in list(self._clients.values()):
            self._end(client)
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._blobs.stop()
        await self._readers.stop()
        if self._discovery is not None:
            await self._discovery.stop()
        await self.groups.stop()
        self._tell_spread()
        tell(log, STOPPED, took_ms=int((self._loop.time() - began_s) * 1000))

    # --- a service of the door: links of clients

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """A client speaks."""
        client = self._clients.get(link)
        if client is None:
            hello = messages[0]
            assert isinstance(hello, HelloClient), "the door lets in clients alone"
            client = self._clients[link] = self._client(link, hello)
            client.start()
            messages = messages[1:]
        if messages:
            client.hear(messages)

    def closed(self, link: Link, reason: str) -> None:
        """A client is gone."""
        client = self._clients.pop(link, None)
        if client is not None:
            self._end(client)

    # --- helpers

    async def _start_gossip(self) -> GossipNode | None:
        """Let others know of this router; which groups there are it asks the seeds."""
        if self.setup.federation is None:
            return None
        address = (
            f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"
        )
        own = OwnNode(
            secrets.token_bytes(NODE_ID_BYTES), NodeKind.ROUTER, group="", address=address
        )
        node = GossipNode(self.setup.federation, own, SystemClock(), SystemJitter())
        await node.start(self._host, self.port)
        return node

    async def _go_along(self, steps: GroupChanges) -> None:
        """Groups of the federation have come or gone."""
        for number in [one for one, name in self.groups.table.names.items() if name in steps.gone]:
            self.groups.remove(number)
            for client in self._clients.values():
                client.remove_group(number)
        for one in steps.found:
            self._add_group(one.name, ",".join(one.addresses))
        await asyncio.sleep(0)

    def _add_group(self, name: str, addresses: str) -> None:
        number = self.groups.add(name, addresses, self.setup.weights.get(name, 1))
        for client in self._clients.values():
            client.add_group(number)

    def _machine(self, *, is_plain: bool = False) -> RouterMachine:
        drawn = secrets.token_bytes(16)
        return RouterMachine(
            self.setup.table, self._owners, self._kept, drawn=drawn, is_plain=is_plain
        )

    def _client(self, link: Link, hello: HelloClient) -> ClientLink:
        return ClientLink(
            link,
            hello,
            groups=self.groups,
            machine=self._machine(is_plain=ACCEPTED not in agreed_with(hello)),
            credentials=self._shown(link),
        )

    def _shown(self, link: Link) -> Credentials:
        """What a client shows to the groups: its token, and nothing of ours."""
        return replace(self._upstream, token=self._tokens.get(link))

    def _end(self, client: ClientLink, why: Error | None = None) -> None:
        for task in client.stop(why):
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if self._stopping:
            link.close("the router stops")
            return
        if isinstance(messages[0], LoginMessage):
            messages = self._log_in(link, messages)
        if messages:
            self._door.messages(link, messages)

    def _log_in(self, link: Link, messages: list[Message]) -> list[Message]:
        """Keep a token for the groups, which look at it; the rest of what came."""
        login = messages[0]
        if isinstance(login, Login) and login.method == TOKEN and link not in self._tokens:
            self._tokens[link] = Secret(login.proof)
            return messages[1:]
        error = refused(
            "a router supports logins by token only",
            "use a token of `rollq access token`, or connect to a member",
        )
        link.send(error)
        link.close(error.message)
        return []

    def _closed(self, link: Link, reason: str) -> None:
        self._tokens.pop(link, None)
        self._door.closed(link, reason)

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(LOOK_MS / 1000, self._tick)
        now_s = self._loop.time()
        if now_s >= self._spread_at_s:
            self._tell_spread()
        for link, client in list(self._clients.items()):
            why = client.tick(now_s)
            if why is not None:
                del self._clients[link]
                self._end(client, why)

    def _tell_spread(self) -> None:
        self._spread_at_s = self._loop.time() + ROUTER_SPREAD_MS / 1000
        spread = self.groups.spread
        if spread != self._spread:
            self._spread = spread
            if any(spread.values()):
                shown = ", ".join(f"{name} {count}" for name, count in spread.items())
                tell(log, ROUTER_SPREAD, spread=shown)
