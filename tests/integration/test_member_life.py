"""A member's node in this process: start and stop, and turns that fail."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from rollq.base.errors import DiskError, ErrorCode, RollqError
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.net.listener import Listener
from rollq.roles.member.driver import Driver
from rollq.roles.member.early_links import EarlyLinks
from rollq.roles.member.node import MemberNode
from rollq.roles.member.setup import MemberSetup
from rollq.roles.member.work import Work
from rollq.store.real_disk import RealDisk
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.features import COMPACT
from rollq.wire.reader_messages import HelloReader
from tests.integration.patience import DEADLINE_S


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


def member(state: Path, port: int = 0) -> MemberNode:
    return MemberNode(MemberSetup("127.0.0.1:0"), "127.0.0.1", port, state)


def test_start_and_stop_may_be_said_twice(tmp_path: Path) -> None:
    async def story() -> None:
        node = member(tmp_path)
        await node.stop()
        await node.start()
        port = node.port
        await node.start()
        assert node.port == port
        await asyncio.gather(node.stop(), node.stop())
        await node.stop()
        await node.wait()
        assert node.failure is None
        again = member(tmp_path, port)  # port and directory are free when it has stopped
        await again.start()
        await again.stop()

    run(story())


def test_a_port_that_is_taken_is_named_and_the_directory_is_free_again(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(RollqError) as caught:
                await member(tmp_path, port).start()
        assert caught.value.code is ErrorCode.CANNOT_LISTEN
        assert str(port) in caught.value.message
        RealDisk(tmp_path).close()

    run(story())


def test_whoever_dials_before_the_member_serves_is_served_on_that_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hellos: list[Message] = [
        wire.HelloClient("ann", 0, (COMPACT,)),
        wire.HelloWorker(bytes(15) + b"w", ("job.assign.>",), features=(COMPACT,)),
        HelloReader(features=(COMPACT,)),
    ]
    may_recover = threading.Event()
    recover, add = MemberNode._recover, EarlyLinks.add
    early: list[Message] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        listens, all_wait = asyncio.Event(), asyncio.Event()

        def recover_later(node: MemberNode) -> object:
            loop.call_soon_threadsafe(listens.set)
            assert may_recover.wait(DEADLINE_S)
            return recover(node)

        def add_and_tell(links: EarlyLinks, link: Link, messages: list[Message]) -> None:
            add(links, link, messages)
            early.extend(messages)
            if len(early) == len(hellos):
                all_wait.set()

        monkeypatch.setattr(MemberNode, "_recover", recover_later)
        monkeypatch.setattr(EarlyLinks, "add", add_and_tell)
        node = member(tmp_path)
        starting = asyncio.create_task(node.start())
        await listens.wait()
        answers = [await _answer_to(f"127.0.0.1:{node.port}", hello) for hello in hellos]
        await all_wait.wait()
        may_recover.set()
        await starting
        assert [type(await answer) for answer in answers] == 3 * [wire.Welcome]
        await node.stop()

    run(story())


@pytest.mark.parametrize("where", ["begin", "finish", "run"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DiskError(ErrorCode.DISK_FAILED, "broken"), ErrorCode.DISK_FAILED),
        (ZeroDivisionError("a bug"), ErrorCode.BUG),
    ],
)
def test_a_turn_that_fails_stops_the_member(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    error: Exception,
    code: ErrorCode,
) -> None:
    async def story() -> None:
        node = member(tmp_path)
        await node.start()

        def fails(*_: object) -> None:
            raise error

        monkeypatch.setattr(Work if where == "run" else Driver, where, fails)
        await node.wait()
        assert node.failure is not None
        assert node.failure.code is code
        await node.stop()
        RealDisk(tmp_path).close()  # the directory is free
        with pytest.raises(RollqError):
            await dial(f"127.0.0.1:{node.port}", "default", _hear, _over)

    run(story())


def test_what_fits_no_frame_ends_the_link_and_not_the_loop() -> None:
    async def story() -> None:
        over = asyncio.Event()
        reasons: list[str] = []

        def closed(link: Link, reason: str) -> None:
            reasons.append(reason)
            over.set()

        listener = Listener("g", _hear, _over)
        port = await listener.start("127.0.0.1", 0)
        link = await dial(f"127.0.0.1:{port}", "g", _hear, closed)
        link.send(wire.HelloClient("ann"))
        link.send(wire.SubmitJob(b"j" * 16, "ann", "", "calc", bytes(5_000_000)))
        await over.wait()
        assert "frame_too_large" in reasons[0]
        await listener.stop("over")

    run(story())


async def _answer_to(address: str, hello: Message) -> asyncio.Future[Message]:
    """Says hello; the future is cancelled if the link is closed without a word."""
    answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def hear(link: Link, messages: list[Message]) -> None:
        if not answer.done():
            answer.set_result(messages[0])

    def closed(link: Link, reason: str) -> None:
        answer.cancel(reason)

    link = await dial(address, "default", hear, closed)
    link.send(hello)
    return answer


def _hear(link: Link, messages: list[Message]) -> None:
    """Nothing."""


def _over(link: Link, reason: str) -> None:
    """Nothing."""
