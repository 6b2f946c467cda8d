"""Calls in the shell's loop: many stand in line for one slot, and one that waits takes it over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.ids import guid_to_text
from rollq.base.jobs import AttemptRef, Status
from rollq.roles.worker.app import returned
from rollq.roles.worker.assignments import LINE_MAX
from rollq.roles.worker.attempts import LINED, REFUSED, RUNNING, WAITING
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.outputs import encode_result, value_parts
from rollq.roles.worker.session import WorkerSetup
from rollq.roles.worker.signals import (
    CallsEnded,
    CallWaits,
    Connected,
    DrainRequested,
    Finished,
    Instruction,
    KillJob,
    MessageReceived,
    SendToMember,
    SlotsFreed,
    StartCalls,
    Started,
    StartJobs,
    StopRequested,
    StoredResult,
    StoreResults,
)
from rollq.wire import messages as wire
from rollq.wire.run_messages import AssignRun
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.worker_machines import LEASE_MS, WORKER, job, of_type, stop


def opened(slots: int = 2) -> WorkerMachine:
    setup = WorkerSetup(
        *(WORKER, ("m1",), ("q",), "box", 7, slots, ("compact",)), calls=frozenset({"call"})
    )
    worker = WorkerMachine(setup, MiddleJitter())
    worker.handle(Started())
    worker.handle(Connected())
    worker.handle(MessageReceived([wire.Welcome("g", 1, ("programs",))]))
    return worker


def assign(*numbers: int, exec_name: str = "call", fence: int = 0) -> MessageReceived:
    ids = b"".join(map(job, numbers))
    bodies = (b"",) * len(numbers)
    run = AssignRun(ids, 1, fence or numbers[0], LEASE_MS, "q", exec_name, bodies)
    return MessageReceived([run])


def ref(number: int) -> AttemptRef:
    return AttemptRef(job(number), 1, number)


def ended(*numbers: int) -> CallsEnded:
    return CallsEnded([StoredResult(ref(number), LEASE_MS) for number in numbers], 0.1)


def lined(out: list[Instruction]) -> list[int]:
    return [of.fence for one in out if isinstance(one, StartCalls) for _, of in one.jobs]


def long_line(worker: WorkerMachine) -> int:
    """Let the line grow to its length; the number of the next job."""
    number = 1
    for _ in range(20):
        worker.handle(assign(number))
        worker.handle(ended(number))
        number += 1
    return number


def test_the_line_grows_while_no_call_waits() -> None:
    worker = opened()
    out = worker.handle(assign(*range(1, 1001)))
    lengths = []
    while numbers := lined(out):
        lengths.append(len(numbers))
        assert worker.running_count == 1
        out = worker.handle(ended(*numbers))
        (store,) = of_type(out, StoreResults)
        assert isinstance(store, StoreResults)
        assert [record.ref.fence for record in store.results] == numbers
    assert lengths[:9] == [1, 2, 4, 8, 16, 32, 64, 128, LINE_MAX]
    assert max(lengths) == LINE_MAX
    assert sum(lengths) == 1000
    assert worker.running_count == 0


def test_a_call_that_waits_has_the_slot_and_the_rest_waits_again_in_front() -> None:
    worker = opened(slots=2)
    first = long_line(worker)
    numbers = list(range(first, first + 6))
    assert lined(worker.handle(assign(*numbers))) == numbers
    out = worker.handle(CallWaits(ref(first), [ref(n) for n in numbers[1:]]))
    assert worker.phase(job(first)) is RUNNING
    assert lined(out) == [first + 1]  # another slot is free, and a line begins with one again
    assert worker.running_count == 2
    assert worker.phase(job(first + 2)) is WAITING
    assert worker.handle(assign(first + 6, exec_name="program")) == []
    out = worker.handle(CallWaits(ref(first + 1), []))
    assert out == []  # no slot is free
    out = worker.handle(SlotsFreed([(ref(first), 5)]))
    assert lined(out) == [first + 2]
    out = worker.handle(ended(first + 2))
    assert lined(out) == [first + 3, first + 4]  # before the program, which came later
    out = worker.handle(ended(first + 3, first + 4))
    assert lined(out) == [first + 5]
    assert not of_type(out, StartJobs)
    (start,) = of_type(worker.handle(ended(first + 5)), StartJobs)
    assert isinstance(start, StartJobs)
    assert [of for _, of in start.jobs] == [ref(first + 6)]


def test_a_program_beside_a_line_takes_another_slot() -> None:
    worker = opened(slots=2)
    first = long_line(worker)
    worker.handle(assign(first, first + 1))
    out = worker.handle(assign(first + 2, exec_name="program"))
    assert [type(one) for one in out] == [StartJobs]
    assert worker.handle(assign(first + 3, exec_name="program")) == []
    assert worker.running_count == 2
    out = worker.handle(ended(first, first + 1))  # the line is empty: its slot is free
    assert [type(one) for one in out] == [StoreResults, StartJobs]


def test_a_call_in_line_can_be_stopped_and_superseded() -> None:
    worker = opened()
    first = long_line(worker)
    worker.handle(assign(first, first + 1, first + 2))
    assert worker.handle(stop(ref(first + 1))) == [KillJob(ref(first + 1))]
    newer = MessageReceived([wire.AssignJob(job(first + 2), 2, 999, LEASE_MS, "q", "call", b"")])
    out = worker.handle(newer)
    assert out[0] == KillJob(ref(first + 2))
    assert lined(out) == [999]
    cancelled = StoredResult(ref(first + 1), LEASE_MS, Status.CANCELLED)
    assert worker.handle(Finished([cancelled])) == [StoreResults([cancelled])]
    dropped = StoredResult(ref(first + 2), LEASE_MS, Status.CANCELLED)
    assert worker.handle(Finished([dropped])) == []  # nobody wants to know
    worker.handle(ended(first))
    assert worker.running_count == 1  # the newer attempt alone
    last = AttemptRef(job(first + 2), 2, 999)
    worker.handle(CallsEnded([StoredResult(last, LEASE_MS)], 0.1))
    assert worker.running_count == 0


def test_the_rest_of_a_line_in_which_one_was_superseded() -> None:
    worker = opened(slots=1)
    first = long_line(worker)
    worker.handle(assign(first, first + 1))
    newer = MessageReceived([wire.AssignJob(job(first + 1), 2, 999, LEASE_MS, "q", "call", b"")])
    worker.handle(newer)
    # The shell had begun nothing of it when the first call waited.
    last = AttemptRef(job(first + 1), 2, 999)
    worker.handle(CallWaits(ref(first), [ref(first + 1), last]))
    assert worker.running_count == 1
    assert lined(worker.handle(SlotsFreed([(ref(first), 5)]))) == [999]
    assert worker.phase(job(first + 1)) is LINED


def test_a_worker_that_stops_gives_back_its_line_and_one_that_drains_finishes_it() -> None:
    for event, is_given_back in ((StopRequested(), True), (DrainRequested(), False)):
        worker = opened()
        first = long_line(worker)
        worker.handle(assign(first, first + 1))
        out = worker.handle(event)
        said = [one for many in of_type(out, SendToMember) for one in many.messages]  # type: ignore[union-attr]
        nacked = [one.job_id for one in said if isinstance(one, wire.Nack)]
        assert nacked == ([job(first), job(first + 1)] if is_given_back else [])
        assert worker.phase(job(first)) is (REFUSED if is_given_back else LINED)


def test_a_call_whose_result_is_told_later_leaves_the_line() -> None:
    worker = opened(slots=1)
    first = long_line(worker)
    worker.handle(assign(first))
    worker.handle(assign(first + 1, exec_name="program"))
    out = worker.handle(SlotsFreed([(ref(first), 1)]))
    assert [type(one) for one in out] == [StartJobs]
    record = StoredResult(ref(first), LEASE_MS)
    assert worker.handle(Finished([record])) == [StoreResults([record])]


# --- results of calls


def encoded_by_parts(value: Any, client_id: str, exec_name: str, run_ms: int) -> None:
    assigned = wire.AssignJob(job(77), 1, 5, LEASE_MS, "q", exec_name, b"", client_id=client_id)
    ending = returned(value)
    ending.run_ms = run_ms
    parts = value_parts(client_id, exec_name, value)
    assert parts is not None
    before, between, after = parts
    ident = guid_to_text(job(77)).encode()
    encoded = before + ident + between + b"%d" % run_ms + after
    assert encoded == encode_result(assigned, ending)


@given(
    st.none()
    | st.just(b"")
    | st.binary(max_size=100)
    | st.text(st.characters(max_codepoint=127), max_size=100),
    st.text(max_size=10) | st.just('","Stdout":""'),
    st.text(min_size=1, max_size=10) | st.just('"RunMs":0'),
    st.integers(0, 2**40),
)
def test_results_of_calls_are_those_of_any_other(
    value: bytes | str | None, client_id: str, exec_name: str, run_ms: int
) -> None:
    encoded_by_parts(value, client_id, exec_name, run_ms)


@pytest.mark.parametrize("value", ["é", "x" * 10_000, bytes(10_000), 5, [1], bytearray(b"x")])
def test_other_values_are_encoded_in_the_usual_way(value: Any) -> None:
    assert value_parts("c", "e", value) is None
