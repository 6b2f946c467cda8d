"""Committed batches: reserved, unpacked a message at a time, also into a second life."""

from __future__ import annotations

import pytest
from msgspec import structs

from rollq.base.errors import ErrorCode
from rollq.base.ids import task_id
from rollq.base.jobs import BlobRef, BulkItem, CacheEntry, JobOptions
from rollq.base.staged import join_keys
from rollq.grid import chunks
from rollq.grid import commands as c
from rollq.grid.effects import Done, Duplicate
from rollq.grid.state import DEAD, QUEUED
from rollq.grid.views import job_view
from tests.unit.grid.kit import job_id, refusal, submit
from tests.unit.grid.staged import BLOB, Staged, accepted, again, group, part


def test_what_names_an_accepted_job_must_come_again() -> None:
    grid = accepted()
    asks: list[c.Command] = [
        submit("a"),
        c.SubmitBulk("ann", "q", "exe", (BulkItem(job_id("a"), b"a"),)),
        c.SubmitArray(job_id("a"), "ann", "q", "exe", b"", 2),
        c.CancelJobs((job_id("x"), job_id("a"))),
        c.RedriveJobs((c.RedriveItem(job_id("a")),)),
        c.PurgeJobs((job_id("a"),)),
    ]
    for ask in asks:
        assert refusal(grid.ask(ask)) == ErrorCode.OVERLOADED
    grid.stage("p", group("a"), key="c")
    one = part("p", (group("a"),))
    assert refusal(grid.commit(one, key="c")) == ErrorCode.OVERLOADED
    grid.unpack()
    assert grid.ask(submit("a")) == Duplicate()
    assert grid.commit(one, key="c") == Done(1)


@pytest.mark.parametrize(("delay_ms", "word"), [(0, "queued"), (70, "delayed")])
def test_an_accepted_job_waits_for_those_who_ask(delay_ms: int, word: str) -> None:
    grid = Staged()
    options = JobOptions(priority=5, delay_ms=delay_ms)
    urgent = group("b", "c", keys=join_keys(["", "k"]), options=options)
    messages = (group("a"), urgent)
    grid.stage("p", *messages)
    assert job_view(grid.state, job_id("c")) is None
    grid.commit(part("p", messages))
    before = job_view(grid.state, job_id("c"))
    assert before is not None
    assert (before.state, before.key, before.options.priority) == (word, "k", 5)
    grid.reload()
    assert job_view(grid.state, job_id("c")) == before
    grid.unpack()
    after = job_view(grid.state, job_id("c"))
    assert after is not None
    assert structs.replace(after, stamp_ms=before.stamp_ms) == before


def test_a_dead_job_is_dead_until_it_runs_again() -> None:
    grid = mourned()
    grid.stage("p", again("a"))
    grid.commit(part("p", (again("a"),)))
    view = job_view(grid.state, job_id("a"))
    assert view is not None
    assert view.state == "dead"


def test_an_array_leaves_out_tasks_whose_ids_are_accepted() -> None:
    grid = accepted()
    before = task_id(job_id("a"), -1)  # so that the second task would have the id
    grid.apply(c.SubmitArray(before, "ann", "q", "exe", b"", 3))
    outcome = grid.ask(c.AssignTask(before, b"w1".rjust(16, b"\0"), 1, 5_000))
    assert outcome == Done(1)
    record = grid.state.array_of(before)
    assert record is not None
    assert record.next_number == 2
    grid.unpack()
    assert grid.job("a").array is None


def test_a_step_is_done_once() -> None:
    grid = accepted()
    step = c.UnpackBatch("ann", "b", 0)
    assert grid.apply(step, step).outcomes == [Done(1), Done(0)]
    assert grid.ask(c.UnpackBatch("ann", "nobody", 0)) == Done(0)


