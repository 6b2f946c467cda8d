"""Logins over sockets: what a dialer does, and a door at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rollq.base.access import LinkRole, Principal
from rollq.base.access_rules import Account
from rollq.base.errors import DialError, ErrorCode, LocalError, RollqError, StateError
from rollq.net import logging_in
from rollq.net.dialer import dial
from rollq.net.link import Link, LinkLimits
from rollq.net.listener import Listener
from rollq.roles.door import Door
from rollq.roles.login import LoginSetup
from rollq.roles.reader.channel import Channel
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.mode import Mode
from rollq.security.signing import make_key, read_key
from rollq.security.tokens import make_token
from rollq.wire.compact import Message
from rollq.wire.connection import Connection
from rollq.wire.frame import Frame, encode_frame
from rollq.wire.handshake import Side
from rollq.wire.login_messages import Login
from rollq.wire.messages import Error, HelloClient, Welcome
from rollq.wire.reader_messages import HelloReader

TOKEN, STORED = make_token("ann")
KEY = make_key("ann")
OTHER_KEY = make_key("ann")
ACCOUNTS = {"ann": Account("ann", tokens=(STORED,), public_keys=(read_key(KEY).public,))}
HELLO = HelloClient("ann/1", 0, ("compact", "accepted"))
BY_TOKEN, BY_KEY = Credentials(token=TOKEN), Credentials(account_key=KEY)


def in_loop(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs in a loop of its own."""

    @functools.wraps(story)
    def run(**given: Any) -> None:
        asyncio.run(story(**given))

    return run


class Host:
    """A service that welcomes everybody, and notes who came."""

    def __init__(self) -> None:
        self.came: list[Principal] = []

    def hear(self, link: Link, messages: list[Message], principal: Principal) -> None:
        self.came.append(principal)
        link.send(Welcome("g1", 1))

    def closed(self, link: Link, reason: str) -> None:
        pass


@asynccontextmanager
async def listening(
    mode: Mode = Mode.REQUIRE, limits: LinkLimits | None = None
) -> AsyncIterator[tuple[Host, str]]:
    host = Host()
    logins = LoginSetup(
        mode, "g1", accounts=lambda: ACCOUNTS, now_ms=lambda: 0, draw_nonce=lambda: bytes(32)
    )
    door = Door({LinkRole.CLIENT: host, LinkRole.READER: host}, logins)
    listener = Listener("g1", door.messages, door.closed, limits or LinkLimits())
    port = await listener.start("127.0.0.1", 0)
    try:
        yield host, f"127.0.0.1:{port}"
    finally:
        await listener.stop("over")


