"""Rows of tables of the state as Arrow, with the columns that Spark is told of."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from rollq.history.arrow import arrow_schema
from rollq.history.tables import TABLES, DeadRow, JobTableRow, OutputTableRow, ResultRow, TableRow
from rollq.spark.schemas import columns_of
from rollq.spark.state_rows import from_state_lines


def table_of(name: str, *rows: TableRow, columns: tuple[str, ...] = ()) -> pa.Table:
    lines = msgspec.json.Encoder().encode_lines(list(rows))
    return from_state_lines(name, lines, columns_of(name, columns), "g1", 77)


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_has_its_columns_and_its_place(name: str) -> None:
    columns = columns_of(name)
    assert [column.name for column in columns[-2:]] == ["_group", "_index"]
    empty = table_of(name)
    assert empty.schema == arrow_schema(columns)
    bare = table_of(name, TABLES[name]()).to_pylist()[0]
    assert (bare["_group"], bare["_index"]) == ("g1", 77)


def test_what_is_absent_is_null_and_what_is_nothing_is_zero() -> None:
    waits = JobTableRow(job_id="a", state="queued", stamp=1_500)
    done = JobTableRow(job_id="b", state="done", status=0, exit_code=0, run_ms=3, confirmed=False)
    rows = table_of("jobs", waits, done).to_pylist()
    assert (rows[0]["status"], rows[0]["exit_code"], rows[0]["job_key"]) == (None, None, None)
    assert (rows[0]["attempt"], rows[0]["fence"]) == (0, 0)
    assert rows[0]["stamp"].timestamp() == 1.5
    assert (rows[1]["status"], rows[1]["exit_code"], rows[1]["confirmed"]) == (0, 0, False)


def test_bytes_lists_and_outputs() -> None:
    outputs = (OutputTableRow("a.bin", "ab" * 32, 2**40),)
    row = ResultRow(job_id="a", payload=b"\0\xff", outputs=outputs, stdout="ø")
    (found,) = table_of("results", row).to_pylist()
    assert (found["payload"], found["archive"], found["stdout"]) == (b"\0\xff", None, "ø")
    assert found["outputs"] == [{"name": "a.bin", "digest": "ab" * 32, "size": 2**40}]
    (bare,) = table_of("results", ResultRow(job_id="a")).to_pylist()
    assert bare["outputs"] == []
    dead = table_of("dlq", DeadRow(args=("a", "")), DeadRow(), columns=("args", "_index"))
    assert dead.to_pylist() == [{"args": ["a", ""], "_index": 77}, {"args": None, "_index": 77}]


@pytest.mark.parametrize("name", list(TABLES))
def test_the_page_names_every_column(name: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8")
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    assert told == [(column.name, column.type) for column in columns_of(name)[:-2]]
