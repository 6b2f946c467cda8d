"""Queries views of one member on an event loop, for web pages and other pollers.

A view is read from the state that the member has applied; the index of the answer says up to where.
When the member is lost, or its answer is overdue, pending queries are sent to another one; when the
preferred member serves again, it is used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from rollq.base.errors import (
    DeadlineError,
    DialError,
    ErrorCode,
    LocalError,
    RemoteError,
    RollqError,
    StateError,
)
from rollq.base.ids import NIL_ID, MessageId
from rollq.base.limits import LOOK_MS, READER_AGAIN_MS, READER_GREETING_MS
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.roles.reader.channel import refusal
from rollq.roles.redial import Redial
from rollq.roles.refusals import Refusals, refusal_of
from rollq.roles.service import SystemJitter, end_tasks
from rollq.roles.silence import Silence, Verdict
from rollq.security.credentials import NONE, Credentials
from rollq.wire.compact import Message
from rollq.wire.features import VIEWS
from rollq.wire.messages import Answer, Error, Query, Welcome
from rollq.wire.reader_messages import HelloReader

ANSWER_S: Final = 10.0  # deadline of a query, including retries at other members
READ_MS: Final = 1_500  # added to the silence limit: a member may read files for an answer
PREFER_S: Final = 5.0  # between two attempts to reach the preferred member
PENDING_MAX: Final = 1_024  # queries without an answer


class Observer:
    """Queries the views of a group. For concurrent tasks of one event loop.

    Args:
        addresses: Members of the group; one is enough to find the others.
        group: Its name; empty: any.
        credentials: Our login, and what members are verified by.
        prefer: The member to query as long as it serves; empty: any.
        answer_s: Deadline of a query.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        group: str,
        credentials: Credentials = NONE,
        prefer: str = "",
        *,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._redial = Redial([prefer, *addresses] if prefer else addresses, SystemJitter())
        self._group = group
        self._credentials = credentials
        self._prefer = prefer
        self._answer_s = answer_s
        self._refusals = Refusals()
        self._silence = Silence()
        self._trouble = "no member was reached yet"  # the last connection error
        self._upstream: _Upstream | None = None
        self._pending_queries: dict[MessageId, _PendingQuery] = {}  # at most PENDING_MAX
        self._task: asyncio.Task[None] | None = None
        self._first_attempt = asyncio.Event()

    @property
    def member(self) -> str:
        """The address of the connected member; empty if there is none."""
        return "" if self._upstream is None else self._upstream.address

    @property
    def group(self) -> str:
        """The group that was asked for, or else the one of the connected member."""
        return self._group or ("" if self._upstream is None else self._upstream.group)

    async def start(self) -> None:
        """Connect and stay connected; returns after the first attempt, successful or not. Further
        members are tried in the background. Idempotent."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._maintain_link())
        await self._first_attempt.wait()

    async def stop(self) -> None:
        """Close the link and fail pending queries. Idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        await end_tasks([task])
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.link.close("the observer stops")
        self._first_attempt.set()
        self._fail_all(DialError(ErrorCode.DISCONNECTED, "the observer was stopped"))

    async def query(
        self, what: str, key: bytes = b"", limit: int = 100, account: str = ""
    ) -> tuple[int, bytes]:
        """Query a view: returns the index that it was read at, and its value as msgpack.

        Args:
            what: The name of the view.
            key: Its key, depending on the view.
            limit: The most rows.
            account: Restricts lists of jobs to clients of this account; empty: all that are
                visible.

        Raises:
            StateError: the answer of the member; OVERLOADED, if too many queries are pending; or
                the reason why members refuse the login.
            DeadlineError: no member answers in time.
            DialError: DISCONNECTED, by `stop`.
            LocalError: BAD_SETUP, if it was not started.
        """
        if self._task is None:
            raise LocalError(ErrorCode.BAD_SETUP, "the observer is not started", "start it")
        refused = self._refusals.final
        if refused is not None:
            raise refusal(refused)
        if len(self._pending_queries) >= PENDING_MAX:
            raise StateError(ErrorCode.OVERLOADED, f"{PENDING_MAX} queries wait", "ask again")
        try:
            async with asyncio.timeout(self._answer_s):
                while True:
                    request = Query(secrets.token_bytes(16), what, key, limit, account)
                    answer = await self._ask(request)
                    if isinstance(answer, Answer):
                        return answer.index, answer.value
                    if answer.code != ErrorCode.NOT_READY:
                        raise refusal(answer)
                    self._trouble = answer.message  # it is stopping, or has not caught up
                    await asyncio.sleep(READER_AGAIN_MS / 1000)
        except TimeoutError:
            raise DeadlineError(
                ErrorCode.TIMED_OUT,
                f"no member answered within {self._answer_s:g} s: {self._trouble}",
                "see `rollq cluster`, and check the addresses",
            ) from None

    async def _ask(self, query: Query) -> Answer | Error:
        """Send a query to the connected member, or the next one."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer | Error] = loop.create_future()
        self._pending_queries[query.request_id] = _PendingQuery(query, answered)
        if self._upstream is not None:
            if len(self._pending_queries) == 1:
                self._silence.began(_now_ms(loop))
            self._upstream.link.send(query)
        try:
            return await answered
        finally:
            del self._pending_queries[query.request_id]

    # --- the link

    async def _maintain_link(self) -> None:
        """Keep a link open until cancelled."""
        address, wait_ms = self._redial.address, 0
        while True:
            await asyncio.sleep(wait_ms / 1000)
            upstream: _Upstream | None
            try:
                upstream = await self._connect(address)
            except RollqError as error:
                address, wait_ms = self._failed(address, error)
                continue
            while upstream is not None:
                self._upstream = upstream
                self._first_attempt.set()
                address, wait_ms, upstream = await self._serve_link(upstream)
                self._upstream = None

    async def _connect(self, address: str) -> _Upstream:
        """Open a link to a member that serves queries.

        Raises:
            RollqError: why it does not.
        """
        loop = asyncio.get_running_loop()
        greeted: asyncio.Future[Message] = loop.create_future()

        def hear(_: Link, messages: list[Message]) -> None:
            if not greeted.done():
                greeted.set_result(messages[0])

        def closed(_: Link, reason: str) -> None:
            if not greeted.done():
                greeted.set_exception(_disconnected(address, reason))

        link = await dial(address, self._group, hear, closed, credentials=self._credentials)
        link.send(HelloReader(self._group, (VIEWS,)))
        try:
            async with asyncio.timeout(READER_GREETING_MS / 1000):
                answer = await greeted
            welcome = _checked_welcome(address, answer)
        except TimeoutError:
            link.abort("no answer to the hello")
            raise DialError(ErrorCode.TIMED_OUT, f"{address} does not answer the hello") from None
        except BaseException:
            link.close("not served there")
            raise
        if not link.is_open:
            raise _disconnected(address, "at once")
        upstream = _Upstream(address, link, welcome)
        link.hand_to(
            lambda _, messages: self._messages(upstream, messages),
            lambda _, why: upstream.closed(why),
        )
        return upstream

    def _failed(self, address: str, error: RollqError) -> tuple[str, int]:
        """Record a failure; returns the next address and the delay in milliseconds."""
        self._trouble = f"{address}: {error.message}"
        self._first_attempt.set()
        refused = refusal_of(error)
        if error.code is ErrorCode.BAD_HANDSHAKE:  # of another group
            refused = Error(NIL_ID, int(error.code), error.message, error.hint)
        if refused is not None:
            self._refusals.noted(refused)
        elif not isinstance(error, DialError):
            self._refusals.over()
        if self._refusals.final is None:
            return self._redial.failed()
        self._fail_all(refusal(self._refusals.final))
        return self._redial.refused()

    async def _serve_link(self, upstream: _Upstream) -> tuple[str, int, _Upstream | None]:
        """Serve pending queries on a link until it ends or the preferred member is reached. Returns
        the next address, the delay in milliseconds, and the link to the preferred member, if
        any."""
        loop = asyncio.get_running_loop()
        self._redial.welcomed(upstream.members)
        self._refusals.over()
        self._silence.opened(_now_ms(loop), upstream.address)
        upstream.link.send_all([pending.query for pending in self._pending_queries.values()])
        retry_preferred_at = loop.time() + PREFER_S
        try:
            while not upstream.end:
                await upstream.changed(LOOK_MS / 1000)
                if self._is_silent(_now_ms(loop)):
                    self._trouble = f"{upstream.address} does not answer"
                    upstream.link.abort("no answer")
                    return *self._redial.silent(), None
                if self._prefer not in ("", upstream.address) and loop.time() >= retry_preferred_at:
                    preferred = await self._try_preferred()
                    if preferred is not None:
                        upstream.link.close("the wished member serves again")
                        return *self._redial.reachable(preferred.address), preferred
                    retry_preferred_at = loop.time() + PREFER_S
        except BaseException:
            upstream.link.close("the observer stops")
            raise
        self._trouble = f"{upstream.address} hung up: {upstream.end}"
        return *self._redial.failed(), None

    def _is_silent(self, now_ms: int) -> bool:
        verdict = self._silence.judge(
            now_ms, is_asked=bool(self._pending_queries), extra_ms=READ_MS
        )
        return verdict is Verdict.HANG_UP

    async def _try_preferred(self) -> _Upstream | None:
        try:
            return await self._connect(self._prefer)
        except RollqError:
            return None

    def _messages(self, upstream: _Upstream, messages: list[Message]) -> None:
        if upstream is not self._upstream:
            return
        self._silence.heard(_now_ms(upstream.link.loop), is_answer=True)
        for message in messages:
            if isinstance(message, Answer | Error):
                pending = self._pending_queries.get(message.request_id)
                if pending is not None and not pending.answered.done():
                    pending.answered.set_result(message)
                elif isinstance(message, Error) and message.request_id == NIL_ID:
                    upstream.closed(message.message)  # e.g. the account was disabled

    def _fail_all(self, error: RollqError) -> None:
        for pending in self._pending_queries.values():
            if not pending.answered.done():
                pending.answered.set_exception(error)


class _PendingQuery(NamedTuple):
    """A pending query."""

    query: Query
    answered: asyncio.Future[Answer | Error]


class _Upstream:
    """A link that serves queries.

    Attributes:
        group: The group of the member.
        members: The members that it knows.
        end: Why it has ended; empty while it is open.
    """

    def __init__(self, address: str, link: Link, welcome: Welcome) -> None:
        self.address = address
        self.link = link
        self.group = welcome.group
        self.members = welcome.members
        self.end = ""
        self._ended = asyncio.Event()

    def closed(self, reason: str) -> None:
        """Mark the link as ended."""
        self.end = self.end or reason
        self._ended.set()

    async def changed(self, timeout_s: float) -> None:
        """Wait until it ends, or for that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()


def _checked_welcome(address: str, answer: Message) -> Welcome:
    """The welcome of a member that serves queries.

    Raises:
        RollqError: it is another answer.
    """
    if isinstance(answer, Error):
        raise refusal(answer)
    if isinstance(answer, Welcome) and VIEWS in answer.features:
        return answer
    raise RemoteError(
        ErrorCode.UNSUPPORTED_VERSION,
        f"{address} is of a version that answers no queries of readers",
        "upgrade that member",
    )


def _disconnected(address: str, reason: str) -> DialError:
    return DialError(ErrorCode.DISCONNECTED, f"{address} hung up: {reason}")


def _now_ms(loop: asyncio.AbstractEventLoop) -> int:
    return int(loop.time() * 1000)
