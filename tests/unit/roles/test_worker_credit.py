"""The worker's machine: slots, waiting, prefetch, the CPU cap, give-back and credit."""

from __future__ import annotations

from msgspec.structs import replace

from rollq.base.jobs import AttemptRef, JobOptions
from rollq.base.limits import LOOK_MS
from rollq.roles.worker.assignments import GIVE_BACK_MS
from rollq.roles.worker.attempts import AttemptPhase
from rollq.roles.worker.credit import AHEAD_MS, PrefetchWindow, SessionCredit
from rollq.roles.worker.session import LinkState, WorkerSetup
from rollq.roles.worker.signals import (
    Connected,
    CpuBusy,
    CpuOk,
    Disconnect,
    DrainRequested,
    Exit,
    Instruction,
    MessageReceived,
    SendToMember,
    SlotsFreed,
    Started,
    StopRequested,
    Tick,
)
from rollq.wire import messages as wire
from tests.unit.roles.chance import MiddleJitter
from tests.unit.roles.worker_machines import (
    WORKER,
    Worker,
    assign,
    finished,
    job,
    received,
    ref,
    say,
    started,
    stored,
    welcomed,
)


def prefetching(
    slots: int = 1, ahead: int = 4, features: tuple[str, ...] = ("programs",)
) -> Worker:
    """A worker in an open session that has seen many runs of no time."""
    setup = WorkerSetup(WORKER, ("m1", "m2"), ("q",), "box", 7, slots, ("compact",), ahead)
    worker = Worker(setup, MiddleJitter())
    worker.handle(Started())
    worker.handle(SlotsFreed([(ref(number), 0.0) for number in range(1_000, 1_200)]))
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1, features)))
    return worker


def freed(of: AttemptRef, run_ms: float = 0.0) -> SlotsFreed:
    return SlotsFreed([(of, run_ms)])


def credits_in(out: list[Instruction]) -> int:
    messages = [m for one in out if isinstance(one, SendToMember) for m in one.messages]
    return sum(m.count for m in messages if isinstance(m, wire.Credit))


def nacks_in(out: list[Instruction]) -> list[wire.Nack]:
    messages = [m for one in out if isinstance(one, SendToMember) for m in one.messages]
    return [m for m in messages if isinstance(m, wire.Nack)]


# --- slots and waiting


def test_prefetched_jobs_wait_and_start_oldest_first_as_slots_come_free() -> None:
    worker = prefetching(slots=2, ahead=4)
    refs = [ref(number) for number in range(1, 6)]
    assert [of for one in refs for of in started(worker.handle(assign(one)))] == refs[:2]
    assert (worker.running_count, worker.waiting_count) == (2, 3)
    assert started(worker.handle(freed(refs[1]))) == [refs[2]]
    assert started(worker.handle(finished(refs[1]))) == [], "its slot was free already"
    assert started(worker.handle(finished(refs[0]))) == [refs[3]], "both at once"
    assert worker.running_count == 2


def test_a_slot_is_free_while_the_result_is_still_being_made() -> None:
    worker = welcomed(slots=1)
    worker.handle(assign(ref(1)))
    assert worker.handle(freed(ref(1))) == [], "no credit: its work is not over"
    assert worker.phase(job(1)) is AttemptPhase.ENDING
    assert worker.running_count == 0
    assert worker.handle(freed(ref(1))) == []
    assert worker.running_count == 0
    assert credits_in(worker.handle(finished(ref(1)))) == 1


def test_a_superseded_execution_keeps_its_slot_until_it_is_over() -> None:
    worker = welcomed(slots=1)
    old, new = ref(1), ref(1, attempt=2)
    worker.handle(assign(old))
    assert started(worker.handle(assign(new))) == []
    assert started(worker.handle(freed(old))) == [new]
    worker.handle(finished(old))
    assert worker.running_count == 1


# --- prefetch


def test_nothing_is_prefetched_before_runs_are_known_to_be_short() -> None:
    worker = welcomed(slots=2)
    assert worker.credit == 2
    assert prefetching(slots=2, ahead=4).credit == 6
    assert prefetching(slots=2, ahead=0).credit == 2


def test_the_window_holds_a_few_milliseconds_of_work() -> None:
    window = PrefetchWindow(2, 64)
    assert window.size == 0
    for _ in range(200):
        window.ran(2.5)
    assert window.size in (39, 40)
    for _ in range(200):
        window.ran(0.0)
    assert window.size == 64, "never more than it was told"
    window.is_stuck = True
    assert window.size == 0
    window.is_stuck = False
    for _ in range(100):
        window.ran(60_000.0)
    assert window.size == 0


def test_credit_fills_the_window_but_keeps_small_change_back() -> None:
    credit = SessionCredit(2, 64)
    for _ in range(200):
        credit.window.ran(0.0)
    assert credit.grant(0) == 66
    credit.reset()
    assert credit.grant(60) == 0, "small change, and enough to do"
    assert credit.grant(30) == 36
    assert credit.grant(30) == 0, "granted once"
    credit.reset(owed=5)
    assert credit.grant(30) == 31, "what is owed comes without credit"


def test_what_a_job_is_expected_to_take_counts_before_it_has_run() -> None:
    worker = prefetching(slots=1, ahead=4)
    (message,) = assign(ref(1)).messages
    assert isinstance(message, wire.AssignJob)
    worker.handle(MessageReceived([replace(message, expect_ms=600_000)]))
    worker.handle(finished(ref(1)))
    worker.handle(stored(ref(1)))
    assert worker.credit == 4, "no more than was granted before"
    for number in range(2, 6):
        worker.handle(assign(ref(number)))
        worker.handle(finished(ref(number)))
        worker.handle(stored(ref(number)))
    assert worker.credit == 1


