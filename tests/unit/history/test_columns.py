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


def test_numbers_of_old_that_no_column_holds_are_cut_to_what_it_holds() -> None:
    events = [
        Event("ack", b"\x01" * 16, exit_code=2**63, signal=-(2**40), run_ms=2**64 - 1),
        Event("ack", b"\x02" * 16, exit_code=0xC0000005, run_ms=5, attempt=2**40),
        Event("ack", b"\x03" * 16, exit_code=3),
    ]
    lines = b"".join(line + b"\n" for line in to_lines(7, 1_700_000_000_123, events))
    rows = from_lines(lines, EVENTS, "g").to_pylist()
    assert [row["exit_code"] for row in rows] == [2**31 - 1, 0xC0000005 - 2**32, 3]
    assert [row["run_ms"] for row in rows] == [2**63 - 1, 5, 0]
    assert [row["signal"] for row in rows] == [-(2**31), 0, 0]
    assert [row["attempt"] for row in rows] == [0, 2**31 - 1, 0]
    assert [row["job_id"][:2] for row in rows] == ["01", "02", "03"]
