"""Staged batches: sent ahead unseen, accepted all or none."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, BulkItem, CacheEntry, JobOptions
from rollq.base.staged import StagedGroup, StagedPart, join_keys, keys_of
from rollq.grid import commands as c
from rollq.grid.bounds import Bounds
from rollq.grid.effects import Done, Duplicate, Refused
from rollq.grid.state import DELAYED
from tests.unit.grid.kit import job_id, refusal, submit
from tests.unit.grid.staged import BLOB, Staged, accepted, again, group, part


def test_staged_jobs_are_seen_by_nobody() -> None:
    grid = Staged()
    assert grid.stage("p", group("a", "b")) == Done(2)
    assert not grid.state.jobs
    assert "q" not in grid.state.queues
    assert grid.state.staged_count == 2


def test_a_commit_accepts_and_unpacking_makes_jobs() -> None:
    grid = Staged()
    one, two = group("a", "b", keys=join_keys(["k1", ""])), group("c", queue="r")
    grid.stage("p", one, two)
    grid.stage("p", group("d"), number=1)
    applied = grid.apply(c.CommitBatch("ann", "b", (part("p", (one, two), (group("d"),)),)))
    assert applied.outcomes == [Done(4)]
    event = applied.events[0]
    assert (event.kind, event.client_id, event.count, event.detail) == (
        "batch_commit",
        "ann",
        4,
        "b",
    )
    assert list(grid.state.reserved) == list(map(job_id, "abcd"))
    assert grid.unpack() == ["enqueue"] * 4
    assert not grid.state.committed
    assert not grid.state.reserved
    assert (grid.state.staged_count, grid.state.staged_bytes) == (0, 0)
    assert [grid.job(name).key for name in "abcd"] == ["k1", "", "", ""]
    assert [grid.job(name).queue for name in "abcd"] == ["q", "q", "r", "q"]
    assert [grid.job(name).seq for name in "abcd"] == sorted(grid.job(name).seq for name in "abcd")


def test_every_fact_and_the_result_of_a_job_carry_its_key() -> None:
    grid = Staged()
    grid.stage("p", group("a", keys="row-1"))
    grid.commit(part("p", (group("a", keys="row-1"),)))
    applied = grid.apply(c.UnpackBatch("ann", "b", 0))
    applied.events += grid.assign("a").events
    done = grid.ack("a")
    assert [one.job_key for one in applied.events + done.events] == ["row-1"] * 3
    assert [getattr(one, "keys", None) for one in done.effects] == ["row-1"]


def test_options_of_a_group_are_those_of_its_jobs() -> None:
    grid = Staged()
    late = group("a", options=JobOptions(delay_ms=50))
    grid.stage("p", late)
    grid.commit(part("p", (late,)))
    assert grid.unpack() == ["delay"]
    assert grid.job("a").state is DELAYED


def test_a_message_is_taken_once() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    assert grid.stage("p", group("a")) == Duplicate()
    assert refusal(grid.stage("p", group("b"))) == ErrorCode.BATCH_CONFLICT
    assert grid.state.staged_count == 1


def test_a_commit_is_taken_once_whatever_it_names() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    assert grid.commit(part("p", (group("a"),))) == Done(1)
    assert grid.commit(part("other", (group("z"),))) == Duplicate(count=1)
    assert grid.stage("late", group("z")) == Duplicate(count=1)
    grid.unpack()
    assert grid.commit(part("p", (group("a"),))) == Duplicate(count=1)
    assert grid.stage("late", group("z")) == Duplicate(count=1)
    assert list(grid.state.jobs) == [job_id("a")]


def test_a_commit_is_known_even_when_very_many_followed() -> None:
    grid = Staged()
    grid.state.bounds = Bounds(batches_kept=1)
    grid.stage("p", group("a"))
    grid.commit(part("p", (group("a"),)))
    assert grid.commit(key="empty") == Done(0)
    assert ("ann", "b") not in grid.state.batches
    assert grid.commit(part("p", (group("a"),))) == Duplicate()


def test_the_same_key_of_another_client_is_another_batch() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    grid.stage("p", group("b"), client="bob")
    assert grid.commit(part("p", (group("a"),))) == Done(1)
    assert grid.commit(part("p", (group("b"),)), client="bob") == Done(1)


def test_a_key_that_a_bulk_has_names_no_other_batch() -> None:
    grid = Staged()
    grid.apply(c.SubmitBulk("ann", "q", "exe", (BulkItem(job_id("x"), b""),), None, "b"))
    assert refusal(grid.stage("p", group("a"))) == ErrorCode.BATCH_CONFLICT
    grid.commit(key="c")
    bulk = c.SubmitBulk("ann", "q", "exe", (BulkItem(job_id("y"), b""),), None, "c")
    assert refusal(grid.ask(bulk)) == ErrorCode.BATCH_CONFLICT


def test_parts_that_are_not_named_are_forgotten() -> None:
    grid = Staged()
    grid.stage("0.0", group("a", blobs=((BLOB,),)))  # the first try of a task, thought dead
    grid.stage("0.1", group("a"))
    assert grid.commit(part("0.1", (group("a"),))) == Done(1)
    assert grid.state.staged_count == 1
    assert not grid.state.blobs
    grid.unpack()
    assert list(grid.state.jobs) == [job_id("a")]


def test_an_empty_batch_is_remembered() -> None:
    grid = Staged()
    assert grid.commit() == Done(0)
    assert grid.commit() == Duplicate(count=0)


@pytest.mark.parametrize(
    "named",
    [
        StagedPart("q", 1, 0),
        StagedPart("p", 3, 0),
        StagedPart("p", 2, 7),
    ],
)
def test_a_part_that_is_not_there_as_a_whole_is_not_committed(named: StagedPart) -> None:
    grid = Staged()
    grid.stage("p", group("a", "b"))
    assert refusal(grid.commit(named)) == ErrorCode.BATCH_INCOMPLETE
    assert grid.commit(part("p", (group("a", "b"),))) == Done(2)


def test_a_part_with_a_gap_is_not_committed() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    grid.stage("p", group("c"), number=2)
    whole = part("p", (group("a"),), (group("c"),))
    assert refusal(grid.commit(whole)) == ErrorCode.BATCH_INCOMPLETE


def test_messages_may_come_in_any_order() -> None:
    grid = Staged()
    grid.stage("p", group("b"), number=1)
    grid.stage("p", group("a"))
    assert grid.commit(part("p", (group("a"),), (group("b"),))) == Done(2)
    grid.unpack()
    assert grid.job("a").seq < grid.job("b").seq


def test_a_part_is_named_once() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    one = part("p", (group("a"),))
    assert refusal(grid.commit(one, one)) == ErrorCode.BATCH_INCOMPLETE


def test_two_jobs_of_one_id_are_a_conflict() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    grid.stage("q", group("b", "a"))
    parts = (part("p", (group("a"),)), part("q", (group("b", "a"),)))
    assert refusal(grid.commit(*parts)) == ErrorCode.JOB_CONFLICT


def test_a_job_that_is_known_is_not_accepted_again() -> None:
    grid = Staged()
    grid.submit("a")
    grid.stage("p", group("a", "b"))
    assert grid.commit(part("p", (group("a", "b"),))) == Done(2)
    assert list(grid.state.reserved) == [job_id("b")]
    grid.reload()
    assert grid.unpack() == ["enqueue"]


def test_if_all_jobs_are_known_no_queue_is_made() -> None:
    grid = Staged()
    grid.start("a")
    grid.stage("p", group("a"))
    grid.commit(part("p", (group("a"),)))
    grid.ack("a")
    grid.apply(c.ForgetJobs((job_id("a"),)))
    assert grid.unpack() == []
    assert not grid.state.queues


@pytest.mark.parametrize("client", ["ann", "bob"])
def test_a_known_id_of_another_job_is_in_the_way_of_all(client: str) -> None:
    grid = Staged()
    grid.apply(submit("b", client=client, body=b"other" if client == "ann" else b"b"))
    grid.stage("p", group("a", "b"))
    assert refusal(grid.commit(part("p", (group("a", "b"),)))) == ErrorCode.JOB_CONFLICT
    assert not grid.state.reserved


def test_the_ids_of_tasks_are_not_for_jobs() -> None:
    grid = Staged()
    grid.submit_array("a", 3)
    grid.stage("p", group("a"))
    assert refusal(grid.commit(part("p", (group("a"),)))) == ErrorCode.ID_CONFLICT


def test_a_batch_that_is_dropped_leaves_nothing() -> None:
    grid = Staged()
    grid.apply(c.PutCache("data", (CacheEntry("f", BLOB),), ">"))
    grid.stage("p", group("a", blobs=((BLOB,),), caches=("data",)))
    drop = c.DropBatches((c.BatchName("ann", "b"), c.BatchName("bob", "b")), "ann")
    applied = grid.apply(drop)
    assert applied.outcomes == [Done(1)]
    event = applied.events[0]
    assert (event.kind, event.count, event.detail) == ("batch_drop", 1, "b ann")
    assert (grid.state.staged_count, grid.state.staged_bytes) == (0, 0)
    assert grid.state.blobs[BLOB.digest].count == 1
    assert refusal(grid.commit(part("p", (group("a"),)))) == ErrorCode.BATCH_INCOMPLETE


def test_a_committed_batch_is_not_dropped() -> None:
    grid = accepted()
    assert grid.ask(c.DropBatches((c.BatchName("ann", "b"),))) == Done(0)
    assert grid.unpack() == ["enqueue"]


def test_the_batch_that_was_added_to_longest_ago_comes_first() -> None:
    grid = Staged()
    grid.stage("p", group("a"), key="one")
    grid.stage("p", group("b"), key="two")
    grid.stage("p", group("c"), key="one", number=1)
    assert [key for _, key in grid.state.staged] == ["two", "one"]


# --- bounds


LONG = "x" * 257
BAD_GROUPS = {
    "no jobs": (),
    "no columns": (StagedGroup("q", "exe", b"", (), b""),),
    "ids": (StagedGroup("q", "exe", b"short", (1,), b"a"),),
    "sizes": (StagedGroup("q", "exe", job_id("a"), (2,), b"a"),),
    "negative": (StagedGroup("q", "exe", job_id("a"), (-1,), b""),),
    "too large": (StagedGroup("q", "exe", job_id("a"), (65_537,), bytes(65_537)),),
    "queue": (group("a", queue=""),),
    "exec": (StagedGroup("q", LONG, job_id("a"), (1,), b"a"),),
    "options": (group("a", options=JobOptions(priority=99)),),
    "cache": (group("a", caches=("none",)),),
    "blobs": (group("a", "b", blobs=((BLOB,),)),),
    "blob": (group("a", blobs=((BlobRef(b"", 1),),)),),
    "keys": (group("a", "b", keys="only one"),),
    "key": (group("a", keys=LONG),),
    "mixed": (group("a"), again("b")),
    "files": (StagedGroup("", "", job_id("a"), (1,), b"a", keys="k", redrives=True),),
}


@pytest.mark.parametrize("groups", BAD_GROUPS.values(), ids=BAD_GROUPS)
def test_what_could_not_become_a_job_is_not_staged(groups: tuple[StagedGroup, ...]) -> None:
    grid = Staged()
    codes = (ErrorCode.BAD_OPTIONS, ErrorCode.UNKNOWN_CACHE)
    assert refusal(grid.stage("p", *groups)) in codes
    assert not grid.state.staged


def test_names_are_bounded() -> None:
    grid = Staged()
    for key, name, client in (("", "p", "a"), (LONG, "p", "a"), ("b", "", "a"), ("b", LONG, "a")):
        assert refusal(grid.stage(name, group("a"), key=key, client=client)) == 111
    assert refusal(grid.stage("p", group("a"), client="")) == ErrorCode.BAD_OPTIONS
    assert refusal(grid.stage("p", group("a"), number=-1)) == ErrorCode.BAD_OPTIONS
    assert refusal(grid.commit(key="")) == ErrorCode.BAD_OPTIONS


def test_what_is_staged_is_bounded() -> None:
    grid = Staged()
    grid.stage("p", group("a"))
    grid.state.bounds = Bounds(staged_jobs=1)
    assert refusal(grid.stage("p", group("b"), number=1)) == ErrorCode.GRID_FULL
    grid.state.bounds = Bounds(staged_bytes=1)
    assert refusal(grid.stage("p", group("b"), number=1)) == ErrorCode.GRID_FULL
    grid.state.bounds = Bounds(staged_batches=1)
    assert refusal(grid.stage("p", group("b"), key="c")) == ErrorCode.GRID_FULL
    grid.state.bounds = Bounds(staged_parts=1)
    assert refusal(grid.stage("q", group("b"))) == ErrorCode.BAD_OPTIONS
    grid.state.bounds = Bounds(batch_jobs=0)
    assert refusal(grid.commit(part("p", (group("a"),)))) == ErrorCode.BAD_OPTIONS
    grid.state.bounds = Bounds(jobs=0)
    assert refusal(grid.commit(part("p", (group("a"),)))) == ErrorCode.GRID_FULL


def test_keys_stand_in_a_column() -> None:
    assert keys_of(group("a", "b")) == ["", ""]
    assert keys_of(group("a", "b", keys=join_keys(["x", ""]))) == ["x", ""]
    assert join_keys(["", ""]) == ""


def test_a_batch_that_is_full_says_so_when_more_is_staged() -> None:
    grid = Staged()
    assert grid.ask(c.StageJobs("ann", "b", "p", 0, (group("j1", "j2"),), 3)) == Done(2)
    grid.reload()
    for key, names in (("b", ("j3", "j4")), ("other", ("j1", "j2", "j3", "j4"))):
        told = grid.ask(c.StageJobs("ann", key, "q", 0, (group(*names),), 3))
        assert told == Refused(ErrorCode.BATCH_FULL, "more than 3 jobs in a batch")
    assert grid.ask(c.StageJobs("ann", "b", "q", 0, (group("j3"),), 3)) == Done(1)
    # As an older leader says it, whose commit would be refused.
    assert grid.ask(c.StageJobs("ann", "b", "r", 0, (group("j4"),))) == Done(1)


def test_a_job_that_is_named_twice_is_told_by_its_key_and_both_places() -> None:
    grid = Staged()
    one = (group("j1", "j2", keys="k1\0k2"),)
    two = (group("j3", keys="k3"),)
    other = (group("j4", "j2", keys="k4\0k2"),)
    grid.stage("first", *one)
    grid.stage("first", *two, number=1)
    grid.stage("second", *other)
    told = grid.commit(part("first", one, two), part("second", other))
    assert isinstance(told, Refused)
    assert told.code is ErrorCode.JOB_CONFLICT
    assert told.message.endswith(
        "the batch names this job twice (job_key 'k2'): "
        "job 2 of part 'first' and job 2 of part 'second'"
    )
