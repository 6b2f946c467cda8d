"""How a batch of a stream is known."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from rollq.base.errors import LocalError, StateError
from rollq.spark.source import write
from rollq.spark.source.write import JobsStream, Sent
from rollq.spark.source.write_options import write_options

SCHEMA = StructType([StructField("exec", StringType())])


def stream(**options: str) -> JobsStream:
    given = write_options({"servers": "127.0.0.1:1"} | options)
    return JobsStream(SCHEMA, given, overwrite=False)


def task(monkeypatch: pytest.MonkeyPatch, **properties: str) -> None:
    """Whoever asks is in a task of Spark with these properties."""
    context = SimpleNamespace(getLocalProperty=properties.get, partitionId=lambda: 7)
    monkeypatch.setattr(write, "_context", lambda: context)


def nothing() -> Iterator[Any]:
    return iter(())


def test_by_the_query_and_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    task(monkeypatch, **{"sql.streaming.queryId": "q", "streaming.sql.batchId": "0"})
    assert stream().write(nothing()) == Sent("q-0", [])
    assert stream(batchKey="load").write(nothing()) == Sent("load-q-0", [])


def test_one_that_spark_does_not_number_is_not_taken_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task(monkeypatch, **{"sql.streaming.queryId": "q"})
    with pytest.raises(StateError, match="which batch"):
        stream().write(nothing())


def test_there_must_be_room_for_both_in_its_key() -> None:
    assert stream(batchKey="x" * 192)
    with pytest.raises(LocalError, match=r"option batchKey=.* up to 192 bytes"):
        stream(batchKey="x" * 193)
