"""A link when the conversation ends while words of ours still wait to leave."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from rollq.base.errors import ErrorCode
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.net.listener import Listener
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.features import agree
from tests.integration.patience import DEADLINE_S

SUBMIT = wire.SubmitJob(bytes(range(16)), "c", "", "exec", b"")


async def end_while_words_wait(
    end: Callable[[Link], None], heard: list[Message] | None = None
) -> list[str]:
    """Both ends talk until the accepter ends it; why each end was closed, and no exception."""
    over: list[str] = []
    both = asyncio.Event()
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))

    def closed(link: Link, reason: str) -> None:
        over.append(reason)
        if len(over) == 2:
            both.set()

    def member(link: Link, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, wire.HelloClient):
                link.send(wire.Welcome("g", 1, agree(message.features)))
            else:
                end(link)

    def client(link: Link, messages: list[Message]) -> None:
        for message in messages:
            if heard is not None:
                heard.append(message)
            link.send(SUBMIT)
            if isinstance(message, wire.NotLeader):
                link.close("redirected")

    listener = Listener("g", member, closed)
    port = await listener.start("127.0.0.1", 0)
    link = await dial(f"127.0.0.1:{port}", "g", client, closed)
    link.send(wire.HelloClient("c", 0, ("compact", "accepted", "batch")))
    async with asyncio.timeout(DEADLINE_S):
        await both.wait()
    await listener.stop("over")
    assert not failed
    return over


def test_a_redirect_that_crosses_our_words_closes_the_link_in_good_order() -> None:
    def redirect(link: Link) -> None:
        link.send(wire.NotLeader("elsewhere:1"))

    assert "redirected" in asyncio.run(end_while_words_wait(redirect))


def test_last_words_reach_a_peer_that_is_left() -> None:
    last = wire.Accepted(SUBMIT.job_id, 7)

    def leave(link: Link) -> None:
        link.send(last)
        link.hang_up("no answer")

    heard: list[Message] = []
    assert "no answer" in asyncio.run(end_while_words_wait(leave, heard))
    assert last in heard


def test_a_peer_that_reads_nothing_is_left_at_once() -> None:
    ends: list[Link] = []

    def leave(link: Link) -> None:
        if not ends:
            ends.append(link)
            many = [wire.Error(SUBMIT.job_id, 1, "x" * 60_000)] * 200
            link.send_all(many)
            link.flush()
            assert link.waiting_bytes, "more than a socket takes"
            link.hang_up("no answer")

    heard: list[Message] = []
    assert "no answer" in asyncio.run(end_while_words_wait(leave, heard))
    assert len(heard) < 200


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_no_socket_outlives_the_loop_of_whoever_leaves_a_peer_that_reads_nothing(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> list[str]:
        with socket.create_server(("127.0.0.1", 0)) as server:  # it never accepts
            over: list[str] = []
            address = f"127.0.0.1:{server.getsockname()[1]}"
            link = await dial(address, "g", lambda *_: None, lambda _, reason: over.append(reason))
            link.send(wire.HelloClient("c" * 60, 0, ()))
            link.write(b"x" * 50_000_000)
            await asyncio.sleep(0)
            assert link.waiting_bytes, "more than a socket takes"
            await link.close_within("we leave", 0.01)
            return over

    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(story()) == ["we leave"]


@pytest.mark.parametrize("end_of", ["handler", "words"])
def test_whatever_fails_ends_one_connection_with_an_error(
    end_of: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that raises, and a message that cannot be encoded."""

    def fail(link: Link) -> None:
        if end_of == "handler":
            raise ZeroDivisionError("a bug")
        link.send(wire.Accepted(SUBMIT.job_id, 2**70))

    heard: list[Message] = []
    asyncio.run(end_while_words_wait(fail, heard))
    failed = [record for record in caplog.records if record.exc_info]
    assert len(failed) == 1
    errors = [message for message in heard if isinstance(message, wire.Error)]
    assert [error.code for error in errors] == ([ErrorCode.BUG] if end_of == "handler" else [])


def test_what_is_no_member_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rollq.net")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    async def story() -> tuple[str, str]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        reasons: asyncio.Queue[str] = asyncio.Queue()
        for _ in range(3):
            link = await dial(address, "", lambda *_: None, lambda _, why: reasons.put_nowait(why))
            link.send(wire.HelloClient("c", 0, ("compact",)))
            reason = await asyncio.wait_for(reasons.get(), DEADLINE_S)
        server.close()
        await server.wait_closed()
        return address, reason

    address, reason = asyncio.run(story())
    assert reason.startswith(f"no rollq member at {address}: it answered 'HTTP/1.1 400 Bad")
    lines = [one for one in caplog.records if "no rollq member" in one.getMessage()]
    assert len(lines) == 1  # and then it is counted


def test_http_on_the_port_of_a_member_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        listener = Listener("g", lambda link, messages: None, lambda link, reason: None)
        port = await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: grid\r\n\r\n")
        async with asyncio.timeout(DEADLINE_S):
            await reader.read()
        writer.close()
        await listener.stop("over")

    asyncio.run(story())
    assert "it speaks HTTP: pages, API and metrics are on the port of --http" in caplog.text
