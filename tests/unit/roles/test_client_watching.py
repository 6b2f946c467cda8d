"""The client's machine and watches of output: asked of every leader until they are over."""

from __future__ import annotations

from rollq.base.errors import ErrorCode
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.client.session.signals import (
    Connected,
    DeliverOutput,
    Disconnected,
    Instruction,
    Received,
    SendToLeader,
)
from rollq.roles.client.session.signals import WatchChanged as Watches
from rollq.wire import messages as wire
from rollq.wire.output_messages import JOB_ENDED, OutputChunk, WatchOutput
from tests.unit.roles.test_client_machine import WELCOME, job, welcomed

REQUEST = b"r" * 16
WATCH = WatchOutput(REQUEST, job(1))


def later(client: ClientMachine) -> list[Instruction]:
    """The leader is lost and found."""
    client.handle(Disconnected())
    client.handle(Connected())
    return client.handle(WELCOME)


def test_a_watch_goes_to_every_leader_from_where_the_application_is() -> None:
    client = welcomed()
    assert client.handle(Watches(WATCH)) == [SendToLeader(WATCH)]
    moved = WatchOutput(REQUEST, job(1), 1, (5, 0))
    assert client.handle(Watches(moved)) == [SendToLeader(moved)]
    assert later(client) == [SendToLeader(moved)]


def test_without_a_leader_a_watch_waits() -> None:
    client = welcomed()
    client.handle(Disconnected())
    assert client.handle(Watches(WATCH)) == []
    client.handle(Connected())
    assert client.handle(WELCOME) == [SendToLeader(WATCH)]


def test_output_is_shown_until_the_job_is_over() -> None:
    client = welcomed()
    client.handle(Watches(WATCH))
    chunk = OutputChunk(REQUEST, 1, data=b"x", totals=(1, 0))
    assert client.handle(Received(chunk)) == [DeliverOutput(REQUEST, chunk)]
    end = OutputChunk(REQUEST, 1, end=JOB_ENDED)
    assert client.handle(Received(end)) == [DeliverOutput(REQUEST, end)]
    assert client.handle(Received(chunk)) == []
    assert later(client) == []


def test_a_watch_that_is_refused_or_left_is_over() -> None:
    client = welcomed()
    client.handle(Watches(WATCH))
    error = wire.Error(REQUEST, int(ErrorCode.UNKNOWN_JOB), "no such job")
    assert client.handle(Received(error)) == [DeliverOutput(REQUEST, error)]
    assert later(client) == []
    client.handle(Watches(WATCH))
    off = WatchOutput(REQUEST, job(1), on=False)
    assert client.handle(Watches(off)) == [SendToLeader(off)]
    assert client.handle(Watches(off)) == []
    assert later(client) == []
