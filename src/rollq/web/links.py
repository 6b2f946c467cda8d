"""Connections to the group: a pair for each account that uses this process, logged in with its
token. Their number is limited; the least recently used are closed."""

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
from rollq.roles.client.addresses import as_addresses
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.client import Client
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.results.outputs import Output
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
NOBODY: Final = b""  # key for requests without a token


class Links:
    """The connections of one account.

    Attributes:
        account: The account; empty without a token.
        client: A client of the leader, which follows leader changes.
        observer: Reads the applied state of one member.
        live: Polling for the account's pages.
        users: Number of requests and streams that use them.
        streams: Number of streams.
        applied: The applied index of the last read.
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
        self.is_old = False  # replaced; closed by its last user

    @property
    def member(self) -> str:
        """The member that is read from; empty if none is connected."""
        return self.observer.member

    async def start(self) -> None:
        """Connect in the background."""
        await self.client.start()
        await self.observer.start()

    async def stop(self) -> None:
        """Close the connections."""
        self.live.stop()
        await self.observer.stop()
        await self.client.stop()

    async def prove(self) -> None:
        """Check that the group accepts the login.

        Raises:
            RollqError: it does not, or there is no response.
        """
        try:
            await self.observer.query("account", (self.account or ANONYMOUS).encode())
        except RollqError as error:
            # The login was accepted, only the query was denied.
            if error.code is not ErrorCode.ACCESS_DENIED or not self.member:
                raise

    async def prove_cached(self, now: float) -> None:
        """The same, with a cache of PROVED_S. It precedes the processing of every request."""
        if now - self.proved_at > PROVED_S:
            await self.prove()
            self.proved_at = now

    async def read(self, kind: type[Value], what: str, key: bytes = b"", limit: int = 100) -> Value:
        """Query a view from the applied state of a member, which may be slightly behind the
        leader."""
        self.applied, value = await self.observer.query(what, key, limit)
        return decode_as(value, kind)

    async def find(self, kind: type[Value], what: str, key: bytes) -> Value | None:
        """The same for a single object; None if it is unknown."""
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
        """Query a view from the leader."""
        return decode_as(await self.client.query(what, key, limit, timeout=timeout_s), kind)


class WebClient(Client):
    """A client that does not wait for results."""

    async def post(self, spec: JobSpec, notify: Sequence[str] = ()) -> str:
        """Submit a job without waiting for its result; returns its id. The result stays
        unconfirmed, and the same job may be submitted again."""
        job = await self.submit(spec, notify=notify)
        self._engine.forget(job.job_id, job)
        for one in job.followers:
            self._engine.targets.pop(guid_from_text(one), None)
        return job.id

    async def post_like(
        self, job_id: JobId, args: Sequence[str] | None, env: Mapping[str, str] | None
    ) -> str:
        """The same for a copy of another job, with these changes."""
        job = await self.submit_like(job_id, args, env=env)
        self._engine.forget(job.job_id, job)
        return job.id

    def kept(self, name: str, ref: BlobRef) -> Output:
        """A blob of the group, as a file."""
        return Output(name, ref, fetcher=self._engine)


class AllLinks:
    """The connections of all accounts.

    Args:
        setup: The settings of the process.
    """

    def __init__(self, setup: WebSetup) -> None:
        self._setup = setup
        self._open: OrderedDict[bytes, Links] = OrderedDict()
        self._opening: dict[bytes, asyncio.Task[Links]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def of(self, token: Secret | None) -> AsyncIterator[Links]:
        """Context manager: the connections of an account, while a request or a stream uses them.

        Raises:
            RollqError: LOGIN_FAILED or LOGIN_REQUIRED, if the group refuses the login; UNPROTECTED,
                if it requires no login but should; and others.
        """
        links = await self._find(token)
        self.hold(links)
        try:
            yield links
        finally:
            self.release(links)

    def hold(self, links: Links) -> None:
        """Count a user."""
        links.users += 1

    def release(self, links: Links) -> None:
        """Uncount a user; the last one of replaced connections closes them."""
        links.users -= 1
        if links.is_old and not links.users:
            self._end(links)

    async def stop(self) -> None:
        """Close all connections."""
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
            self._evict()
        except BaseException:
            await links.stop()
            raise
        self._replace(key, links)
        return links

    async def _check_group(self) -> None:
        """Check that the group requires logins: otherwise it would accept any token.

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
            "start members with --auth require, listen on 127.0.0.1, or use --unsafe-no-auth",
        )

    def _evict(self) -> None:
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
            links.live.continue_from(old.live)
            old.is_old = True
            if not old.users:
                self._end(old)

    def _end(self, links: Links) -> None:
        task = asyncio.create_task(links.stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def checked_token(text: str) -> Secret:
    """Check the form of a token.

    Raises:
        RequestError: LOGIN_FAILED, if it is invalid.
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
