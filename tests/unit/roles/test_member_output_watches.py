"""Watches of output on a leader: passed on to the one who asked, and to nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef, JobOptions, Status
from rollq.base.limits import OUTPUT_WATCHES_MAX, OUTPUT_WATCHES_PER_JOB_MAX
from rollq.roles.member.leader import output_watches
from rollq.wire import messages as wire
from rollq.wire.output_messages import (
    ATTEMPT_ENDED,
    JOB_ENDED,
    OutputChunk,
    TellOutput,
    WatchOutput,
)
from tests.unit.roles.members import OURS, Group, job, submit, worker

CLIENT, WORKER, OTHER, REQUEST = 1, 2, 3, b"r" * 16
SHOWS = (*OURS, "output")


@pytest.fixture
def group() -> Group:
    """One member that leads, a client, and a worker that shows output."""
    made = Group()
    made.elect()
    made.client(CLIENT)
    made.worker(WORKER, 10, SHOWS)
    return made


def watch(number: int = 1, request: bytes = REQUEST, **fields: Any) -> WatchOutput:
    return WatchOutput(request, job(number), **fields)


def run_job(group: Group, number: int = 1, **fields: Any) -> wire.AssignJob:
    group.say(CLIENT, submit(number, **fields))
    return next(one for one in group.hear(WORKER) if isinstance(one, wire.AssignJob))


def told(group: Group, session: int = WORKER) -> TellOutput:
    (tell,) = group.heard(session, TellOutput)
    return tell


def begin(group: Group) -> tuple[wire.AssignJob, TellOutput]:
    assigned = run_job(group)
    assert group.say(CLIENT, watch()) == []
    return assigned, told(group)


def ack(of: wire.AssignJob, status: int = Status.OK) -> wire.AckJob:
    return wire.AckJob(of.job_id, of.attempt, of.fence, status)


def ends(group: Group) -> list[int]:
    return [one.end for one in group.heard(CLIENT, OutputChunk)]


def test_output_goes_from_the_worker_to_the_one_who_asked(group: Group) -> None:
    assigned, tell = begin(group)
    assert tell == TellOutput(tell.watch_id, job(1), 1, assigned.fence)
    group.say(WORKER, OutputChunk(tell.watch_id, 1, 1, 5, b"data", (0, 9)))
    assert group.hear(CLIENT) == [OutputChunk(REQUEST, 1, 1, 5, b"data", (0, 9))]


def test_nothing_of_it_is_proposed(group: Group) -> None:
    _, tell = begin(group)
    before = group.leader.state.applied_index
    group.say(WORKER, OutputChunk(tell.watch_id, 1, 1, 5, b"data", (0, 9)))
    group.say(CLIENT, watch(attempt=1, offsets=(0, 9)))
    assert group.leader.state.applied_index == before


def test_the_window_is_moved_by_the_client(group: Group) -> None:
    _, tell = begin(group)
    group.say(CLIENT, watch(attempt=1, offsets=(100, 50)))
    assert told(group) == TellOutput(tell.watch_id, job(1), 1, tell.fence, (100, 50))
    group.say(CLIENT, watch(attempt=9, offsets=(100, 50)))
    assert group.hear(WORKER) == []


def test_a_stream_that_is_not_wanted_stays_so(group: Group) -> None:
    run_job(group)
    group.say(CLIENT, watch(offsets=(-1, 0)))
    assert told(group).offsets == (-1, 0)
    group.say(CLIENT, watch(attempt=1, offsets=(7, 8)))
    assert told(group).offsets == (-1, 8)


def test_one_who_comes_back_goes_on_only_in_the_same_attempt(group: Group) -> None:
    run_job(group)
    group.say(CLIENT, watch(attempt=1, offsets=(10, 20)))
    assert told(group).offsets == (10, 20)
    group.say(CLIENT, watch(request=b"s" * 16, attempt=5, offsets=(10, 20)))
    assert told(group).offsets == (0, 0)


@pytest.mark.parametrize("acked_first", [True, False])
def test_the_end_is_told_when_worker_and_grid_have_said_so(group: Group, acked_first: bool) -> None:
    assigned, tell = begin(group)
    last = OutputChunk(tell.watch_id, 1, end=ATTEMPT_ENDED)
    words: list[Any] = [ack(assigned), last] if acked_first else [last, ack(assigned)]
    group.say(WORKER, words[0])
    assert ends(group) == ([] if acked_first else [ATTEMPT_ENDED])
    group.say(WORKER, words[1])
    assert ends(group) == ([ATTEMPT_ENDED, JOB_ENDED] if acked_first else [JOB_ENDED])
    assert not group.leader.leader_state.watches


def test_a_job_that_is_retried_is_shown_again(group: Group) -> None:
    assigned = run_job(group, options=JobOptions(max_attempts=3, retry_base_ms=1))
    group.say(CLIENT, watch())
    first = told(group)
    group.say(WORKER, OutputChunk(first.watch_id, 1, 0, 0, b"one", (3, 0)))
    group.say(WORKER, OutputChunk(first.watch_id, 1, end=ATTEMPT_ENDED))
    group.say(WORKER, wire.Nack(assigned.job_id, 1, assigned.fence, "no room"))
    group.until(lambda: group.leader.state.jobs[job(1)].attempt == 2)
    second = told(group)
    assert (second.watch_id, second.attempt, second.offsets) == (first.watch_id, 2, (0, 0))
    group.say(WORKER, OutputChunk(first.watch_id, 1, 0, 3, b"late", (7, 0)))
    group.say(WORKER, OutputChunk(second.watch_id, 2, 0, 0, b"two", (3, 0)))
    shown = [one.data for one in group.heard(CLIENT, OutputChunk) if one.data]
    assert shown == [b"one", b"two"]


def test_a_job_that_waits_is_shown_when_it_runs(group: Group) -> None:
    group.hang_up(WORKER)
    group.say(CLIENT, submit(1))
    assert group.say(CLIENT, watch()) == [OutputChunk(REQUEST, 0)]
    group.worker(OTHER, 1, SHOWS)
    words = [type(one) for one in group.hear(OTHER)]
    assert not words  # both came with its welcome and its credit
    assert group.leader.leader_state.watches


def test_a_worker_that_comes_back_is_asked_from_where_it_was(group: Group) -> None:
    assigned, tell = begin(group)
    group.say(WORKER, OutputChunk(tell.watch_id, 1, 0, 0, b"abc", (3, 0)))
    group.hang_up(WORKER)
    ref = AttemptRef(assigned.job_id, 1, assigned.fence)
    heard = group.worker(OTHER, 0, SHOWS, worker_id=worker(WORKER), incarnation=1, holding=(ref,))
    (again,) = [one for one in heard if isinstance(one, TellOutput)]
    assert (again.attempt, again.offsets) == (1, (3, 0))


def test_a_worker_that_leaves_for_good_does_not_keep_the_client_waiting(group: Group) -> None:
    run_job(group, options=JobOptions(max_attempts=1))
    group.say(CLIENT, watch())
    group.say(WORKER, wire.Goodbye())
    assert ends(group) == [JOB_ENDED]


def test_a_job_that_is_over_or_unknown_is_told_at_once(group: Group) -> None:
    group.say(WORKER, ack(run_job(group)))
    assert group.say(CLIENT, watch())[-1] == OutputChunk(REQUEST, 0, end=JOB_ENDED)
    (error,) = group.say(CLIENT, watch(9))
    assert (error.request_id, error.code) == (REQUEST, ErrorCode.UNKNOWN_JOB)


def test_tasks_that_never_begin_end_their_watches(group: Group) -> None:
    group.hang_up(WORKER)
    array_id = b"a" * 12 + bytes(4)
    group.say(CLIENT, wire.SubmitArray(array_id, "ann", "calc", "calc", b"{}", 10))
    task = array_id[:-1] + b"\x07"
    assert group.say(CLIENT, WatchOutput(REQUEST, task)) == [OutputChunk(REQUEST, 0)]
    group.say(CLIENT, wire.Cancel(job(99), (array_id,)))
    assert not group.leader.leader_state.watches


@pytest.mark.parametrize("how", ["off", "hang up"])
def test_the_worker_is_told_when_nobody_watches(group: Group, how: str) -> None:
    _, tell = begin(group)
    if how == "off":
        group.say(CLIENT, watch(on=False))
    else:
        group.hang_up(CLIENT)
    assert told(group).on is False
    group.say(WORKER, OutputChunk(tell.watch_id, 1, 0, 0, b"late", (4, 0)))
    assert group.hear(CLIENT) == []


def test_a_worker_that_shows_nothing_is_not_asked(group: Group) -> None:
    group.hang_up(WORKER)
    group.worker(OTHER, 1)
    group.say(CLIENT, submit(1))
    assert group.say(CLIENT, watch()) == [OutputChunk(REQUEST, 0)]
    assert group.heard(OTHER, TellOutput) == []


def test_who_does_not_read_is_told_what_was_left_out(group: Group) -> None:
    _, tell = begin(group)
    group.leader.leader_state.shell.has_room = lambda _: False
    group.say(WORKER, OutputChunk(tell.watch_id, 1, 0, 0, b"abc", (3, 0)))
    assert group.hear(CLIENT) == [OutputChunk(REQUEST, 1, 0, 3, b"", (3, 0))]


def test_watches_are_bounded(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    run_job(group)
    requests = [bytes([number]) * 16 for number in range(OUTPUT_WATCHES_PER_JOB_MAX + 1)]
    for request in requests[:-1]:
        assert group.say(CLIENT, watch(request=request)) == []
    (error,) = group.say(CLIENT, watch(request=requests[-1]))
    assert (error.code, error.retryable) == (ErrorCode.OVERLOADED, True)
    run_job(group, 2)
    monkeypatch.setattr(output_watches, "OUTPUT_WATCHES_MAX", OUTPUT_WATCHES_PER_JOB_MAX)
    (error,) = group.say(CLIENT, watch(2, request=requests[-1]))
    assert error.code == ErrorCode.OVERLOADED
    assert OUTPUT_WATCHES_MAX > OUTPUT_WATCHES_PER_JOB_MAX


def test_only_clients_watch_and_only_workers_show(group: Group) -> None:
    _, tell = begin(group)
    chunk = OutputChunk(tell.watch_id, 1, 0, 0, b"abc", (3, 0))
    assert group.say(CLIENT, chunk)[0].code == ErrorCode.BAD_HANDSHAKE
    assert group.say(WORKER, watch())[-1].code == ErrorCode.BAD_HANDSHAKE


def test_a_worker_shows_only_what_it_was_asked_for(group: Group) -> None:
    _, tell = begin(group)
    group.worker(OTHER, 0, SHOWS)
    group.say(OTHER, OutputChunk(tell.watch_id, 1, 0, 0, b"forged", (6, 0)))
    assert group.hear(CLIENT) == []
