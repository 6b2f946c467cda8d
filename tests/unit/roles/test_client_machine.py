from __future__ import annotations

from collections.abc import Callable

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BulkItem
from rollq.base.limits import REDIAL_GROUP_MAX_MS
from rollq.roles.client.session.machine import RETRY_MS, ClientMachine
from rollq.roles.client.session.signals import (
    Abandoned,
    ClientSetup,
    ClientTick,
    Connect,
    Connected,
    DeliverResponses,
    DeliverResults,
    Disconnect,
    Disconnected,
    Instruction,
    MessagesReceived,
    Reachable,
    Received,
    Requested,
    ResultsTaken,
    SendToLeader,
    SessionState,
    Started,
    id_of,
)
from rollq.wire import messages as wire
from rollq.wire.staging_messages import StageJobs
from tests.unit.roles.chance import MiddleJitter

HELLO = wire.HelloClient("c", 3, ("compact",))
WELCOME = Received(wire.Welcome("g", 1))


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


def submit(number: int) -> wire.SubmitJob:
    return wire.SubmitJob(job(number), "c", "q", "exec", b"body")


def bulk(*numbers: int) -> wire.SubmitBulk:
    items = tuple(BulkItem(job(number), b"body") for number in numbers)
    return wire.SubmitBulk(job(99), "c", "q", "exec", items)


def result(number: int, attempt: int = 1, outcome: str = "done") -> wire.Result:
    return wire.Result(job(number), outcome, attempt=attempt)


def machine(**bounds: int) -> ClientMachine:
    setup = ClientSetup("c", ("m1", "m2"), 3, ("compact",), **bounds)
    return ClientMachine(setup, MiddleJitter())


def welcomed(**bounds: int) -> ClientMachine:
    client = machine(**bounds)
    client.handle(Started())
    client.handle(Connected())
    client.handle(WELCOME)
    return client


def again(client: ClientMachine) -> list[Instruction]:
    """Break the session and open the next; what goes out after the welcome."""
    client.handle(Disconnected())
    client.handle(Connected())
    return client.handle(WELCOME)


def test_start_dials_and_greets() -> None:
    client = machine()
    assert client.handle(Started()) == [Connect("m1", 0)]
    assert client.handle(Connected()) == [SendToLeader(HELLO)]
    assert client.handle(WELCOME) == []
    assert client.link is SessionState.OPEN


def test_a_leader_that_is_not_the_first_is_to_tell_us_all() -> None:
    client = ClientMachine(ClientSetup("c", ("m1",), 0, ("compact", "own")), MiddleJitter())
    client.handle(Started())
    alone = SendToLeader(wire.HelloClient("c", 0, ("compact", "own")))
    assert client.handle(Connected()) == [alone]
    client.handle(Disconnected())
    assert client.handle(Connected()) == [alone]
    client.handle(WELCOME)
    client.handle(Disconnected())
    assert client.handle(Connected()) == [SendToLeader(wire.HelloClient("c", 0, ("compact",)))]


def test_asked_before_the_welcome_goes_out_with_it_in_order() -> None:
    client = machine()
    assert client.handle(Requested((submit(1),))) == []
    client.handle(Connected())
    assert client.handle(Requested((submit(2),))) == []
    assert client.handle(WELCOME) == [SendToLeader(submit(1)), SendToLeader(submit(2))]


def test_unanswered_goes_to_the_next_leader_with_the_same_id_and_answered_does_not() -> None:
    client = welcomed()
    assert client.handle(Requested((submit(1),))) == [SendToLeader(submit(1))]
    client.handle(Requested((submit(2),)))
    accepted = wire.Accepted(job(1))
    assert client.handle(Received(accepted)) == [DeliverResponses([accepted])]
    assert client.handle(Received(accepted)) == []
    assert client.pending_count == 1
    assert again(client) == [SendToLeader(submit(2))]


