"""Schedules: an instant fires once, and by the rules of its schedule."""

from typing import Any

import pytest
from msgspec.structs import replace

from rollq.base.errors import ErrorCode
from rollq.base.ids import job_id_of_key
from rollq.base.jobs import JobOptions, ParentRef, Status
from rollq.base.limits import DURATION_MS_MAX
from rollq.base.schedule_limits import SCHEDULE_BODY_BYTES_MAX
from rollq.base.schedules import firing_key
from rollq.grid import commands as c
from rollq.grid.bounds import Bounds
from rollq.grid.effects import Done, Duplicate, SendCancel
from rollq.grid.schedule_commands import (
    FireSchedule,
    PauseSchedule,
    PutSchedule,
    RemoveSchedule,
    ResumeSchedule,
    RunSchedule,
    ScheduleSpec,
)
from rollq.grid.schedule_records import ScheduleRecord
from rollq.grid.schedule_views import schedule_page, schedule_view
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import CANCELLED
from tests.unit.grid.kit import Grid, kinds, refusal, worker_id

FIRST_MS = 1_795_000_000_000
EVERY_MS = 60_000


def spec(name: str = "beat", **fields: Any) -> ScheduleSpec:
    """A schedule of the client ann."""
    what = name, f"ann/schedule.{name}", "q", "exe", b"body"
    return ScheduleSpec(*what, **({"every_ms": EVERY_MS} | fields))


def put(name: str = "beat", next_ms: int = FIRST_MS, **fields: Any) -> PutSchedule:
    """Make it."""
    return PutSchedule(spec(name, **fields), next_ms, "olga")


def scheduled(**fields: Any) -> Grid:
    """A grid with a schedule."""
    grid = Grid()
    assert grid.ask(put(**fields)) == Done()
    return grid


def record(grid: Grid, name: str = "beat") -> ScheduleRecord:
    """A schedule."""
    return grid.state.schedules.by_name[name]


def firing(grid: Grid, **fields: Any) -> FireSchedule:
    """The next instant of the schedule fires."""
    it = record(grid)
    due_ms = it.next_ms
    return replace(FireSchedule("beat", it.version, due_ms, due_ms, due_ms + EVERY_MS), **fields)


def job_of(instant_ms: int) -> bytes:
    """The id of the job of an instant."""
    return job_id_of_key("ann/schedule.beat", firing_key("beat", instant_ms))


def started(grid: Grid, job_id: bytes) -> c.AssignJob:
    """A job begins to run."""
    return c.AssignJob(job_id, worker_id("w1"), 1, 1, 5_000)


def test_an_instant_makes_one_job() -> None:
    grid = scheduled()
    fire = firing(grid)
    applied = grid.apply(fire, fire)
    assert applied.outcomes == [Done(), Done(0)]
    assert kinds(applied) == ["enqueue", "schedule_fire"]
    assert grid.apply(fire).outcomes == [Done(0)]
    (job,) = grid.state.jobs.values()
    assert (job.job_id, job.key) == (job_of(FIRST_MS), "beat@2026-11-18T11:06:40Z")
    assert (job.client.client_id, job.queue, job.exec_name) == ("ann/schedule.beat", "q", "exe")
    assert grid.state.bodies.load(job.body) == b"body"
    it = record(grid)
    assert (it.next_ms, it.last_due_ms, it.last_job_id) == (
        FIRST_MS + EVERY_MS,
        FIRST_MS,
        job.job_id,
    )
    assert (it.fired, it.missed, it.skipped, it.refused) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 1},
        {"name": "other"},
        {"due_ms": FIRST_MS - 1_000},
        {"due_ms": FIRST_MS + EVERY_MS},
        {"next_ms": FIRST_MS},
        {"fire_ms": FIRST_MS - 1_000},
        {"fire_ms": FIRST_MS + EVERY_MS},
    ],
)
def test_a_firing_of_another_instant_is_void(fields: dict[str, Any]) -> None:
    grid = scheduled()
    before = encode_snapshot(grid.state)
    applied = grid.apply(firing(grid, **fields))
    assert applied.outcomes == [Done(0)]
    assert not applied.events
    assert not grid.state.jobs
    assert len(encode_snapshot(grid.state)) == len(before)


def test_a_firing_that_was_decided_before_a_change_is_void() -> None:
    grid = scheduled()
    early = firing(grid)
    assert grid.ask(put(jitter_ms=5_000)) == Done()
    assert grid.ask(early) == Done(0)
    assert grid.ask(firing(grid)) == Done()
    paused = firing(grid)
    assert grid.ask(PauseSchedule("beat")) == Done()
    assert grid.ask(paused) == Done(0)
    assert grid.ask(ResumeSchedule("beat", paused.due_ms)) == Done()
    assert grid.ask(paused) == Done(0)
    assert record(grid).fired == 1


