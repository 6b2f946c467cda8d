"""Jobs that wait for others."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import Condition, JobOptions, ParentRef, Status
from rollq.grid import commands as c
from rollq.grid.bounds import Bounds
from rollq.grid.edge_records import Ending
from rollq.grid.effects import Applied, Done, Duplicate, SendResult
from rollq.grid.flow_commands import SettleChildren
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import BLOCKED, CANCELLED, DELAYED, QUEUED
from rollq.grid.views import job_view, queue_view
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, submit
from tests.unit.grid.staged import Staged, group, part


def after(*names: str, when: Condition = Condition.OK) -> tuple[ParentRef, ...]:
    """To wait for these."""
    return tuple(ParentRef(job_id(name), when) for name in names)


def end(grid: Grid, name: str, status: Status = Status.OK) -> Applied:
    """Run a job to its end."""
    grid.assign(name)
    return grid.ack(name, status)


def test_a_child_waits_until_all_its_parents_have_ended_ok() -> None:
    grid = Grid()
    grid.submit("a", "b")
    assert kinds(grid.submit("child", after=after("a", "b"))) == ["block"]
    assert grid.job("child").state is BLOCKED
    assert refusal(grid.ask(grid.assignment("child"))) is ErrorCode.WRONG_STATE
    assert kinds(end(grid, "a")) == ["ack"]
    assert grid.job("child").state is BLOCKED
    assert kinds(end(grid, "b")) == ["ack", "unblock"]
    assert grid.job("child").state is QUEUED
    assert kinds(end(grid, "child")) == ["ack"]
    assert not grid.state.edges.children


def test_a_child_is_like_other_jobs_once_it_may_start() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("child", after=after("a"), priority=3)
    end(grid, "a")
    grid.submit("plain", priority=3)
    assert grid.job("child").options is grid.job("plain").options
    assert grid.job("child").past is None


@pytest.mark.parametrize(
    ("when", "status", "goes_on"),
    [
        (Condition.OK, Status.OK, True),
        (Condition.OK, Status.FAILED, False),
        (Condition.RESULT, Status.OK, True),
        (Condition.RESULT, Status.FAILED, False),
        (Condition.ENDED, Status.OK, True),
        (Condition.ENDED, Status.FAILED, True),
        (Condition.FAILED, Status.OK, False),
        (Condition.FAILED, Status.FAILED, True),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_conditions(when: Condition, status: Status, goes_on: bool, is_late: bool) -> None:
    """Whether the child comes before its parent has ended or after makes no difference."""
    grid = Grid()
    grid.submit("a")
    if is_late:
        end(grid, "a", status)
        grid.submit("child", after=after("a", when=when))
    else:
        grid.submit("child", after=after("a", when=when))
        end(grid, "a", status)
    assert grid.job("child").state is (QUEUED if goes_on else CANCELLED)


@pytest.mark.parametrize(
    ("when", "goes_on"),
    [
        (Condition.OK, False),
        (Condition.RESULT, False),
        (Condition.ENDED, True),
        (Condition.FAILED, False),
    ],
)
def test_a_cancelled_parent(when: Condition, goes_on: bool) -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("child", after=after("a", when=when))
    grid.apply(c.CancelJobs((job_id("a"),)))
    assert grid.job("child").state is (QUEUED if goes_on else CANCELLED)


def test_a_dead_parent_has_failed() -> None:
    grid = Grid()
    grid.submit("a", max_attempts=1)
    grid.submit("child", after=after("a"))
    grid.submit("cleanup", after=after("a", when=Condition.FAILED))
    grid.kill("a")
    assert grid.job("child").state is CANCELLED
    assert grid.job("cleanup").state is QUEUED


def test_children_of_a_failed_job_are_cancelled_with_the_cause_and_so_are_theirs() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("b", after=after("a"))
    grid.submit("c", after=after("b"))
    grid.submit("always", after=after("c", when=Condition.ENDED))
    applied = end(grid, "a", Status.FAILED)
    assert kinds(applied) == ["ack", "cancel", "cancel", "unblock"]
    told = [one for one in applied.effects if isinstance(one, SendResult)]
    assert [one.outcome for one in told] == ["done", "cancelled", "cancelled"]
    record = grid.job("b").end
    assert record is not None
    assert record.cause == c.Cause.PARENT
    assert record.detail.endswith(" failed")
    record = grid.job("c").end
    assert record is not None
    assert record.detail.endswith(" was cancelled")


def test_a_delay_and_the_time_to_wait_begin_when_a_job_is_blocked_no_more() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("child", after=after("a"), delay_ms=50)
    assert grid.job("child").delay_ms == 0
    assert grid.apply(c.ExpireJobs((job_id("child"),))).outcomes == [Done(0)]
    applied = end(grid, "a")
    assert grid.job("child").state is DELAYED
    assert [event.delay_ms for event in applied.events if event.kind == "unblock"] == [50]


def test_a_blocked_job_can_be_cancelled() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("child", after=after("a"))
    assert kinds(grid.apply(c.CancelJobs((job_id("child"),)))) == ["cancel"]
    assert kinds(end(grid, "a")) == ["ack"]


def test_what_is_not_there_cannot_be_waited_for() -> None:
    grid = Grid()
    assert refusal(grid.ask(submit("a", after=after("nobody")))) is ErrorCode.UNKNOWN_JOB
    assert refusal(grid.ask(submit("a", after=after("a")))) is ErrorCode.UNKNOWN_JOB
    grid.submit("b")
    end(grid, "b")
    grid.apply(c.ForgetJobs((job_id("b"),)))
    assert refusal(grid.ask(submit("a", after=after("b")))) is ErrorCode.UNKNOWN_JOB


def test_bounds() -> None:
    grid = Grid()
    grid.submit("a")
    twice = after("a") + after("a", when=Condition.ENDED)
    assert refusal(grid.ask(submit("b", after=twice))) is ErrorCode.BAD_OPTIONS
    strange = (ParentRef(job_id("a"), 9),)
    assert refusal(grid.ask(submit("b", after=strange))) is ErrorCode.BAD_OPTIONS
    short = (ParentRef(b"a"),)
    assert refusal(grid.ask(submit("b", after=short))) is ErrorCode.BAD_OPTIONS
    many = tuple(ParentRef(number.to_bytes(16, "big")) for number in range(1, 1_002))
    assert refusal(grid.ask(submit("b", after=many))) is ErrorCode.BAD_OPTIONS
    array = c.SubmitArray(job_id("m"), "ann", "q", "exe", b"", 2, JobOptions(after=after("a")))
    assert refusal(grid.ask(array)) is ErrorCode.BAD_OPTIONS


def test_the_same_job_has_the_same_parents() -> None:
    grid = Grid()
    grid.submit("a", "b")
    command = submit("child", after=after("a", "b"))
    grid.apply(command)
    end(grid, "a")
    assert grid.ask(command) == Duplicate()
    for other in (submit("child"), submit("child", after=after("a"))):
        assert refusal(grid.ask(other)) is ErrorCode.JOB_CONFLICT
    assert refusal(grid.ask(submit("a", after=after("b")))) is ErrorCode.JOB_CONFLICT


def test_an_array_is_waited_for_as_a_whole() -> None:
    grid = Grid()
    grid.submit_array("many", 2)
    grid.submit("child", after=after("many"))
    grid.assign_task("many")
    grid.assign_task("many")
    grid.ack("many")
    assert grid.job("child").state is BLOCKED
    second = next(iter(grid.array("many").open_tasks))
    record = grid.state.jobs[second]
    applied = grid.apply(c.AckJob(second, record.attempt, record.fence, Status.OK))
    assert "unblock" in kinds(applied)
    task = (ParentRef(grid.array("many").id_of(1)),)
    grid.apply(c.ForgetJobs((second,)))
    assert refusal(grid.ask(submit("other", after=task))) is ErrorCode.UNKNOWN_JOB


def test_the_first_task_of_an_older_array_is_forgotten_before_the_array_ends() -> None:
    """They share an id: who waits for the array goes on waiting."""
    grid = Grid()
    grid.submit_array("many", 2)
    grid.submit("child", after=after("many"))
    grid.assign_task("many")
    grid.ack("many")
    grid.apply(c.ForgetJobs((job_id("many"),)))
    assert job_id("many") not in grid.state.jobs
    grid.assign_task("many")
    second = next(iter(grid.array("many").open_tasks))
    record = grid.state.jobs[second]
    grid.apply(c.AckJob(second, record.attempt, record.fence, Status.OK))
    assert grid.job("child").state is QUEUED


def test_a_run_of_children_is_told_as_a_run() -> None:
    grid = Grid()
    grid.submit("a")
    names = ("x", "y", "z")
    ids = b"".join(map(job_id, names))
    options = JobOptions(after=after("a"))
    grid.apply(c.SubmitRun("ann", "q", "exe", ids, (b"", b"", b""), options))
    applied = end(grid, "a")
    (event,) = [event for event in applied.events if event.kind == "unblock"]
    assert event.run is not None
    assert event.run.job_ids == ids


def test_a_batch_holds_a_whole_graph() -> None:
    grid = Staged()
    groups = (group("a"), group("b", "c", options=JobOptions(after=after("a"))))
    last = (group("d", options=JobOptions(after=after("b", "c"))),)
    grid.stage("p", *groups)
    grid.stage("p", *last, number=1)
    assert grid.commit(part("p", groups, last)) == Done(4)
    grid.reload()
    assert grid.unpack() == ["enqueue", "block", "block", "block"]
    for name in ("a", "b", "c"):
        end(grid, name)
    assert grid.job("d").state is QUEUED


@pytest.mark.parametrize("order", [("b", "a"), ("a", "a")])
def test_a_batch_with_a_circle_is_refused(order: tuple[str, str]) -> None:
    """A job of a batch waits for those before it alone, so there is no way round."""
    grid = Staged()
    first = (group("a", options=JobOptions(after=after(order[0]))),)
    second = (group("b", options=JobOptions(after=after("a"))),)
    grid.stage("p", *first)
    grid.stage("p", *second, number=1)
    assert refusal(grid.commit(part("p", first, second))) is ErrorCode.UNKNOWN_JOB
    assert not grid.state.reserved


def test_a_parent_may_be_on_its_way_into_its_queue() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    grid.commit(part("p", (group("a"),)))
    grid.submit("child", after=after("a"))
    assert grid.job("child").state is BLOCKED
    grid.reload()
    grid.unpack()
    assert "unblock" in kinds(end(grid, "a"))


def test_a_parent_that_is_forgotten_before_its_child_is_unpacked_cancels_it() -> None:
    grid = Staged()
    grid.submit("a")
    end(grid, "a")
    waiting = (group("child", options=JobOptions(after=after("a"))),)
    grid.stage("p", *waiting)
    grid.commit(part("p", waiting))
    grid.apply(c.ForgetJobs((job_id("a"),)))
    grid.unpack()
    record = grid.job("child").end
    assert record is not None
    assert record.detail.endswith("is not known any more")


FEW_CHILDREN = Bounds(children_per_entry=2)


def many_children(grid: Grid) -> None:
    """A parent of five, of which an entry can tell two."""
    grid.state.bounds = FEW_CHILDREN
    grid.submit("a")
    grid.submit(*"vwxyz", after=after("a"))


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_what_one_entry_cannot_tell_goes_on_in_others(is_reloaded: bool) -> None:
    grid = Grid()
    many_children(grid)
    end(grid, "a")
    states = [grid.job(name).state for name in "vwxyz"]
    assert states == [QUEUED, QUEUED, BLOCKED, BLOCKED, BLOCKED]
    if is_reloaded:
        grid.state = decode_snapshot(encode_snapshot(grid.state))
        grid.state.bounds = FEW_CHILDREN
    assert grid.ask(SettleChildren(7)) == Done(0)
    assert grid.ask(SettleChildren(2)) == Done(2)
    assert grid.ask(SettleChildren(2)) == Done(0)
    assert grid.ask(SettleChildren(4)) == Done(1)
    assert {grid.job(name).state for name in "vwxyz"} == {QUEUED}
    assert not grid.state.edges.unsettled


class CountedList(list[bytes]):
    """Counts the elements that slices of it copied, and slices of these."""

    copied = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        if not isinstance(place, slice):
            return found
        CountedList.copied += len(found)
        return CountedList(found)


def test_each_child_is_copied_once_however_many_entries_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CountedList, "copied", 0)
    grid = Grid()
    grid.state.bounds = FEW_CHILDREN
    grid.submit("a")
    names = [f"c{number}" for number in range(40)]
    grid.submit(*names, after=after("a"))
    end(grid, "a")
    parent = grid.state.edges.unsettled[job_id("a")]
    parent.waiting = CountedList(parent.waiting)
    order: list[bytes] = []
    while grid.state.edges.unsettled:
        before = [name for name in names if grid.job(name).state is BLOCKED]
        assert grid.ask(SettleChildren(grid.state.edges.position)) == Done(2)
        order += [job_id(one) for one in before if grid.job(one).state is QUEUED]
    assert order == [job_id(name) for name in names[2:]]
    assert CountedList.copied == len(names) - 2


def test_children_are_told_of_a_parent_that_is_forgotten_by_then() -> None:
    grid = Grid()
    many_children(grid)
    end(grid, "a")
    grid.apply(c.ForgetJobs((job_id("a"),)))
    grid.apply(SettleChildren(2))
    grid.apply(SettleChildren(4))
    assert {grid.job(name).state for name in "vwxyz"} == {QUEUED}


def test_a_forgotten_child_leaves_nothing() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("child", after=after("a"))
    end(grid, "a")
    end(grid, "child")
    grid.apply(c.ForgetJobs((job_id("child"), job_id("a"))))
    table = grid.state.edges
    assert (table.parents, table.children, table.unsettled) == ({}, {}, {})


def test_a_snapshot_knows_of_a_forgotten_child_as_the_others_do() -> None:
    """It is in the list of a parent that has not ended, and nothing else is left of it."""
    grid = Grid()
    grid.submit("a")
    grid.submit("child", after=after("a"))
    grid.apply(c.CancelJobs((job_id("child"),)))
    grid.apply(c.ForgetJobs((job_id("child"),)))
    other = Grid()
    other.state, other.stamp_ms = decode_snapshot(encode_snapshot(grid.state)), grid.stamp_ms
    end(grid, "a")
    end(other, "a")
    assert encode_snapshot(other.state) == encode_snapshot(grid.state)


def test_a_long_list_of_children_is_swept() -> None:
    grid = Grid()
    grid.submit("a")
    for number in range(70):
        grid.submit(f"c{number}", after=after("a"))
        if number < 60:
            grid.apply(c.CancelJobs((job_id(f"c{number}"),)))
    assert len(grid.state.edges.children[job_id("a")]) < 20


def test_views_name_the_parents() -> None:
    grid = Grid()
    grid.submit("a", "b")
    end(grid, "a")
    grid.submit("child", after=(*after("a"), *after("b", when=Condition.ENDED)))
    view = job_view(grid.state, job_id("child"))
    assert view is not None
    assert view.state == "blocked"
    told = [(one.job_id, one.condition, one.ending, one.is_met) for one in view.parents]
    assert told == [
        (job_id("a"), Condition.OK, Ending.OK, True),
        (job_id("b"), Condition.ENDED, Ending.OPEN, False),
    ]
    queue = queue_view(grid.state, "q")
    assert queue is not None
    assert (queue.blocked, queue.queued, queue.done) == (1, 1, 1)