def test_an_array_is_not_sent_to_a_leader_that_would_number_its_tasks_otherwise() -> None:
    client = welcomed()
    array = wire.SubmitArray(job(1), "c", "q", "exec", b"body", 3, first_task=1)
    (told,) = client.handle(Requested((array,)))
    assert isinstance(told, DeliverResponses)
    (answer,) = told.answers
    assert isinstance(answer, wire.Error)
    assert (answer.request_id, answer.code) == (job(1), ErrorCode.UNSUPPORTED_VERSION)
    assert not client.pending_count
    client.handle(Disconnected())
    client.handle(Requested((array,)))
    client.handle(Connected())
    welcome = Received(wire.Welcome("group", 1, ("compact", "tasks")))
    assert client.handle(welcome) == [SendToLeader(array)]


def test_a_member_that_takes_connections_again_ends_a_long_wait() -> None:
    setup = ClientSetup("c", ("m1", "m2"), redial_ms_max=REDIAL_GROUP_MAX_MS)
    client = ClientMachine(setup, MiddleJitter())
    client.handle(Started())
    waits = [client.handle(Disconnected()) for _ in range(9)]
    assert waits[-1] == [Connect("m2", REDIAL_GROUP_MAX_MS)]
    assert client.handle(Reachable("m1")) == [Connect("m1", 0)]
    client.handle(Connected())
    assert client.handle(Reachable("m2")) == []


def test_not_leader_is_followed() -> None:
    client = machine()
    client.handle(Connected())
    out = client.handle(Received(wire.NotLeader("m9")))
    assert out == [Disconnect(), Connect("m9", 0)]
    assert client.link is SessionState.DOWN
    assert client.handle(Disconnected()) == [Connect("m1", 500)]


def test_change_whose_answer_was_lost_is_not_sent_again_but_reported_unknown() -> None:
    client = welcomed()
    admin = wire.Admin(job(9), "redrive")
    client.handle(Requested((admin,)))
    client.handle(Requested((wire.Query(job(8), "status"),)))
    out = client.handle(Disconnected())
    (told,) = [answer for i in out if isinstance(i, DeliverResponses) for answer in i.answers]
    assert isinstance(told, wire.Error)
    assert (told.request_id, told.code) == (job(9), ErrorCode.OUTCOME_UNKNOWN)
    assert client.pending_count == 1


def test_change_asked_without_a_session_waits_for_one() -> None:
    client = machine()
    admin = wire.Admin(job(9), "pause")
    client.handle(Requested((admin,)))
    client.handle(Disconnected())
    client.handle(Connected())
    assert client.handle(WELCOME) == [SendToLeader(admin)]


def test_refusal_is_told_and_one_that_may_pass_is_tried_again() -> None:
    client = welcomed()
    client.handle(Requested((submit(1),)))
    client.handle(Requested((submit(2),)))
    final = wire.Error(job(1), int(ErrorCode.JOB_CONFLICT), "other body")
    assert client.handle(Received(final)) == [DeliverResponses([final])]
    assert client.handle(Received(final)) == []
    client.handle(ClientTick(1_000))
    busy = wire.Error(job(2), int(ErrorCode.OVERLOADED), "busy", retryable=True)
    assert client.handle(Received(busy)) == []
    assert client.handle(ClientTick(1_000 + RETRY_MS - 1)) == []
    assert client.handle(ClientTick(1_000 + RETRY_MS)) == [SendToLeader(submit(2))]
    assert client.handle(ClientTick(9_000)) == []


def test_what_lacks_its_blobs_is_the_applications_to_bring() -> None:
    client = welcomed()
    client.handle(Requested((submit(1),)))
    lacking = wire.Error(job(1), int(ErrorCode.BLOB_MISSING), "lacks", retryable=True)
    assert client.handle(Received(lacking)) == [DeliverResponses([lacking])]
    assert not client.pending_count
    assert client.handle(ClientTick(10 * RETRY_MS)) == []


