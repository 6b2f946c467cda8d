"""Asks one member for views, on an event loop: for pages and whatever else looks all the time.

A view comes from what that member has applied, and its index says how far that is. When the member
is gone, or owes an answer for too long, what was asked is asked of another one; once the one that
was wished for serves again, that one is asked.
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

ANSWER_S: Final = 10.0  # for a query, whoever answers it in the end
READ_MS: Final = 1_500  # a member may read files for an answer: so much silence more is borne
PREFER_S: Final = 5.0  # between two looks whether the wished member is back
PENDING_MAX: Final = 1_024  # queries that wait for their answers


class Observer:
    """The way to the views of a group. Used on one loop, by many tasks at once.

    Args:
        addresses: Members of the group; one is enough to find the others.
        group: Its name; empty: whichever they belong to.
        credentials: What we prove ourselves with, and check members by.
        prefer: The member to ask as long as it serves; empty: any.
        answer_s: How long a query waits for its answer.
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
        self._trouble = "no member was reached yet"  # why there is no link, for people
        self._line: _Line | None = None
        self._asked: dict[MessageId, _Asked] = {}  # at most PENDING_MAX
        self._task: asyncio.Task[None] | None = None
        self._has_tried = asyncio.Event()

    @property
    def member(self) -> str:
        """The address of the member that is asked; empty: none is reached."""
        return "" if self._line is None else self._line.address

    async def start(self) -> None:
        """Look for a member from now on; returns when the first one that was dialed serves us, or
        does not: then the others are tried. Twice is no error."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep())
        await self._has_tried.wait()

    async def stop(self) -> None:
        """Hang up, and tell whoever still waits. Twice is no error."""
        task, self._task = self._task, None
        if task is None:
            return
        await end_tasks([task])
        line, self._line = self._line, None
        if line is not None:
            line.link.close("the observer stops")
        self._has_tried.set()
        self._fail_all(DialError(ErrorCode.DISCONNECTED, "the observer was stopped"))

    async def query(
        self, what: str, key: bytes = b"", limit: int = 100, account: str = ""
    ) -> tuple[int, bytes]:
        """A view: the index that it was read at, and its value as msgpack.

        Args:
            what: Which view.
            key: Of what, as the view needs it.
            limit: How many rows at most.
            account: Of lists of jobs: of whose clients; empty: of all that may be seen.

        Raises:
            StateError: what the member answers; OVERLOADED, if too many queries wait; or, as long
                as members do not let us in, why.
            DeadlineError: no member answers in time.
            DialError: DISCONNECTED, by `stop`.
            LocalError: BAD_SETUP, if it was not started.
        """
        if self._task is None:
            raise LocalError(ErrorCode.BAD_SETUP, "the observer is not started", "start it")
        refused = self._refusals.final
        if refused is not None:
            raise refusal(refused)
        if len(self._asked) >= PENDING_MAX:
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
                    self._trouble = answer.message  # it stops, or has not caught up
                    await asyncio.sleep(READER_AGAIN_MS / 1000)
        except TimeoutError:
            raise DeadlineError(
                ErrorCode.TIMED_OUT,
                f"no member answered within {self._answer_s:g} s: {self._trouble}",
                "see `rollq cluster`, and check the addresses",
            ) from None

    async def _ask(self, query: Query) -> Answer | Error:
        """Have a query answered by the member that there is, or the next one."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer | Error] = loop.create_future()
        self._asked[query.request_id] = _Asked(query, answered)
        if self._line is not None:
            if len(self._asked) == 1:
                self._silence.began(_now_ms(loop))
            self._line.link.send(query)
        try:
            return await answered
        finally:
            del self._asked[query.request_id]

    # --- the link

    async def _keep(self) -> None:
        """Have a link, as long as this runs."""
        address, wait_ms = self._redial.address, 0
        while True:
            await asyncio.sleep(wait_ms / 1000)
            line: _Line | None
            try:
                line = await self._connect(address)
            except RollqError as error:
                address, wait_ms = self._failed(address, error)
                continue
            while line is not None:
                self._line = line
                self._has_tried.set()
                address, wait_ms, line = await self._attend(line)
                self._line = None

    async def _connect(self, address: str) -> _Line:
        """A link to a member that has welcomed us, and answers queries.

        Raises:
            RollqError: why there is none.
        """
        loop = asyncio.get_running_loop()
        greeted: asyncio.Future[Message] = loop.create_future()

        def hear(_: Link, messages: list[Message]) -> None:
            if not greeted.done():
                greeted.set_result(messages[0])

        def closed(_: Link, reason: str) -> None:
            if not greeted.done():
                greeted.set_exception(_gone(address, reason))

        link = await dial(address, self._group, hear, closed, credentials=self._credentials)
        link.send(HelloReader(self._group, (VIEWS,)))
        try:
            async with asyncio.timeout(READER_GREETING_MS / 1000):
                answer = await greeted
            welcome = _must_serve(address, answer)
        except TimeoutError:
            link.abort("no answer to the hello")
            raise DialError(ErrorCode.TIMED_OUT, f"{address} does not answer the hello") from None
        except BaseException:
            link.close("not served there")
            raise
        if not link.is_open:
            raise _gone(address, "at once")
        line = _Line(address, link, welcome.members)
        link.hand_to(
            lambda _, messages: self._messages(line, messages), lambda _, why: line.closed(why)
        )
        return line

    def _failed(self, address: str, error: RollqError) -> tuple[str, int]:
        """Where to go on, and when."""
        self._trouble = f"{address}: {error.message}"
        self._has_tried.set()
        refused = refusal_of(error)
        if refused is not None:
            self._refusals.noted(refused)
        self._refusals.disconnected()
        if self._refusals.final is None:
            return self._redial.failed()
        self._fail_all(refusal(self._refusals.final))
        return self._redial.refused()

    async def _attend(self, line: _Line) -> tuple[str, int, _Line | None]:
        """Have everything that waits answered on a link, until it ends or another is better: where
        to go on and when, and that other."""
        loop = asyncio.get_running_loop()
        self._redial.welcomed(line.members)
        self._refusals.over()
        self._silence.opened(_now_ms(loop), line.address)
        line.link.send_all([asked.query for asked in self._asked.values()])
        look_at = loop.time() + PREFER_S
        try:
            while not line.end:
                await line.changed(LOOK_MS / 1000)
                if self._is_silent(_now_ms(loop)):
                    self._trouble = f"{line.address} does not answer"
                    line.link.abort("no answer")
                    return *self._redial.silent(), None
                if self._prefer not in ("", line.address) and loop.time() >= look_at:
                    better = await self._wished()
                    if better is not None:
                        line.link.close("the wished member serves again")
                        return *self._redial.reachable(better.address), better
                    look_at = loop.time() + PREFER_S
        except BaseException:
            line.link.close("the observer stops")
            raise
        self._trouble = f"{line.address} hung up: {line.end}"
        return *self._redial.failed(), None

    def _is_silent(self, now_ms: int) -> bool:
        verdict = self._silence.judge(now_ms, is_asked=bool(self._asked), extra_ms=READ_MS)
        return verdict is Verdict.HANG_UP

    async def _wished(self) -> _Line | None:
        try:
            return await self._connect(self._prefer)
        except RollqError:
            return None

    def _messages(self, line: _Line, messages: list[Message]) -> None:
        if line is not self._line:
            return
        self._silence.heard(_now_ms(line.link.loop), is_answer=True)
        for message in messages:
            if isinstance(message, Answer | Error):
                asked = self._asked.get(message.request_id)
                if asked is not None and not asked.answered.done():
                    asked.answered.set_result(message)
                elif isinstance(message, Error) and message.request_id == NIL_ID:
                    line.closed(message.message)  # an account that may not be here any more

    def _fail_all(self, error: RollqError) -> None:
        for asked in self._asked.values():
            if not asked.answered.done():
                asked.answered.set_exception(error)


class _Asked(NamedTuple):
    """A query that waits."""

    query: Query
    answered: asyncio.Future[Answer | Error]


class _Line:
    """A link on which queries are answered.

    Attributes:
        end: Why it has ended; empty: it has not.
    """

    def __init__(self, address: str, link: Link, members: Sequence[str]) -> None:
        self.address = address
        self.link = link
        self.members = members
        self.end = ""
        self._ended = asyncio.Event()

    def closed(self, reason: str) -> None:
        """It is gone."""
        self.end = self.end or reason
        self._ended.set()

    async def changed(self, timeout_s: float) -> None:
        """Return when it ends, or after that time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()


def _must_serve(address: str, answer: Message) -> Welcome:
    """The welcome of a member that answers queries.

    Raises:
        RollqError: it is none.
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


def _gone(address: str, reason: str) -> DialError:
    return DialError(ErrorCode.DISCONNECTED, f"{address} hung up: {reason}")


def _now_ms(loop: asyncio.AbstractEventLoop) -> int:
    return int(loop.time() * 1000)
