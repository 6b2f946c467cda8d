"""Rows of the tables: every job in the right ones, with what its record says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from rollq.base.ids import guid_to_text
from rollq.base.jobs import BlobRef, JobOptions, Status
from rollq.base.staged import join_keys
from rollq.grid import commands as c
from rollq.history.tables import (
    TABLES,
    DeadRow,
    JobTableRow,
    OutputTableRow,
    ResultRow,
    args_in,
    int32,
    int64,
    said_in,
)
from rollq.roles.member.tables.rows import ended_job, queue_rows, table_rows
from rollq.wire.models import JobResult, OutputFile, encode_model, job_request
from tests.unit.grid.kit import Grid, job_id, submit, worker_id
from tests.unit.grid.staged import Staged, group, part

A = BlobRef(b"a" * 32, 70)
B = BlobRef(b"b" * 32, 8)


def text(name: str) -> str:
    return guid_to_text(job_id(name))


def rows(grid: Grid, table: str) -> dict[str, Any]:
    """The rows of a table by job, after a way over JSON; the last one counts."""
    lines = msgspec.json.Encoder().encode_lines(list(table_rows(grid.state, table)))
    found: list[Any] = msgspec.json.Decoder(TABLES[table]).decode_lines(lines)
    return {getattr(row, "job_id", ""): row for row in found}


def result(**fields: Any) -> bytes:
    return encode_model(JobResult("", None, None, "OK", **fields))


def busy_grid() -> Grid:
    """Jobs in every state."""
    grid = Grid(workers=("w1", "w2"))
    grid.submit("waits", priority=7)
    grid.submit("later", delay_ms=50)
    grid.start("runs", worker="w2")
    grid.start("fine", "bad", "gone", "stopped")
    grid.ack("fine", result=result(stdout="text"), run_ms=12, peak_bytes=99)
    grid.ack("bad", Status.FAILED, exit_code=3, signal=9)
    grid.apply(c.CancelJobs((job_id("stopped"),), "olga"))
    grid.ack("stopped", Status.CANCELLED)
    grid.submit("never")
    grid.apply(c.CancelJobs((job_id("never"),), "olga"))
    grid.nack("gone", detail="no such exec")
    grid.kill("gone")
    return grid


def test_every_job_is_one_row_and_queues_count_the_same() -> None:
    grid = busy_grid()
    grid.submit_array("many", 5)
    grid.assign_task("many")
    jobs = list(table_rows(grid.state, "jobs"))
    assert len(jobs) == len(grid.state.jobs)
    states = Counter(row.state for row in jobs if isinstance(row, JobTableRow))
    (queue,) = (msgspec.structs.asdict(row) for row in table_rows(grid.state, "queues"))
    queue["waiting"] -= queue["tasks_waiting"]
    assert queue["tasks_waiting"] == 4
    assert {word: queue[word] for word in states} == states
    assert set(states) == {"waiting", "delayed", "running", "ok", "failed", "dead", "cancelled"}
    (array,) = (msgspec.structs.asdict(row) for row in table_rows(grid.state, "arrays"))
    assert (array["task_count"], array["waiting"], array["running"]) == (5, 4, 1)


def test_jobs_say_what_their_records_say() -> None:
    grid = busy_grid()
    jobs = rows(grid, "jobs")
    waits = jobs[text("waits")]
    assert (waits.priority, waits.body_bytes, waits.worker_id) == (7, len("waits"), None)
    assert (waits.status, waits.exit_code, waits.cause, waits.confirmed) == (None,) * 4
    assert jobs[text("later")].delay_ms == 50
    runs = jobs[text("runs")]
    assert (runs.worker_id, runs.attempt) == (guid_to_text(worker_id("w2")), 1)
    assert runs.fence == grid.job("runs").fence
    assert runs.stamp == grid.job("runs").stamp_ms
    fine = jobs[text("fine")]
    assert (fine.status, fine.exit_code, fine.run_ms, fine.peak_bytes) == (0, 0, 12, 99)
    assert fine.confirmed is False
    assert (jobs[text("bad")].exit_code, jobs[text("bad")].signal) == (3, 9)
    assert (jobs[text("gone")].cause, jobs[text("gone")].exit_code) == (c.Cause.NACKED, None)
    assert jobs[text("never")].detail == "olga"


def test_blobs_that_a_job_needs_and_leaves_are_counted() -> None:
    grid = Grid()
    grid.apply(
        c.SubmitJob(job_id("x"), "ann", "q", "exe", b"", blobs=(A, B)),
        c.SubmitArray(job_id("many"), "ann", "q", "exe", b"", 2, blobs=(A,)),
    )
    grid.assign_task("many")
    jobs = rows(grid, "jobs")
    assert (jobs[text("x")].blob_bytes, jobs[text("x")].output_bytes) == (78, None)
    assert jobs[text("many")].blob_bytes == 70
    assert jobs[text("many")].array_id == text("many")
    grid.assign("x")
    grid.ack("x", blobs=(B,))
    done = rows(grid, "jobs")[text("x")]
    assert (done.blob_bytes, done.output_bytes) == (0, 8)


def test_attempts_are_those_that_were_lost_and_the_last_one() -> None:
    grid = Grid(workers=("w1", "w2"))
    grid.start("x", max_attempts=9, retry_exit_codes=(75,))
    for again in (
        c.ExpireLeases((c.LostAttempt(job_id("x"), 1),)),
        c.CloseWorker(worker_id("w1"), 1, (c.LostAttempt(job_id("x"), 2),)),
    ):
        grid.apply(again)
        grid.assign("x", worker="w1" if worker_id("w1") in grid.state.workers else "w2")
    grid.nack("x", detail="no room")
    grid.assign("x", worker="w2")
    grid.ack("x", Status.FAILED, exit_code=75)
    grid.assign("x", worker="w2")
    found = [msgspec.structs.asdict(row) for row in table_rows(grid.state, "attempts")]
    assert [(row["attempt"], row["outcome"]) for row in found] == [
        (1, "lease_lost"),
        (2, "worker_down"),
        (3, "nacked"),
        (4, "retried"),
        (5, "running"),
    ]
    assert found[2]["detail"] == "no room"
    assert [row["exit_code"] for row in found] == [None, None, None, 75, None]
    assert found[4]["fence"] == grid.job("x").fence
    assert found[4]["worker_id"] == guid_to_text(worker_id("w2"))


def test_the_last_attempt_has_the_outcome_of_the_job() -> None:
    attempts = rows(busy_grid(), "attempts")
    assert attempts[text("fine")].outcome == "ok"
    assert (attempts[text("bad")].outcome, attempts[text("bad")].exit_code) == ("failed", 3)
    assert attempts[text("stopped")].outcome == "cancelled"
    assert attempts[text("gone")].outcome == "nacked"
    assert text("never") not in attempts
    assert text("waits") not in attempts


def test_results_say_what_was_said() -> None:
    grid = Grid()
    grid.start("x", "opaque", "silent", "bytes")
    blobs = (OutputFile("big.bin", "ab" * 32, 8),)
    said = result(stdout="out", stderr="err", output_archive=b"PK", note="cut", outputs=blobs)
    grid.ack("x", result=said, blobs=(B,))
    grid.ack("opaque", result=b"\0raw")
    grid.ack("silent", result=b"")
    grid.ack("bytes", result=result(data=b"\1\2"))
    grid.submit("open")
    results = rows(grid, "results")
    assert set(results) == {text(name) for name in ("x", "opaque", "silent", "bytes")}
    x: ResultRow = results[text("x")]
    assert (x.stdout, x.stderr, x.note, x.archive, x.payload) == ("out", "err", "cut", b"PK", None)
    assert x.outputs == (OutputTableRow("big.bin", "ab" * 32, 8),)
    assert (x.output_bytes, x.state, x.status, x.attempt) == (8, "ok", 0, 1)
    assert x.worker_id == guid_to_text(worker_id("w1"))
    assert (results[text("opaque")].payload, results[text("opaque")].stdout) == (b"\0raw", None)
    assert results[text("silent")].payload is None
    assert results[text("bytes")].payload == b"\1\2"
    assert ended_job(grid.job("open")) is None


def test_the_dead_come_with_what_a_redrive_needs() -> None:
    grid = Grid()
    body = encode_model(job_request(job_id("x"), "ann", "exe", args=("a", "b")))
    grid.apply(
        submit("x", body=body, max_attempts=1, retry_exit_codes=(9,), priority=4),
        submit("raw", body=b"\xff", max_attempts=1),
    )
    grid.assign("x")
    grid.ack("x", Status.FAILED, exit_code=9, run_ms=5, result=result(stderr="why"), detail="d")
    grid.kill("raw")
    grid.start("fine")
    dead = rows(grid, "dlq")
    assert set(dead) == {text("x"), text("raw")}
    x: DeadRow = dead[text("x")]
    assert (x.args, x.body, x.priority) == (("a", "b"), body, 4)
    assert (x.cause, x.cause_name, x.exit_code, x.run_ms) == (4, "exit_code", 9, 5)
    assert (x.stderr, x.detail) == ("why", "d")
    raw: DeadRow = dead[text("raw")]
    assert (raw.args, raw.body, raw.cause_name) == (None, b"\xff", "nacked")


def test_a_job_is_called_by_its_key_in_every_table() -> None:
    grid = Grid()
    grid.apply(msgspec.structs.replace(submit("x", max_attempts=1), key="row-7"))
    grid.kill("x")
    for table in ("jobs", "attempts", "results", "dlq"):
        assert rows(grid, table)[text("x")].job_key == "row-7"
    grid.submit("bare")
    assert rows(grid, "jobs")[text("bare")].job_key is None


def test_jobs_of_a_batch_that_was_accepted_are_there_before_they_are_in_their_queues() -> None:
    grid = Staged()
    grid.submit("known")
    later = group("c", queue="new", options=JobOptions(delay_ms=9, priority=4))
    messages = (group("a", "b", keys=join_keys(["", "k"]), blobs=((A,), ())), later)
    grid.stage("p", *messages)
    assert set(rows(grid, "jobs")) == {text("known")}
    grid.commit(part("p", messages))
    before = rows(grid, "jobs")
    assert set(before) == {text(name) for name in ("known", "a", "b", "c")}
    assert (before[text("a")].state, before[text("a")].blob_bytes) == ("waiting", 70)
    assert (before[text("b")].job_key, before[text("a")].job_key) == ("k", None)
    assert (before[text("c")].state, before[text("c")].delay_ms) == ("delayed", 9)
    queues = {row.queue: row for row in queue_rows(grid.state)}
    assert (queues["q"].queued, queues["new"].delayed, queues["new"].paused) == (3, 1, False)
    grid.unpack()
    after = rows(grid, "jobs")
    assert set(after) == set(before)
    for name in ("a", "b", "c"):
        assert msgspec.structs.replace(after[text(name)], stamp=0) == msgspec.structs.replace(
            before[text(name)], stamp=0
        )
    assert {row.queue: row for row in queue_rows(grid.state)} == queues


def test_workers_and_what_they_hold() -> None:
    found = [msgspec.structs.asdict(row) for row in table_rows(busy_grid().state, "workers")]
    assert [(row["name"], row["slots"], row["held"]) for row in found] == [
        ("w1", 4, 0),
        ("w2", 4, 1),
    ]
    assert found[0]["patterns"] == (">",)


@pytest.mark.parametrize("broken", [b'{"Status":1}', b"{", b"\xff\xfe", b"[]"])
def test_what_is_no_result_is_bytes(broken: bytes) -> None:
    assert said_in(broken).data == broken
    assert args_in(broken) is None


@pytest.mark.parametrize("broken", [b'{"JobId":1}', b""])
def test_a_body_without_arguments(broken: bytes) -> None:
    assert args_in(broken) is None


def test_numbers_of_strangers_fit_their_columns() -> None:
    assert [int32(n) for n in (0, -5, 2**31 - 1, 0xC0000005, 2**40, -(2**40))] == [
        *(0, -5, 2**31 - 1, 0xC0000005 - 2**32),
        *(2**31 - 1, -(2**31)),
    ]
    assert [int64(n) for n in (7, 2**64 - 1, -(2**70))] == [7, 2**63 - 1, -(2**63)]
