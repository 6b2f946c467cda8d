"""Members that do not let us in: what a client and a worker make of it."""

from __future__ import annotations

import pytest

from rollq.base.errors import NOT_LET_IN_CODES, ErrorCode, LocalError, StateError
from rollq.base.ids import NIL_ID
from rollq.base.limits import REDIAL_MAX_MS, REDIAL_REFUSED_MS
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.client.session.signals import (
    Connect,
    Connected,
    DeliverResponses,
    Disconnected,
    Instruction,
    Received,
    Requested,
    SendToLeader,
    Started,
)
from rollq.roles.refusals import Refusals, is_refusal, refusal_of
from rollq.roles.worker import signals as worker_signals
from rollq.wire import messages as wire
from tests.unit.roles.test_client_machine import WELCOME, job, machine, submit
from tests.unit.roles.worker_machines import machine as worker_machine

REFUSED = wire.Error(NIL_ID, int(ErrorCode.LOGIN_FAILED), "no", "check it")
NOT_READY = wire.Error(NIL_ID, int(ErrorCode.NOT_READY), "later", retryable=True)


def test_only_what_nobody_can_mend_by_asking_again_is_a_refusal() -> None:
    assert is_refusal(REFUSED)
    assert not is_refusal(NOT_READY)
    assert not is_refusal(wire.Error(job(1), int(ErrorCode.ACCESS_DENIED), "of one request"))
    assert not any(StateError(code, "").retryable for code in NOT_LET_IN_CODES)


def test_an_error_of_dialing_is_a_refusal_if_it_is_one() -> None:
    ours = LocalError(ErrorCode.BAD_CREDENTIALS, "in the open", "use TLS")
    assert refusal_of(ours) == wire.Error(NIL_ID, 504, "in the open", "use TLS")
    assert refusal_of(StateError(ErrorCode.UNREACHABLE, "nobody")) is None


def test_two_refusals_in_a_row_are_final_until_a_member_answers_otherwise() -> None:
    refusals = Refusals()
    for _ in range(2):
        assert refusals.final is None
        refusals.noted(REFUSED)
    assert refusals.final == REFUSED
    refusals.over()
    assert refusals.final is None


# --- a client


def refuse(client: ClientMachine, error: wire.Error = REFUSED) -> list[Instruction]:
    client.handle(Connected())
    return [*client.handle(Received(error)), *client.handle(Disconnected())]


def waits(instructions: list[Instruction]) -> list[int]:
    return [one.delay_ms for one in instructions if isinstance(one, Connect)]


def told(instructions: list[Instruction]) -> list[wire.Error]:
    answers = [
        answer
        for one in instructions
        if isinstance(one, DeliverResponses)
        for answer in one.answers
    ]
    return [answer for answer in answers if isinstance(answer, wire.Error)]


def started() -> ClientMachine:
    client = machine()
    client.handle(Started())
    client.handle(Requested([submit(1)]))
    return client


def test_a_client_that_is_refused_twice_tells_whoever_waits_and_whoever_asks_later() -> None:
    client = started()
    first = refuse(client)
    assert told(first) == []
    assert waits(first)[0] < REDIAL_MAX_MS
    second = refuse(client)
    [error] = told(second)
    assert (error.request_id, error.code, error.hint) == (job(1), REFUSED.code, "check it")
    assert waits(second) == [REDIAL_REFUSED_MS]
    assert client.is_refused
    [later] = told(client.handle(Requested([submit(2)])))
    assert (later.request_id, later.code) == (job(2), REFUSED.code)
    assert client.pending_count == 0


def test_a_client_is_refused_before_a_connection_as_on_one() -> None:
    client = started()
    client.handle(Disconnected(REFUSED))
    second = client.handle(Disconnected(REFUSED))
    assert [error.request_id for error in told(second)] == [job(1)]
    assert waits(second) == [REDIAL_REFUSED_MS]


def test_members_that_are_down_hide_no_refusal() -> None:
    """With two of three down, the third refuses at every third dial."""
    client = started()
    assert told(refuse(client)) == []
    client.handle(Disconnected())
    client.handle(Disconnected())
    assert [error.code for error in told(refuse(client))] == [REFUSED.code]
    client.handle(Disconnected())
    assert [error.code for error in told(client.handle(Requested([submit(2)])))] == [REFUSED.code]


@pytest.mark.parametrize("between", [wire.Welcome("g", 1), wire.NotLeader("m2"), NOT_READY])
def test_a_client_that_another_member_lets_in_goes_on(between: wire.MemberMessage) -> None:
    client = started()
    refuse(client)
    client.handle(Connected())
    client.handle(Received(between))
    if not isinstance(between, wire.NotLeader):
        client.handle(Disconnected())
    assert told(refuse(client)) == []
    client.handle(Connected())
    assert SendToLeader(submit(1)) in client.handle(WELCOME)


def test_a_client_goes_on_when_it_is_let_in_again() -> None:
    client = started()
    refuse(client)
    refuse(client)
    client.handle(Connected())
    client.handle(WELCOME)
    assert not client.is_refused
    assert SendToLeader(submit(2)) in client.handle(Requested([submit(2)]))


# --- a worker


def test_a_worker_that_another_member_answers_goes_on() -> None:
    worker = worker_machine()
    worker.handle(worker_signals.Started())
    for answer in (REFUSED, NOT_READY, REFUSED):
        worker.handle(worker_signals.Connected())
        worker.handle(worker_signals.MessageReceived([answer]))
        out = worker.handle(worker_signals.Disconnected(None))
        [dial] = [one for one in out if isinstance(one, worker_signals.Connect)]
        assert dial.delay_ms < REDIAL_REFUSED_MS / 2


@pytest.mark.parametrize("is_dialing", [True, False])
def test_a_worker_goes_on_trying_seldom(is_dialing: bool) -> None:
    worker = worker_machine()
    worker.handle(worker_signals.Started())
    waited: list[int] = []
    for _ in range(3):
        refusal = REFUSED if is_dialing else None
        if not is_dialing:
            worker.handle(worker_signals.Connected())
            worker.handle(worker_signals.MessageReceived([REFUSED]))
        out = worker.handle(worker_signals.Disconnected(refusal))
        waited += [one.delay_ms for one in out if isinstance(one, worker_signals.Connect)]
    assert waited[0] <= REDIAL_MAX_MS
    assert waited[1:] == [REDIAL_REFUSED_MS] * 2
