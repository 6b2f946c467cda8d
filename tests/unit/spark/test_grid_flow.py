"""Rows to jobs, and ends to rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from rollq import ErrorCode, LocalError
from rollq.base.ids import JobId, job_id_of_key
from rollq.roles.client.jobs.specs import Input, JobSpec
from rollq.roles.client.many.keyed import Ended
from rollq.roles.client.results.result import Result
from rollq.spark.grid.flow import BATCH_ROWS, LINGER_S, Flow, Layout, MapPlan
from rollq.wire import messages as wire
from rollq.wire.models import JobResult, OutputFile, encode_model
from tests.unit.spark.plans import PLAN

KEYED = replace(PLAN, layout=Layout(1, has_key=True))
NAMES = ("id", "_args", "_key")


class Clock:
    """Time that only a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def flow_of(plan: MapPlan) -> Flow:
    return Flow(plan, "work", Clock())


def batch(*columns: list[Any]) -> pa.RecordBatch:
    types = [pa.int64(), pa.list_(pa.string()), *[pa.string()] * (len(columns) - 2)]
    arrays = [pa.array(one, kind) for one, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(NAMES[: len(columns)]))


def put(flow: Flow, rows: pa.RecordBatch) -> list[JobSpec]:
    return flow.specs(rows, 0, rows.num_rows)


def id_of(spec: JobSpec) -> JobId:
    assert isinstance(spec.job_id, bytes)
    return spec.job_id


def end(
    spec: JobSpec, outcome: str = "done", *, status: int = 0, is_known: bool = False, **report: Any
) -> Ended:
    body = encode_model(JobResult("", "work", "calc", "OK" if not status else "FAILED", **report))
    message = wire.Result(id_of(spec), outcome, status, body, "calc", status, attempt=2, run_ms=7)
    return Ended(id_of(spec), Result(message), None, is_known)


def rows_of(flow: Flow) -> list[dict[str, Any]]:
    return [row for one in flow.batches(all_of_them=True) for row in one.to_pylist()]


def test_a_row_is_a_job_and_its_end_is_a_row() -> None:
    flow = flow_of(PLAN)
    first, second = put(flow, batch([10, 20], [["1", "a"], []]))
    assert (first.exec_name, first.args, second.args) == ("calc", ["1", "a"], [])
    assert flow.open_count == 2
    assert flow.settle([end(second, stdout="x"), end(first, status=3, stderr="why\nnot")]) == []
    assert flow.open_count == 0
    one, other = rows_of(flow)
    assert (one["id"], one["status"], one["stdout"], one["value"]) == (20, "OK", "x", "x")
    assert (one["error"], one["data"], one["outputs"], one["resumed"]) == (None, None, None, False)
    assert (other["id"], other["status"], other["exit_code"]) == (10, "FAILED", 3)
    assert other["error"].endswith("failed with exit code 3; not")
    assert (other["attempts"], other["run_ms"], other["wait_ms"]) == (2, 7, 0)
    assert rows_of(flow) == []


def test_files_and_bytes_that_came_back() -> None:
    flow = flow_of(replace(PLAN, prefix="job_"))
    (spec,) = put(flow, batch([1], [[]]))
    left = OutputFile("big.bin", "ab" * 32, 5)
    flow.settle([end(spec, data=b"\xff", outputs=(left,))])
    (row,) = rows_of(flow)
    assert row["job_data"] == b"\xff"
    assert row["job_value"] is None
    assert row["job_outputs"] == [
        ("big.bin", {"size": 5, "digest": "ab" * 32, "content": None}),
    ]


def test_what_is_not_text_does_not_stop_the_others() -> None:
    flow = flow_of(PLAN)
    (spec,) = put(flow, batch([1], [[]]))
    refused = Ended(id_of(spec), None, LocalError(ErrorCode.BAD_OPTIONS, "odd \udcff"))
    flow.settle([refused])
    (row,) = rows_of(flow)
    assert (row["status"], row["stdout"], row["wait_ms"]) == ("REFUSED", None, None)
    assert "odd ?" in row["error"]


def test_a_task_that_is_tried_again_finds_its_jobs_and_no_others() -> None:
    rows = batch([1, 2, 3], [["a"], ["a"], ["b"]])
    ids = [id_of(spec) for spec in put(flow_of(PLAN), rows)]
    assert len(set(ids)) == 3
    assert [id_of(spec) for spec in put(flow_of(PLAN), rows)] == ids
    in_parts = flow_of(PLAN)
    assert [id_of(spec) for n in range(3) for spec in in_parts.specs(rows, n, 1)] == ids
    other = batch([1, 2, 3], [["a"], ["b"], ["a"]])
    assert [id_of(spec) for spec in put(flow_of(PLAN), other)][1:] != ids[1:]
    elsewhere = Flow(PLAN, "another", Clock())
    assert not set(ids) & {id_of(spec) for spec in put(elsewhere, rows)}


