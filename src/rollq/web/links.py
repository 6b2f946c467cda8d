"""The way to the group for each account that uses this process: one pair of links, logged in with
the token of the account. A bounded number of them, the one that was used last stays longest."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, TypeVar

from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import JobId, guid_from_text
from rollq.base.jobs import BlobRef
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.client import Client
from rollq.roles.client.outputs import Output
from rollq.roles.client.session import as_addresses
from rollq.roles.client.specs import JobSpec
from rollq.roles.reader.observer import Observer
from rollq.security.credentials import Credentials
from rollq.security.secret import Secret
from rollq.security.tokens import account_of_token, parse_token
from rollq.web.errors import RequestError
from rollq.web.limits import CALL_S, LINK_S, LINKS_MAX, PROVED_S
from rollq.web.live import Live
from rollq.web.setup import WebSetup

log = logging.getLogger("rollq.web")

Value = TypeVar("Value")
CLIENT_ID: Final = "web"
ANONYMOUS: Final = "anonymous"
NOBODY: Final = b""  # the key of those who bring no token


class Links:
    """The pair of links of one account.

    Attributes:
        account: Whose they are; empty: of whoever brings no token.
        client: Finds the leader, and goes on through a change of it.
        observer: Reads what one member has applied.
        live: What the pages of the account see.
        users: Requests and streams that use them now.
        streams: Those of them that are streams.
        applied: The index that was read last.
    """

    def __init__(self, setup: WebSetup, token: Secret | None, opened_at: float) -> None:
        given = setup.credentials
        credentials = Credentials(given.directory, ca=given.ca, token=token)
        self.account = "" if token is None else account_of_token(token)
        self.client = WebClient(
            setup.servers,
            client_id=f"{self.account}/{CLIENT_ID}" if self.account else CLIENT_ID,
            timeout=CALL_S,
            shares_id=True,
            credentials=credentials,
        )
        self.observer = Observer(
            as_addresses(setup.servers), setup.group, credentials, setup.prefer, answer_s=CALL_S
        )
        self.live = Live(self)
        self.opened_at = opened_at
        self.proved_at = -PROVED_S  # by the loop's clock
        self.users = 0
        self.streams = 0
        self.applied = 0
        self.is_old = False  # others took its place; it ends with its last user

    @property
    def member(self) -> str:
        """The member that is read from; empty: none is reached."""
        return self.observer.member

    async def start(self) -> None:
        """Begin to look for members."""
        await self.client.start()
        await self.observer.start()

    async def stop(self) -> None:
        """Hang up."""
        self.live.stop()
        await self.observer.stop()
        await self.client.stop()

    async def prove(self) -> None:
        """Whether the group lets the account in.

        Raises:
            RollqError: it does not, or nobody answers.
        """
        try:
            await self.observer.query("account", (self.account or ANONYMOUS).encode())
        except RollqError as error:
            # Of a link that was let in, that it may not look at itself is no refusal.
            if error.code is not ErrorCode.ACCESS_DENIED or not self.member:
                raise

    async def maybe_prove(self, now: float) -> None:
        """The same, unless that was asked a moment ago: nothing of a request that is not let in is
        looked at."""
        if now - self.proved_at > PROVED_S:
            await self.prove()
            self.proved_at = now

    async def read(self, kind: type[Value], what: str, key: bytes = b"", limit: int = 100) -> Value:
        """A view, as a member has it that may be a moment behind the leader."""
        self.applied, value = await self.observer.query(what, key, limit)
        return decode_as(value, kind)

    async def find(self, kind: type[Value], what: str, key: bytes) -> Value | None:
        """The same of one thing; None if it is not known."""
        self.applied, value = await self.observer.query(what, key)
        return decode_known(value, kind)

    async def ask(
        self,
        kind: type[Value],
        what: str,
        key: bytes = b"",
        limit: int = 100,
        *,
        timeout_s: float = CALL_S,
    ) -> Value:
        """A view that the leader alone can give."""
        return decode_as(await self.client.query(what, key, limit, timeout=timeout_s), kind)


class WebClient(Client):
    """A client for those who do not stay for results."""

    async def post(self, spec: JobSpec, notify: Sequence[str] = ()) -> str:
        """Submit a job whose result nobody here waits for; returns its id. The result stays owed to
        this client id, and the same job may be posted again at any time."""
        job = await self.submit(spec, notify=notify)
        self._engine.forget(job.job_id, job)
        for one in job.followers:
            self._engine.targets.pop(guid_from_text(one), None)
        return job.id

    async def post_like(
        self, job_id: JobId, args: Sequence[str] | None, env: Mapping[str, str] | None
    ) -> str:
        """The same of a job as another one was, but for these."""
        job = await self.submit_like(job_id, args, env=env)
        self._engine.forget(job.job_id, job)
        return job.id

    def kept(self, name: str, ref: BlobRef) -> Output:
        """Bytes that the group keeps, as a file to read."""
        return Output(name, ref, fetcher=self._engine)


class AllLinks:
    """Those of all accounts.

    Args:
        setup: Of the process.
    """

    def __init__(self, setup: WebSetup) -> None:
        self._setup = setup
        self._open: OrderedDict[bytes, Links] = OrderedDict()
        self._opening: dict[bytes, asyncio.Task[Links]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def of(self, token: Secret | None) -> AsyncIterator[Links]:
        """The links of an account, for as long as a request or a stream takes.

        Raises:
            RollqError: LOGIN_FAILED or LOGIN_REQUIRED, if the group does not let it in;
                UNPROTECTED, if it asks nobody where it must; and so on.
        """
        links = await self._find(token)
        self.hold(links)
        try:
            yield links
        finally:
            self.release(links)

    def hold(self, links: Links) -> None:
        """One more uses them."""
        links.users += 1

    def release(self, links: Links) -> None:
        """One less; the last one of old ones ends them."""
        links.users -= 1
        if links.is_old and not links.users:
            self._end(links)

    async def stop(self) -> None:
        """Hang up everywhere."""
        for opening in self._opening.values():
            opening.cancel()
        for links in self._open.values():
            self._end(links)
        self._open.clear()
        await asyncio.gather(*self._ending, return_exceptions=True)

    async def _find(self, token: Secret | None) -> Links:
        key = _key_of(token)
        now = asyncio.get_running_loop().time()
        links = self._open.get(key)
        if links is not None and (token is None or now - links.opened_at < LINK_S):
            self._open.move_to_end(key)
            return links
        opening = self._opening.get(key)
        if opening is None:
            opening = asyncio.create_task(self._open_links(key, token))
            self._opening[key] = opening
            opening.add_done_callback(lambda _: self._opening.pop(key, None))
        return await asyncio.shield(opening)

    async def _open_links(self, key: bytes, token: Secret | None) -> Links:
        links = Links(self._setup, token, asyncio.get_running_loop().time())
        await links.start()
        try:
            if token is not None:
                if self._setup.needs_login:
                    await self._check_group()
                await links.prove()
            self._make_room()
        except BaseException:
            await links.stop()
            raise
        self._replace(key, links)
        return links

    async def _check_group(self) -> None:
        """A group that asks nobody takes any token for good.

        Raises:
            RequestError: UNPROTECTED.
        """
        nobody = await self._find(None)
        try:
            await nobody.prove()
        except RollqError as error:
            if error.code is ErrorCode.LOGIN_REQUIRED:
                return
            raise
        raise RequestError(
            403,
            ErrorCode.UNPROTECTED,
            "other machines can reach this port, and the group requires no logins",
            "start members with --auth require, listen on 127.0.0.1, or say --unsafe-no-auth",
        )

    def _make_room(self) -> None:
        for key in list(self._open):
            if len(self._open) < LINKS_MAX:
                return
            if key != NOBODY and not self._open[key].users:
                self._end(self._open.pop(key))
        if len(self._open) >= LINKS_MAX:
            raise StateError(
                ErrorCode.OVERLOADED, f"{LINKS_MAX} accounts use this process", "try again later"
            )

    def _replace(self, key: bytes, links: Links) -> None:
        old = self._open.pop(key, None)
        self._open[key] = links
        if old is not None:
            links.live.go_on_from(old.live)
            old.is_old = True
            if not old.users:
                self._end(old)

    def _end(self, links: Links) -> None:
        task = asyncio.create_task(links.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def checked_token(text: str) -> Secret:
    """A token as somebody sent it.

    Raises:
        RequestError: LOGIN_FAILED, if it is none.
    """
    data = text.encode("utf-8", "surrogateescape")
    if parse_token(data) is None:
        raise RequestError(
            401,
            ErrorCode.LOGIN_FAILED,
            "the login failed",
            "a token has the form rollq_ACCOUNT_SECRET; `rollq access token` makes one",
        )
    return Secret(data)


def _key_of(token: Secret | None) -> bytes:
    return NOBODY if token is None else hashlib.sha256(token.reveal()).digest()
