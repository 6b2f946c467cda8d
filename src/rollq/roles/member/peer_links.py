"""Links between members: outgoing ones, opened when there is something to send, and incoming ones.

A member sends on the link that it dialled and receives on those that were dialled to it. What
cannot be sent now is dropped: consensus sends again what matters.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from rollq.base.access import Principal
from rollq.base.errors import RollqError
from rollq.base.limits import PEER_REDIAL_MS, PEER_UNACKED_MS_MAX
from rollq.base.repeats import Repeats
from rollq.net.dialer import dial
from rollq.net.link import Link, LinkLimits
from rollq.raft.types import RaftMessage
from rollq.roles.member.driver import Driver
from rollq.roles.service import end_tasks
from rollq.security.credentials import NONE, Credentials
from rollq.security.mode import Mode
from rollq.wire.compact import Message
from rollq.wire.messages import Error, LeaderHello, PeerMessage

LIMITS = LinkLimits(unacked_ms_max=PEER_UNACKED_MS_MAX)

log = logging.getLogger("rollq.member.peers")


class PeerLinks:
    """Links by address. The first word on each is the hello that `hello` makes."""

    def __init__(
        self,
        group: str,
        hello: Callable[[str], LeaderHello],
        credentials: Credentials = NONE,
        tls: Mode = Mode.OFF,
    ) -> None:
        self._group = group
        self._hello = hello
        self._credentials = credentials
        self._tls = tls
        self._links: dict[str, Link] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._stopped = False
        self._posted: dict[Link, None] = {}
        self._told = Repeats()

    def send(self, address: str, message: Message) -> None:
        """Send with the next `flush`, or start to dial and let this message go."""
        link = self._links.get(address)
        if link is not None and link.is_open:
            link.post_all((message,))
            self._posted[link] = None
        elif address not in self._dialling and not self._stopped:
            loop = asyncio.get_running_loop()
            self._dialling[address] = loop.create_task(self._dial(address))

    def flush(self) -> None:
        """Write what was sent since the last time."""
        posted, self._posted = self._posted, {}
        for link in posted:
            link.flush()

    def cut(self, address: str, reason: str) -> None:
        """Close the connection to a member; what is on its way is dropped."""
        link = self._links.pop(address, None)
        if link is not None:
            link.abort(reason)

    async def stop(self, reason: str) -> None:
        """Close everything and dial no more."""
        self._stopped = True
        await end_tasks(self._dialling.values())
        links, self._links = self._links, {}
        for link in links.values():
            link.close(reason)

    async def _dial(self, address: str) -> None:
        try:
            link = await dial(
                address,
                self._group,
                self._heard,
                self._closed,
                LIMITS,
                credentials=self._credentials,
                tls=self._tls,
            )
            link.send(self._hello(address))
            self._links[address] = link
        except RollqError as error:
            log.debug("%s", error)
            await asyncio.sleep(PEER_REDIAL_MS / 1000)
        finally:
            del self._dialling[address]

    def _heard(self, link: Link, messages: list[Message]) -> None:
        """Members answer on their own links; on this one they say why they hang up."""
        for message in messages:
            if isinstance(message, Error):
                hint = f" ({message.hint})" if message.hint else ""
                self._tell(f"{link.address} does not take us: {message.message}{hint}")

    def _closed(self, link: Link, reason: str) -> None:
        for address, known in list(self._links.items()):
            if known is link:
                del self._links[address]
                self._tell(f"link to {address} closed: {reason}")

    def _tell(self, text: str) -> None:
        """Once, and then counted: links are dialed ten times a second."""
        line = self._told.line(text, text, int(asyncio.get_running_loop().time() * 1000))
        if line:
            log.warning("%s", line)


class IncomingPeers:
    """A `Service` for links that other members dialed: what they say goes to the driver.

    Args:
        driver: Takes it.
        wake: Called when the driver has something to do.
    """

    def __init__(self, driver: Driver, wake: Callable[[], None]) -> None:
        self._driver = driver
        self._wake = wake
        self._hellos: dict[Link, LeaderHello] = {}  # the last on each link
        self._told = Repeats()

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Hand messages to the driver; a member that it refuses is cut off."""
        for message in messages:
            if isinstance(message, LeaderHello):
                self._hellos[link] = message
            hello = self._hellos[link]
            if isinstance(message, RaftMessage) and not self._is_of(hello, message):
                link.close("not a member of this cluster, or not the member it claims to be")
                break
            assert isinstance(message, PeerMessage | RaftMessage), "the door lets in nothing else"
            reason = self._driver.peer_message(hello.address, message, hello.boot, is_proven=True)
            if reason:
                self._tell(f"member at {hello.address} is refused: {reason}")
                link.close(reason)
                break
        self._wake()

    def closed(self, link: Link, reason: str) -> None:
        """A member is gone when the last link that named its address is."""
        hello = self._hellos.pop(link)
        self._tell(f"member at {hello.address} is gone: {reason}")
        if all(other.address != hello.address for other in self._hellos.values()):
            self._driver.peer_lost(hello.address)
        self._wake()

    def _is_of(self, hello: LeaderHello, message: RaftMessage) -> bool:
        """Whether a message of consensus is of the cluster and the member of its link."""
        is_same = hello.cluster_id == self._driver.roll.cluster_id
        return is_same and message.sender == hello.member_id

    def _tell(self, text: str) -> None:
        """Once, and then counted: links are dialed ten times a second."""
        line = self._told.line(text, text, int(asyncio.get_running_loop().time() * 1000))
        if line:
            log.warning("%s", line)
