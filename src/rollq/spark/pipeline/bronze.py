"""Events, written to files by the tasks that read them: rows stay in Arrow all the way.

Each task also returns statistics by hour, so that later stages know what the batch touches without
reading it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rollq.grid.events import WORKER_CLOSED, WORKER_OPENED
from rollq.spark.pipeline.catalog import BRONZE
from rollq.spark.pipeline.manifest import DATA, File
from rollq.spark.pipeline.tables import (
    CODEC,
    DAY,
    DAY_MS,
    FILE_ROWS_MAX,
    HOUR_MS,
    day_of,
    describe,
)
from rollq.spark.schemas import columns_of
from rollq.spark.source.options import ReadOptions
from rollq.spark.source.places import Slice
from rollq.spark.source.planning import rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP_ROWS: Final = 131_072  # rows of a row group, the unit of pruning
PAGE_BYTES: Final = 256 << 10
ROW_BYTES: Final = 200  # approximate size of a JSON line
TOLD: Final = "told"
_US: Final = 1000  # microseconds of a millisecond


@dataclass(frozen=True, slots=True)
class Reading:
    """A range of the history, divided into slices for tasks."""

    options: ReadOptions
    slices: list[Slice]
    indexes: int  # length of the range
    size_bytes: int = 0  # as JSON lines; 0: unknown
    starts: Mapping[str, int] = field(default_factory=dict)  # first index by group
    missing: Mapping[str, int] = field(default_factory=dict)  # count of missing indexes by group

    def rows_about(self, rows_per_index: float) -> float:
        """The expected number of rows."""
        return self.size_bytes / ROW_BYTES if self.size_bytes else self.indexes * rows_per_index


class Hour(msgspec.Struct, frozen=True):
    """Statistics of the events of one hour, from one task."""

    group: str
    hour_ms: int
    last_index: int
    first_ms: int
    last_ms: int
    has_arrays: bool
    has_workers: bool
    has_acts: bool  # actions of users
    events: int = 0
    astray: int = 0  # out of order: duplicates, or after a gap
    back: int = 0  # with an earlier timestamp than the event before


class Written(msgspec.Struct):
    """The output of tasks."""

    files: list[File]
    hours: list[Hour]


def write(
    spark: SparkSession,
    reading: Reading,
    out: Path,
    stamp: str,
    known: Mapping[str, int],
    *,
    is_small: bool,
) -> Written:
    """Write events as new files of the bronze table, invisible until a manifest lists them.

    Args:
        spark: the session.
        reading: the range to read.
        out: the folder of the tables.
        stamp: the name of the batch's folder.
        known: by group the last index that is in the tables; events up to it are skipped.
        is_small: few rows are expected, which are read on the driver rather than in tasks.
    """
    count = len(reading.slices)
    if not count:
        return Written([], [])
    task = partial(written_by_task, reading, str(out.absolute()), stamp, dict(known))
    if is_small:
        here = task([pa.RecordBatch.from_pydict({"id": range(count)})])
        told = [each.column(0)[0].as_py() for each in here]
    else:
        rows = spark.range(0, count, 1, count).mapInArrow(task, f"{TOLD} binary").collect()
        told = [bytes(row[0]) for row in rows]
    each = [msgspec.json.decode(one, type=Written) for one in told]
    return Written(
        sorted((file for one in each for file in one.files), key=lambda file: file.path),
        [hour for one in each for hour in one.hours],
    )


def events(spark: SparkSession, reading: Reading, known: Mapping[str, int]) -> DataFrame:
    """Events as a DataFrame, for formats that are written by Spark; known events are skipped, as in
    `write`."""
    count = len(reading.slices)
    task = partial(read_by_task, reading, dict(known))
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(task, BRONZE.ddl)


def read_by_task(
    reading: Reading, known: Mapping[str, int], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A task that returns rows of slices."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            wanted = reading.slices[number]
            for table in _tables(reading.options, wanted, known.get(wanted.group, -1)):
                yield from table.select(list(BRONZE.names)).to_batches()


def written_by_task(
    reading: Reading,
    out: str,
    stamp: str,
    known: Mapping[str, int],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """A task that writes slices to files."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            wanted = reading.slices[number]
            written = _Writer(Path(out), stamp, wanted.group, number)
            for table in _tables(reading.options, wanted, known.get(wanted.group, -1)):
                written.take(table)
            told = msgspec.json.encode(written.end())
            yield pa.RecordBatch.from_pydict({TOLD: [told]}, pa.schema([(TOLD, pa.binary())]))