def test_a_batch_goes_on_from_a_snapshot() -> None:
    grid = Staged()
    messages = [(group(name, keys=f"k-{name}"),) for name in "abc"]
    for number, groups in enumerate(messages):
        grid.stage("p", *groups, number=number)
    grid.stage("waits", group("later", blobs=((BLOB,),)), key="other")
    grid.commit(part("p", *messages))
    grid.apply(c.UnpackBatch("ann", "b", 0))
    grid.reload()
    assert grid.ask(c.UnpackBatch("ann", "b", 0)) == Done(0)
    assert grid.unpack() == ["enqueue", "enqueue"]
    assert [grid.job(name).key for name in "abc"] == ["k-a", "k-b", "k-c"]
    grid.reload()
    assert [grid.job(name).key for name in "abc"] == ["k-a", "k-b", "k-c"]
    later = group("later", blobs=((BLOB,),))
    assert grid.commit(part("waits", (later,)), key="other") == Done(1)


def test_a_large_message_is_kept_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "PIECE_BYTES", 7)
    grid = Staged()
    grid.stage("p", group("a", "b"))
    grid.reload()
    grid.commit(part("p", (group("a", "b"),)))
    grid.reload()
    assert grid.unpack() == ["enqueue", "enqueue"]


def test_files_of_staged_jobs_are_held_from_the_start() -> None:
    grid = Staged()
    grid.apply(c.PutCache("data", (CacheEntry("f", BlobRef(b"\x02" * 32, 1)),), ">"))
    needy = group("a", "b", blobs=((BLOB,), ()), caches=("data",))
    grid.stage("p", needy)
    assert grid.state.blobs[BLOB.digest].count == 1
    grid.apply(c.RemoveCache("data"))
    assert grid.state.caches["data"].removed
    grid.commit(part("p", (needy,)))
    grid.unpack()
    past = grid.job("a").past
    assert past is not None
    assert (past.blobs, past.caches) == ((BLOB,), ("data",))
    assert grid.state.blobs[BLOB.digest].count == 1
    assert grid.state.caches["data"].user_count == 2


# --- dead jobs that run again


def mourned() -> Staged:
    """Two dead jobs of bob."""
    grid = Staged()
    grid.submit("a", "b", client="bob", max_attempts=1)
    grid.kill("a")
    grid.kill("b")
    return grid


def test_dead_jobs_run_again_with_new_ones_all_at_once() -> None:
    grid = mourned()
    grid.stage("p", again("a", "b", b="edited"))
    grid.stage("p", group("c"), number=1)
    whole = part("p", (again("a", "b", b="edited"),), (group("c"),))
    assert grid.commit(whole) == Done(3)
    assert grid.job("a").state is DEAD
    grid.reload()
    assert grid.unpack() == ["redrive", "redrive", "enqueue"]
    assert [grid.job(name).state for name in "abc"] == [QUEUED] * 3
    bodies = [grid.state.bodies.load(grid.job(name).body) for name in "ab"]
    assert bodies == [b"a", b"edited"]


def test_dead_jobs_that_will_run_again_are_not_forgotten_meanwhile() -> None:
    grid = mourned()
    grid.stage("p", again("a"))
    grid.commit(part("p", (again("a"),)))
    assert refusal(grid.ask(c.PurgeJobs((job_id("a"),)))) == ErrorCode.OVERLOADED
    redrive = c.RedriveJobs((c.RedriveItem(job_id("a")),))
    assert refusal(grid.ask(redrive)) == ErrorCode.OVERLOADED
    assert grid.ask(c.ForgetJobs((job_id("a"), job_id("b")))) == Done(1)
    assert grid.unpack() == ["redrive"]


@pytest.mark.parametrize(
    ("name", "code"), [("lives", ErrorCode.WRONG_STATE), ("nobody", ErrorCode.UNKNOWN_JOB)]
)
def test_only_dead_jobs_run_again(name: str, code: ErrorCode) -> None:
    grid = mourned()
    grid.submit("lives")
    grid.stage("p", again("a", name))
    assert refusal(grid.commit(part("p", (again("a", name),)))) == code
    assert not grid.state.reserved


def test_a_job_is_new_or_runs_again() -> None:
    grid = mourned()
    grid.stage("p", again("a"))
    grid.stage("q", group("a"))
    parts = (part("p", (again("a"),)), part("q", (group("a"),)))
    assert refusal(grid.commit(*parts)) == ErrorCode.JOB_CONFLICT
