"""Links between members: outgoing ones, dialed when there is something to send, and incoming ones.

A member sends on the link that it dialed and receives on those that peers dialed. What cannot be
sent now is dropped: raft retransmits what matters.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final, NamedTuple

from rollq.base.access import Principal
from rollq.base.errors import DialError, ErrorCode, RemoteError, RollqError, StateError
from rollq.base.ids import NIL_ID
from rollq.base.limits import PEER_REDIAL_MS, PEER_UNACKED_MS_MAX
from rollq.base.log_events import (
    KEY_REFUSED,
    LINK_CLOSED,
    MEMBER_BACK,
    MEMBER_GONE,
    MEMBER_REFUSED,
    MEMBER_REFUSES,
    LogEvent,
    seldom,
    tell,
)
from rollq.base.repeats import Repeats
from rollq.net.dialer import dial
from rollq.net.link import Link, LinkLimits
from rollq.raft.types import RaftMessage
from rollq.roles.member.cluster_login import ClusterLogin
from rollq.roles.member.driver import Driver
from rollq.roles.member.keyring import KeyRing
from rollq.roles.member.peers import UNPROVEN
from rollq.roles.member.rollcall import JoinPhase
from rollq.roles.service import end_tasks
from rollq.security.credentials import NONE, Credentials
from rollq.security.mode import Mode
from rollq.wire.compact import Message
from rollq.wire.login_messages import CLUSTER, NONCE_BYTES
from rollq.wire.messages import Error, LeaderHello, PeerMessage

LIMITS = LinkLimits(unacked_ms_max=PEER_UNACKED_MS_MAX)
UNPROVEN_MAX: Final = 64
UNPROVEN_QUIET: Final = 3  # refusals of one address before the first is logged
UNPROVEN_HINT: Final = "all members have the same cluster.key, or none has one"
UNPROVEN_HERE: Final = (
    "this member does not prove the cluster key; put the cluster.key of the others into its "
    "--credentials, if they have one"
)

log = logging.getLogger("rollq.member.peers")


class PeerLinks:
    """Links by address. Each proves the cluster key, if there is one; the first message after that
    is the one that `hello` makes.

    A peer that lacks our key is dialed all the same, unless the key is from a file: we may be about
    to send it the key. Whether its messages are trusted is decided separately.
    """

    def __init__(
        self,
        group: str,
        hello: Callable[[str], LeaderHello],
        keys: Callable[[], KeyRing],
        credentials: Credentials = NONE,
        tls: Mode = Mode.OFF,
        *,
        features: Callable[[str], Collection[str]] = lambda address: (),
    ) -> None:
        self._group = group
        self._hello = hello
        self._keys = keys
        self._features = features  # last announced by the member at an address
        # Account credentials are for other links than those of members.
        self._credentials = replace(credentials, token=None, account_key=None)
        self._tls = tls
        self._links: dict[str, Link] = {}
        self._proven: dict[Link, None] = {}  # the links in `_links` that have proved our key
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._stopped = False
        self._posted: dict[Link, str] = {}  # links to flush, with their addresses
        self._unproven: Counter[str] = Counter()  # refusals for a missing proof, by address
        self._repeats = Repeats()

    def send(self, address: str, message: Message) -> None:
        """Queue a message for the next `flush`; if no link is open, drop it and dial."""
        link = self._links.get(address)
        if link is not None and link.is_open:
            link.post_all((message,))
            self._posted[link] = address
        else:
            self._begin_dial(address)

    def flush(self) -> None:
        """Write what was queued since the last flush."""
        posted, self._posted = self._posted, {}
        for link, address in posted.items():
            link.connection.peer_offers(self._features(address))
            link.flush()

    def prove(self, address: str) -> None:
        """Dial a link that proves our key, to replace one that has not, once it is open."""
        link = self._links.get(address)
        if link is not None and link not in self._proven:
            self._begin_dial(address)

    def cut(self, address: str, reason: str) -> None:
        """Abort the link to a member; queued messages are dropped."""
        link = self._links.pop(address, None)
        if link is not None:
            self._proven.pop(link, None)
            link.abort(reason)

    async def stop(self, reason: str) -> None:
        """Close all links and stop dialing."""
        self._stopped = True
        await end_tasks(self._dialling.values())
        links, self._links = self._links, {}
        for link in links.values():
            link.close(reason)

    def _begin_dial(self, address: str) -> None:
        if address not in self._dialling and not self._stopped:
            loop = asyncio.get_running_loop()
            self._dialling[address] = loop.create_task(self._dial(address))

    async def _dial(self, address: str) -> None:
        try:
            link, is_proven = await self._open(address)
            link.send(self._hello(address))
            before = self._links.get(address)
            self._links[address] = link
            if is_proven:
                self._proven[link] = None
            if before is not None:
                self._proven.pop(before, None)
                before.close("another link takes its place")
        except RollqError as error:
            log.debug("%s", error)
            await asyncio.sleep(PEER_REDIAL_MS / 1000)
        finally:
            del self._dialling[address]

    async def _open(self, address: str) -> tuple[Link, bool]:
        """Open a link; returns it, and whether both sides have proved one of our keys: an accepter
        that proves a key also accepts our proof of it."""
        keys = self._keys()
        for key in keys.held:
            nonce = secrets.token_bytes(NONCE_BYTES)
            try:
                login = ClusterLogin(key, self._group, address, nonce)
                link = await self._connect(address, login)
                del self._unproven[address]
                return link, True
            except RemoteError as error:  # it claims the key but fails the proof
                self._log(KEY_REFUSED, cause=str(error))
                raise
            except StateError as error:  # it holds another key, or none
                log.debug("%s", error)
            except DialError as error:
                if error.code is not ErrorCode.DISCONNECTED:  # perhaps it knows no logins
                    raise
                log.debug("%s", error)
        if keys.is_explicit:
            self._log(KEY_REFUSED, cause=f"{address} does not know our cluster key")
            raise DialError(
                ErrorCode.LOGIN_FAILED,
                f"{address} takes none of the keys in cluster.key",
                "give all members the same cluster.key",
            )
        return await self._connect(address, None), False

    async def _connect(self, address: str, login: ClusterLogin | None) -> Link:
        return await dial(
            address,
            self._group,
            self._errors,
            self._closed,
            LIMITS,
            credentials=self._credentials,
            tls=self._tls,
            login=login,
        )

    def _errors(self, link: Link, messages: list[Message]) -> None:
        """Handle errors: members respond on links of their own, and send here only why they
        close."""
        for message in messages:
            if isinstance(message, Error) and message.code == ErrorCode.LOGIN_REQUIRED:
                self._unproven[link.address] += 1
                if self._unproven[link.address] > UNPROVEN_QUIET:
                    self._log(MEMBER_REFUSES, address=link.address, cause=UNPROVEN_HERE)
            elif isinstance(message, Error):
                hint = f" ({message.hint})" if message.hint else ""
                self._log(MEMBER_REFUSES, address=link.address, cause=message.message + hint)

    def _closed(self, link: Link, reason: str) -> None:
        self._proven.pop(link, None)
        for address, known in list(self._links.items()):
            if known is link:
                del self._links[address]
                self._log(LINK_CLOSED, address=address, cause=reason)

    def _log(self, event: LogEvent, **fields: str) -> None:
        _log_seldom(self._repeats, event, fields)


class _Caller(NamedTuple):
    """The sender on a link, as given by its last hello."""

    hello: LeaderHello
    is_proven: bool


class IncomingPeers:
    """A `Service` for links that other members dialed: passes their messages to the driver.

    Args:
        driver: Handles the messages.
        wake: Called when the driver has something to do.
    """

    def __init__(self, driver: Driver, wake: Callable[[], None]) -> None:
        self._driver = driver
        self._wake = wake
        self._callers: dict[Link, _Caller] = {}
        self._stopped = False
        self._gone: dict[str, None] = {}  # addresses of members that were logged as gone
        # Refusals for a missing proof, by address; at most UNPROVEN_MAX addresses.
        self._unproven: dict[str, int] = {}
        self._repeats = Repeats()

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        """Pass messages to the driver; close the link if it refuses one."""
        is_proven = principal.method == CLUSTER
        for message in messages:
            if isinstance(message, LeaderHello):
                self._callers[link] = _Caller(message, is_proven)
                if is_proven or not self._driver.roll.keys.is_guarded:
                    self._unproven.pop(message.address, None)
            hello = self._callers[link].hello
            if self._gone and (is_proven or not self._driver.roll.keys.is_guarded):
                self._log_back(hello.address)
            if isinstance(message, RaftMessage) and not self._is_of(hello, message):
                link.close("not a member of this cluster, or not the member it claims to be")
                break
            assert isinstance(message, PeerMessage | RaftMessage), "the door lets in nothing else"
            reason = self._driver.peer_message(
                hello.address, message, hello.boot, is_proven=is_proven
            )
            if reason:
                self._log_refused(hello.address, reason)
                if reason == UNPROVEN:
                    link.send(Error(NIL_ID, int(ErrorCode.LOGIN_REQUIRED), reason, UNPROVEN_HINT))
                link.close(reason)
                break
        self._wake()

    def stop(self) -> None:
        """This member stops: log no lost links from now on."""
        self._stopped = True

    def silent(self, address: str, reason: str) -> None:
        """A member does not answer. If its process is stopped or the network is cut, its links to
        this member stay open."""
        self._log_gone(address, reason)

    def closed(self, link: Link, reason: str) -> None:
        """A member is gone when its last link closes. If members must prove the key, links without
        proof do not count."""
        caller = self._callers.pop(link)
        needs_proof = self._driver.roll.keys.is_guarded
        if needs_proof and not caller.is_proven:
            return
        address = caller.hello.address
        others = [one for one in self._callers.values() if one.is_proven or not needs_proof]
        if all(other.hello.address != address for other in others):
            self._log_gone(address, reason)
            self._driver.peer_lost(address)
        self._wake()

    def _is_of(self, hello: LeaderHello, message: RaftMessage) -> bool:
        """Whether a raft message is from the cluster and the member of its link's hello."""
        is_same = hello.cluster_id == self._driver.roll.cluster_id
        return is_same and message.sender == hello.member_id

    def _log_gone(self, address: str, reason: str) -> None:
        """Log once that a member does not answer, or has no link to this one any more. While a
        group forms, links are replaced, and a closed link means nothing."""
        config = self._driver.raft.config
        known = {member.address for member in (*config.voters, *config.learners)}
        counts = not self._stopped and self._driver.roll.phase is JoinPhase.PRESENT
        if counts and address in known and address not in self._gone:
            self._gone[address] = None
            _log_seldom(self._repeats, MEMBER_GONE, {"address": address, "cause": reason})

    def _log_back(self, address: str) -> None:
        if address in self._gone:
            del self._gone[address]
            _log_seldom(self._repeats, MEMBER_BACK, {"address": address})

    def _log_refused(self, address: str, reason: str) -> None:
        """Log a refusal. A member that has just received the key is refused on its old links, and
        proves the key on its next one: the first few refusals are not logged."""
        if reason == UNPROVEN and len(self._unproven) < UNPROVEN_MAX:
            count = self._unproven[address] = self._unproven.get(address, 0) + 1
            if count <= UNPROVEN_QUIET:
                return
        _log_seldom(self._repeats, MEMBER_REFUSED, {"address": address, "cause": reason})


def _log_seldom(repeats: Repeats, event: LogEvent, fields: dict[str, Any]) -> None:
    """Log an event once, then only counts of it: links are dialed ten times a second."""
    kind = f"{event.word} {fields}"
    shown = seldom(repeats, kind, int(asyncio.get_running_loop().time() * 1000), fields)
    if shown is not None:
        tell(log, event, **shown)