def test_nothing_is_prefetched_while_something_runs_long() -> None:
    worker = prefetching(slots=2, ahead=4)
    worker.handle(Tick(1_000))
    for number in (1, 2):
        worker.handle(assign(ref(number)))
    worker.handle(Tick(1_000 + LOOK_MS))
    worker.handle(finished(ref(1)))
    assert worker.credit == 5, "what was started since the last tick is not long"
    for number in (3, 4):
        worker.handle(assign(ref(number)))
    worker.handle(Tick(1_001 + LOOK_MS + AHEAD_MS))
    worker.handle(finished(ref(3)))
    assert worker.credit == 3, "no more than was granted before"
    worker.handle(finished(ref(2)))
    worker.handle(finished(ref(4)))
    worker.handle(Tick(1_100 + LOOK_MS + AHEAD_MS))
    assert worker.credit == 6


# --- credit


def test_credit_is_granted_once_and_spent_once() -> None:
    worker = prefetching(slots=1, ahead=4)
    assert worker.credit == 5
    assert worker.handle(Tick(1)) == []
    worker.handle(assign(ref(1)))
    assert worker.credit == 4
    worker.handle(assign(ref(1)))
    assert worker.credit == 4, "a repeated delivery costs nothing"


def test_credit_waits_for_acks_that_come_in_time() -> None:
    worker = prefetching(slots=1, ahead=40)
    for number in range(1, 42):
        worker.handle(assign(ref(number)))
    for number in range(1, 21):
        assert credits_in(worker.handle(finished(ref(number)))) == 0
    out = worker.handle(stored(ref(1)))
    assert credits_in(out) == 20
    last = out[-1]
    assert isinstance(last, SendToMember)
    assert isinstance(last.messages[0], wire.Credit), "after the acks"


# --- the CPU cap


def test_a_busy_computer_prefetches_nothing_and_gets_one_job_at_a_time() -> None:
    worker = prefetching(slots=2, ahead=4)
    worker.handle(CpuBusy())
    for number in range(1, 7):
        worker.handle(assign(ref(number)))
    for number in range(1, 6):
        assert credits_in(worker.handle(finished(ref(number)))) == 0
    assert credits_in(worker.handle(finished(ref(6)))) == 1
    assert credits_in(worker.handle(Tick(1_000))) == 0, "that one is on its way"
    assert credits_in(worker.handle(CpuOk())) == 5


# --- give-back


def test_what_waits_behind_a_long_job_is_given_back() -> None:
    worker = prefetching(slots=1, ahead=4)
    worker.handle(Tick(1_000))
    for number in (1, 2, 3):
        worker.handle(assign(ref(number)))
    assert nacks_in(worker.handle(Tick(1_000 + GIVE_BACK_MS))) == []
    nacks = nacks_in(worker.handle(Tick(1_001 + GIVE_BACK_MS)))
    assert [(nack.job_id, nack.not_started) for nack in nacks] == [(job(2), True), (job(3), True)]
    assert "no slot came free" in nacks[0].detail
    assert worker.waiting_count == 0
    assert started(worker.handle(finished(ref(1)))) == []


def test_a_leader_that_counts_a_give_back_gets_only_what_may_run_again() -> None:
    worker = prefetching(slots=1, ahead=4, features=())
    (plain,) = assign(ref(4)).messages
    assert isinstance(plain, wire.AssignJob)
    once = replace(plain, options=JobOptions(max_attempts=1))
    for event in (assign(ref(1)), assign(ref(2)), assign(ref(3, attempt=2)), received(once)):
        worker.handle(event)
    nacks = nacks_in(worker.handle(Tick(1 + GIVE_BACK_MS)))
    assert [nack.job_id for nack in nacks] == [job(2)]


def test_what_is_given_back_without_a_leader_is_told_to_the_next() -> None:
    worker = prefetching(slots=1, ahead=4)
    worker.handle(assign(ref(1)))
    worker.handle(assign(ref(2)))
    worker.handle(received(wire.NotLeader("m2")))
    assert nacks_in(worker.handle(Tick(1 + GIVE_BACK_MS))) == []
    worker.handle(Connected())
    out = worker.handle(received(wire.Welcome("g", 2, ("programs",))))
    assert [nack.job_id for nack in nacks_in(out)] == [job(2)]


def test_a_stop_gives_back_what_has_not_begun_and_says_goodbye() -> None:
    worker = prefetching(slots=1, ahead=4)
    worker.handle(assign(ref(1)))
    worker.handle(assign(ref(2)))
    assert worker.handle(StopRequested()) == [
        say(wire.Nack(job(2), 1, ref(2).fence, "stopped", True)),
        say(wire.Goodbye("stopped")),
        Disconnect(),
        Exit(),
    ]
    assert worker.link is LinkState.LEFT
    assert worker.handle(finished(ref(1))) == []


def test_a_drain_grants_no_credit() -> None:
    worker = prefetching(slots=1, ahead=4)
    worker.handle(assign(ref(1)))
    worker.handle(DrainRequested())
    assert credits_in(worker.handle(finished(ref(1)))) == 0
    assert credits_in(worker.handle(stored(ref(1)))) == 0
