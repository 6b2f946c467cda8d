"""Commands of runs: what holds for a job holds for each job of a run."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import JobOptions, Status
from rollq.base.limits import RUN_JOBS_MAX
from rollq.base.staged import join_keys
from rollq.grid import commands as c
from rollq.grid.effects import Applied, Done, Refused, RunDone, SendAssign, SendResult, each_effect
from rollq.grid.events import JOB_FORGOTTEN, Run, each_of
from rollq.grid.invariants import check
from rollq.grid.moves import drop_jobs
from rollq.grid.outcomes import (
    CLIENT_AT_CAP,
    DUPLICATE_ENDED,
    DUPLICATE_OPEN,
    NOT_QUEUED,
    STALE_ATTEMPT,
    UNKNOWN_JOB,
)
from rollq.grid.state import ASSIGNED, DONE, QUEUED
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, worker_id


def column(*names: str) -> bytes:
    return b"".join(map(job_id, names))


def submit_run(*names: str, client: str = "ann", queue: str = "q", **options: Any) -> c.SubmitRun:
    made = JobOptions(**options) if options else None
    bodies = tuple(name.encode() for name in names)
    return c.SubmitRun(client, queue, "exe", column(*names), bodies, made)


def assign_run(*names: str, attempt: int = 1, worker: str = "w1") -> c.AssignRun:
    return c.AssignRun(worker_id(worker), 1, attempt, 5_000, column(*names))


def ack_run(grid: Grid, *names: str, **fields: Any) -> c.AckRun:
    fences = tuple(grid.job(name).fence for name in names)
    results = tuple(f"of {name}".encode() for name in names)
    made: dict[str, Any] = {"attempt": 1, "status": Status.OK, "fences": fences, "results": results}
    return c.AckRun(job_ids=column(*names), **made | fields)


def run_of(applied: Applied, at: int = 0) -> Run:
    run = applied.events[at].run
    assert run is not None
    return run


def test_a_life_in_a_run_is_three_events_and_two_effects() -> None:
    grid = Grid()
    submitted = grid.apply(submit_run("a", "b", "c"))
    assert submitted.outcomes == [RunDone(3)]
    assert run_of(submitted).job_ids == column("a", "b", "c")
    assigned = grid.apply(assign_run("a", "b", "c"))
    assert assigned.outcomes == [RunDone(3)]
    (order,) = assigned.effects
    assert isinstance(order, SendAssign)
    assert (order.job_ids, order.fence) == (column("a", "b", "c"), 1)
    assert order.bodies == (b"a", b"b", b"c")
    assert [grid.job(name).fence for name in "abc"] == [1, 2, 3]
    acked = grid.apply(ack_run(grid, "a", "b", "c"))
    assert acked.outcomes == [RunDone(3)]
    (told,) = acked.effects
    assert isinstance(told, SendResult)
    assert [end.result for end in told.ends] == [b"of a", b"of b", b"of c"]
    assert [len(one.events) for one in (submitted, assigned, acked)] == [1, 1, 1]
    assert [event.fence for event in each_of(acked.events)] == [1, 2, 3]


def test_a_run_of_one_says_what_a_lone_job_says() -> None:
    grid, other = Grid(), Grid()
    for name in "ab":
        assert other.submit(name).events == grid.apply(submit_run(name)).events
        alone, run = other.assign(name), grid.apply(assign_run(name))
        assert (alone.events, alone.effects) == (run.events, run.effects)
    acked = grid.apply(ack_run(grid, "a", results=(b"result",)))
    alone = other.ack("a")
    assert (acked.events, acked.effects) == (alone.events, alone.effects)
    assert acked.events[0].run is None


def test_each_job_of_a_run_is_accepted_known_or_refused_for_itself() -> None:
    grid = Grid()
    grid.apply(submit_run("known", "ended"), submit_run("other", queue="elsewhere"))
    grid.apply(assign_run("ended"))
    grid.apply(ack_run(grid, "ended"))
    applied = grid.apply(submit_run("new", "known", "ended", "other", "last"))
    (outcome,) = applied.outcomes
    assert isinstance(outcome, RunDone)
    assert outcome.count == 2
    known, ended, other = outcome.others
    assert (known, ended) == ((1, DUPLICATE_OPEN), (2, DUPLICATE_ENDED))
    assert other[0] == 3
    assert isinstance(other[1], Refused)
    assert other[1].code is ErrorCode.JOB_CONFLICT
    assert kinds(applied) == ["enqueue", "enqueue"]
    assert [type(effect) for effect in applied.effects] == [SendResult]
    assert grid.job("last").state is QUEUED


def test_an_id_that_is_twice_in_a_run_is_one_job() -> None:
    grid = Grid()
    applied = grid.apply(submit_run("a", "b", "a"))
    assert applied.outcomes == [RunDone(2, ((2, DUPLICATE_OPEN),))]
    applied = grid.apply(assign_run("a", "b", "a"))
    assert applied.outcomes == [RunDone(2, ((2, NOT_QUEUED),))]
    applied = grid.apply(ack_run(grid, "a", "b", "a"))
    assert applied.outcomes == [RunDone(2, ((2, DUPLICATE_ENDED),))]


def test_what_a_run_shares_is_refused_for_all() -> None:
    grid = Grid()
    assert refusal(grid.ask(submit_run("a", "b", priority=99))) is ErrorCode.BAD_OPTIONS
    grid.apply(submit_run("a"))
    (outcome,) = grid.apply(submit_run("a", "b", priority=99)).outcomes
    assert isinstance(outcome, RunDone)
    assert [type(one) for _, one in outcome.others] == [Refused, Refused]


def test_a_run_whose_columns_do_not_fit_is_refused() -> None:
    grid = Grid()
    fit = submit_run("a", "b")
    wrongs: tuple[dict[str, Any], ...] = (
        {"job_ids": fit.job_ids[:-1]},
        {"job_ids": b"", "bodies": ()},
        {"bodies": fit.bodies[1:]},
        {"keys": "a"},
        {"blobs": ((),)},
    )
    for wrong in wrongs:
        fields: dict[str, Any] = {"job_ids": fit.job_ids, "bodies": fit.bodies, **wrong}
        assert refusal(grid.ask(c.SubmitRun("ann", "q", "exe", **fields))) is ErrorCode.BAD_OPTIONS
    many = bytes(16) * (RUN_JOBS_MAX + 1)
    for command in (
        c.AssignRun(worker_id("w1"), 1, 1, 5, many),
        c.AckRun(1, 0, many, (), ()),
        c.AckRun(1, 0, fit.job_ids, (1, 2), (b"", b""), run_ms=(1,)),
        c.ConfirmRun("ann", many),
        c.AssignTasks(bytes(16), worker_id("w1"), 1, 5, 0),
    ):
        assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS


def test_keys_and_sizes_are_columns() -> None:
    grid = Grid()
    command = c.SubmitRun(
        "ann", "q", "exe", column("a", "b"), (b"1", b"22"), keys=join_keys(["", "row-2"])
    )
    applied = grid.apply(command)
    assert [(one.job_key, one.body_bytes) for one in each_of(applied.events)] == [
        ("", 1),
        ("row-2", 2),
    ]
    applied = grid.apply(assign_run("a", "b"))
    assert [one.job_key for one in each_of(applied.events)] == ["", "row-2"]
    applied = grid.apply(ack_run(grid, "a", "b", run_ms=(5, 6)))
    assert [(one.job_key, one.run_ms) for one in each_of(applied.events)] == [
        ("", 5),
        ("row-2", 6),
    ]
    told = [effect for effect in each_effect(applied.effects) if isinstance(effect, SendResult)]
    assert [one.keys for one in told] == ["", "row-2"]


def test_a_cap_counts_jobs_and_not_runs() -> None:
    grid = Grid()
    grid.apply(c.OpenClient("ann", 2))
    grid.apply(submit_run("a", "b", "c", "d"), submit_run("z", client="zoe"))
    applied = grid.apply(assign_run("a", "b", "c", "z", "d"))
    assert applied.outcomes == [RunDone(3, ((2, CLIENT_AT_CAP), (4, CLIENT_AT_CAP)))]
    assert [grid.job(name).state for name in "abcdz"] == [
        ASSIGNED,
        ASSIGNED,
        QUEUED,
        QUEUED,
        ASSIGNED,
    ]
    assert [one.client_id for one in applied.events] == ["ann", "zoe"]
    assert grid.state.clients["ann"].in_flight == 2


def test_a_run_is_split_where_jobs_differ() -> None:
    grid = Grid()
    grid.apply(submit_run("a", "b"), submit_run("c", queue="p"), submit_run("d", priority=3))
    applied = grid.apply(assign_run("a", "b", "c", "d"))
    assert [(one.queue, one.priority) for one in applied.events] == [("q", 0), ("p", 0), ("q", 3)]
    assert [effect.fence for effect in applied.effects if isinstance(effect, SendAssign)] == [
        1,
        3,
        4,
    ]
    applied = grid.apply(ack_run(grid, "d", "b", "a", "c"))
    assert applied.outcomes == [RunDone(4)]
    assert [one.fence for one in each_of(applied.events)] == [4, 2, 1, 3]
    run = run_of(applied, 1)
    assert run.fences == (2, 1)


def test_each_fence_of_a_run_is_compared() -> None:
    grid = Grid()
    grid.apply(submit_run("a", "b", "c"))
    grid.apply(assign_run("a", "b", "c"))
    grid.nack("b")
    grid.apply(assign_run("b", attempt=2))
    applied = grid.apply(ack_run(grid, "a", "b", "c", fences=(1, 2, 3)))
    assert applied.outcomes == [RunDone(2, ((1, STALE_ATTEMPT),))]
    assert grid.job("b").state is ASSIGNED
    again = grid.apply(ack_run(grid, "a", "c", fences=(1, 2)))
    assert again.outcomes == [RunDone(0, ((0, DUPLICATE_ENDED), (1, STALE_ATTEMPT)))]
    assert not again.events


def test_the_retry_rule_holds_for_each_job_of_a_run() -> None:
    grid = Grid()
    grid.apply(submit_run("a", "b"), submit_run("c", "d", retry_exit_codes=(75,)))
    grid.apply(assign_run("a", "b", "c", "d"))
    applied = grid.apply(ack_run(grid, "a", "c", "d", "b", status=Status.FAILED, exit_code=75))
    assert applied.outcomes == [RunDone(4)]
    assert kinds(applied) == ["ack", "retry_requeue", "retry_requeue", "ack"]
    assert [grid.job(name).state for name in "abcd"] == [DONE, DONE, QUEUED, QUEUED]


def test_unknown_jobs_of_a_run_leave_the_others_as_they_are() -> None:
    grid = Grid()
    grid.apply(submit_run("a", "c"))
    assert grid.apply(assign_run("a", "nobody", "c")).outcomes == [RunDone(2, ((1, UNKNOWN_JOB),))]
    command = ack_run(grid, "a", "c", fences=(1, 2, 2), results=(b"", b"", b""))
    ids = column("a", "nobody", "c")
    applied = grid.apply(c.AckRun(1, 0, ids, command.fences, command.results))
    assert applied.outcomes == [RunDone(2, ((1, UNKNOWN_JOB),))]


@pytest.mark.parametrize("fences", [(1, 3, 3), (1, 1, 3), (0, 2, 3), (1, 2, 9)])
def test_an_ack_of_a_run_counts_only_under_the_fence_of_its_job(
    fences: tuple[int, int, int],
) -> None:
    grid = Grid()
    grid.apply(submit_run("a", "b", "c"))
    grid.apply(assign_run("a", "b", "c"))
    applied = grid.apply(ack_run(grid, "a", "b", "c", fences=fences))
    (wrong,) = [at for at, fence in enumerate(fences) if fence != at + 1]
    assert applied.outcomes == [RunDone(2, ((wrong, STALE_ATTEMPT),))]
    ended = [grid.job(name).end is not None for name in "abc"]
    assert ended == [at != wrong for at in range(3)]


def test_tasks_start_in_runs_up_to_every_limit() -> None:
    grid = Grid()
    grid.submit_array("many", 10, running_max=4)
    command = c.AssignTasks(job_id("many"), worker_id("w1"), 1, 5_000, 3)
    applied = grid.apply(command)
    assert applied.outcomes == [RunDone(3)]
    (order,) = applied.effects
    assert isinstance(order, SendAssign)
    assert (order.task_number, order.bodies) == (0, (b"body",) * 3)
    (outcome,) = grid.apply(command).outcomes
    assert isinstance(outcome, RunDone)
    assert (outcome.count, [at for at, _ in outcome.others]) == (1, [1, 2])


def test_the_last_task_of_a_run_ends_its_array() -> None:
    grid = Grid()
    grid.submit_array("many", 3)
    grid.apply(c.AssignTasks(job_id("many"), worker_id("w1"), 1, 5_000, 3))
    array = grid.array("many")
    ids = [array.id_of(number) for number in range(3)]
    applied = grid.apply(c.AckRun(1, 0, b"".join(ids), (1, 2, 3), (b"x",) * 3))
    assert applied.outcomes == [RunDone(3)]
    assert kinds(applied) == ["ack", "ack", "ack", "array_end"]


def test_a_confirmed_run_makes_room_for_itself() -> None:
    grid = Grid()
    grid.apply(c.SetSettings(c.Settings(results_kept_max=2)))
    names = [f"n{number}" for number in range(6)]
    grid.apply(submit_run(*names))
    grid.apply(assign_run(*names))
    grid.apply(ack_run(grid, *names))
    applied = grid.apply(c.ConfirmRun("ann", column(*names[:3], "nobody")))
    assert kinds(applied) == ["confirm"] * 3 + ["forget"]
    applied = grid.apply(c.ConfirmRun("ann", column(*names)))
    assert kinds(applied) == ["confirm"] * 3 + ["forget"] * 3
    assert list(grid.state.jobs) == [job_id(name) for name in names[4:]]
    assert not grid.state.clients["ann"].owed
    assert grid.apply(c.ConfirmRun("bob", column(*names))).outcomes == [Done(0)]


def test_a_run_confirms_each_ended_job_of_its_client_once() -> None:
    grid = Grid()
    grid.apply(submit_run("a", "b", "open"))
    grid.submit("other", client="bob")
    grid.apply(assign_run("a", "b"))
    grid.assign("other")
    grid.apply(ack_run(grid, "a", "b"))
    grid.ack("other")
    applied = grid.apply(c.ConfirmRun("ann", column("b", "other", "a", "open", "b", "a")))
    assert applied.outcomes == [Done(2)]
    assert [event.job_id for event in each_of(applied.events)] == [job_id("b"), job_id("a")]
    assert grid.apply(c.ConfirmRun("ann", column("a", "b"))).outcomes == [Done(0)]
    assert list(grid.state.clients["bob"].owed) == [job_id("other")]
    assert check(grid.state) == []


def test_jobs_that_are_alike_are_forgotten_as_a_run() -> None:
    grid = Grid()
    names = ["a", "b", "x", "c", "d"]
    for name in names:
        grid.submit(name, queue="r" if name == "x" else "q")
    grid.submit_array("many", 1)
    grid.assign(*names)
    grid.apply(c.AssignTasks(job_id("many"), worker_id("w1"), 1, 5_000, 1))
    for name in names:
        grid.ack(name)
    task = grid.array("many").id_of(0)
    grid.apply(c.AckRun(1, 0, task, (grid.state.jobs[task].fence,), (b"",)))
    ids = (
        [job_id(name) for name in ("a", "b")] + [task] + [job_id(name) for name in ("c", "d", "x")]
    )
    out = Applied(1, 1, [], [], [])
    drop_jobs(grid.state, [grid.state.jobs[one] for one in ids], JOB_FORGOTTEN, out)
    assert [event.run and event.run.count for event in out.events] == [2, None, 2, None]
    assert [event.job_id for event in each_of(out.events)] == ids
    assert {event.kind for event in out.events} == {JOB_FORGOTTEN}
    assert not grid.state.jobs
    assert check(grid.state) == []
