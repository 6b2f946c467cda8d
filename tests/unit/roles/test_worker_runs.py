"""The worker's machine: what comes together is answered together, and means the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.jobs import AttemptRef
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.session import LinkState, WorkerSetup
from rollq.roles.worker.signals import (
    Connected,
    Disconnect,
    Event,
    Finished,
    ForgetResults,
    MessageReceived,
    ResultStored,
    SendToMember,
    Started,
    StartJobs,
    StoredResult,
    StoreResults,
    TurnOver,
)
from rollq.wire import messages as wire
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.worker_machines import LEASE_MS, WORKER, ack, assign, ref, stop, taken

SLOTS = 4


def opened() -> WorkerMachine:
    setup = WorkerSetup(WORKER, ("m1", "m2"), ("q",), "box", 7, SLOTS, ("compact",))
    worker = WorkerMachine(setup, MiddleJitter())
    worker.handle(Started())
    worker.handle(Connected())
    worker.handle(MessageReceived([wire.Welcome("g", 1)]))
    worker.handle(TurnOver())
    return worker


def result(of: AttemptRef) -> StoredResult:
    return StoredResult(of, LEASE_MS)


def words(*events: MessageReceived) -> MessageReceived:
    return MessageReceived([message for event in events for message in event.messages])


def test_a_run_of_jobs_takes_one_instruction_of_each_kind() -> None:
    worker = opened()
    refs = [ref(number) for number in range(1, SLOTS + 1)]
    (start,) = worker.handle(words(*map(assign, refs)))
    assert isinstance(start, StartJobs)
    assert [of for _, of in start.jobs] == refs
    records = list(map(result, refs))
    assert worker.handle(Finished(records)) == [StoreResults(records)]
    assert worker.handle(TurnOver()) == [SendToMember([wire.Credit(SLOTS)])]
    acks = [ack(of).messages[0] for of in refs]
    assert worker.handle(ResultStored(refs)) == [SendToMember(acks)]
    assert worker.handle(words(*map(taken, refs))) == [ForgetResults(refs)]


def test_jobs_and_thanks_that_come_mixed_are_sorted() -> None:
    worker = opened()
    old, new = [ref(1), ref(2)], [ref(3), ref(4)]
    worker.handle(words(*map(assign, old)))
    worker.handle(Finished(list(map(result, old))))
    worker.handle(ResultStored(old))
    out = worker.handle(words(assign(new[0]), taken(old[0]), assign(new[1]), taken(old[1])))
    start, forget = out
    assert isinstance(start, StartJobs)
    assert [of for _, of in start.jobs] == new
    assert forget == ForgetResults(old)


def test_what_follows_the_end_of_a_session_was_not_said_to_us() -> None:
    worker = opened()
    out = worker.handle(words(MessageReceived([wire.NotLeader("m2")]), assign(ref(1))))
    assert isinstance(out[0], Disconnect)
    assert worker.link is LinkState.DOWN
    assert worker.holding == ()


REFS = st.builds(ref, st.integers(1, 3), st.integers(1, 2))
RUNS = st.one_of(
    st.lists(st.one_of(REFS.map(assign), REFS.map(stop), REFS.map(taken)), min_size=1, max_size=6),
    st.lists(REFS.map(lambda of: Finished([result(of)])), min_size=1, max_size=4),
    st.lists(REFS.map(lambda of: ResultStored([of])), min_size=1, max_size=4),
)


def joined(run: list[Event]) -> Event:
    first = run[0]
    if isinstance(first, MessageReceived):
        return MessageReceived([m for one in run for m in one.messages])  # type: ignore[union-attr]
    if isinstance(first, Finished):
        return Finished([r for one in run for r in one.results])  # type: ignore[union-attr]
    return ResultStored([of for one in run for of in one.refs])  # type: ignore[union-attr]


def may_happen(event: Event, started: list[AttemptRef]) -> bool:
    """Nothing ends that was not started before."""
    return not isinstance(event, Finished) or event.results[0].ref in started


class Heard:
    """What a shell was told to do, whatever came together."""

    def __init__(self) -> None:
        self.worker = opened()
        self.said: list[wire.WorkerMessage] = []
        self.started: list[AttemptRef] = []
        self.stored: list[StoredResult] = []
        self.forgotten: list[AttemptRef] = []

    def feed(self, event: Event) -> None:
        for one in self.worker.handle(event):
            if isinstance(one, SendToMember):
                self.said += [m for m in one.messages if not isinstance(m, wire.Credit)]
            elif isinstance(one, StartJobs):
                self.started += [of for _, of in one.jobs]
            elif isinstance(one, StoreResults):
                self.stored += one.results
            elif isinstance(one, ForgetResults):
                self.forgotten += one.refs


@given(st.lists(RUNS, max_size=12))
def test_a_run_means_what_its_parts_mean(runs: list[list[Event]]) -> None:
    together, apart = Heard(), Heard()
    for drawn in runs:
        run = [event for event in drawn if may_happen(event, together.started)]
        if not run:
            continue
        together.feed(joined(run))
        for event in run:
            apart.feed(event)
        assert together.said == apart.said
        assert together.started == apart.started
        assert together.stored == apart.stored
        assert together.forgotten == apart.forgotten
        assert together.worker.holding == apart.worker.holding
        assert together.worker.running_count == apart.worker.running_count
        assert together.worker.credit == apart.worker.credit
