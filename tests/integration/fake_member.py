"""A scripted member on a real socket: it welcomes workers, assigns what a test says, takes acks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.base.jobs import JobOptions
from rollq.net.link import Link
from rollq.net.listener import Listener
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.features import FEATURES, HOLDINGS, agree
from rollq.wire.models import InputFile, JobResult, decode_model, encode_model, job_request
from rollq.wire.run_messages import AckRun
from tests.integration.patience import DEADLINE_S

LEASE_MS = 30_000


def job_id(number: int) -> bytes:
    """The id of the test's job `number`."""
    return number.to_bytes(16, "big")


class FakeMember:
    """One member that leads, and believes every worker. Without the feature `holdings` it is one of
    the version before, which takes a hello that counts attempts for one to a legacy leader."""

    def __init__(self, *, takes_acks: bool = True, features: tuple[str, ...] = FEATURES) -> None:
        self.takes_acks = takes_acks
        self.features = features  # that it knows
        self.ping_ms = 0  # told to every worker; it answers no pings
        self.port = 0
        self.received: list[Message] = []
        self.hellos: list[wire.HelloWorker] = []
        self.acks: dict[bytes, wire.AckJob] = {}
        self.nacks: dict[bytes, wire.Nack] = {}
        self.granted = 0
        self.refused = 0  # hellos
        self.link: Link | None = None
        self._greeting: wire.HelloWorker | None = None  # not all that it counts has come
        self._listener = Listener(
            "g", self._messages, self._closed, knows_worker=lambda worker_id: True
        )
        self._news = asyncio.Event()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen."""
        self.port = await self._listener.start("127.0.0.1", 0)

    async def stop(self) -> None:
        """Hang up."""
        await self._listener.stop("over")

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until what was received makes it true; returns its value."""
        async with asyncio.timeout(DEADLINE_S):
            while not (value := condition()):
                self._news.clear()
                await self._news.wait()
        return value

    def send(self, message: wire.SessionMessage) -> None:
        """Say something to the worker that came last."""
        assert self.link is not None, "no worker is here"
        self.link.send(message)

    def assign(
        self,
        number: int,
        exec_name: str,
        *args: str,
        files: dict[str, bytes] | None = None,
        options: JobOptions | None = None,
        body: bytes | None = None,
        attempt: int = 1,
        fence: int | None = None,
    ) -> bytes:
        """Assign a job; `body` instead of arguments and files makes it an opaque one, and a `fence`
        of 0 a legacy one."""
        one = job_id(number)
        inputs = tuple(InputFile(name, None, data) for name, data in (files or {}).items())
        request = job_request(one, "tester", exec_name, args=args, files=inputs)
        payload = encode_model(request) if body is None else body
        self.send(
            wire.AssignJob(
                *(one, attempt, number if fence is None else fence, LEASE_MS, exec_name, exec_name),
                *(payload, options, "tester"),
            )
        )
        return one

    async def outcome(self, number: int) -> tuple[wire.AckJob, JobResult]:
        """The ack of a job, and the result in it."""
        ack: wire.AckJob = await self.until(lambda: self.acks.get(job_id(number)))
        return ack, decode_model(ack.result, JobResult)

    def _messages(self, link: Link, messages: list[Message]) -> None:
        for message in messages:
            self.received.append(message)
            match message:
                case wire.HelloWorker(plain=True) if HOLDINGS not in self.features:
                    self.refused += 1
                    link.send(wire.Error(NIL_ID, ErrorCode.BAD_HANDSHAKE, "no legacy leader"))
                    link.close("plain")
                case wire.HelloWorker(holding_count=0):
                    self._welcome(link, message)
                case wire.HelloWorker():
                    self._greeting = message
                case wire.Holdings() if self._greeting is not None:
                    held = (*self._greeting.holding, *message.holding)
                    self._greeting = replace(self._greeting, holding=held)
                    if len(held) == self._greeting.holding_count:
                        self._welcome(link, self._greeting)
                case wire.Credit():
                    self.granted += message.count
                case wire.AckJob():
                    self._acked(link, message)
                case AckRun():
                    for ack in message.acks:
                        self._acked(link, ack)
                case wire.Nack():
                    self.nacks[message.job_id] = message
                    link.send(wire.AckTaken(message.job_id, message.attempt))
        self._news.set()

    def _acked(self, link: Link, ack: wire.AckJob) -> None:
        self.acks[ack.job_id] = ack
        if self.takes_acks:
            link.send(wire.AckTaken(ack.job_id, ack.attempt))

    def _welcome(self, link: Link, hello: wire.HelloWorker) -> None:
        self.hellos.append(hello)
        self.link = link
        known = tuple(one for one in agree(hello.features) if one in self.features)
        link.send(wire.Welcome("g", 1, known, ping_ms=self.ping_ms))

    def _closed(self, link: Link, reason: str) -> None:
        if link is self.link:
            self.link = None
        self._news.set()
