"""The router process: a listener, and sessions with the groups for each client.

It stores nothing on disk and has no rights of its own: each group authenticates the client's token.
So it may stop at any time, and several may run: clients fail over to another router, and repeat
their unanswered requests.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field, replace

from rollq.base.access import LinkRole, Principal
from rollq.base.errors import RollqError
from rollq.base.limits import LOOK_MS
from rollq.base.log_events import ROUTER_SPREAD, ROUTER_STARTED, STOPPED, STOPPING, tell
from rollq.base.router_limits import ROUTER_SPREAD_MS
from rollq.gossip.following import GroupChanges
from rollq.gossip.node import GossipNode, OwnNode
from rollq.gossip.records import NODE_ID_BYTES, NodeKind
from rollq.gossip.setup import FederationSetup
from rollq.net.link import DEFAULT_LIMITS, Link, LinkLimits
from rollq.net.listener import Listener
from rollq.roles.client.several_groups.discovery import Discovery, Federation
from rollq.roles.client.several_groups.routes import GroupTable
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

DISCOVERY_S = 30.0  # how long the first discovery may take


@dataclass(frozen=True, slots=True)
class RouterSetup:
    """Settings of a router.

    Attributes:
        groups: The members of each group, by its name.
        seeds: Members of a federation whose groups are discovered and followed; empty: none.
        table: Routes and placement policy.
        weights: Relative share of jobs without a route, by group name.
        credentials: Its own certificate, and what members are verified by.
        tls: Whether links to it speak TLS; None: derived from the credentials.
        federation: Gossip settings; None: it does not gossip.
    """

    groups: dict[str, str]
    table: GroupTable
    weights: dict[str, int] = field(default_factory=dict)
    credentials: Credentials = NONE
    tls: Mode | None = None
    seeds: str = ""
    federation: FederationSetup | None = None


class RouterNode:
    """A running router. `start` returns when it listens."""

    def __init__(
        self, setup: RouterSetup, host: str, port: int, limits: LinkLimits = DEFAULT_LIMITS
    ) -> None:
        self.setup = setup
        self.port = port
        self.groups = Groups(setup.table)
        self._host = host
        self._owners = JobOwners()
        self._kept = KeptBytes()
        # Upstream links verify members by the CA, and present none of the router's own secrets.
        self._upstream = replace(
            setup.credentials, certificate=None, token=None, account_key=None, cluster_key=None
        )
        self._tokens: dict[Link, Secret] = {}
        self._clients: dict[Link, ClientLink] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._stopping = False
        self._spread: dict[str, int] = {}  # as it was last logged
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
        """Probe the groups, and listen. Raises RollqError."""
        for name, addresses in self.setup.groups.items():
            self._add_group(name, addresses)
        if self.setup.seeds:
            federation = Federation(self.setup.seeds)
            self._discovery = Discovery(federation, self.setup.credentials, DISCOVERY_S)
            await self._apply_group_changes(await self._discovery.first())
            self._discovery.follow(lambda: (), self._apply_group_changes)
        self.port = await self._listener.start(self._host, self.port)
        self._gossip = await self._start_gossip()
        await self.groups.start()
        self._loop = asyncio.get_running_loop()
        self._tick()
        names = ",".join(self.groups.table.names.values())
        tell(log, ROUTER_STARTED, listen=f"{self._host}:{self.port}", groups=names)

    async def stop(self) -> None:
        """Close all links. The jobs of clients continue in the groups."""
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

    # --- the service of client links

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Handle messages of a client link; the first is its hello."""
        client = self._clients.get(link)
        if client is None:
            hello = messages[0]
            assert isinstance(hello, HelloClient), "the door admits only this hello"
            client = self._clients[link] = self._client(link, hello)
            client.start()
            messages = messages[1:]
        if messages:
            client.hear(messages)

    def closed(self, link: Link, reason: str) -> None:
        """Handle the loss of a client link."""
        client = self._clients.pop(link, None)
        if client is not None:
            self._end(client)

    # --- helpers

    async def _start_gossip(self) -> GossipNode | None:
        """Announce this router to the federation; it learns the groups from the seeds."""
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

    async def _apply_group_changes(self, steps: GroupChanges) -> None:
        """Apply all changes of the federation's groups: each is told once, so one that fails must
        not hold up the others. A group that `--group` names stays as it is named, whatever the
        federation says of it.

        Raises:
            RollqError: the first failure.
        """
        failures: list[RollqError] = []
        gone = set(steps.gone) - self.setup.groups.keys()
        for number in [one for one, name in self.groups.table.names.items() if name in gone]:
            self.groups.remove(number)
            for client in self._clients.values():
                client.remove_group(number)
        for one in steps.found:
            if one.name in self.setup.groups:
                continue
            try:
                self._add_group(one.name, ",".join(one.addresses))
            except RollqError as error:
                failures.append(error)
        await asyncio.sleep(0)
        if failures:
            raise failures[0]

    def _add_group(self, name: str, addresses: str) -> None:
        number = self.groups.add(name, addresses, self.setup.weights.get(name, 1))
        for client in self._clients.values():
            client.add_group(number)

    def _machine(self, *, is_legacy: bool = False) -> RouterMachine:
        base_id = secrets.token_bytes(16)
        return RouterMachine(
            self.setup.table, self._owners, self._kept, base_id=base_id, is_legacy=is_legacy
        )

    def _client(self, link: Link, hello: HelloClient) -> ClientLink:
        return ClientLink(
            link,
            hello,
            groups=self.groups,
            machine=self._machine(is_legacy=ACCEPTED not in agreed_with(hello)),
            credentials=self._shown(link),
        )

    def _shown(self, link: Link) -> Credentials:
        """Credentials for upstream links of a client: its token and nothing of the router's."""
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
        """Keep the token for the groups, which verify it; returns the messages after the login."""
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
