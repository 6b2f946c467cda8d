"""References to blobs: held while somebody may need them, and not a moment longer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, BulkItem, CacheEntry, JobOptions, Status
from rollq.base.limits import BLOB_BYTES_MAX, BLOBS_PER_JOB_MAX
from rollq.grid import commands as c
from rollq.grid.effects import Done, Duplicate, SendAssign, SendResult
from rollq.grid.events import each_of
from rollq.grid.refs import holders_of
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import CacheHolder
from rollq.grid.views import grid_counts, job_view
from rollq.history.schema import to_lines
from tests.unit.grid.kit import Grid, job_id, refusal, worker_id
from tests.unit.grid.staged import Staged, group


def ref(letter: str, size: int = 7) -> BlobRef:
    return BlobRef(letter.encode() * 32, size)


A, B, C = ref("a"), ref("b"), ref("c")


def counts(grid: Grid) -> dict[str, int]:
    """How often each blob is referred to, by the letter of its digest."""
    return {chr(digest[0]): blob.count for digest, blob in sorted(grid.state.blobs.items())}


def job(name: str, *blobs: BlobRef, **options: Any) -> c.SubmitJob:
    made = JobOptions(**options) if options else None
    return c.SubmitJob(job_id(name), "ann", "q", "exe", name.encode(), made, blobs)


def test_a_job_holds_its_inputs_until_it_is_done_and_its_outputs_until_it_is_forgotten() -> None:
    grid = Grid()
    grid.apply(job("x", A, B), job("y", A))
    assert counts(grid) == {"a": 2, "b": 1}
    started = grid.assign("x")
    (order,) = started.effects
    assert isinstance(order, SendAssign)
    assert order.blobs == ((A, B),)
    (told,) = grid.ack("x", blobs=(B, C)).effects
    assert isinstance(told, SendResult)
    assert told.ends[0].blobs == (B, C)
    assert counts(grid) == {"a": 1, "b": 1, "c": 1}
    grid.apply(c.ForgetJobs((job_id("x"),)))
    assert counts(grid) == {"a": 1}
    grid.apply(c.CancelJobs((job_id("y"),)))
    assert counts(grid) == {}


def test_a_blob_has_the_holders_that_refer_to_it_and_no_other() -> None:
    grid = Staged()
    grid.apply(job("x", A), job("y", A))
    bob = c.SubmitJob(job_id("z"), "bob", "q", "exe", b"", None, (A,))
    grid.apply(bob, c.PutCache("data", (CacheEntry("f", A),), ">"))
    grid.stage("p", group("s", blobs=((A,),)), client="cid")
    everybody = {"ann", "bob", "cid", CacheHolder("data")}
    for _ in range(2):  # and as a snapshot has it
        assert set(holders_of(grid.state, A.digest)) == everybody
        grid.reload()
    grid.apply(c.CancelJobs((job_id("x"), job_id("z"))), c.RemoveCache("data"))
    assert set(holders_of(grid.state, A.digest)) == {"ann", "cid"}
    grid.apply(c.DropBatches((c.BatchName("cid", "b"),)))
    assert holders_of(grid.state, A.digest) == ("ann",)
    grid.apply(c.CancelJobs((job_id("y"),)))
    assert holders_of(grid.state, A.digest) == ()


def test_a_result_is_held_by_the_client_of_its_job() -> None:
    grid = Grid()
    grid.apply(job("x", A))
    grid.assign("x")
    grid.ack("x", blobs=(B,))
    assert holders_of(grid.state, A.digest) == ()
    assert holders_of(grid.state, B.digest) == ("ann",)


def test_a_dead_job_keeps_its_inputs_for_a_redrive() -> None:
    grid = Grid()
    grid.apply(job("x", A, max_attempts=1, retry_exit_codes=(9,)))
    grid.assign("x")
    grid.ack("x", Status.FAILED, exit_code=9, blobs=(B,))
    assert counts(grid) == {"a": 1, "b": 1}
    grid.apply(c.RedriveJobs((c.RedriveItem(job_id("x")),)))
    assert counts(grid) == {"a": 1}
    grid.kill("x")
    grid.apply(c.PurgeJobs((job_id("x"),)))
    assert counts(grid) == {}


def test_what_a_lost_attempt_left_is_not_kept() -> None:
    grid = Grid()
    grid.apply(job("x", A, max_attempts=2, retry_exit_codes=(9,)))
    grid.assign("x")
    grid.ack("x", Status.FAILED, exit_code=9, blobs=(B,))
    assert counts(grid) == {"a": 1}


def test_facts_count_the_bytes_of_blobs() -> None:
    grid = Grid()
    made = JobOptions(max_attempts=2, retry_exit_codes=(9,))
    items = (BulkItem(job_id("y"), b"", (A,)), BulkItem(job_id("z"), b""))
    accepted = grid.apply(
        job("x", A, ref("d", 30), max_attempts=2, retry_exit_codes=(9,)),
        c.SubmitBulk("ann", "q", "exe", items),
        job("later", A, delay_ms=5),
        c.SubmitArray(job_id("many"), "ann", "q", "exe", b"", 2, made, blobs=(A, B)),
    )
    assert [(event.kind, event.blob_bytes) for event in each_of(accepted.events)] == [
        ("enqueue", 37),
        ("enqueue", 7),
        ("enqueue", 0),
        ("delay", 7),
        ("array_enqueue", 14),
    ]
    grid.assign("x", "z")
    (lost,) = grid.ack("x", Status.FAILED, exit_code=9, fetched_bytes=30, held_bytes=7).events
    assert (lost.kind, lost.blob_bytes) == ("retry_requeue", 0)
    assert (lost.fetched_bytes, lost.held_bytes) == (30, 7)
    grid.assign("x")
    (acked,) = grid.ack("x", blobs=(B, C), held_bytes=37).events
    assert (acked.blob_bytes, acked.fetched_bytes, acked.held_bytes) == (14, 0, 37)
    (acked,) = grid.ack("z").events
    assert (acked.blob_bytes, acked.fetched_bytes, acked.held_bytes) == (0, 0, 0)
    row = msgspec.json.decode(to_lines(9, 1, [lost])[0])
    assert (row["fetchedBytes"], row["heldBytes"], "blobBytes" in row) == (30, 7, False)


def test_the_same_blob_twice_is_counted_and_released_twice() -> None:
    grid = Grid()
    grid.apply(job("x", A, A))
    assert counts(grid) == {"a": 2}
    grid.apply(c.CancelJobs((job_id("x"),)))
    assert counts(grid) == {}


def test_tasks_share_the_inputs_of_their_array() -> None:
    grid = Grid()
    grid.apply(c.SubmitArray(job_id("many"), "ann", "q", "exe", b"", 2, blobs=(A,)))
    grid.assign_task("many")
    assert counts(grid) == {"a": 1}
    order = grid.apply(c.AssignTask(job_id("many"), worker_id("w1"), 1, 5)).effects[0]
    assert isinstance(order, SendAssign)
    assert order.blobs == ((A,),)
    for record in list(grid.state.jobs.values()):
        grid.apply(c.AckJob(record.job_id, record.attempt, record.fence, 0))
    assert counts(grid) == {}


def test_an_array_with_a_dead_task_keeps_its_inputs() -> None:
    grid = Grid()
    made = JobOptions(max_attempts=1)
    grid.apply(c.SubmitArray(job_id("many"), "ann", "q", "exe", b"", 1, made, blobs=(A,)))
    grid.assign_task("many")
    grid.nack("many")
    assert counts(grid) == {"a": 1}
    grid.apply(c.RedriveJobs((c.RedriveItem(job_id("many")),)))
    grid.assign("many")
    grid.nack("many")
    grid.apply(c.ForgetJobs((job_id("many"),)))
    assert counts(grid) == {}
    assert not grid.state.arrays


def test_a_repeated_submit_must_name_the_same_blobs() -> None:
    grid = Grid()
    grid.apply(job("x", A))
    assert grid.ask(job("x", A)) == Duplicate()
    assert refusal(grid.ask(job("x", B))) is ErrorCode.JOB_CONFLICT
    grid.assign("x")
    grid.ack("x")
    assert grid.ask(job("x", A)) == Duplicate(ended=True)
    assert refusal(grid.ask(job("x"))) is ErrorCode.JOB_CONFLICT
    array = c.SubmitArray(job_id("many"), "ann", "q", "exe", b"", 1, blobs=(A,))
    grid.apply(array)
    assert grid.ask(array) == Duplicate()
    other = c.SubmitArray(job_id("many"), "ann", "q", "exe", b"", 1, blobs=(B,))
    assert refusal(grid.ask(other)) is ErrorCode.JOB_CONFLICT


def test_each_job_of_a_bulk_has_blobs_of_its_own() -> None:
    grid = Grid()
    items = (BulkItem(job_id("x"), b"", (A,)), BulkItem(job_id("y"), b"", (A, B)))
    bulk = c.SubmitBulk("ann", "q", "exe", items, None, "key")
    assert grid.ask(bulk) == Done(2)
    assert counts(grid) == {"a": 2, "b": 1}
    assert grid.ask(bulk) == Duplicate()
    other = c.SubmitBulk("ann", "q", "exe", (items[0], BulkItem(job_id("y"), b"")), None, "key")
    assert refusal(grid.ask(other)) is ErrorCode.BATCH_CONFLICT


@pytest.mark.parametrize(
    "blobs",
    [
        (BlobRef(b"short", 1),),
        (ref("a", -1),),
        (ref("a", BLOB_BYTES_MAX + 1),),
        (ref("z", 8),),
        (ref("a", 1), ref("a", 2)),
        (A,) * (BLOBS_PER_JOB_MAX + 1),
    ],
    ids=["digest", "negative", "huge", "another size", "two sizes", "too many"],
)
def test_bad_references_are_refused_and_change_nothing(blobs: tuple[BlobRef, ...]) -> None:
    grid = Grid()
    grid.apply(job("run", ref("z", 7)))
    grid.assign("run")
    for command in (
        job("x", *blobs),
        c.SubmitBulk("ann", "q", "exe", (BulkItem(job_id("x"), b"", blobs),)),
        c.SubmitArray(job_id("x"), "ann", "q", "exe", b"", 1, blobs=blobs),
        grid.acknowledgement("run", blobs=blobs),
    ):
        assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS
    assert counts(grid) == {"z": 1}


def test_a_bulk_whose_items_give_a_blob_two_sizes_is_refused() -> None:
    items = (BulkItem(job_id("x"), b"", (ref("a", 1),)), BulkItem(job_id("y"), b"", (ref("a", 2),)))
    outcome = Grid().ask(c.SubmitBulk("ann", "q", "exe", items))
    assert refusal(outcome) is ErrorCode.BAD_OPTIONS


def test_references_are_seen_and_survive_a_snapshot() -> None:
    grid = Grid()
    grid.apply(job("x", A, B), job("y", C))
    grid.assign("y")
    grid.ack("y", blobs=(A,))
    copy = decode_snapshot(encode_snapshot(grid.state))
    for state in (grid.state, copy):
        assert grid_counts(state).blobs == 2
        waiting, done = job_view(state, job_id("x")), job_view(state, job_id("y"))
        assert waiting is not None
        assert waiting.blobs == (A, B)
        assert done is not None
        assert done.end is not None
        assert (done.blobs, done.end.blobs) == ((), (A,))
    assert {key: one.count for key, one in copy.blobs.items()} == {A.digest: 2, B.digest: 1}
