from __future__ import annotations

import msgspec
import pytest

from rollq.base.requests import kept_of
from rollq.grid.events import AccessFact, Event, Run, each_of
from rollq.history.columns import EVENTS
from rollq.history.packed import PackedIndex, pack
from rollq.history.schema import HistoryRow, to_lines
from tests.unit.history.test_schema import COUNT, IDS
from tests.unit.history.test_schema import EVENTS as RUNS

pytest.importorskip("pyarrow")

import pyarrow as pa

from rollq.history.arrow import from_lines, from_packed, from_stream

EVE = AccessFact("eve", action="jobs.read", resource="client:bob", address="h")


def test_every_field_of_a_row_has_one_column_and_its_type_fits() -> None:
    fields = {field for _, _, field in EVENTS if field}
    assert set(HistoryRow.__struct_fields__) <= fields
    assert len(fields) == len(EVENTS) - 1
    assert len({name for name, _, _ in EVENTS}) == len(EVENTS)
    types = HistoryRow.__annotations__
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


def test_what_a_job_was_asked_to_run_is_in_its_row_without_values_of_variables() -> None:
    files = [
        {"Name": "in.txt", "Content": "MTIz"},
        {"Name": "big", "Digest": "ab" * 32, "Size": 9_000_000},
        {"Name": "held", "CacheId": "set"},
    ]
    body = {"JobId": "x", "Args": ["1", "two words"], "Files": files, "Env": {"TOKEN": "secret"}}
    bodies = [msgspec.json.encode(body), b"\x00bare", msgspec.json.encode({"JobId": "x"})]
    events = [Event("enqueue", b"\x01" * 16, request=kept_of(one)) for one in bodies]
    events.append(Event("assign", b"\x01" * 16))
    lines = to_lines(7, 1_700_000_000_123, events)
    assert b"secret" not in b"".join(lines)
    rows = from_lines(b"\n".join(lines) + b"\n", EVENTS, "g").to_pylist()
    asked = [row["request"] and msgspec.json.decode(row["request"]) for row in rows]
    assert asked[0]["args"] == ["1", "two words"]
    assert asked[0]["env"] == ["TOKEN"]
    assert asked[0]["files"] == [
        {"name": "in.txt", "bytes": 3},
        {"name": "big", "bytes": 9_000_000, "digest": "ab" * 32},
        {"name": "held", "cache": "set"},
    ]
    assert asked[1:] == [{"payload_bytes": 5}, {"args": []}, None]


def test_who_asked_for_what_is_in_its_row() -> None:
    events = [Event("refused", count=2, access=EVE), Event("cancel", access=AccessFact("olga"))]
    lines = b"".join(line + b"\n" for line in to_lines(7, 1, events))
    first, second = from_lines(lines, EVENTS, "g").to_pylist()
    named = ("asked_by", "account", "action", "resource", "address")
    assert [first[name] for name in named] == ["eve", None, "jobs.read", "client:bob", "h"]
    assert [second[name] for name in named] == ["olga", None, None, None, None]


def test_columns_of_a_member_that_does_not_know_requests_have_none() -> None:
    lines = b"\n".join(to_lines(7, 1, [Event("enqueue", b"\x01" * 16)])) + b"\n"
    names = [column.name for column in EVENTS]
    older = from_lines(lines, EVENTS[: names.index("request")], "g")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, older.schema) as stream:
        stream.write_table(older)
    (row,) = from_stream(sink.getvalue(), EVENTS).to_pylist()
    assert (row["type"], row["request"]) == ("enqueue", None)


def _both(indexes: list[PackedIndex]) -> tuple[pa.Table, pa.Table]:
    """Of packed events: columns made of them, and of their lines."""
    lines = b"".join(line + b"\n" for index in indexes for line in index.lines())
    ours = from_packed(indexes, EVENTS, "g").combine_chunks()
    return ours, from_lines(lines, EVENTS, "g").combine_chunks()


def test_columns_of_packed_events_are_those_of_their_lines() -> None:
    mixed = [Event("worker_up", worker_id=IDS[:16], detail="über"), *RUNS, Event("queue_pause")]
    cases = [
        [pack(3, 1_700_000_000_123, mixed), pack(4, 5, []), pack(5, 7, mixed[:2])],
        [pack(3, 1_700_000_000_123, RUNS)],
        [pack(3, 1, list(each_of(RUNS))), pack(4, 2, [Event("queue_pause", queue="q")])],
        [pack(3, 1, [Event("ack", fence=5, run=Run(IDS[:16], run_ms=(7,)))])],
        [pack(3, 1, [])],
        [pack(3, 1, [Event("refused", count=2, access=EVE), *RUNS])],
        [pack(3, 1, [Event("cancel", access=EVE, run=Run(IDS))])],
    ]
    for indexes in cases:
        packed, by_lines = _both(indexes)
        assert packed.schema == by_lines.schema
        for name in by_lines.column_names:
            assert packed[name].to_pylist() == by_lines[name].to_pylist(), name
    assert from_packed([], EVENTS, "g").num_rows == 0


def test_only_what_is_wanted_of_packed_events_is_made() -> None:
    wanted = (EVENTS[1], EVENTS[8])
    table = from_packed([pack(3, 1, RUNS)], wanted, "g")
    assert table.column_names == [column.name for column in wanted]
    assert len(table) == len(RUNS) * COUNT


def test_numbers_that_no_column_holds_are_cut_in_packed_events_too() -> None:
    large = Event("ack", exit_code=2**63, run=Run(IDS, run_ms=(2**64 - 1,) * COUNT))
    packed, by_lines = _both([pack(3, 1, [large, Event("ack", b"\x01" * 16, signal=-(2**40))])])
    assert packed.to_pylist() == by_lines.to_pylist()