def test_the_same_again_is_known_and_another_is_a_change() -> None:
    grid = scheduled()
    grid.apply(firing(grid))
    assert grid.ask(put(next_ms=FIRST_MS + 1_000)) == Duplicate()
    assert record(grid).next_ms == FIRST_MS + EVERY_MS
    applied = grid.apply(put(next_ms=FIRST_MS + 5_000, cron="@daily", zone="UTC", every_ms=0))
    assert kinds(applied) == ["schedule_put"]
    assert applied.events[0].detail == "beat @daily UTC"
    it = record(grid)
    assert (it.next_ms, it.fired, it.version) == (FIRST_MS + 5_000, 1, grid.state.applied_index)
    assert refusal(grid.ask(put(next_ms=FIRST_MS, jitter_ms=1_000))) is ErrorCode.BAD_OPTIONS


def test_instants_that_were_missed_are_counted() -> None:
    grid = scheduled()
    late = firing(grid, fire_ms=0, next_ms=FIRST_MS + 5 * EVERY_MS, missed=5)
    applied = grid.apply(late)
    assert kinds(applied) == ["schedule_miss"]
    assert (applied.events[0].count, applied.events[0].detail) == (5, "beat 2026-11-18T11:06:40Z")
    newest_ms = FIRST_MS + 7 * EVERY_MS
    last = firing(grid, fire_ms=newest_ms, next_ms=newest_ms + EVERY_MS, missed=2)
    assert kinds(grid.apply(last)) == ["schedule_miss", "enqueue", "schedule_fire"]
    it = record(grid)
    assert (it.missed, it.fired, it.last_due_ms) == (7, 1, newest_ms)
    assert job_of(newest_ms) in grid.state.jobs


def test_skip_leaves_out_what_overlaps() -> None:
    grid = scheduled(overlap="skip")
    grid.apply(firing(grid))
    applied = grid.apply(firing(grid))
    assert kinds(applied) == ["schedule_skip"]
    it = record(grid)
    assert (it.skipped, it.fired, it.last_job_id) == (1, 1, job_of(FIRST_MS))
    assert it.last_error
    grid.apply(started(grid, job_of(FIRST_MS)))
    grid.apply(c.AckJob(job_of(FIRST_MS), 1, grid.state.last_fence, Status.OK))
    assert kinds(grid.apply(firing(grid))) == ["enqueue", "schedule_fire"]
    assert not record(grid).last_error


def test_queue_lets_jobs_overlap() -> None:
    grid = scheduled(overlap="queue")
    grid.apply(firing(grid))
    grid.apply(firing(grid))
    assert len(grid.state.jobs) == 2


def test_cancel_ends_the_older_job() -> None:
    grid = scheduled(overlap="cancel")
    grid.apply(firing(grid))
    applied = grid.apply(firing(grid))
    assert kinds(applied) == ["enqueue", "cancel", "schedule_fire"]
    assert grid.state.jobs[job_of(FIRST_MS)].state is CANCELLED
    grid.apply(started(grid, job_of(FIRST_MS + EVERY_MS)))
    applied = grid.apply(firing(grid))
    assert any(isinstance(effect, SendCancel) for effect in applied.effects)
    assert record(grid).fired == 3


def test_what_the_grid_refuses_is_noted_and_not_repeated() -> None:
    grid = scheduled(caches=("gone",))
    applied = grid.apply(firing(grid))
    assert kinds(applied) == ["schedule_refuse"]
    it = record(grid)
    assert (it.refused, it.fired, it.next_ms) == (1, 0, FIRST_MS + EVERY_MS)
    assert "gone" in it.last_error


def test_a_schedule_that_is_made_anew_does_not_fire_an_instant_again() -> None:
    grid = scheduled()
    grid.apply(firing(grid))
    assert grid.ask(RemoveSchedule("beat", "olga")) == Done()
    assert grid.ask(put()) == Done()
    grid.apply(firing(grid))
    assert len(grid.state.jobs) == 1


def test_run_makes_a_job_beside_the_instants() -> None:
    grid = scheduled()
    grid.apply(PauseSchedule("beat", "olga"))
    applied = grid.apply(RunSchedule("beat", b"R" * 16, "olga"))
    assert kinds(applied) == ["enqueue", "schedule_fire"]
    assert applied.events[-1].detail == "beat by hand"
    assert grid.ask(RunSchedule("beat", b"R" * 16, "olga")) == Duplicate()
    it = record(grid)
    assert (it.last_job_id, it.last_due_ms, it.fired, it.next_ms) == (b"R" * 16, 0, 0, FIRST_MS)


