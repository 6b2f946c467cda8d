"""Rows of the stream of results: what the state knows of an end, else what its event says."""

from __future__ import annotations

import pytest

from rollq.history.columns import Column
from rollq.history.schema import HistoryRow
from rollq.history.tables import ResultRow
from rollq.roles.reader.models import LINES, Piece
from rollq.roles.reader.reader import Reader
from rollq.spark.schemas import columns_of
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Slice
from rollq.spark.source.results import GroupResults, result_of

ID = "00112233-4455-6677-8899-aabbccddeeff"
ACKED = HistoryRow(
    7, 0, 1_500, "ack", jobId=ID, attempt=2, exitCode=3, status=1, jobKey="k", runMs=5
)


def test_an_end_that_the_state_knows() -> None:
    known = ResultRow(job_id=ID, state="failed", attempt=2, stdout="out")
    assert result_of(ACKED, known) is known


@pytest.mark.parametrize(
    "known",
    [
        None,
        ResultRow(job_id=ID, state="failed", attempt=3, stdout="of another attempt"),
        ResultRow(job_id=ID, state="dead", attempt=2, stdout="of another end"),
    ],
)
def test_an_end_that_is_forgotten_or_was_not_the_last(known: ResultRow | None) -> None:
    row = result_of(ACKED, known)
    assert (row.job_id, row.job_key, row.state, row.stamp) == (ID, "k", "failed", 1_500)
    assert (row.status, row.exit_code, row.run_ms, row.attempt) == (1, 3, 5, 2)
    assert (row.stdout, row.payload, row.worker_id) == (None, None, None)


@pytest.mark.parametrize(
    ("kind", "state", "status"),
    [("dlq", "dead", 1), ("expire", "dead", 1), ("cancel", "cancelled", 2)],
)
def test_ends_without_a_result(kind: str, state: str, status: int) -> None:
    row = result_of(HistoryRow(7, 0, 1, kind, jobId=ID, cause=3, detail="why"), None)
    assert (row.state, row.status, row.cause, row.detail) == (state, status, 3, "why")


def test_every_end_of_a_piece_is_a_row_with_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        b'{"index":4,"ordinal":0,"ts":1,"type":"enqueue","jobId":"%(id)s"}\n'
        b'{"index":5,"ordinal":0,"ts":1,"type":"dlq","jobId":"%(id)s","attempt":1}\n'
        b'{"index":6,"ordinal":0,"ts":1,"type":"cancel","arrayId":"%(id)s","count":9}\n'
        b'{"index":9,"ordinal":0,"ts":1,"type":"ack","jobId":"%(id)s","attempt":2}\n'
    ) % {b"id": ID.encode()}
    asked: list[tuple[int, int]] = []

    def results(_: Reader, job_ids: list[bytes], *, index_min: int) -> list[ResultRow]:
        asked.append((len(job_ids), index_min))
        return [ResultRow(job_id=ID, state="ok", attempt=2, stdout="out")]

    monkeypatch.setattr(Reader, "pieces", lambda *_, **__: [Piece(1, 9, LINES, lines)])
    monkeypatch.setattr(Reader, "results", results)
    place = GroupResults(SourceOrigin(servers="127.0.0.1:1"), 1.0)
    wanted: tuple[Column, ...] = columns_of("results", ("state", "stdout", "_group", "_index"))
    (table,) = place.tables(Slice(SourceOrigin(), "g", 1, 9), wanted)
    assert table.to_pylist() == [
        {"state": "dead", "stdout": None, "_group": "g", "_index": 5},
        {"state": "ok", "stdout": "out", "_group": "g", "_index": 9},
    ]
    assert asked == [(1, 9)]