def test_put_off_request_that_was_answered_meanwhile_is_not_sent_again() -> None:
    client = welcomed()
    client.handle(Requested((submit(1),)))
    client.handle(Received(wire.Error(job(1), 211, "busy", retryable=True)))
    client.handle(Received(wire.Accepted(job(1))))
    assert client.handle(ClientTick(9_000)) == []


def test_result_is_delivered_once_and_confirmed_after_the_application_has_it() -> None:
    client = welcomed()
    assert client.handle(Received(result(1))) == [DeliverResults([result(1)])]
    assert client.handle(Received(result(1))) == []
    confirm = SendToLeader(wire.Confirm((job(1),)))
    assert client.handle(ResultsTaken([job(1)])) == [confirm]
    assert client.handle(ResultsTaken([job(1)])) == [confirm]  # which harms nobody
    assert client.handle(Received(result(1))) == [confirm]


def test_results_that_nobody_takes_are_remembered_up_to_a_bound() -> None:
    client = welcomed(untaken_max=10)
    for number in range(1, 101):
        client.handle(Received(result(number)))
    assert len(client._deliveries._untaken) <= 10
    assert client.handle(Received(result(100))) == []
    assert client.handle(Received(result(1))) == [DeliverResults([result(1)])]  # again
    assert client.handle(ResultsTaken([job(2)])) == [SendToLeader(wire.Confirm((job(2),)))]


def test_result_taken_without_a_session_is_confirmed_when_it_comes_again() -> None:
    client = welcomed()
    client.handle(Received(result(1)))
    client.handle(Disconnected())
    assert client.handle(ResultsTaken([job(1)])) == []
    client.handle(Connected())
    client.handle(WELCOME)
    assert client.handle(Received(result(1))) == [SendToLeader(wire.Confirm((job(1),)))]


def test_redriven_or_resubmitted_job_has_a_new_result() -> None:
    client = welcomed()
    client.handle(Received(result(1, 5, "dead")))
    client.handle(ResultsTaken([job(1)]))
    assert client.handle(Received(result(1, 6))) == [DeliverResults([result(1, 6)])]
    client.handle(ResultsTaken([job(1)]))
    client.handle(Requested((submit(1),)))
    assert client.handle(Received(result(1, 6))) == [DeliverResults([result(1, 6)])]


def test_a_result_that_came_unasked_for_comes_to_whoever_asks_then() -> None:
    client = welcomed()
    assert client.handle(Received(result(1))) == [DeliverResults([result(1)])]  # and nobody took it
    client.handle(Requested((submit(1),)))
    assert client.handle(Received(result(1))) == [DeliverResults([result(1)])]


def test_pending_and_delivered_are_bounded() -> None:
    client = welcomed(pending_max=2, taken_max=2)
    for number in (1, 2):
        client.handle(Requested((submit(number),)))
    (told,) = client.handle(Requested((submit(3),)))
    assert isinstance(told, DeliverResponses)
    (answer,) = told.answers
    assert isinstance(answer, wire.Error)
    assert answer.retryable
    for number in (1, 2, 3):
        client.handle(Received(result(number)))
        client.handle(ResultsTaken([job(number)]))
    assert client.handle(Received(result(1))) == [DeliverResults([result(1)])]
    assert client.handle(Received(result(3))) == [SendToLeader(wire.Confirm((job(3),)))]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: wire.SubmitBulk(n, "c", "q", "exec", ()),
        lambda n: wire.SubmitArray(n, "c", "q", "exec", b"", 3),
        lambda n: wire.Cancel(n, ()),
    ],
)
def test_every_request_is_known_by_its_own_id(
    make: Callable[[bytes], wire.SubmitBulk | wire.SubmitArray | wire.Cancel],
) -> None:
    assert id_of(make(job(5))) == job(5)


def test_messages_of_no_concern_are_ignored() -> None:
    assert welcomed().handle(Received(wire.AckTaken(job(1), 1))) == []


