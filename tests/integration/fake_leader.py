"""A scripted member for clients, on a real socket: it welcomes, and answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rollq import MultiClient
from rollq.base.ids import task_id
from rollq.net.link import Link
from rollq.net.listener import Listener
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.features import RUNS, agree
from rollq.wire.run_messages import ResultRun, RunAccepted, SubmitRun
from tests.integration.patience import DEADLINE_S
from tests.integration.workers import eventually

Reply = Callable[["FakeLeader", Link, Message], None]


def accept(leader: FakeLeader, link: Link, message: Message) -> None:
    """Accept everything, run nothing."""
    if isinstance(message, wire.SubmitJob):
        link.send(wire.Accepted(message.job_id))
    elif isinstance(message, SubmitRun):
        link.send(RunAccepted(message.request_id, len(message.bodies)))
    elif isinstance(message, wire.SubmitArray):
        link.send(wire.Accepted(message.array_id))
    elif isinstance(message, wire.Cancel):
        link.send(wire.Accepted(message.request_id, len(message.job_ids)))


def run(leader: FakeLeader, link: Link, message: Message) -> None:
    """Accept everything, and every job ends at once."""
    accept(leader, link, message)
    if isinstance(message, wire.SubmitJob):
        link.send(done(message.job_id, message.body))
    elif isinstance(message, SubmitRun):
        link.send(ResultRun(message.job_ids, message.bodies, "done", 0, "exec", attempt=1))
    elif isinstance(message, wire.SubmitArray):
        for number in range(message.task_count):
            link.send(done(task_id(message.array_id, message.first_task + number), message.body))


def done(job_id: bytes, result: bytes = b"") -> wire.Result:
    """A result of a job that went well."""
    return wire.Result(job_id, "done", 0, result, "exec", attempt=1)


def play(story: Coroutine[Any, Any, None]) -> None:
    """Run a story, bounded in time."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await story

    asyncio.run(bounded())


async def all_up(client: MultiClient) -> None:
    """Wait until a client is welcome in all its groups: before that it gives all jobs to those that
    were quicker."""
    await eventually(lambda: all(session.is_open for session in client._engine.sessions.values()))


class FakeLeader:
    """One member; `reply` is what it does with each message after the hello."""

    def __init__(self, reply: Reply = run, *, runs: bool = False) -> None:
        self.reply = reply
        self.runs = runs  # whether it agrees on runs
        self.port = 0
        self.greets = True
        self.ping_ms = 0  # told to whoever says hello; 0: it answers no pings
        self.received: list[Message] = []
        self.links: list[Link] = []
        self._listener = Listener("default", self._messages, self._closed)
        self._news = asyncio.Event()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> FakeLeader:
        """Listen, on the same port as before if there was one."""
        self.port = await self._listener.start("127.0.0.1", self.port)
        return self

    async def stop(self) -> None:
        """Hang up."""
        await self._listener.stop("over")

    def of(self, kind: type[Any]) -> list[Any]:
        """What was received of one kind."""
        return [message for message in self.received if isinstance(message, kind)]

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until what was received makes it true; returns its value."""
        async with asyncio.timeout(DEADLINE_S):
            while not (value := condition()):
                self._news.clear()
                await self._news.wait()
        return value

    def _messages(self, link: Link, messages: list[Message]) -> None:
        for message in messages:
            self.received.append(message)
            if isinstance(message, wire.HelloClient):
                self.links.append(link)
                if self.greets:
                    offered = [one for one in message.features if self.runs or one != RUNS]
                    features = agree(tuple(offered))
                    link.send(wire.Welcome("default", 1, features, ping_ms=self.ping_ms))
            else:
                self.reply(self, link, message)
        self._news.set()

    def _closed(self, link: Link, reason: str) -> None:
        self._news.set()
