"""Rows of the table of dead jobs, written back."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from rollq.base.errors import LocalError
from rollq.base.ids import guid_to_text
from rollq.roles.client.jobs.parts import Redrive
from rollq.roles.client.jobs.specs import JobSpec, body_of
from rollq.spark.source.redrives import Redrives, check_redrive_columns
from rollq.spark.source.write_options import write_options

JOB = bytes(range(1, 17))
ID = guid_to_text(JOB)
BODY = body_of(JobSpec("calc", ("1", "2"), {"in.txt": b"data"}), JOB, "ann")


def batch(**columns: list[Any]) -> pa.RecordBatch:
    types = {"job_id": pa.string(), "body": pa.binary(), "args": pa.list_(pa.string())}
    return pa.RecordBatch.from_arrays(
        [pa.array(values, types.get(name, pa.int64())) for name, values in columns.items()],
        names=list(columns),
    )


def made(**columns: list[Any]) -> list[Redrive]:
    return list(Redrives(3).jobs(iter([batch(**columns)])))


def test_a_job_alone_runs_as_it_is() -> None:
    assert made(job_id=[ID], priority=[3]) == [Redrive(JOB, None)]


def test_a_body_takes_the_place_of_the_one_it_had() -> None:
    assert made(job_id=[ID, ID], body=[b"raw", None]) == [Redrive(JOB, b"raw"), Redrive(JOB, None)]


def test_other_arguments_are_put_into_the_body_and_nothing_else_changes() -> None:
    same, other, raw = made(
        job_id=[ID, ID, ID], body=[BODY, BODY, b"raw"], args=[["1", "2"], ["9"], None]
    )
    assert (same.body, raw.body) == (BODY, b"raw")
    assert other.body is not None
    before, after = msgspec.json.decode(BODY), msgspec.json.decode(other.body)
    assert after.pop("Args") == ["9"]
    assert before.pop("Args") == ["1", "2"]
    assert before == after


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"job_id": [ID, None]}, "row 2 of partition 3: column job_id is NULL"),
        ({"job_id": ["x"]}, "row 1 of partition 3: column job_id is 'x'"),
        ({"job_id": [ID], "body": [BODY], "args": [[None]]}, "column args is"),
        ({"job_id": [ID], "body": [b"raw"], "args": [["1"]]}, "column args is"),
        ({"job_id": [ID], "body": [b'{"ExecName":1}'], "args": [["1"]]}, "column args is"),
        ({"job_id": [ID], "body": [None], "args": [["1"]]}, "column args is"),
        ({"job_id": [ID], "body": [BODY], "args": [["1" * 70_000]]}, "column args is"),
    ],
)
def test_a_row_that_cannot_be_meant_so_is_named(columns: dict[str, list[Any]], told: str) -> None:
    with pytest.raises(LocalError, match=told):
        made(**columns)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"body": "binary"}, "no column says which job"),
        ({"job_id": "string", "args": "array"}, "need the body"),
        ({"job_id": "long"}, "column job_id is bigint"),
        ({"job_id": "string", "colour": "string"}, "no column 'colour'"),
    ],
)
def test_columns_are_checked_before_anything_is_sent(fields: dict[str, str], told: str) -> None:
    kinds: dict[str, Any] = {"array": {"type": "array", "elementType": "string"}}
    described = [
        {
            "name": name,
            "type": {**kinds["array"], "containsNull": True} if kind == "array" else kind,
            "nullable": True,
            "metadata": {},
        }
        for name, kind in fields.items()
    ]
    with pytest.raises(LocalError, match=told):
        check_redrive_columns(StructType.fromJson({"type": "struct", "fields": described}))


def test_options_of_new_jobs_are_not_those_of_dead_ones() -> None:
    given = {"servers": "127.0.0.1:1", "op": "redrive"}
    assert write_options(given).op == "redrive"
    with pytest.raises(LocalError, match="option queue='x'"):
        write_options(given | {"queue": "x"})
    with pytest.raises(LocalError, match="option op='again'"):
        write_options(given | {"op": "again"})
