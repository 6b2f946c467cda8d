"""The worker's machine: what comes together is answered together, and means the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.jobs import AttemptRef, BlobRef
from rollq.base.limits import RUN_BYTES_MAX, RUN_JOBS_MAX
from rollq.roles.worker.acks import ack_runs
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.session import LinkState, WorkerSetup
from rollq.roles.worker.signals import (
    Connected,
    Disconnect,
    Disconnected,
    Event,
    Finished,
    ForgetResults,
    KillJob,
    MessageReceived,
    PrepareInputs,
    ResultStored,
    SendToMember,
    Started,
    StartJobs,
    StoredResult,
    StoreResults,
    TurnOver,
)
from rollq.wire import messages as wire
from rollq.wire.run_messages import AckRun, AcksTaken, AssignRun, assignments_of
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.worker_machines import LEASE_MS, WORKER, ack, assign, job, ref, stop, taken

SLOTS = 4


def opened(*features: str) -> WorkerMachine:
    setup = WorkerSetup(WORKER, ("m1", "m2"), ("q",), "box", 7, SLOTS, ("compact", *features))
    worker = WorkerMachine(setup, MiddleJitter())
    worker.handle(Started())
    worker.handle(Connected())
    worker.handle(MessageReceived([wire.Welcome("g", 1, features)]))
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


# --- runs on the wire


def run_of(*numbers: int, fence: int = 1, **fields: Any) -> MessageReceived:
    """Assignments that came as one run; the fences count on from `fence`."""
    bodies = tuple(b"body" for _ in numbers)
    ids = b"".join(map(job, numbers))
    values: dict[str, Any] = {"bodies": bodies, "attempt": 1} | fields
    run = AssignRun(ids, fence=fence, lease_ms=LEASE_MS, subject="q", exec_name="exec", **values)
    return MessageReceived([run])


def taken_run(*refs: AttemptRef) -> MessageReceived:
    ids = b"".join([of.job_id for of in refs])
    return MessageReceived([AcksTaken(ids, tuple([of.attempt for of in refs]))])


def refs_of(*numbers: int, fence: int = 1) -> list[AttemptRef]:
    return [AttemptRef(job(number), 1, fence + at) for at, number in enumerate(numbers)]


def test_a_run_from_the_leader_goes_back_as_a_run() -> None:
    worker = opened("runs")
    refs = refs_of(1, 2, 3)
    (start,) = worker.handle(run_of(1, 2, 3))
    assert isinstance(start, StartJobs)
    assert [(one.job_id, one.fence, of) for one, of in start.jobs] == [
        (of.job_id, of.fence, of) for of in refs
    ]
    worker.handle(Finished(list(map(result, refs))))
    acks = tuple([wire.AckJob(of.job_id, 1, of.fence) for of in refs])
    assert worker.handle(ResultStored(refs)) == [SendToMember([AckRun(acks)])]
    assert worker.handle(taken_run(*refs, refs[0])) == [ForgetResults(refs)]
    assert worker.holding == ()


def test_a_lone_ack_is_a_run_of_one_and_is_repeated_as_such() -> None:
    worker = opened("runs")
    (one,) = refs_of(1)
    worker.handle(run_of(1))
    worker.handle(Finished([result(one)]))
    said = [SendToMember([AckRun((wire.AckJob(job(1), 1, 1),))])]
    assert worker.handle(ResultStored([one])) == said
    assert worker.handle(run_of(1)) == said  # it was delivered again
    assert worker.handle(taken_run(one)) == [ForgetResults([one])]
    assert worker.handle(run_of(1)) == []  # it is over, and does not run again


def test_a_leader_that_does_not_take_runs_is_sent_single_acks() -> None:
    worker = opened()
    refs = refs_of(1, 2)
    worker.handle(run_of(1, 2))
    worker.handle(Finished(list(map(result, refs))))
    acks: list[wire.WorkerMessage] = [wire.AckJob(of.job_id, 1, of.fence) for of in refs]
    assert worker.handle(ResultStored(refs)) == [SendToMember(acks)]


def test_what_is_not_taken_is_told_the_next_leader_as_it_likes_to_hear_it() -> None:
    worker = opened("runs")
    refs = refs_of(1, 2)
    worker.handle(run_of(1, 2))
    worker.handle(Finished(list(map(result, refs))))
    worker.handle(ResultStored(refs))
    acks = [wire.AckJob(of.job_id, 1, of.fence) for of in refs]
    sayings: list[tuple[tuple[str, ...], list[wire.WorkerMessage]]]
    sayings = [(("runs",), [AckRun(tuple(acks))]), ((), [*acks])]
    for features, said in sayings:
        worker.handle(Disconnected())
        worker.handle(Connected())
        assert worker.handle(MessageReceived([wire.Welcome("g", 1, features)])) == [
            SendToMember(said)
        ]


def test_a_run_in_which_one_attempt_is_known_is_looked_at_one_by_one() -> None:
    worker = opened("runs")
    worker.handle(run_of(2, fence=2))
    (start,) = worker.handle(run_of(1, 2, 3))  # 2 was delivered before
    assert isinstance(start, StartJobs)
    assert [of.job_id for _, of in start.jobs] == [job(1), job(3)]
    (kill, start) = worker.handle(run_of(2, fence=9))  # a newer attempt ends the older
    assert kill == KillJob(AttemptRef(job(2), 1, 2))
    assert isinstance(start, StartJobs)
    assert len(worker.holding) == 3


def test_a_job_that_a_run_names_twice_runs_once_under_the_newer_fence() -> None:
    worker = opened("runs")
    worker.handle(run_of(1, 1))
    assert worker.holding == (AttemptRef(job(1), 1, 2),)


def test_of_a_run_only_what_needs_inputs_waits_for_them() -> None:
    worker = opened("runs")
    blob = BlobRef(b"d" * 32, 1)
    out = worker.handle(run_of(1, 2, blobs=((blob,), ())))
    assert [type(one) for one in out] == [PrepareInputs, StartJobs]
    prepare = worker.handle(run_of(3, 4, fence=7, bodies=(b'{"CacheId" : "c"}', b"")))[0]
    assert isinstance(prepare, PrepareInputs)
    assert [of.job_id for _, of in prepare.jobs] == [job(3)]


def test_a_run_spends_the_credit_of_its_jobs_and_first_what_is_owed() -> None:
    worker = opened("runs")
    assert worker.credit == SLOTS
    worker.handle(run_of(1, 2, 3))
    assert worker.credit == SLOTS - 3
    worker.handle(Disconnected())
    worker.handle(Connected())
    worker.handle(MessageReceived([wire.Welcome("g", 1, ("runs",), 2)]))
    worker.handle(run_of(1, 2))  # repeated, as it was announced
    before = worker.credit
    worker.handle(run_of(7, fence=50))
    assert before - worker.credit <= 1


def test_acks_are_cut_into_runs_that_fit_a_message() -> None:
    small = [wire.AckJob(job(n), 1, n) for n in range(1, RUN_JOBS_MAX + 2)]
    assert [len(run.acks) for run in ack_runs(small)] == [RUN_JOBS_MAX, 1]
    half = bytes(RUN_BYTES_MAX // 2)
    large = [wire.AckJob(job(n), 1, n, result=half) for n in range(1, 6)]
    assert [len(run.acks) for run in ack_runs(large)] == [2, 2, 1]
    assert list(ack_runs([])) == []


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


IDS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
SAID = st.one_of(
    st.builds(lambda ids, fence: run_of(*ids, fence=fence), IDS, st.integers(1, 20)),
    st.builds(lambda ids: taken_run(*[AttemptRef(job(n), 1, 1) for n in ids]), IDS),
    st.builds(lambda n: stop(AttemptRef(job(n), 1, n)), st.integers(1, 5)),
)


def one_by_one(event: MessageReceived) -> MessageReceived:
    said: list[wire.MemberMessage] = []
    for message in event.messages:
        if isinstance(message, AssignRun):
            said += assignments_of(message)
        elif isinstance(message, AcksTaken):
            ids = [message.job_ids[at : at + 16] for at in range(0, len(message.job_ids), 16)]
            said += map(wire.AckTaken, ids, message.attempts)
        else:
            said.append(message)
    return MessageReceived(said)


@given(st.lists(SAID, max_size=12))
def test_a_run_on_the_wire_means_what_single_messages_mean(events: list[MessageReceived]) -> None:
    in_runs, single = Heard(), Heard()
    for event in events:
        in_runs.feed(event)
        single.feed(one_by_one(event))
        for heard in (in_runs, single):
            over = [result(of) for of in heard.started[: len(heard.started) // 2]]
            heard.feed(Finished(over))
            heard.feed(ResultStored([record.ref for record in over]))
        assert in_runs.said == single.said
        assert in_runs.started == single.started
        assert in_runs.stored == single.stored
        assert in_runs.forgotten == single.forgotten
        assert in_runs.worker.holding == single.worker.holding
        assert in_runs.worker.running_count == single.worker.running_count
        assert in_runs.worker.credit == single.worker.credit


def test_what_is_older_than_an_attempt_that_is_over_does_not_run() -> None:
    worker = opened("runs")
    (newer,) = refs_of(1, fence=9)
    worker.handle(run_of(1, fence=9))
    worker.handle(Finished([result(newer)]))
    worker.handle(ResultStored([newer]))
    worker.handle(taken_run(newer))
    assert worker.handle(run_of(1, fence=8)) == []
    assert worker.handle(run_of(1, fence=9)) == []
    (start,) = worker.handle(run_of(1, fence=10))
    assert isinstance(start, StartJobs)
