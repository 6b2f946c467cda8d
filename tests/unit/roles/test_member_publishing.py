"""Publishing at a leader: who gets what, in which order, and what whoever publishes is told."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.roles.member.leader.publishing import FanOut
from rollq.subjects.reserved import job_event_subject
from rollq.wire import messages as wire
from rollq.wire.subject_messages import Deliver, Publish, Subscribe, Unsubscribe
from tests.unit.roles.members import OURS, Group, job, submit, worker

ANN, BOB, BOX, ASKED = 1, 2, 3, b"r" * 16
SPEAKS = (*OURS, "subjects")


@pytest.fixture
def group() -> Group:
    """One member that leads, two clients and a worker."""
    made = Group()
    made.elect()
    made.client(ANN, "ann", SPEAKS)
    made.client(BOB, "bob", SPEAKS)
    made.worker(BOX, 10, SPEAKS)
    for session in (ANN, BOB, BOX):
        made.hear(session)
    return made


def subscribe(group: Group, session: int, pattern: str, number: int = 1, **fields: Any) -> None:
    told = group.say(session, Subscribe(ASKED, number, pattern, **fields))
    assert told == [wire.Accepted(ASKED, 1)]


def batches(group: Group, session: int, *messages: Publish) -> list[FanOut]:
    """What the shell is given for what a session publishes in one turn."""
    group.tell(session, *messages)
    return group.leader.leader_state.publishing.take()


def test_everybody_who_listens_gets_it_and_nobody_else(group: Group) -> None:
    subscribe(group, ANN, "prices.*")
    subscribe(group, BOX, "prices.>")
    told = group.say(BOB, Publish("Prices.EUR", b"1", request_id=ASKED))
    assert told == [wire.Accepted(ASKED, 2)]
    assert group.hear(ANN) == group.hear(BOX) == [Deliver("prices.eur", b"1")]
    assert group.say(BOB, Publish("prices.eur", b"2")) == []
    assert group.say(BOB, Publish("other", b"3", request_id=ASKED)) == [wire.Accepted(ASKED, 0)]
    assert group.hear(ANN) == [Deliver("prices.eur", b"2")]


def test_what_has_the_same_receivers_is_one_batch_for_all_of_them(group: Group) -> None:
    subscribe(group, ANN, "a.>")
    subscribe(group, BOB, "a.>")
    (batch,) = batches(group, BOX, Publish("a.1", b"1"), Publish("a.2", b"2"), Publish("a.1", b"3"))
    assert batch.receivers == (ANN, BOB)
    assert [message.payload for message in batch.messages] == [b"1", b"2", b"3"]


def test_nobody_gets_a_message_before_an_earlier_one(group: Group) -> None:
    subscribe(group, ANN, ">")
    subscribe(group, BOB, "b")
    said = [Publish(subject, b"%d" % at) for at, subject in enumerate("abababbaab")]
    got: dict[int, list[bytes]] = {ANN: [], BOB: []}
    for batch in batches(group, BOX, *said):
        for session in batch.receivers:
            got[session] += [message.payload for message in batch.messages]
    assert got[ANN] == [one.payload for one in said]
    assert got[BOB] == [one.payload for one in said if one.subject == "b"]


def test_those_who_take_turns_get_a_batch_each(group: Group) -> None:
    for session in (ANN, BOB):
        subscribe(group, session, "work", queue_group="desk")
    made = batches(group, BOX, *(Publish("work", b"%d" % at) for at in range(6)))
    assert [len(batch.messages) for batch in made] == [3, 3]
    assert {message.queue_group for batch in made for message in batch.messages} == {"desk"}


def test_a_request_that_nobody_gets_is_told_so(group: Group) -> None:
    subscribe(group, ANN, "_inbox.t.>")
    asked = Publish("time", b"?", "_inbox.t.1", ASKED)
    (error,) = group.say(ANN, asked)
    assert (error.request_id, error.code) == (ASKED, ErrorCode.NO_RESPONDERS)
    assert not error.retryable
    subscribe(group, BOX, "time")
    assert group.say(ANN, asked) == []  # the reply is the answer
    (got,) = group.hear(BOX)
    group.say(BOX, Publish(got.reply_to, b"noon"))
    assert group.hear(ANN) == [Deliver("_inbox.t.1", b"noon")]


def test_requests_and_publishes_of_one_read_are_answered_each_in_its_way(group: Group) -> None:
    subscribe(group, ANN, "_inbox.t.>")
    subscribe(group, BOX, "time")
    told = group.say(BOB, Publish("time", b"0", request_id=ASKED))  # its route is known from here
    assert told == [wire.Accepted(ASKED, 1)]
    request, silent = Publish("time", b"1", "_inbox.t.1", ASKED), Publish("time", b"2")
    (batch,) = batches(group, ANN, request, silent)
    assert [message.payload for message in batch.messages] == [b"1", b"2"]


def test_what_wants_no_answer_gets_none(group: Group) -> None:
    for subject in ("a b", "a.*", "job.event.x", "_inbox.t.1"):
        assert group.say(BOB, Publish(subject, b"", request_id=NIL_ID)) == []
    assert group.closed == {}
    (error,) = group.say(BOB, Publish("a b", b"", request_id=ASKED))
    assert error.code == ErrorCode.BAD_SUBJECT


def test_only_the_worker_that_holds_a_job_publishes_its_events(group: Group) -> None:
    events = job_event_subject(job(1))
    subscribe(group, BOB, events)
    group.say(ANN, submit(1))
    group.hear(BOX)
    half = Publish(events, b"half", request_id=ASKED)
    assert group.say(BOX, half) == [wire.Accepted(ASKED, 1)]
    # That its receivers are known does not open it to others.
    (error,) = group.say(ANN, half)
    assert error.code == ErrorCode.ACCESS_DENIED
    group.worker(9, 0, SPEAKS, worker_id=worker(9))
    (error,) = group.say(9, half)
    assert error.code == ErrorCode.ACCESS_DENIED
    assert [one for one in group.hear(BOB) if one.payload == b"half"] == [Deliver(events, b"half")]


def test_the_leader_itself_publishes(group: Group) -> None:
    publishing = group.leader.leader_state.publishing
    assert not publishing.has_subscriber("a")
    assert publishing.publish_own(Deliver("a", b"1")) == 0
    subscribe(group, ANN, "a")
    assert publishing.has_subscriber("a")
    assert publishing.publish_own(Deliver("a", b"2", stamp_ms=5)) == 1
    group.settle()
    assert group.hear(ANN) == [Deliver("a", b"2", stamp_ms=5)]


def test_unsubscribed_sessions_and_those_that_are_gone_get_nothing(group: Group) -> None:
    subscribe(group, ANN, "a")
    subscribe(group, BOB, "a", 4)
    group.say(BOB, Unsubscribe(4, 1))
    for _ in range(2):
        group.say(BOX, Publish("a", b""))
    assert (len(group.hear(ANN)), len(group.hear(BOB))) == (2, 1)
    group.say(ANN, Unsubscribe(1))
    assert group.say(BOX, Publish("a", b"", request_id=ASKED)) == [wire.Accepted(ASKED, 0)]
    subscribe(group, ANN, "a")
    group.hang_up(ANN)
    assert group.say(BOX, Publish("a", b"", request_id=ASKED)) == [wire.Accepted(ASKED, 0)]


def test_a_leader_that_is_deposed_keeps_nothing() -> None:
    group = Group("a", "b", "c")
    old = group.elect()
    group.client(ANN, "ann", SPEAKS)
    group.tell(ANN, Subscribe(ASKED, 1, ">"), Publish("a", b""))
    old.leader_state.lose("", old.raft.config)
    publishing = old.leader_state.publishing
    assert (publishing.take(), len(publishing.subscriptions)) == ([], 0)


def test_a_run_of_publishes_is_as_one_after_the_other(group: Group) -> None:
    """Also where one in the middle wants an answer, is refused, or is about a job."""
    subscribe(group, ANN, "a.>")
    said = [
        Publish("a.1", b"1"),
        Publish("a.1", b"2"),
        Publish("a b", b"refused"),
        Publish("a.2", b"3", request_id=ASKED),
        Publish("job.event.x", b"refused", request_id=ASKED),
        Publish("a.1", b"4"),
    ]
    group.leader.leader_state.gateway.publishes(BOX, said)
    group.settle()
    assert [message.payload for message in group.hear(ANN)] == [b"1", b"2", b"3", b"4"]
    error, accepted = group.hear(BOX)  # what is accepted waits until it is sure who leads
    assert (accepted, error.code) == (wire.Accepted(ASKED, 1), ErrorCode.ACCESS_DENIED)


class Uncut(list[Publish]):
    """A run of which no copy is made."""

    def __getitem__(self, place: Any) -> Any:
        assert not isinstance(place, slice), "what is left is copied for each message"
        return super().__getitem__(place)


def test_a_run_costs_the_same_for_each_message(group: Group) -> None:
    subscribe(group, ANN, "a")
    said = Uncut(Publish("a", b"", request_id=ASKED) for _ in range(3))
    group.leader.leader_state.gateway.publishes(BOX, said)
    group.settle()
    assert len(group.hear(ANN)) == len(group.hear(BOX)) == 3


@pytest.mark.parametrize(
    "asked",
    [
        Publish("price.eur", b"1", request_id=ASKED),
        Publish("price.eur", b"1", "_inbox.t.1", ASKED),
        Subscribe(ASKED, 1, ">", topic="prices"),
    ],
    ids=["publish", "request", "subscribe"],
)
def test_a_leader_that_is_cut_off_answers_nothing_that_may_be_untrue(asked: Any) -> None:
    """The group may have another leader already, a topic of that subject, and listeners."""
    group = Group("a", "b", "c")
    leader = group.address_of(group.elect())
    group.client(ANN, "ann", SPEAKS)
    group.hear(ANN)
    group.isolated[leader] = None
    assert group.say(ANN, asked, to=leader) == []
    group.until(lambda: ANN in group.closed)  # it has noticed
    assert [type(one) for one in group.hear(ANN)] == [wire.NotLeader]


def test_a_run_of_a_session_that_said_no_hello_ends_it(group: Group) -> None:
    subscribe(group, ANN, "a")
    group.say(ANN, Publish("a", b"", request_id=ASKED))
    group.hear(ANN)
    group.leader.leader_state.gateway.publishes(9, [Publish("a", b"")])
    group.settle()
    assert (group.hear(ANN), list(group.closed)) == ([], [9])