def _tables(options: ReadOptions, wanted: Slice, known: int) -> Iterator[pa.Table]:
    """The new rows of a slice, in tables of the size of a row group."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in rows(options, columns_of(options.table, BRONZE.names), wanted):
        if not len(batch):
            continue
        has_known = pc.min(batch.column("_index")).as_py() <= known
        new = batch.filter(pc.greater(batch.column("_index"), known)) if has_known else batch
        waiting.append(new)
        size += len(new)
        if size >= GROUP_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if size:
        yield pa.Table.from_batches(waiting)


@dataclass(slots=True)
class _Open:
    """An open file."""

    path: Path
    writer: Any
    rows: int = 0


@dataclass(slots=True)
class _Writer:
    """The files of one slice, by day. File names are unique to this attempt of the task."""

    out: Path
    stamp: str
    group: str
    number: int
    _token: str = field(default_factory=lambda: secrets.token_hex(4))
    _open: dict[str, _Open] = field(default_factory=dict)
    _done: list[Path] = field(default_factory=list)
    _hours: list[Hour] = field(default_factory=list)
    _last: tuple[int, int, int] | None = None  # index, ordinal and time of the last row

    def take(self, table: pa.Table) -> None:
        ms = pc.divide(table["_ts"].cast(pa.int64()), _US)
        days = pc.divide(ms, DAY_MS)
        there = pc.unique(days).to_pylist()
        for day in there:
            rows = table if len(there) == 1 else table.filter(pc.equal(days, day))
            self._write(day_of(day * DAY_MS), rows)
        # History is in order of time: earlier days rarely get more rows, which go to another file.
        for day in self._open.keys() - {day_of(day * DAY_MS) for day in there}:
            self._close(day)
        self._hours += self._told(table, ms)

    def end(self) -> Written:
        for day in list(self._open):
            self._close(day)
        return Written([describe(path, self.out, BRONZE) for path in self._done], self._hours)

    def _told(self, table: pa.Table, ms: Any) -> list[Hour]:
        index, ordinal = (table[name].to_numpy() for name in ("_index", "_ordinal"))
        at = ms.to_numpy()
        astray, back = np.zeros(len(at), bool), np.zeros(len(at), bool)
        follows = (index[1:] == index[:-1]) & (ordinal[1:] == ordinal[:-1] + 1)
        begins = (index[1:] > index[:-1]) & (ordinal[1:] == 0)
        astray[1:], back[1:] = ~(follows | begins), at[1:] < at[:-1]
        if self._last:
            last_index, last_ordinal, last_at = self._last
            expected = last_ordinal + 1 if index[0] == last_index else 0
            astray[0] = index[0] < last_index or ordinal[0] != expected
            back[0] = at[0] < last_at
        self._last = int(index[-1]), int(ordinal[-1]), int(at[-1])
        return _hours(table, ms, self.group, {"astray": astray, "back": back})

    def _write(self, day: str, table: pa.Table) -> None:
        if day not in self._open:
            folder = self.out / DATA / BRONZE.name / self.stamp / f"{DAY}={day}"
            folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{self.number:05d}-{len(self._done) + len(self._open)}-{self._token}"
            path = folder / f"{name}.parquet"
            writer = pq.ParquetWriter(
                path,
                table.schema,
                compression=CODEC,
                data_page_size=PAGE_BYTES,
                write_page_index=True,
            )
            self._open[day] = _Open(path, writer)
        file = self._open[day]
        file.writer.write_table(table, row_group_size=GROUP_ROWS)
        file.rows += len(table)
        if file.rows >= FILE_ROWS_MAX:
            self._close(day)

    def _close(self, day: str) -> None:
        file = self._open.pop(day)
        file.writer.close()
        self._done.append(file.path)


def hours_of(events: DataFrame) -> list[Hour]:
    """Statistics by hour of events in a table, to rebuild from."""
    from pyspark.sql.functions import expr

    ms = "unix_millis(_ts)"
    rows = (
        events.selectExpr(
            *("_group", f"{ms} - {ms} % {HOUR_MS} AS hour_ms", "_index", f"{ms} AS ms"),
            "array_id IS NOT NULL AS of_array",
            f"type IN ('{WORKER_OPENED}', '{WORKER_CLOSED}') AS of_worker",
            "asked_by IS NOT NULL AS is_act",
        )
        .groupBy("_group", "hour_ms")
        .agg(
            *map(
                expr,
                (
                    *("max(_index)", "min(ms)", "max(ms)"),
                    *("bool_or(of_array)", "bool_or(of_worker)", "bool_or(is_act)", "count(*)"),
                ),
            )
        )
    )
    return [Hour(*row) for row in rows.collect()]


def _hours(table: pa.Table, ms: Any, group: str, more: dict[str, Any]) -> list[Hour]:
    hour_ms = pc.multiply(pc.divide(ms, HOUR_MS), HOUR_MS)
    of_workers = pc.is_in(table["type"], pa.array([WORKER_OPENED, WORKER_CLOSED]))
    columns = {
        "hour": hour_ms,
        "index": table["_index"],
        "ms": ms,
        "array": pc.is_valid(table["array_id"]),
        "worker": of_workers,
        "act": pc.is_valid(table["asked_by"]),
        **more,
    }
    found = (
        pa.table(columns)
        .group_by("hour")
        .aggregate(
            [
                *(("index", "max"), ("ms", "min"), ("ms", "max")),
                *(("array", "any"), ("worker", "any"), ("act", "any")),
                *(("ms", "count"), ("astray", "sum"), ("back", "sum")),
            ]
        )
    )
    return [
        Hour(group, *row)
        for row in zip(
            *(
                found[name].to_pylist()
                for name in (
                    *("hour", "index_max", "ms_min", "ms_max"),
                    *("array_any", "worker_any", "act_any"),
                    *("ms_count", "astray_sum", "back_sum"),
                )
            ),
            strict=True,
        )
    ]
