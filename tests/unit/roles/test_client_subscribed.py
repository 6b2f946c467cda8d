"""The client's machine, subscriptions and publishing: every leader is asked for what is subscribed
to, and nothing is published twice."""

from __future__ import annotations

from typing import Any

from rollq.base.errors import ErrorCode
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.client.session.signals import (
    ClientTick,
    Connect,
    Connected,
    DeliverPublications,
    DeliverResponses,
    Disconnected,
    MessagesReceived,
    Received,
    Requested,
    SendToLeader,
    SessionState,
    Unsubscribed,
)
from rollq.wire import messages as wire
from rollq.wire.features import ALIVE, COMPACT, SUBJECTS
from rollq.wire.subject_messages import Deliver, Missed, Publish, Subscribe, Unsubscribe
from tests.unit.roles.test_client_machine import machine

ASKED, OTHER = b"r" * 16, b"s" * 16
PRICES = Subscribe(ASKED, 7, "prices.*")
WELCOME = Received(wire.Welcome("g", 1, (COMPACT, SUBJECTS, ALIVE), ping_ms=1_000))
OLDER = Received(wire.Welcome("g", 1, (COMPACT,)))


def client(welcome: Received = WELCOME) -> ClientMachine:
    made = machine()
    made.handle(Connected())
    made.handle(welcome)
    return made


def again(made: ClientMachine, welcome: Received = WELCOME) -> list[Any]:
    """The leader is lost and found."""
    made.handle(Disconnected())
    made.handle(Connected())
    return made.handle(welcome)


def error(code: ErrorCode, *, retryable: bool = False) -> wire.Error:
    return wire.Error(ASKED, int(code), "no", retryable=retryable)


def code_of(told: Any) -> int:
    """Why the one request that the application is told of failed."""
    (answer,) = told.answers
    return int(answer.code)


def test_a_subscription_goes_to_every_leader_until_it_ends() -> None:
    made = client()
    assert made.handle(Requested([PRICES])) == [SendToLeader(PRICES)]
    accepted = wire.Accepted(ASKED)
    assert made.handle(Received(accepted)) == [DeliverResponses([accepted])]
    assert again(made) == [SendToLeader(PRICES)]
    assert again(made) == [SendToLeader(PRICES)]  # also one that was not answered
    assert made.handle(Unsubscribed(ASKED)) == [SendToLeader(Unsubscribe(7))]
    assert made.handle(Unsubscribed(ASKED)) == []
    assert again(made) == []


def test_one_that_is_refused_is_over_and_the_application_is_told() -> None:
    made = client()
    made.handle(Requested([PRICES]))
    refused = error(ErrorCode.ACCESS_DENIED)
    assert made.handle(Received(refused)) == [
        DeliverPublications([refused]),
        DeliverResponses([refused]),
    ]
    assert again(made) == []
    made.handle(Requested([PRICES]))
    made.handle(Received(wire.Accepted(ASKED)))
    again(made)  # the next leader does not let us have it any more
    assert DeliverPublications([refused]) in made.handle(Received(refused))
    assert again(made) == []


def test_one_that_is_refused_for_now_is_asked_for_again() -> None:
    made = client()
    made.handle(Requested([PRICES]))
    made.handle(Received(wire.Accepted(ASKED)))
    again(made)
    assert made.handle(Received(error(ErrorCode.OVERLOADED, retryable=True))) == []
    assert made.handle(ClientTick(60_000)) == [SendToLeader(PRICES)]


def test_what_is_published_is_handed_over_together_and_in_order() -> None:
    made = client()
    told: list[Any] = [Deliver("prices.eur", b"1"), Missed(3), Deliver("prices.eur", b"2")]
    assert made.handle(MessagesReceived([told[0], wire.Pong(), *told[1:]])) == [
        DeliverPublications(told)
    ]


def test_a_publish_that_was_sent_is_not_sent_again() -> None:
    made = client()
    said = Publish("a", b"", request_id=ASKED)
    assert made.handle(Requested([said])) == [SendToLeader(said)]
    told, connect = made.handle(Disconnected())
    assert (code_of(told), type(connect)) == (ErrorCode.OUTCOME_UNKNOWN, Connect)
    made.handle(Connected())
    assert made.handle(WELCOME) == []


def test_one_that_was_not_sent_waits_for_a_leader() -> None:
    made = client()
    made.handle(Disconnected())
    said = Publish("a", b"", request_id=ASKED)
    assert made.handle(Requested([said])) == []
    made.handle(Connected())
    assert made.handle(WELCOME) == [SendToLeader(said)]


def test_an_older_leader_is_sent_nothing_of_this() -> None:
    made = client(OLDER)
    for request in (PRICES, Publish("a", b"", request_id=ASKED)):
        *_, told = made.handle(Requested([request]))
        assert code_of(told) == ErrorCode.UNSUPPORTED_VERSION
    made = client()
    made.handle(Requested([PRICES]))
    made.handle(Received(wire.Accepted(ASKED)))
    ended, _ = again(made, OLDER)
    assert ended.messages[0].code == ErrorCode.UNSUPPORTED_VERSION
    assert made.handle(Unsubscribed(ASKED)) == []


def test_whoever_listens_notices_that_the_leader_is_silent() -> None:
    made = client()

    def said(from_ms: int) -> list[Any]:
        ticks = (ClientTick(at, is_awaiting=False) for at in range(from_ms, from_ms + 30_000, 500))
        return [one for tick in ticks for one in made.handle(tick)]

    assert said(0) == []
    made.handle(Requested([PRICES]))
    made.handle(Received(wire.Accepted(ASKED)))
    assert said(30_000)[0] == SendToLeader(wire.Ping())
    assert made.link is SessionState.DOWN
