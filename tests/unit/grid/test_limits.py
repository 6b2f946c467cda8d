"""Limits: tokens of what runs, and the clock of a rate."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES
from rollq.base.jobs import DEFAULT_OPTIONS, JobOptions, Status
from rollq.base.need_limits import LIMITS_MAX, RATE_MAX, TOKENS_MAX
from rollq.grid import limits
from rollq.grid.bounds import Bounds
from rollq.grid.commands import (
    AdvanceTime,
    AssignRun,
    AssignTasks,
    CancelJobs,
    CloseWorker,
    ExpireLeases,
)
from rollq.grid.commands import LostAttempt as Lost
from rollq.grid.effects import Done, Duplicate
from rollq.grid.events import AccessFact
from rollq.grid.limits import due_of, limits_of
from rollq.grid.rule_commands import PutLimit, RemoveLimit
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState, LimitRecord
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, worker_id

DB = ("key", "db")
A_SECOND = 86_400  # of a rate, which counts by the day


def running(grid: Grid, scope: str = "key", name: str = "db") -> int:
    return grid.state.limits[scope, name].running


def limited(running_max: int = 9, rate: int = 0, burst: int = 0) -> Grid:
    """A grid in which jobs that name `db` are limited."""
    grid = Grid()
    grid.apply(PutLimit(*DB, running_max, rate, burst))
    return grid


def test_an_attempt_holds_its_tokens_while_it_runs() -> None:
    grid = limited()
    grid.submit("a", limits=(("db", 2),))
    assert running(grid) == 0
    grid.assign("a")
    assert running(grid) == 2
    grid.ack("a")
    assert running(grid) == 0


@pytest.mark.parametrize(
    ("scope", "name"), [("exec", "exe"), ("queue", "q"), ("client", "ann"), ("key", "db")]
)
def test_what_a_scope_counts(scope: str, name: str) -> None:
    grid = Grid()
    grid.apply(PutLimit(scope, name, 5), PutLimit(scope, "other", 5))
    grid.start("a", "b", limits=(("db", 1),))
    assert (running(grid, scope, name), running(grid, scope, "other")) == (2, 0)
    grid.ack("a", Status.FAILED)
    assert running(grid, scope, name) == 1


def test_every_way_an_attempt_ends_gives_the_tokens_back() -> None:
    grid = limited()
    names = ["ack", "fail", "nack", "lease", "cancel", "retry"]
    grid.start(*names, limits=(("db", 1),), retry_exit_codes=(75,))
    assert running(grid) == len(names)
    grid.ack("ack")
    grid.ack("fail", Status.FAILED)
    grid.nack("nack", 50)
    grid.apply(ExpireLeases((Lost(job_id("lease"), 1, 5),)))
    grid.apply(CancelJobs((job_id("cancel"),)))
    assert running(grid) == 2
    grid.ack("cancel", Status.CANCELLED)
    grid.ack("retry", Status.FAILED, exit_code=75, retry_delay_ms=5)
    assert running(grid) == 0


def test_a_worker_that_goes_gives_all_tokens_back() -> None:
    grid = limited()
    grid.start("a", "b", limits=(("db", 3),))
    grid.apply(CloseWorker(worker_id("w1"), 1))
    assert running(grid) == 0


def test_tasks_and_runs_take_tokens_for_each() -> None:
    grid = limited()
    grid.submit_array("many", 5, limits=(("db", 2),))
    grid.apply(AssignTasks(job_id("many"), worker_id("w1"), 1, 5_000, 3))
    assert running(grid) == 6
    grid.submit("a", "b", limits=(("db", 2),))
    ids = job_id("a") + job_id("b")
    assert len(ids) == 2 * GUID_BYTES
    grid.apply(AssignRun(worker_id("w1"), 1, 1, 5_000, ids))
    assert running(grid) == 10


def test_a_limit_that_is_put_counts_what_runs_already() -> None:
    grid = Grid()
    grid.start("a", "b", limits=(("db", 2),))
    applied = grid.apply(PutLimit(*DB, running_max=1, by="olga"))
    assert running(grid) == 4
    (event,) = applied.events
    assert (event.kind, event.detail) == ("limit_put", "key:db running_max=1 rate=0 burst=0")
    assert event.access == AccessFact("olga")


def test_the_running_count_outlives_a_snapshot_and_a_change() -> None:
    grid = limited(running_max=9, rate=1 * A_SECOND, burst=2)
    grid.start("a", limits=(("db", 2),))
    copy = decode_snapshot(encode_snapshot(grid.state)).limits[DB]
    mine = grid.state.limits[DB]
    assert (copy.running, copy.due_us) == (mine.running, mine.due_us)
    assert mine.running == 2
    assert mine.due_us > 0
    grid.apply(PutLimit(*DB, running_max=4))
    assert (running(grid), grid.state.limits[DB].due_us) == (2, 0)


def test_limits_without_a_job_that_they_count_for_cost_nothing_to_others() -> None:
    assert limits_of(GridState(), "q", "ann", "exe", DEFAULT_OPTIONS) == ()
    grid = limited()
    assert limits_of(grid.state, "q", "ann", "exe", DEFAULT_OPTIONS) == ()
    found = limits_of(grid.state, "q", "ann", "exe", JobOptions(limits=(("db", 2), ("free", 1))))
    assert [(limits.limit_text(limit), tokens) for limit, tokens in found] == [("key:db", 2)]


def test_a_start_is_due_as_soon_as_the_burst_has_room() -> None:
    """2 a second, three at once: the fourth is due half a second after the first."""
    limit = LimitRecord("exec", "exe", rate=2 * A_SECOND, burst=3)
    now_us = 10_000_000
    assert due_of(limit) < now_us
    limit.due_us = now_us + 3 * 500_000
    assert due_of(limit) == now_us + 500_000
    assert due_of(limit, 2) == now_us + 1_000_000
    assert due_of(LimitRecord("exec", "exe", 4)) == 0


def test_a_start_moves_the_clock_by_the_stamp_of_its_entry() -> None:
    grid = limited(rate=2 * A_SECOND, burst=3)
    grid.start("a", "b", limits=(("db", 1),))
    assert grid.state.limits[DB].due_us == grid.stamp_ms * 1_000 + 2 * 500_000
    grid.ack("a")
    grid.start("c", limits=(("db", 2),))
    assert grid.state.limits[DB].due_us == (grid.stamp_ms - 30) * 1_000 + 4 * 500_000


def test_what_takes_more_than_the_burst_starts_when_all_of_it_is_there() -> None:
    limit = LimitRecord("key", "db", rate=1 * A_SECOND, burst=2, due_us=5_000_000)
    assert due_of(limit, 2) == due_of(limit, 7) == 5_000_000


def test_a_rate_is_rounded_so_that_it_is_not_exceeded() -> None:
    limit = LimitRecord("exec", "exe", rate=3 * A_SECOND, burst=1)
    assert limits.interval_of(limit) == 333_334


def test_a_faster_rate_does_not_wait_for_the_clock_of_a_slower_one() -> None:
    grid = limited(rate=1, burst=1)
    grid.start("a", limits=(("db", 1),))
    slow_us = grid.state.limits[DB].due_us
    grid.apply(PutLimit(*DB, rate=10 * A_SECOND, burst=2))
    assert grid.state.limits[DB].due_us == grid.stamp_ms * 1_000 + 200_000
    assert slow_us > grid.stamp_ms * 1_000 + 86_000_000_000


def test_a_limit_is_changed_known_and_removed() -> None:
    grid = limited()
    assert grid.ask(PutLimit(*DB, 9)) == Duplicate()
    assert grid.ask(PutLimit(*DB, 8)) == Done()
    assert kinds(grid.apply(RemoveLimit(*DB, "olga"))) == ["limit_remove"]
    assert grid.ask(RemoveLimit(*DB)) == Done(0)
    assert grid.state.limits == {}


@pytest.mark.parametrize(
    "command",
    [
        PutLimit("worker", "w1", 1),
        PutLimit("exec", "", 1),
        PutLimit("exec", "x" * 257, 1),
        PutLimit("key", "a b", 1),
        PutLimit("exec", "exe"),
        PutLimit("exec", "exe", -1),
        PutLimit("exec", "exe", TOKENS_MAX + 1),
        PutLimit("exec", "exe", rate=-1),
        PutLimit("exec", "exe", rate=RATE_MAX + 1, burst=1),
        PutLimit("exec", "exe", rate=1),
        PutLimit("exec", "exe", 1, burst=1),
    ],
)
def test_limits_that_cannot_be(command: PutLimit) -> None:
    assert refusal(Grid().ask(command)) is ErrorCode.BAD_OPTIONS


def test_limits_are_bounded() -> None:
    grid = limited()
    grid.state.bounds = Bounds(limits=1)
    assert refusal(grid.ask(PutLimit("exec", "exe", 1))) is ErrorCode.GRID_FULL
    assert grid.ask(PutLimit(*DB, 2)) == Done()
    assert LIMITS_MAX > 1


def test_a_leap_of_the_time_gives_no_new_burst() -> None:
    grid = limited(rate=1 * A_SECOND, burst=2)
    grid.start("a", "b", limits=(("db", 1),))
    limit = grid.state.limits[DB]
    ahead_us = limit.due_us - grid.state.time_ms * 1_000
    grid.stamp_ms += 500
    to_ms = grid.stamp_ms + 86_400_000
    grid.apply(AdvanceTime(to_ms))
    assert limit.due_us - grid.state.time_ms * 1_000 == ahead_us - 510_000
    grid.stamp_ms = to_ms + 3_000
    grid.start("c", limits=(("db", 1),))
    assert limit.due_us == grid.state.time_ms * 1_000 + 1_000_000
