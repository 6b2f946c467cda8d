"""Writes: every row is a new job, or the redrive of a dead one. Tasks stage their rows, the driver
commits them: by one log entry, or by several in order if one cannot hold them.

The parts of a task have unique names, so a task that runs twice does no harm: the driver commits
only the parts of the result that Spark accepted. The write has a key: a retry of a write that was
accepted has no effect, and one that was accepted in part is continued.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.limits import BATCH_KEY_BYTES_MAX
from rollq.spark.source.commits import Commits
from rollq.spark.source.jobs import Rows, check_columns, paged
from rollq.spark.source.options import check_length
from rollq.spark.source.redrives import Redrives, check_redrive_columns
from rollq.spark.source.segments import Page, SegmentSender, SentSegment
from rollq.spark.source.versions import StreamWriter, streamed_batches
from rollq.spark.source.write_options import REDRIVE, WriteOptions

if TYPE_CHECKING:
    from rollq.roles.client.blocking.clients import BlockingClient

QUERY_BYTES_MAX: Final = 64  # of a query id and a batch id


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """The commit message of a task: the segments that it sent, if it had any rows."""

    batch_key: str
    segments: list[SentSegment]


class JobsWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        _check(schema, options, overwrite)
        self._options = options
        self._batch_key = options.batch_key or f"spark-{secrets.token_hex(16)}"
        self._names = schema.fieldNames()

    def write(self, iterator: Iterator[Any]) -> Sent:
        """Send the rows of a task."""
        return send(self._options, self._batch_key, iterator, self._names)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Accept the segments of all tasks."""
        accept(self._options, self._batch_key, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        forget(self._options, self._batch_key)


class JobsStream(StreamWriter):
    """A streaming write; each micro-batch has a key made of query id and batch id."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        _check(schema, options, overwrite)
        check_length("batchKey", options.batch_key, BATCH_KEY_BYTES_MAX - QUERY_BYTES_MAX)
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[Any]) -> Sent:
        """Send the rows of a task."""
        context = _context()
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        if not query or not number:  # all micro-batches would have the same key
            raise StateError(
                ErrorCode.WRONG_STATE,
                "Spark does not say which batch of which query this is",
                "use a trigger that makes batches: processingTime or availableNow",
            )
        prefix = f"{self._options.batch_key}-" if self._options.batch_key else ""
        batches = streamed_batches(iterator, self._schema)
        names = self._schema.fieldNames()
        return send(self._options, f"{prefix}{query}-{number}", batches, names)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Accept the micro-batch."""
        for key in _keys(messages):
            accept(self._options, key, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what was staged. If no message has the key, the grid drops it after a while."""
        for key in _keys(messages):
            forget(self._options, key)


def send(options: WriteOptions, batch_key: str, batches: Iterator[Any], names: list[str]) -> Sent:
    """Send the rows of a task."""
    partition = _context().partitionId()
    pages: Iterator[Page] = (
        paged(Redrives(partition).jobs(batches))
        if options.op == REDRIVE
        else Rows(options.defaults, partition).pages(batches)
    )
    first = list(islice(pages, 1))
    if not first:
        return Sent(batch_key, [])
    has_ids = not {"job_key", "job_id"}.isdisjoint(names)
    with _client(options) as client:
        segments = SegmentSender(client, options.client_id, batch_key, partition, has_ids)
        return Sent(batch_key, segments.send(chain(first, pages)))


def accept(
    options: WriteOptions, batch_key: str, messages: list[WriterCommitMessage | None]
) -> None:
    """Accept the segments of all tasks."""
    sent = [each for each in messages if isinstance(each, Sent) and each.segments]
    if sent:
        with _client(options) as client:
            segments = [segment for each in sent for segment in each.segments]
            Commits(client, options.client_id, batch_key).accept(segments)


def forget(options: WriteOptions, batch_key: str) -> None:
    """Drop what was staged."""
    with _client(options) as client:
        client.drop_batch(batch_key, client_id=options.client_id)


def _check(schema: StructType, options: WriteOptions, overwrite: bool) -> None:
    if overwrite:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "jobs cannot be overwritten",
            "use .mode('append'), or outputMode('append')",
        )
    if options.op == REDRIVE:
        check_redrive_columns(schema)
    else:
        check_columns(schema, options.defaults)


def _keys(messages: list[WriterCommitMessage | None]) -> list[str]:
    keys = (each.batch_key for each in messages if isinstance(each, Sent))
    return list(dict.fromkeys(keys))


def _client(options: WriteOptions) -> BlockingClient:
    from rollq.roles.client.blocking.clients import BlockingClient

    return BlockingClient(
        options.servers, timeout=options.timeout_s, credentials=options.credentials
    )


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "this runs in tasks only"
    return context