def test_pause_and_resume() -> None:
    grid = scheduled()
    assert kinds(grid.apply(PauseSchedule("beat", "olga"))) == ["schedule_pause"]
    assert grid.ask(PauseSchedule("beat")) == Duplicate()
    assert grid.ask(firing(grid)) == Done(0)
    view = schedule_view(grid.state, "beat")
    assert view is not None
    assert (view.paused, view.next_ms, view.fires_ms) == (True, 0, 0)
    later_ms = FIRST_MS + 90_000
    assert kinds(grid.apply(ResumeSchedule("beat", later_ms, "olga"))) == ["schedule_resume"]
    assert grid.ask(ResumeSchedule("beat", later_ms + 1_000)) == Duplicate()
    assert record(grid).next_ms == later_ms


def test_a_resume_that_was_decided_before_a_put_keeps_the_instant_of_the_put() -> None:
    grid = scheduled()
    grid.apply(PauseSchedule("beat"))
    decided = ResumeSchedule("beat", FIRST_MS + EVERY_MS, "olga", record(grid).version)
    hour_ms = FIRST_MS + 3_600_000
    grid.apply(put(next_ms=hour_ms, every_ms=0, cron="@hourly"))
    assert grid.ask(decided) == Done()
    assert (record(grid).paused, record(grid).next_ms) == (False, hour_ms)


@pytest.mark.parametrize(
    "command",
    [RemoveSchedule("no"), PauseSchedule("no"), ResumeSchedule("no", 1), RunSchedule("no", b"")],
)
def test_a_schedule_that_is_not_there(command: Any) -> None:
    assert refusal(Grid().ask(command)) is ErrorCode.UNKNOWN_SCHEDULE


@pytest.mark.parametrize(
    "command",
    [
        *(put(""), put("a b"), put("-a"), put("a/"), put("ä"), put("a" * 65)),
        *(put(every_ms=0), put(cron="@daily"), put(every_ms=999), put(every_ms=1_500)),
        *(put(every_ms=DURATION_MS_MAX + 1_000), put(jitter_ms=-1_000), put(jitter_ms=86_401_000)),
        *(put(jitter_ms=500), put(overlap="both"), put(catch_up="some")),
        put(every_ms=0, cron="*" * 257),
        put(every_ms=0, cron="@daily", zone="Z" * 65),
        put(options=JobOptions(after=(ParentRef(b"p" * 16),))),
        put(next_ms=0),
        put(next_ms=1_500),
        PutSchedule(replace(spec(), body=bytes(SCHEDULE_BODY_BYTES_MAX + 1)), FIRST_MS),
        PutSchedule(replace(spec(), queue=""), FIRST_MS),
    ],
)
def test_what_can_be_no_schedule(command: PutSchedule) -> None:
    assert refusal(Grid().ask(command)) is ErrorCode.BAD_OPTIONS


def test_there_is_room_for_so_many() -> None:
    grid = scheduled()
    grid.state.bounds = Bounds(schedules=1)
    assert refusal(grid.ask(put("other"))) is ErrorCode.GRID_FULL
    assert grid.ask(put(jitter_ms=1_000)) == Done()


def test_schedules_survive_a_snapshot() -> None:
    grid = scheduled(jitter_ms=30_000)
    grid.apply(put("ann/other", every_ms=0, cron="@daily", zone="Asia/Tokyo"))
    grid.apply(firing(grid))
    data = encode_snapshot(grid.state)
    copy = decode_snapshot(data)
    assert encode_snapshot(copy) == data
    assert copy.schedules.next_sum == grid.state.schedules.next_sum


def test_pages() -> None:
    grid = scheduled(jitter_ms=30_000)
    for name in ("ann/a", "ann/b", "bob/a"):
        grid.apply(put(name))
    names = [view.name for view in schedule_page(grid.state, "", 10)]
    assert names == ["ann/a", "ann/b", "beat", "bob/a"]
    assert [view.name for view in schedule_page(grid.state, "ann/a", 1)] == ["ann/b"]
    assert [view.name for view in schedule_page(grid.state, "", 10, "ann")] == ["ann/a", "ann/b"]
    view = schedule_view(grid.state, "beat")
    assert view is not None
    assert view.next_ms <= view.fires_ms < view.next_ms + 30_000
    assert schedule_view(grid.state, "no") is None