def test_a_key_names_a_job_and_rows_may_share_it() -> None:
    flow = flow_of(KEYED)
    rows = batch([1, 2, 3], [["a"], ["a"], ["b"]], ["k", "k", "k"])
    (spec,) = put(flow, rows)
    assert spec.job_id == job_id_of_key("work", "k")
    assert flow.open_count == 2
    flow.settle([end(spec, stdout="x")])
    by_id = {row["id"]: row for row in rows_of(flow)}
    assert [by_id[n]["stdout"] for n in (1, 2)] == ["x", "x"]
    assert (by_id[3]["status"], by_id[3]["job_id"]) == ("REFUSED", None)
    assert by_id[3]["error"] == "another row has this job_key, and not the same arguments"


def test_what_an_earlier_run_was_cancelled_in_is_run_again() -> None:
    flow = flow_of(KEYED)
    (spec,) = put(flow, batch([1], [["a"]], ["k"]))
    (again,) = flow.settle([end(spec, "cancelled", status=2, is_known=True)])
    assert id_of(again) != id_of(spec)
    assert again.args == ["a"]
    (third,) = flow.settle([end(again, "cancelled", status=2, is_known=True)])
    assert rows_of(flow) == []
    assert flow.open_count == 1
    assert flow.settle([end(third, "cancelled", status=2)]) == []  # in this run, by somebody
    (row,) = rows_of(flow)
    assert (row["status"], row["resumed"]) == ("CANCELLED", False)


def test_only_what_is_to_be_run_again_is() -> None:
    flow = flow_of(KEYED)
    specs = put(flow, batch([1, 2], [["a"], ["b"]], ["k", "l"]))
    assert flow.settle([end(one, status=1, is_known=True) for one in specs]) == []
    assert [row["resumed"] for row in rows_of(flow)] == [True, True]
    flow = flow_of(replace(KEYED, rerun=frozenset({"FAILED"})))
    specs = put(flow, batch([1, 2], [["a"], ["b"]], ["k", "l"]))
    ended = [end(specs[0], status=1, is_known=True), end(specs[1], is_known=True)]
    assert len(flow.settle(ended)) == 1


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (([1], [None]), "the arguments are NULL"),
        (([1], [["a", None]]), "argument 2 is NULL"),
        (([1], [["a"]], [None]), "job_key is NULL or empty"),
        (([1], [["a"]], ["ä" * 200]), "job_key is longer than 256 bytes"),
    ],
)
def test_a_row_that_cannot_be_a_job_is_a_row_that_says_so(
    columns: tuple[list[Any], ...], error: str
) -> None:
    flow = flow_of(KEYED if len(columns) == 3 else PLAN)
    assert put(flow, batch(*columns)) == []
    (row,) = rows_of(flow)
    assert row["status"] == "REFUSED"
    assert row["error"].startswith(error)
    assert flow.open_count == 0


def bytes_batch(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    arrays = [pa.array(range(count)), pa.array([[]] * count, pa.list_(pa.string()))]
    return pa.RecordBatch.from_arrays(
        [*arrays, pa.array(values, pa.binary())], names=["id", "_args", "_bytes"]
    )


def test_payloads_and_files_of_rows() -> None:
    flow = flow_of(replace(PLAN, layout=Layout(1, has_payload=True)))
    (spec,) = put(flow, bytes_batch(b"{}", None))
    assert (spec.payload, tuple(spec.args)) == (b"{}", ())
    assert [row["error"] for row in rows_of(flow)] == ["the payload is NULL"]
    same: Mapping[str, Input] = {"same": b"for all"}
    flow = flow_of(replace(PLAN, layout=Layout(1, file_names=("in",)), files=same))
    first, second = put(flow, bytes_batch(b"1", b"2", None))
    assert first.files == {"same": b"for all", "in": b"1"}
    assert id_of(first) != id_of(second)
    assert [row["error"] for row in rows_of(flow)] == ["the file 'in' is NULL"]


def test_rows_go_on_when_there_are_enough_or_the_first_has_waited() -> None:
    flow = flow_of(PLAN)
    count = BATCH_ROWS + 1
    specs = put(flow, batch(list(range(count)), [[str(n)] for n in range(count)]))
    waits = [flow.linger_s]
    flow.settle([end(specs[0])])
    assert [*waits, flow.linger_s] == [None, LINGER_S]
    assert list(flow.batches()) == []
    flow.settle([end(one) for one in specs[1:]])
    assert [one.num_rows for one in flow.batches()] == [count]
    specs = put(flow, batch([1, 2], [["a"], ["b"]]))
    flow.settle([end(specs[0])])
    assert isinstance(flow.clock, Clock)
    flow.clock.now += 2 * LINGER_S
    assert [one.num_rows for one in flow.batches()] == [1]