class Guest:
    """A dialer that notes what it hears."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Message | str] = asyncio.Queue()

    def messages(self, link: Link, messages: list[Message]) -> None:
        for message in messages:
            self.heard.put_nowait(message)

    def closed(self, link: Link, reason: str) -> None:
        self.heard.put_nowait(reason)

    async def visit(self, address: str, credentials: Credentials) -> Message | str:
        """Dial, say hello, and hear the answer."""
        link = await dial(address, "", self.messages, self.closed, credentials=credentials)
        link.send(HELLO)
        async with asyncio.timeout(30):
            answer = await self.heard.get()
        link.close("enough")
        return answer


def code_of(answer: Message | str) -> int:
    assert isinstance(answer, Error), answer
    return answer.code


@pytest.mark.parametrize(("credentials", "method"), [(BY_TOKEN, "token"), (BY_KEY, "key")])
@in_loop
async def test_whoever_logs_in_is_welcomed(credentials: Credentials, method: str) -> None:
    async with listening() as (host, address):
        assert await Guest().visit(address, credentials) == Welcome("g1", 1)
        [principal] = host.came
        assert (principal.account, principal.method) == ("ann", method)


@pytest.mark.parametrize("credentials", [NONE, BY_TOKEN, BY_KEY], ids=["nothing", "token", "key"])
@in_loop
async def test_where_nobody_asks_all_are_welcome(credentials: Credentials) -> None:
    async with listening(Mode.OFF) as (host, address):
        assert await Guest().visit(address, credentials) == Welcome("g1", 1)
        assert host.came[0].account == ""


WRONG = {
    "nothing": (NONE, ErrorCode.LOGIN_REQUIRED),
    "another token": (Credentials(token=make_token("ann")[0]), ErrorCode.LOGIN_FAILED),
    "a token of nobody": (Credentials(token=make_token("bob")[0]), ErrorCode.LOGIN_FAILED),
    "another key": (Credentials(account_key=OTHER_KEY), ErrorCode.LOGIN_FAILED),
    "a key of nobody": (Credentials(account_key=make_key("bob")), ErrorCode.LOGIN_FAILED),
}


@pytest.mark.parametrize(("credentials", "code"), WRONG.values(), ids=WRONG)
@in_loop
async def test_whoever_is_not_let_in_is_told_so(credentials: Credentials, code: ErrorCode) -> None:
    async with listening() as (host, address):
        assert code_of(await Guest().visit(address, credentials)) == code
        assert host.came == []


@in_loop
async def test_a_token_is_not_told_to_a_neighbour() -> None:
    """A worker that serves files to others is not to be trusted with what is for members."""
    async with listening(Mode.ALLOW) as (host, address):
        guest = Guest()
        link = await dial(
            address,
            "",
            guest.messages,
            guest.closed,
            credentials=BY_TOKEN,
            peer=CertificateRole.WORKER,
        )
        link.send(HELLO)
        assert await guest.heard.get() == Welcome("g1", 1)
        assert host.came[0].account == "anonymous"
        link.close("enough")


@in_loop
async def test_a_token_is_not_sent_in_the_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollq.net.login.is_loopback", lambda host: False)
    async with listening() as (host, address):
        with pytest.raises(LocalError) as caught:
            await Guest().visit(address, BY_TOKEN)
        assert caught.value.code == ErrorCode.BAD_CREDENTIALS
        assert await Guest().visit(address, BY_KEY) == Welcome("g1", 1)
        assert [principal.method for principal in host.came] == ["key"]


@in_loop
async def test_a_silent_or_foreign_listener_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging_in, "LOGIN_MS_MAX", 50)
    answers: list[Callable[[asyncio.StreamWriter], Any]] = [
        lambda writer: None,
        lambda writer: writer.close(),
        lambda writer: writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64)),
        lambda writer: writer.write(encode_frame(Frame(30))),
    ]
    for answer in answers:
        left = asyncio.Event()

        async def accept(
            reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            answer: Callable[[asyncio.StreamWriter], Any] = answer,
            left: asyncio.Event = left,
        ) -> None:
            answer(writer)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            left.set()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DialError):
            await Guest().visit(f"127.0.0.1:{port}", BY_KEY)
        await left.wait()
        server.close()


@in_loop
async def test_an_error_instead_of_a_challenge_is_raised() -> None:
    async with listening() as (_, address):
        guest = Guest()

        class OfTomorrow:
            first = Login("of tomorrow", "ann")
            is_challenged = True

            def prove(self, challenge: object) -> Any:
                raise AssertionError

        with pytest.raises(StateError) as caught:
            await dial(address, "", guest.messages, guest.closed, login=OfTomorrow())
        assert caught.value.code == ErrorCode.LOGIN_FAILED
        assert guest.heard.empty()


# --- what a stranger sends


def raw(*messages: Message) -> bytes:
    dialer = Connection(Side.DIALER, "g1")
    return b"".join(dialer.send(message) for message in messages)


LOGIN = Login("token", "ann", TOKEN.reveal())
ATTACKS = {
    "a login twice": raw(LOGIN) + raw(LOGIN) + raw(HELLO),
    "a hello before the proof": raw(Login("key", "ann", nonce=bytes(32))) + raw(HELLO),
    "a login of 5 KiB": encode_frame(Frame(12, payload=bytes(5 * 1024))) + raw(HELLO),
    "a hello of 5 KiB after a login": raw(LOGIN) + encode_frame(Frame(9, payload=bytes(5 * 1024))),
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    "garbage in a login": encode_frame(Frame(12, payload=b"\xc1" * 64)) + raw(HELLO),
    "a challenge": encode_frame(Frame(13, payload=b"\x91\xc4\x00")) + raw(HELLO),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("mode", list(Mode))
@in_loop
async def test_what_breaks_the_order_ends_the_link(mode: Mode, attack: bytes) -> None:
    async with listening(mode) as (host, address):
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(attack)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until the listener has hung up
        writer.close()
        assert host.came == []
        assert await Guest().visit(address, BY_TOKEN) == Welcome("g1", 1)


@pytest.mark.parametrize(
    "begun",
    [b"", raw(LOGIN), raw(Login("key", "ann", nonce=bytes(32)))],
    ids=["nothing", "a token", "a key"],
)
@in_loop
async def test_a_login_does_not_buy_time_for_the_hello(begun: bytes) -> None:
    async with listening(limits=LinkLimits(hello_ms_max=100)) as (host, address):
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(begun)
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until the listener has hung up
        writer.close()
        assert host.came == []


# --- the blocking channel of readers


def ask(address: str, credentials: Credentials) -> Message | RollqError:
    try:
        with Channel(address, HelloReader("g1"), 30.0, credentials) as channel:
            return channel.welcome
    except RollqError as error:
        return error


@pytest.mark.parametrize("credentials", [BY_TOKEN, BY_KEY], ids=["token", "key"])
@in_loop
async def test_a_reader_logs_in_too(credentials: Credentials) -> None:
    async with listening() as (host, address):
        assert await asyncio.to_thread(ask, address, credentials) == Welcome("g1", 1)
        assert host.came[0].account == "ann"


@pytest.mark.parametrize(("credentials", "code"), WRONG.values(), ids=WRONG)
@in_loop
async def test_a_reader_is_told_why_not(credentials: Credentials, code: ErrorCode) -> None:
    async with listening() as (_, address):
        answer = await asyncio.to_thread(ask, address, credentials)
        assert isinstance(answer, StateError)
        assert answer.code == code
        assert answer.hint == "" or "credentials" in answer.hint
