from __future__ import annotations

import pytest

from rollq.grid.events import Event
from rollq.history.columns import EVENTS
from rollq.history.schema import Row, to_lines

pytest.importorskip("pyarrow")

from rollq.history.arrow import from_lines


def test_every_field_of_a_row_has_one_column_and_its_type_fits() -> None:
    fields = {field for _, _, field in EVENTS if field}
    assert set(Row.__struct_fields__) <= fields
    assert len(fields) == len(EVENTS) - 1
    assert len({name for name, _, _ in EVENTS}) == len(EVENTS)
    types = Row.__annotations__
    for name, kind, field in EVENTS:
        if field in types:
            assert (types[field] == "str") == (kind == "string"), name


def test_rows_become_columns_with_absent_text_as_null_and_absent_numbers_as_zero() -> None:
    events = [
        Event("ack", b"\x01" * 16, "ann", "calc", exec_name="calc", exit_code=3, run_ms=2**40),
        Event("queue_pause", queue="calc", detail="über"),
    ]
    lines = b"".join(line + b"\n" for line in to_lines(7, 1_700_000_000_123, events))
    table = from_lines(lines, EVENTS, "g")
    first, second = table.to_pylist()
    assert table.column_names == [column.name for column in EVENTS]
    assert (first["type"], first["client_id"], first["exec"]) == ("ack", "ann", "calc")
    assert (first["exit_code"], first["run_ms"], first["worker_id"]) == (3, 2**40, None)
    assert (second["job_id"], second["detail"], second["attempt"]) == (None, "über", 0)
    assert [row["_ordinal"] for row in (first, second)] == [0, 1]
    assert (first["_group"], first["_index"]) == ("g", 7)
    assert first["_ts"].isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert from_lines(b"", EVENTS, "g").num_rows == 0