def test_what_was_given_up_is_not_sent_again_and_its_answer_is_not_told() -> None:
    client = welcomed()
    client.handle(Requested((submit(1),)))
    client.handle(Requested((submit(2),)))
    client.handle(Received(wire.Error(job(2), int(ErrorCode.GRID_FULL), "full", retryable=True)))
    assert client.handle(Abandoned(job(1))) == []
    assert client.handle(Abandoned(job(2))) == []
    assert client.pending_count == 0
    assert client.handle(Received(wire.Accepted(job(1)))) == []
    assert client.handle(ClientTick(RETRY_MS + 1)) == []
    assert again(client) == []
    assert client.handle(Abandoned(job(9))) == []


def test_what_one_read_brought_is_told_in_order_and_its_results_together() -> None:
    client = welcomed()
    client.handle(Requested((submit(1),)))
    client.handle(Requested((submit(2),)))
    accepted = [wire.Accepted(job(1)), wire.Accepted(job(2))]
    out = client.handle(
        MessagesReceived([result(7), accepted[0], result(1), accepted[1], result(1)])
    )
    assert out == [
        DeliverResponses([accepted[0], accepted[1]]),
        DeliverResults([result(7), result(1)]),
    ]
    assert client.handle(ResultsTaken([job(7), job(1)])) == [
        SendToLeader(wire.Confirm((job(7), job(1))))
    ]


def test_what_follows_a_redirect_is_of_the_past() -> None:
    client = welcomed()
    client.handle(Requested((submit(1),)))
    moved = wire.NotLeader("m9")
    out = client.handle(MessagesReceived([result(7), moved, wire.Accepted(job(1)), result(8)]))
    assert out == [Disconnect(), Connect("m9", 0), DeliverResults([result(7)])]
    assert client.handle(ResultsTaken([job(7)])) == []
    assert client.pending_count == 1


@pytest.mark.parametrize(
    ("request_", "ended"),
    [
        (submit(3), job(3)),
        (bulk(3, 4, 5), job(4)),
        (wire.SubmitArray(job(1 << 40), "c", "q", "exec", b"", 9), job((1 << 40) + 6)),
    ],
)
def test_a_result_is_the_word_that_its_submit_was_accepted(
    request_: wire.SubmitJob | wire.SubmitBulk | wire.SubmitArray, ended: bytes
) -> None:
    """Its jobs may end, be confirmed and forgotten: sent once more it would run once more."""
    client = welcomed()
    client.handle(Requested((request_,)))
    assert again(client) == [SendToLeader(request_)]
    end = wire.Result(ended, "done", attempt=1)
    told = DeliverResponses([wire.Accepted(id_of(request_), known=True)])
    assert client.handle(MessagesReceived([end])) == [told, DeliverResults([end])]
    assert client.pending_count == 0
    assert client.handle(Received(wire.Accepted(id_of(request_)))) == []
    assert again(client) == []


def test_a_submit_that_was_answered_is_in_doubt_no_more() -> None:
    client = welcomed()
    client.handle(Requested((bulk(3, 4),)))
    again(client)
    accepted = wire.Accepted(job(99), 2)
    assert client.handle(Received(accepted)) == [DeliverResponses([accepted])]
    assert client.handle(Received(result(3))) == [DeliverResults([result(3)])]
    client.handle(Requested((bulk(3, 4),)))  # the same again, in the same session
    assert client.handle(Received(result(4))) == [DeliverResults([result(4)])]
    assert client.pending_count == 1


def test_where_nothing_more_can_be_staged_whoever_stages_is_told() -> None:
    client = welcomed()
    client.handle(Requested((StageJobs(job(1), "batch", "part", 0, ()),)))
    full = wire.Error(job(1), int(ErrorCode.GRID_FULL), "full", retryable=True)
    assert client.handle(Received(full)) == [DeliverResponses([full])]
    assert client.handle(ClientTick(10 * RETRY_MS)) == []
